/* half -- the whole model in 16 bits: parameters, activations, gradients and
 * the optimizer's states.
 *
 * As a model that is made with torch.set_default_dtype(torch.bfloat16).  What norms note of
 * their input for the backward pass keeps its 32 bits.  Nothing is cast and no op is added.
 */
#include "strategy.h"

#include <string.h>

typedef struct settings {
    uint64_t dtype;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, dtype, "bfloat16|float16", "bfloat16", "the 16 bits"),
    {0},
};

typedef struct writer {
    const mr_trace *in;
    mr_trace *out;
    const char *dtype;
    bool *low; /* by storage: loses half of its bytes */
} writer;

static bool is_full(const mr_tensor *t)
{
    return !strcmp(t->dtype, "float32");
}

/* Mean and deviation are kept as they were computed. */
static bool is_norm(const mr_op *op)
{
    return op->phase == MR_FORWARD
           && (strstr(op->name, "layer_norm") || strstr(op->name, "batch_norm"));
}

static void choose_storages(writer *w)
{
    for (uint32_t t = 0; t < w->in->tensors.n; t++)
        w->low[w->in->tensors.at[t].storage] |= is_full(&w->in->tensors.at[t]);
    for (uint32_t o = 0; o < w->in->ops.n; o++) {
        const mr_op *op = &w->in->ops.at[o];
        for (uint32_t i = 1; is_norm(op) && i < op->out.n; i++)
            w->low[w->in->tensors.at[op->out.at[i]].storage] = false;
    }
}

static uint64_t saved_bytes(const writer *w, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_tensor *t = &w->in->tensors.at[ids.at[i]];
        if (is_full(t) && w->low[t->storage]) sum += 2 * mr_tensor_numbers(t);
    }
    return sum;
}

static uint64_t less(uint64_t bytes, uint64_t by)
{
    return by < bytes ? bytes - by : 0;
}

static void halve(writer *w)
{
    for (uint32_t s = 0; s < w->in->storages.n; s++) {
        if (!w->low[s]) continue;
        w->out->storages.at[s].bytes /= 2;
        w->out->storages.at[s].per_sample /= 2;
    }
    for (uint32_t t = 0; t < w->in->tensors.n; t++) {
        mr_tensor *tensor = &w->out->tensors.at[t];
        if (!w->low[tensor->storage] || !is_full(tensor)) continue;
        tensor->bytes /= 2;
        tensor->offset /= 2;
        tensor->dtype = w->dtype;
    }
    for (uint32_t o = 0; o < w->in->ops.n; o++) {
        mr_op *op = &w->out->ops.at[o];
        op->read = less(op->read, saved_bytes(w, op->in));
        op->written = less(op->written, saved_bytes(w, op->out) + saved_bytes(w, op->mutates));
    }
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    const char *precision = in->about[MR_ABOUT_precision];
    writer w = {.in = in, .out = out, .dtype = s->dtype ? "float16" : "bfloat16"};
    mr_rewrite r;
    if (precision && strcmp(precision, "float32") != 0)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' is of precision %s, expected float32 to take half of", in->name,
                       precision);
    MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
    for (uint32_t e = 0; e < in->events.n; e++) mr_rewrite_keep(&r, NULL, e);
    w.low = MR_NEW_N(ctx, bool, in->storages.n);
    choose_storages(&w);
    halve(&w);
    out->about[MR_ABOUT_precision] = w.dtype;
    return MR_OK;
}

const mr_strategy mr_strategy_half = {
    .name = "half",
    .summary = "keeps all of the model, gradients and states in 16 bits",
    .source = "PyTorch's torch.set_default_dtype and Module.to",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
