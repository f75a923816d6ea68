/* last_uses -- a variable is needed until the last op that reads or writes its memory for the
 * program.  What an op of the backward pass reads because the op it is of has saved it, it has
 * from autograd. */
#include "last_uses.h"

static uint32_t storage_of(const mr_trace *in, uint32_t tensor)
{
    return in->tensors.at[tensor].storage;
}

static bool has_from_autograd(const mr_trace *in, const mr_op *op, uint32_t storage)
{
    if (op->phase != MR_BACKWARD || op->of == MR_NONE) return false;
    const mr_op *of = &in->ops.at[op->of];
    for (uint32_t i = 0; i < of->saved.n; i++)
        if (storage_of(in, of->saved.at[i].tensor) == storage) return true;
    return false;
}

static void use(const mr_trace *in, uint32_t o, mr_ids ids, uint32_t *last)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = storage_of(in, ids.at[i]);
        if (!has_from_autograd(in, &in->ops.at[o], s)) last[s] = o;
    }
}

last_uses last_uses_find(mr_ctx *ctx, const mr_trace *in)
{
    last_uses uses = {mr_none_of(ctx, in->ops.n), mr_none_of(ctx, in->tensors.n),
                      MR_NEW_N(ctx, bool, in->tensors.n)};
    uint32_t *last = mr_none_of(ctx, in->storages.n);
    uint32_t *event = mr_none_of(ctx, in->ops.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        event[o] = e;
        use(in, o, in->ops.at[o].in, last);
        use(in, o, in->ops.at[o].out, last);
        use(in, o, in->ops.at[o].mutates, last);
    }
    for (uint32_t e = in->events.n; e-- > 0;) { /* so that lists begin with the first */
        if (in->events.at[e].kind != MR_DROP) continue;
        const uint32_t t = in->events.at[e].id, o = last[storage_of(in, t)];
        if (o == MR_NONE || event[o] > e || uses.moved[t]) continue;
        uses.moved[t] = true;
        uses.next[t] = uses.first[o];
        uses.first[o] = t;
    }
    return uses;
}
