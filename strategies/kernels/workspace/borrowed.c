/* borrowed -- see the header. */
#include "borrowed.h"

#include <string.h>

static uint32_t take(mr_rewrite *r, uint32_t like, uint64_t bytes)
{
    const uint32_t storage = mr_rewrite_new_storage(r, r->out->tensors.at[like].storage, bytes);
    r->out->storages.at[storage].per_sample = 0;
    r->out->storages.at[storage].role = MR_ROLE_temporary;
    const uint32_t made = mr_rewrite_new_tensor(r, like, storage);
    uint64_t *shape = MR_NEW_N(r->ctx, uint64_t, 1);
    mr_tensor *t = &r->out->tensors.at[made];
    shape[0] = bytes;
    t->dtype = "uint8";
    t->role = MR_ROLE_temporary;
    t->rank = 1;
    t->shape = shape;
    return made;
}

/* As one more result, which ends with the op. */
static uint32_t take_while_running(mr_rewrite *r, uint32_t o, uint64_t bytes)
{
    mr_op *op = &r->out->ops.at[o];
    uint32_t *out = MR_NEW_N(r->ctx, uint32_t, op->out.n + 1);
    memcpy(out, op->out.at, op->out.n * sizeof *out);
    out[op->out.n] = take(r, op->out.at[0], bytes);
    op->out = (mr_ids){out, op->out.n + 1};
    return out[op->out.n - 1];
}

static void take_for_ever(mr_rewrite *r, const mr_op *op, uint64_t bytes)
{
    const uint32_t made = take(r, op->out.at[0], bytes);
    mr_storage *s = &r->out->storages.at[r->out->tensors.at[made].storage];
    s->before = s->after = true;
    s->stream = op->stream;
}

static bool is_product(const mr_op *op)
{
    static const char *const names[] = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm",
                                        NULL};
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(op->name, names[i])) return op->out.n > 0;
    return false;
}

mr_status borrowed(mr_ctx *ctx, const mr_trace *in, uint64_t convolution, uint64_t products,
                   mr_trace *out)
{
    mr_rewrite r;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
    bool *has = MR_NEW_N(ctx, bool, in->streams.n);
    bool any = false;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        const mr_op *op = event.kind == MR_RUN ? &in->ops.at[event.id] : NULL;
        uint32_t taken = MR_NONE;
        if (op && convolution && op->out.n && strstr(op->name, "convolution"))
            taken = take_while_running(&r, event.id, convolution);
        if (op && products && is_product(op) && !has[op->stream]) {
            take_for_ever(&r, op, products);
            has[op->stream] = any = true;
        }
        mr_rewrite_keep(&r, NULL, e);
        if (taken == MR_NONE) continue;
        mr_rewrite_drop(&r, NULL, taken);
        any = true;
    }
    if (any) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED, "'%s' has no op that would take such a workspace",
                   in->name);
}
