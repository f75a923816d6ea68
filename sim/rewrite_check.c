/* rewrite_check -- the referee of rewrites: values are numbered, then looked for (see the
 * header, and rewrite_check_referee.h for its parts).
 */
#include "rewrite_check.h"

#include "rewrite_check_devices.h"
#include "rewrite_check_gathers.h"
#include "rewrite_check_holders.h"
#include "rewrite_check_pieces.h"
#include "rewrite_check_referee.h"
#include "rewrite_check_streams.h"
#include "rewrite_check_versions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- living through the trace after ------------------------------------------------------ */

static mr_status run_new(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (op->moves) return mr_referee_move(r, o);
    if (op->sums) return mr_referee_sum(r, o);
    if (op->cuts) return mr_referee_cut(r, o);
    if (op->joins) return mr_referee_join(r, o);
    mr_referee_note_use(r, op);
    mr_referee_write(r, o, MR_NONE);
    return MR_OK;
}

static mr_status count(mr_referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o];
    const bool is_again = o >= r->before.trace->ops.n && op->again != MR_NONE
                          && mr_referee_counterpart(r, op->again) == f;
    const bool part = mr_referee_part(r, o, f) != 0;
    if (is_again) {
        if (r->done[f]) return MR_OK;
        return mr_fail(r->ctx, MR_EINVARIANT, "%s recomputes %s, expected that to run before",
                       mr_referee_named(r->ctx, r->trace, o),
                       mr_referee_named(r->ctx, r->before.trace, f));
    }
    r->flops[f] += op->flops;
    r->divided[f] |= part;
    if (++r->done[f] <= (part ? r->parts[f] : 1)) return MR_OK;
    return mr_fail(r->ctx, MR_EINVARIANT, "%s does the work of %s, which is done already",
                   mr_referee_named(r->ctx, r->trace, o),
                   mr_referee_named(r->ctx, r->before.trace, f));
}

static mr_status run(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    const uint32_t f = mr_referee_counterpart(r, o);
    for (uint32_t i = 0; i < op->in.n; i++)
        r->viewed[mr_referee_storage(r->trace, op->in.at[i])] = r->event;
    if (f != MR_NONE) {
        MR_TRY(mr_referee_same_work(r, o, f));
        MR_TRY(count(r, o, f));
        for (uint32_t i = 0; i < op->in.n; i++) MR_TRY(mr_referee_reads(r, o, f, i));
        const uint32_t filled = mr_rewrite_check_filled(r->trace, op);
        const mr_value had = filled == MR_NONE ? 0 : mr_referee_seen(r, op->in.at[filled]);
        mr_referee_write(r, o, f);
        if (filled != MR_NONE) mr_referee_fill(r, op->in.at[filled], had);
    } else {
        MR_TRY(run_new(r, o));
    }
    mr_referee_note_pieces(r, op);
    if (r->stands[o] == MR_NONE) return MR_OK;
    mr_referee_note_use(r, op);
    return mr_referee_stand_in(r, o, r->stands[o]);
}

static mr_status judge(mr_referee *r, const mr_event *event)
{
    switch (event->kind) {
    case MR_RUN: return run(r, event->id);
    case MR_ALLOC:
    case MR_FREE:
    case MR_DONE:
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "event %u says when storage %u lives, expected that to follow from ops",
                       r->event, event->id);
    default: return MR_OK;
    }
}

/* ---- beginning --------------------------------------------------------------------------- */

/* Does the trace after say that its batch is another one? */
static void compare_batches(mr_referee *r)
{
    const char *had = r->before.trace->about[MR_ABOUT_batch];
    const char *has = r->trace->about[MR_ABOUT_batch];
    if (!had || !has || !strcmp(had, has)) return;
    r->had = strtoull(had, NULL, 10);
    r->has = strtoull(has, NULL, 10);
}

static mr_status begin_copies(mr_referee *r)
{
    for (uint32_t i = 0; i < r->trace->copies.n; i++) {
        const mr_copied pair = r->trace->copies.at[i];
        const mr_storage *copy = &r->trace->storages.at[pair.copy];
        if (pair.copy < r->before.trace->storages.n || !copy->before || !copy->after
            || !r->before.trace->storages.at[pair.of].before)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "storage %u is a copy of storage %u, expected a new one, and both"
                           " there before and after the step",
                           pair.copy, pair.of);
        r->holds[pair.copy] = r->holds[pair.of];
    }
    return MR_OK;
}

