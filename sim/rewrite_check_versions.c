/* rewrite_check_versions -- every write counts; who saves a tensor notes the count.
 *
 * What ops of the backward pass read is followed by values (rewrite_check.c); but an op that a
 * rewrite has made new reads what it likes.  That too must be what was saved.
 *
 * A recording may itself write beside what was saved of a storage, as a function of the program's
 * own does that autograd does not look into: what counts as written since there may do so after.
 */
#include "rewrite_check_versions.h"

#include "rewrite_check_pieces.h"

typedef struct counter {
    const mr_trace *trace;
    uint32_t *version; /* by storage: writes so far */
    uint32_t *first;   /* by op: where its savings begin in ... */
    uint32_t *noted;   /* ... versions at the time of saving */
    uint32_t *viewed;  /* by storage: event + 1 at which an op read it last */
    bool *ran;         /* by op */
    bool *changed;     /* by saving: written before its gradient */
} counter;

static uint32_t storage_of(const counter *c, uint32_t tensor)
{
    return c->trace->tensors.at[tensor].storage;
}

static void write(counter *c, const mr_op *op, uint32_t event)
{
    for (uint32_t i = 0; i < op->in.n; i++) c->viewed[storage_of(c, op->in.at[i])] = event + 1;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(c, op->out.at[i]);
        c->version[s] += c->viewed[s] != event + 1; /* else it is a view */
    }
    for (uint32_t i = 0; i < op->mutates.n; i++) c->version[storage_of(c, op->mutates.at[i])]++;
}

/* What was saved of the piece around which the op fills up is as it was. */
static void spare(counter *c, const mr_op *op)
{
    const uint32_t filled = mr_rewrite_check_filled(c->trace, op);
    if (filled == MR_NONE) return;
    const mr_tensor *piece = &c->trace->tensors.at[op->in.at[filled]];
    for (uint32_t o = 0; o < c->trace->ops.n; o++) {
        const mr_op *saver = &c->trace->ops.at[o];
        for (uint32_t i = 0; c->ran[o] && i < saver->saved.n; i++) {
            const mr_tensor *x = &c->trace->tensors.at[saver->saved.at[i].tensor];
            if (x->storage == piece->storage && x->offset == piece->offset
                && x->bytes == piece->bytes)
                c->noted[c->first[o] + i]++;
        }
    }
}

/* What the op's counterpart of the trace before has saved changes there too; NULL for no counter of
 * that trace. */
static bool was_changed(const counter *was, const mr_op *op, uint32_t of, uint32_t i)
{
    if (!was) return false;
    const uint32_t n = was->trace->ops.n;
    const uint32_t f = of < n ? of : op->part && op->origin != MR_NONE ? op->origin : op->again;
    return f < n && i < was->trace->ops.at[f].saved.n && was->changed[was->first[f] + i];
}

static mr_status look(mr_ctx *ctx, counter *c, const counter *was, uint32_t o, uint32_t of)
{
    const mr_op *op = &c->trace->ops.at[of];
    for (uint32_t i = 0; i < op->saved.n && c->ran[of]; i++) {
        const uint32_t t = op->saved.at[i].tensor, s = storage_of(c, t);
        const mr_storage *storage = &c->trace->storages.at[s];
        if (c->version[s] == c->noted[c->first[of] + i]) continue;
        if (storage->before && storage->role == MR_ROLE_buffer) continue; /* a statistic */
        c->changed[c->first[of] + i] = true;
        if (!was || was_changed(was, op, of, i)) continue;
        return mr_fail(
            ctx, MR_EINVARIANT,
            "op %u (%s%s%s) computes the gradient of op %u (%s), which has saved tensor"
            " %u; storage %u has been written since",
            o, c->trace->ops.at[o].name, *op->module ? " of " : "", op->module, of, op->name, t,
            s);
    }
    return MR_OK;
}

static mr_status run(mr_ctx *ctx, counter *c, const counter *was, uint32_t o, uint32_t event)
{
    const mr_op *op = &c->trace->ops.at[o];
    if (op->of != MR_NONE) MR_TRY(look(ctx, c, was, o, op->of));
    write(c, op, event);
    spare(c, op);
    c->ran[o] = true;
    for (uint32_t i = 0; i < op->saved.n; i++)
        c->noted[c->first[o] + i] = c->version[storage_of(c, op->saved.at[i].tensor)];
    return MR_OK;
}

/* Through the trace, without a word about what changes when `was` is NULL. */
static mr_status count(mr_ctx *ctx, const mr_trace *trace, const counter *was, counter *c)
{
    *c = (counter){.trace = trace,
                   .version = MR_NEW_N(ctx, uint32_t, trace->storages.n),
                   .first = MR_NEW_N(ctx, uint32_t, trace->ops.n),
                   .viewed = MR_NEW_N(ctx, uint32_t, trace->storages.n),
                   .ran = MR_NEW_N(ctx, bool, trace->ops.n)};
    uint32_t n = 0;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        c->first[o] = n;
        n += trace->ops.at[o].saved.n;
    }
    c->noted = MR_NEW_N(ctx, uint32_t, n);
    c->changed = MR_NEW_N(ctx, bool, n);
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN)
            MR_TRY(run(ctx, c, was, trace->events.at[e].id, e));
    return MR_OK;
}

mr_status mr_rewrite_check_versions(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    counter was, now;
    MR_TRY(count(ctx, before, NULL, &was));
    return count(ctx, after, &was, &now);
}
