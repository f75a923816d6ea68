/* workspace -- memory that libraries take beside what an op reads and writes.
 *
 * cuDNN asks for a workspace when a convolution runs and gives it back after it; with
 * torch.backends.cudnn.benchmark the fastest algorithm wins, however much that is.  cuBLAS gets
 * one for each stream at its first product and keeps it: 8320 KiB in PyTorch, 32 MiB on Hopper
 * (CUBLAS_WORKSPACE_CONFIG).  No recording on a fake device has either, so the sizes are the
 * user's to say, measured or feared.
 */
#include "strategy.h"

#include "borrowed.h"

typedef struct settings {
    uint64_t convolution, products;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, convolution, "0", 0, 0,
                  "what each convolution takes while it runs"),
    MR_PARAM_SIZE(settings, products, "0", 0, 0,
                  "what products of matrices keep, on each stream that runs some"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    if (s->convolution || s->products) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "expected how large a workspace is, such as convolution=64MiB or"
                   " products=8320KiB");
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *chosen = of;
    return borrowed(ctx, in, chosen->convolution, chosen->products, out);
}

const mr_strategy mr_strategy_workspace = {
    .name = "workspace",
    .summary = "adds what cuDNN takes during a convolution, and what cuBLAS keeps",
    .source = "torch.backends.cudnn.benchmark; CUBLAS_WORKSPACE_CONFIG",
    .how =
        "torch.backends.cudnn.benchmark = True; CUBLAS_WORKSPACE_CONFIG=:4096:8 in the "
        "environment",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW,
    .validate = validate,
    .rewrite = rewrite,
};