static void make_tables(mr_referee *r)
{
    const mr_trace *before = r->before.trace, *after = r->trace;
    r->holds = MR_NEW_N(r->ctx, mr_value, after->storages.n);
    r->base = MR_NEW_N(r->ctx, uint64_t, after->storages.n);
    r->packed = MR_NEW_N(r->ctx, bool, after->storages.n);
    r->viewed = mr_none_of(r->ctx, after->storages.n);
    r->wrote = mr_none_of(r->ctx, after->storages.n);
    r->beside = MR_NEW_N(r->ctx, mr_value, after->tensors.n);
    r->under = MR_NEW_N(r->ctx, mr_value, after->tensors.n);
    r->done = MR_NEW_N(r->ctx, uint32_t, before->ops.n);
    r->divided = MR_NEW_N(r->ctx, bool, before->ops.n);
    r->flops = MR_NEW_N(r->ctx, uint64_t, before->ops.n);
    r->excused = mr_none_of(r->ctx, before->ops.n);
    r->last = MR_NEW_N(r->ctx, mr_value, before->storages.n);
    r->used = MR_NEW_N(r->ctx, bool, r->before.values);
    r->given = MR_NEW_N(r->ctx, bool, r->before.values);
    r->stands = mr_none_of(r->ctx, after->ops.n);
    r->stood = MR_NEW_N(r->ctx, bool, after->stand_ins.n);
    r->parts = MR_NEW_N(r->ctx, uint32_t, before->ops.n);
    r->piece = MR_NEW_N(r->ctx, uint32_t, after->tensors.n);
    r->pieces = MR_NEW_N(r->ctx, uint32_t, after->tensors.n);
    r->ways = MR_NEW_N(r->ctx, uint8_t, r->before.reads);
}

/* In how many parts ops are done, and the most results that one has. */
static uint32_t count_parts(mr_referee *r)
{
    const mr_trace *after = r->trace;
    uint32_t most = 0;
    for (uint32_t o = 0; o < after->ops.n; o++) {
        if (mr_referee_results(&after->ops.at[o]) > most)
            most = mr_referee_results(&after->ops.at[o]);
        const uint32_t f = mr_referee_counterpart(r, o);
        const uint32_t part = f == MR_NONE ? 0 : (uint32_t)mr_referee_part(r, o, f);
        if (part > (f == MR_NONE ? 0 : r->parts[f])) r->parts[f] = part;
    }
    return most;
}

static mr_status begin(mr_referee *r)
{
    const mr_trace *before = r->before.trace, *after = r->trace;
    if (after->ops.n < before->ops.n || after->storages.n < before->storages.n
        || after->tensors.n < before->tensors.n)
        return mr_fail(
            r->ctx, MR_EINVARIANT,
            "a rewrite took away ops, tensors or storages, expected new ones behind");
    compare_batches(r);
    make_tables(r);
    r->fresh = r->before.values;
    for (uint32_t s = 0; s < before->storages.n; s++)
        if (before->storages.at[s].before) r->holds[s] = 1 + s;
    MR_TRY(begin_copies(r));
    r->moved = MR_NEW_N(r->ctx, mr_value, count_parts(r));
    for (uint32_t i = 0; i < after->stand_ins.n; i++) {
        const mr_stand_in *stand = &after->stand_ins.at[i];
        if (stand->op != MR_NONE) r->stands[stand->op] = i;
        for (uint32_t j = 0; j < stand->ops.n; j++) r->excused[stand->ops.at[j]] = i;
    }
    return MR_OK;
}

/* ---- the end ----------------------------------------------------------------------------- */

static mr_status check_copies(const mr_referee *r)
{
    for (uint32_t i = 0; i < r->trace->copies.n; i++) {
        const mr_copied pair = r->trace->copies.at[i];
        if (r->holds[pair.copy] == r->holds[pair.of]) continue;
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "storage %u begins as a copy of storage %u and ends with %s,"
                       " expected %s",
                       pair.copy, pair.of, mr_referee_told(r, r->holds[pair.copy]),
                       mr_referee_told(r, r->holds[pair.of]));
    }
    return MR_OK;
}

/* Nobody wins by forgetting to compute something. */
static mr_status check_all_is_done(const mr_referee *r)
{
    for (uint32_t f = 0; f < r->before.trace->ops.n; f++) {
        if (!r->before.runs[f] || mr_referee_is_left_out(r, f)) continue;
        if (!r->done[f])
            return mr_fail(r->ctx, MR_EINVARIANT, "%s is not run any more",
                           mr_referee_named(r->ctx, r->before.trace, f));
        if (r->divided[f] && r->done[f] != r->parts[f])
            return mr_fail(r->ctx, MR_EINVARIANT, "%s is done in %u parts, expected %u",
                           mr_referee_named(r->ctx, r->before.trace, f), r->done[f],
                           r->parts[f]);
        const uint64_t expected = mr_referee_operations(r, &r->before.trace->ops.at[f]);
        if (r->flops[f] < expected)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "all parts of %s take %" PRIu64 " operations, expected %" PRIu64,
                           mr_referee_named(r->ctx, r->before.trace, f), r->flops[f], expected);
    }
    return MR_OK;
}

mr_status mr_rewrite_check(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    mr_referee r = {.ctx = ctx, .trace = after};
    MR_TRY(mr_referee_number(ctx, before, after, &r.before));
    MR_TRY(begin(&r));
    for (; r.event < after->events.n; r.event++) MR_TRY(judge(&r, &after->events.at[r.event]));
    MR_TRY(check_all_is_done(&r));
    MR_TRY(check_copies(&r));
    MR_TRY(mr_rewrite_check_holders(ctx, before, after));
    MR_TRY(mr_rewrite_check_streams(ctx, after));
    MR_TRY(mr_rewrite_check_devices(ctx, before, after));
    MR_TRY(mr_rewrite_check_gathers(ctx, before, after));
    return mr_rewrite_check_versions(ctx, before, after);
}
