/* rewrite_check_values -- the values of the trace before get numbers: each storage holds the
 * one that an op wrote to it last.
 */
#include "rewrite_check_pieces.h"
#include "rewrite_check_referee.h"

#include <string.h>

/* ---- small questions --------------------------------------------------------------------- */

uint32_t mr_referee_storage(const mr_trace *trace, uint32_t tensor)
{
    return trace->tensors.at[tensor].storage;
}

uint32_t mr_referee_results(const mr_op *op)
{
    return op->out.n + op->mutates.n;
}

uint32_t mr_referee_result(const mr_op *op, uint32_t k)
{
    return k < op->out.n ? op->out.at[k] : op->mutates.at[k - op->out.n];
}

/* Is result k new content, not a view of what the op reads? */
bool mr_referee_writes(const mr_trace *trace, const mr_op *op, uint32_t k,
                       const uint32_t *viewed, uint32_t event)
{
    return k >= op->out.n || viewed[mr_referee_storage(trace, op->out.at[k])] != event;
}

/* Running statistics are brought up to date once more by whoever recomputes. */
bool mr_referee_is_statistic(const mr_trace *trace, uint32_t storage)
{
    const mr_storage *s = &trace->storages.at[storage];
    return s->before && s->role == MR_ROLE_buffer;
}

const char *mr_referee_named(mr_ctx *ctx, const mr_trace *trace, uint32_t o)
{
    const mr_op *op = &trace->ops.at[o];
    return mr_printf(ctx, "op %u (%s%s%s)", o, op->name, *op->module ? " of " : "", op->module);
}

/* ---- before: who reads what -------------------------------------------------------------- */

typedef struct shown { /* by storage: the value held; by tensor: a piece that is there still */
    mr_value *holds, *beside, *under;
} shown;

static mr_value seen(const mr_numbering *b, const shown *now, uint32_t tensor)
{
    const mr_value has = now->holds[mr_referee_storage(b->trace, tensor)];
    return now->beside[tensor] && now->under[tensor] == has ? now->beside[tensor] : has;
}

/* An op that fills up the memory around a tensor leaves that as it is. */
static void number_filled(const mr_numbering *b, shown *now, uint32_t tensor, mr_value had)
{
    const mr_tensor *piece = &b->trace->tensors.at[tensor];
    for (uint32_t t = 0; t < b->trace->tensors.n; t++) {
        const mr_tensor *x = &b->trace->tensors.at[t];
        if (x->storage != piece->storage || x->offset != piece->offset
            || x->bytes != piece->bytes)
            continue;
        now->beside[t] = had;
        now->under[t] = now->holds[piece->storage];
    }
}

static void number_op(mr_numbering *b, uint32_t o, uint32_t event, shown *now, uint32_t *viewed)
{
    const mr_op *op = &b->trace->ops.at[o];
    const uint32_t filled = mr_rewrite_check_filled(b->trace, op);
    const mr_value had = filled == MR_NONE ? 0 : seen(b, now, op->in.at[filled]);
    mr_value *holds = now->holds;
    b->runs[o] = true;
    for (uint32_t i = 0; i < op->in.n; i++) {
        b->read[b->first[o] + i] = seen(b, now, op->in.at[i]);
        viewed[mr_referee_storage(b->trace, op->in.at[i])] = event;
    }
    for (uint32_t k = 0; k < mr_referee_results(op); k++) {
        const uint32_t s = mr_referee_storage(b->trace, mr_referee_result(op, k));
        if (mr_referee_writes(b->trace, op, k, viewed, event)
            && !mr_referee_is_statistic(b->trace, s))
            holds[s] = b->made[o] + k;
    }
    if (filled != MR_NONE) number_filled(b, now, op->in.at[filled], had);
}

/* What is shared has one number. */
static mr_status share_values(mr_ctx *ctx, const mr_trace *trace, const mr_trace *after,
                              mr_value *holds)
{
    for (uint32_t i = 0; i < after->shared.n; i++) {
        const mr_shared pair = after->shared.at[i];
        const mr_storage *x = &trace->storages.at[pair.kept];
        const mr_storage *y = &trace->storages.at[pair.gone];
        if (x->bytes != y->bytes || !x->before || !y->before || pair.kept == pair.gone
            || after->storages.at[pair.gone].before || holds[pair.kept] != 1 + pair.kept)
            return mr_fail(ctx, MR_EINVARIANT,
                           "storage %u is shared in place of storage %u, expected both of one"
                           " size and the other gone",
                           pair.kept, pair.gone);
        holds[pair.gone] = holds[pair.kept];
    }
    return MR_OK;
}

mr_status mr_referee_number(mr_ctx *ctx, const mr_trace *trace, const mr_trace *after,
                            mr_numbering *b)
{
    uint32_t reads = 0;
    *b = (mr_numbering){.trace = trace, .values = 1 + trace->storages.n};
    b->runs = MR_NEW_N(ctx, bool, trace->ops.n);
    b->made = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    b->first = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        b->made[o] = b->values;
        b->first[o] = reads;
        b->values += mr_referee_results(&trace->ops.at[o]);
        reads += trace->ops.at[o].in.n;
    }
    b->reads = reads;
    b->maker = mr_none_of(ctx, b->values);
    for (uint32_t o = 0; o < trace->ops.n; o++)
        for (uint32_t k = 0; k < mr_referee_results(&trace->ops.at[o]); k++)
            b->maker[b->made[o] + k] = o;
    b->read = MR_NEW_N(ctx, mr_value, reads);
    mr_value *holds = MR_NEW_N(ctx, mr_value, trace->storages.n);
    shown now = {holds, MR_NEW_N(ctx, mr_value, trace->tensors.n),
                 MR_NEW_N(ctx, mr_value, trace->tensors.n)};
    uint32_t *viewed = mr_none_of(ctx, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].before) holds[s] = 1 + s;
    MR_TRY(share_values(ctx, trace, after, holds));
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN)
            number_op(b, trace->events.at[e].id, e, &now, viewed);
    return MR_OK;
}

/* What wrote a value of before, for a person. */
const char *mr_referee_told(const mr_referee *r, mr_value v)
{
    const mr_numbering *b = &r->before;
    const uint32_t number = (uint32_t)v;
    const uint32_t p = (uint32_t)(v >> MR_VALUE_SHIFT & MR_VALUE_PART);
    const char *which = v & MR_VALUE_FROM ? "s from" : v & MR_VALUE_SUM ? "s up to" : "";
    const char *part = p ? mr_printf(r->ctx, " in part%s %u", which, p) : "";
    if (!number) return "nothing yet";
    if (number <= b->trace->storages.n)
        return mr_printf(r->ctx, "what storage %u held before the first event", number - 1);
    if (number >= b->values) return "what a new op wrote";
    return mr_printf(r->ctx, "what %s wrote%s",
                     mr_referee_named(r->ctx, b->trace, b->maker[number]), part);
}
