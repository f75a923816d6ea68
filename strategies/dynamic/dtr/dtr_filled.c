/* dtr_filled -- memory that is filled part by part, such as a bucket of gradients, is one thing:
 * a tensor that comes to show what is there already keeps that. */
#include "dtr_internal.h"

static uint32_t count_of(const mr_op *op)
{
    return op->in.n + op->out.n + op->mutates.n;
}

/* What the op reads, puts out and changes, in one row. */
static uint32_t tensor_of(const mr_op *op, uint32_t i)
{
    if (i < op->in.n) return op->in.at[i];
    i -= op->in.n;
    return i < op->out.n ? op->out.at[i] : op->mutates.at[i - op->out.n];
}

void dtr_hold_filled(mr_ctx *ctx, const mr_trace *t, uint32_t *last)
{
    uint32_t *latest = mr_none_of(ctx, t->storages.n);
    bool *seen = MR_NEW_N(ctx, bool, t->tensors.n);
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        for (uint32_t i = 0; i < count_of(op); i++) {
            const uint32_t now = tensor_of(op, i), s = t->tensors.at[now].storage;
            const uint32_t there = latest[s];
            if (!seen[now] && there != MR_NONE && last[there] != MR_NONE && last[there] < e)
                last[there] = e;
            seen[now] = true;
            latest[s] = now;
        }
    }
}
