/* rewrite_settle -- new numbers for what a rewritten trace really has, in the order of first
 * use. */
#include "rewrite.h"

typedef struct settler {
    mr_ctx *ctx;
    mr_trace *trace;
    uint32_t *op, *tensor, *storage; /* new number, by old one; MR_NONE for what is not used */
    MR_VEC(uint32_t) ops, tensors, storages; /* old numbers, in new order */
} settler;

/* ---- who comes when ---------------------------------------------------------------------- */

static void use_storage(settler *s, uint32_t i)
{
    if (s->storage[i] != MR_NONE) return;
    s->storage[i] = s->storages.n;
    MR_PUSH(s->ctx, &s->storages, i);
}

static void use_tensor(settler *s, uint32_t i)
{
    if (s->tensor[i] != MR_NONE) return;
    s->tensor[i] = s->tensors.n;
    MR_PUSH(s->ctx, &s->tensors, i);
    use_storage(s, s->trace->tensors.at[i].storage);
}

static void use_ids(settler *s, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++) use_tensor(s, ids.at[i]);
}

static void use_op(settler *s, uint32_t o)
{
    const mr_op *op = &s->trace->ops.at[o];
    if (s->op[o] != MR_NONE) return;
    s->op[o] = s->ops.n;
    MR_PUSH(s->ctx, &s->ops, o);
    use_ids(s, op->in);
    use_ids(s, op->out);
    use_ids(s, op->mutates);
    for (uint32_t i = 0; i < op->saved.n; i++) use_tensor(s, op->saved.at[i].tensor);
}

/* What was there before, used or not, comes first, as in a recording. */
static void use_all(settler *s)
{
    const mr_trace *t = s->trace;
    for (uint32_t i = 0; i < t->storages.n; i++)
        if (t->storages.at[i].before) use_storage(s, i);
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (t->storages.at[t->tensors.at[i].storage].before && *t->tensors.at[i].name)
            use_tensor(s, i);
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind == MR_RUN) use_op(s, t->events.at[e].id);
        if (t->events.at[e].kind == MR_DROP) use_tensor(s, t->events.at[e].id);
    }
}

/* ---- new arrays -------------------------------------------------------------------------- */

static mr_ids renumbered(settler *s, mr_ids ids)
{
    mr_ids out = {MR_NEW_N(s->ctx, uint32_t, ids.n), ids.n};
    for (uint32_t i = 0; i < ids.n; i++) out.at[i] = s->tensor[ids.at[i]];
    return out;
}

static uint32_t renumbered_op(const settler *s, uint32_t o)
{
    return o == MR_NONE ? MR_NONE : s->op[o];
}

/* What recomputes an op that itself recomputes another one recomputes that. */
static uint32_t original(const settler *s, uint32_t o)
{
    return o == MR_NONE || s->trace->ops.at[o].again == MR_NONE ? o : s->trace->ops.at[o].again;
}

static mr_op settle_op(settler *s, const mr_op *old)
{
    mr_op op = *old;
    if (op.part) op.origin = MR_NONE; /* an op of a trace that is gone */
    op.again = renumbered_op(s, original(s, old->again));
    op.of = renumbered_op(s, old->of);
    op.in = renumbered(s, old->in);
    op.out = renumbered(s, old->out);
    op.mutates = renumbered(s, old->mutates);
    op.saved.at = MR_NEW_N(s->ctx, mr_saved, old->saved.n);
    for (uint32_t i = 0; i < old->saved.n; i++)
        op.saved.at[i] = (mr_saved){s->tensor[old->saved.at[i].tensor], old->saved.at[i].as};
    return op;
}

static void settle_things(settler *s)
{
    mr_trace *t = s->trace;
    mr_op *ops = MR_NEW_N(s->ctx, mr_op, s->ops.n);
    mr_tensor *tensors = MR_NEW_N(s->ctx, mr_tensor, s->tensors.n);
    mr_storage *storages = MR_NEW_N(s->ctx, mr_storage, s->storages.n);
    for (uint32_t i = 0; i < s->ops.n; i++) ops[i] = settle_op(s, &t->ops.at[s->ops.at[i]]);
    for (uint32_t i = 0; i < s->tensors.n; i++) {
        tensors[i] = t->tensors.at[s->tensors.at[i]];
        tensors[i].storage = s->storage[tensors[i].storage];
    }
    for (uint32_t i = 0; i < s->storages.n; i++)
        storages[i] = t->storages.at[s->storages.at[i]];
    t->ops.at = ops;
    t->tensors.at = tensors;
    t->storages.at = storages;
    t->ops.n = t->ops.cap = s->ops.n;
    t->tensors.n = t->tensors.cap = s->tensors.n;
    t->storages.n = t->storages.cap = s->storages.n;
}

void mr_rewrite_settle(mr_ctx *ctx, mr_trace *trace)
{
    settler *s = MR_NEW(ctx, settler);
    s->ctx = ctx;
    s->trace = trace;
    s->op = mr_none_of(ctx, trace->ops.n);
    s->tensor = mr_none_of(ctx, trace->tensors.n);
    s->storage = mr_none_of(ctx, trace->storages.n);
    use_all(s);
    settle_things(s);
    for (uint32_t e = 0; e < trace->events.n; e++) {
        mr_event *event = &trace->events.at[e];
        if (event->kind == MR_RUN) event->id = s->op[event->id];
        if (event->kind == MR_DROP) event->id = s->tensor[event->id];
    }
    trace->stand_ins.n = 0;
    trace->shared.n = trace->copies.n = 0;
}
