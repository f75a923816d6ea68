/* half -- the whole model in 16 bits: parameters, activations, gradients and
 * the optimizer's states.
 *
 * As a model that is made with torch.set_default_dtype(torch.bfloat16).  What norms note of
 * their input for the backward pass, and fused attention of its sums, keeps its 32 bits.
 * Nothing is cast and no op is added.
 *
 * With masters, the optimizer keeps its states in 32 bits and works on a copy of the parameters
 * in 32 bits, as apex does with opt_level O2 and Megatron with its Float16 optimizer: gradients
 * are copied to 32 bits, and the new parameters back to 16.  With Adam that makes 2 + 2 bytes
 * for a parameter and its gradient, and 4 + 4 + 4 for master and states.
 */
#include "strategy.h"

#include "half_model.h"

#include <string.h>

typedef struct settings {
    uint64_t dtype, scale;
    bool masters;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, dtype, "bfloat16|float16", "bfloat16", "the 16 bits"),
    MR_PARAM_BOOL(settings, masters, "False",
                  "the optimizer works on parameters and states in 32 bits"),
    MR_PARAM_CHOICE(settings, scale, "none|static|dynamic", "none",
                    "of the loss, with masters; dynamic looks for infinities"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    if (!s->scale || s->masters) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE, "a scaled loss goes with masters=True");
}

/* Mean and deviation, and the logarithms of sums of fused attention, are kept as they were
 * computed. */
static bool has_statistics(const mr_op *op)
{
    return op->phase == MR_FORWARD
           && (strstr(op->name, "layer_norm") || strstr(op->name, "batch_norm")
               || strstr(op->name, "scaled_dot_product"));
}

/* Is it the optimizer's: a state, or made by the update? */
static bool is_of_update(const half_model *h, uint32_t s)
{
    const mr_storage *home = &h->r.in->storages.at[s];
    const uint32_t born = h->r.birth[s];
    if (home->before) return home->role == MR_ROLE_state;
    return born != MR_NONE && h->r.in->ops.at[born].phase == MR_UPDATE;
}

static void choose_storages(half_model *h)
{
    const mr_trace *in = h->r.in;
    for (uint32_t t = 0; t < in->tensors.n; t++)
        h->low[in->tensors.at[t].storage] |= half_is_full(&in->tensors.at[t]);
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *op = &in->ops.at[o];
        for (uint32_t i = 1; has_statistics(op) && i < op->out.n; i++)
            h->low[in->tensors.at[op->out.at[i]].storage] = false;
    }
    for (uint32_t s = 0; s < in->storages.n && h->masters; s++)
        if (is_of_update(h, s)) h->low[s] = false;
    for (uint32_t i = 0; i < h->changed.n; i++)
        h->low[in->tensors.at[h->changed.at[i]].storage] = false;
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    const char *precision = in->about[MR_ABOUT_precision];
    half_model h = {.dtype = s->dtype ? "float16" : "bfloat16",
                    .masters = s->masters,
                    .scale = (half_scale)s->scale};
    if (precision && strcmp(precision, "float32") != 0)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' is of precision %s, expected float32 to take half of", in->name,
                       precision);
    MR_TRY(mr_rewrite_begin(ctx, in, out, &h.r));
    mr_where_init(&h.r, &h.where);
    h.low = MR_NEW_N(ctx, bool, in->storages.n);
    h.model = mr_none_of(ctx, in->storages.n);
    if (s->masters) MR_TRY(half_look(&h));
    choose_storages(&h);
    if (s->masters) half_write(&h);
    else
        for (uint32_t e = 0; e < in->events.n; e++) mr_rewrite_keep(&h.r, NULL, e);
    half_sizes(&h);
    out->about[MR_ABOUT_precision] = h.dtype;
    return MR_OK;
}

const mr_strategy mr_strategy_half = {
    .name = "half",
    .summary = "keeps the model and gradients in 16 bits, states too or beside masters in 32",
    .source = "PyTorch's torch.set_default_dtype and Module.to; apex O2, Megatron's Float16"
              " optimizer",
    .how = "model.to(torch.{dtype}); masters in 32 bits are those of apex O2 or Megatron",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .validate = validate,
    .rewrite = rewrite,
};
