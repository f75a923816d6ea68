/* autocast_lists -- after aten/src/ATen/autocast_mode.h, ops as they are called below it. */
#include "autocast_lists.h"

#include <string.h>

static bool is_among(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name)) return true;
    return false;
}

#define AMONG(list, name) is_among(list, MR_COUNT(list), name)

static const char *const low[] = {
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "addr", "convolution", "prelu",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_cudnn_attention", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
    "_cudnn_rnn",
};

static const char *const full[] = {
    "native_layer_norm", "native_group_norm", "nll_loss_forward", "nll_loss2d_forward",
    "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "pow",
    "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "acos", "asin",
    "cosh", "sinh", "tan", "softplus", "erfinv", "linalg_vector_norm", "_cdist_forward",
};

static const char *const direct[] = {"_softmax", "_log_softmax", "cumsum", "cumprod", "prod"};

/* Recordings show no casts for cat, which takes its arguments as they are. */
static const char *const promote[] = {"dot", "index_put", "scatter_add", "addcmul", "addcdiv",
                                      "grid_sampler_2d"};

static const char *const norm[] = {"cudnn_batch_norm", "native_batch_norm",
                                   "_native_batch_norm_legit"};

static const char *const views[] = {
    "view",  "_unsafe_view", "t",          "transpose",      "permute", "expand",
    "slice", "select",       "split",      "unsqueeze",      "squeeze", "detach",
    "alias", "unbind",       "as_strided", "_reshape_alias", "chunk",   "split_with_sizes",
};

static const char *bare(const char *name)
{
    const char *colons = strstr(name, "::");
    return colons ? colons + 2 : name;
}

autocast_class autocast_class_of(const char *name)
{
    name = bare(name);
    if (AMONG(low, name)) return AUTOCAST_LOW;
    if (AMONG(full, name)) return AUTOCAST_FULL;
    if (AMONG(direct, name)) return AUTOCAST_DIRECT;
    if (AMONG(promote, name)) return AUTOCAST_PROMOTE;
    if (AMONG(norm, name)) return AUTOCAST_NORM;
    return AMONG(views, name) ? AUTOCAST_VIEW : AUTOCAST_WIDEST;
}

/* linear() is view, t and addmm; matmul() expands and copies for bmm. */
bool autocast_is_shaping(const char *name, const char *of)
{
    static const char *const for_linear[] = {"view", "t"};
    static const char *const for_matmul[] = {"expand", "clone", "view", "_unsafe_view"};
    name = bare(name);
    of = bare(of);
    if (!strcmp(of, "bmm")) return AMONG(for_matmul, name);
    return (!strcmp(of, "addmm") || !strcmp(of, "mm")) && AMONG(for_linear, name);
}
