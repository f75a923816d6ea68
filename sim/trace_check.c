/* trace_check -- the referee of traces.  Shares no code with readers and rewrites.
 *
 * Looks at every index, then lives through the events with a state for each storage:
 *
 *     UNBORN ─ALLOC─► LIVE ─FREE─► GONE
 *                       └──FREE─► PENDING ─DONE─► GONE      (deferred)
 *     UNBORN ─ALLOC─► REFUSED                               (out of memory)
 *
 * The histories of the real allocator are judged in trace_check_history.c.
 */
#include "trace_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum state { UNBORN, LIVE, PENDING, GONE, REFUSED } state;

typedef struct referee {
    mr_ctx *ctx;
    const mr_trace *trace;
    uint32_t event; /* under judgement */
    uint8_t *state; /* by storage */
    bool *written;  /* by storage: some op, or the past, has put something there */
    bool *dropped;  /* by tensor */
} referee;

/* `what` names the thing that holds the index. */
static mr_status in_range(mr_ctx *ctx, uint32_t index, uint32_t n, const char *of,
                          const char *what, uint32_t number)
{
    if (index < n) return MR_OK;
    return mr_fail(ctx, MR_EINPUT, "%s %u refers to %s %u, expected less than %u", what, number,
                   of, index, n);
}

/* ---- things, one by one ------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static mr_status check_streams_and_pools(mr_ctx *ctx, const mr_trace *t)
{
    if (!t->streams.n || t->streams.at[0] != 0 || !t->pools.n || t->pools.at[0] != 0)
        return mr_fail(ctx, MR_EINPUT,
                       "the trace lacks the default stream or pool, expected both to be 0");
    for (uint32_t i = 1; i < t->streams.n; i++)
        if (t->streams.at[i] <= t->streams.at[i - 1])
            return mr_fail(ctx, MR_EINPUT,
                           "stream %" PRIu64 " follows stream %" PRIu64
                           ", expected them to ascend",
                           t->streams.at[i], t->streams.at[i - 1]);
    uint64_t *sorted = MR_NEW_N(ctx, uint64_t, t->pools.n);
    memcpy(sorted, t->pools.at, t->pools.n * sizeof *sorted);
    qsort(sorted, t->pools.n, sizeof *sorted, ascending);
    for (uint32_t i = 1; i < t->pools.n; i++)
        if (sorted[i] == sorted[i - 1])
            return mr_fail(ctx, MR_EINPUT, "pool %" PRIu64 " is there twice, expected once",
                           sorted[i]);
    return MR_OK;
}

static mr_status check_stacks(mr_ctx *ctx, const mr_trace *t)
{
    for (uint32_t i = 0; i < t->stacks.n; i++)
        for (uint32_t j = 0; j < t->stacks.at[i].n; j++)
            MR_TRY(in_range(ctx, t->stacks.at[i].at[j], t->frames.n, "frame", "stack", i));
    return MR_OK;
}

#define ADDRESSES ((uint64_t)1 << 47) /* bytes that a process has addresses for */
#define SUM_MOST ((uint64_t)1 << 62)
#define NS_MOST ((uint64_t)1 << 43) /* two hours and a half, for up to a million iterations */

/* Sums of all bytes, or of all durations, are taken everywhere and must not overflow. */
static mr_status add_up(mr_ctx *ctx, uint64_t *sum, uint64_t value, uint64_t limit,
                        const char *unit, const char *what, uint32_t i)
{
    if (value <= limit - *sum) {
        *sum += value;
        return MR_OK;
    }
    return mr_fail(ctx, MR_EINPUT,
                   "%s %u has %" PRIu64 " %s, with which all together exceed %" PRIu64
                   ", expected less",
                   what, i, value, unit, limit);
}

static mr_status check_size(mr_ctx *ctx, uint64_t bytes, const char *what, uint32_t i)
{
    if (bytes <= ADDRESSES) return MR_OK;
    return mr_fail(ctx, MR_EINPUT,
                   "%s %u has %" PRIu64 " bytes, expected at most %" PRIu64
                   " (128 TiB), as no device has more",
                   what, i, bytes, ADDRESSES);
}

static mr_status check_storages(mr_ctx *ctx, const mr_trace *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->storages.n; i++) {
        const mr_storage *s = &t->storages.at[i];
        MR_TRY(check_size(ctx, s->bytes, "storage", i));
        MR_TRY(add_up(ctx, &bytes, s->bytes, SUM_MOST, "bytes", "storage", i));
        MR_TRY(in_range(ctx, s->stream, t->streams.n, "stream", "storage", i));
        MR_TRY(in_range(ctx, s->pool, t->pools.n, "pool", "storage", i));
        MR_TRY(in_range(ctx, s->role, MR_ROLE_N, "role", "storage", i));
        if (s->stack != MR_NONE)
            MR_TRY(in_range(ctx, s->stack, t->stacks.n, "stack", "storage", i));
        if (s->refused && (s->before || s->after || s->deferred))
            return mr_fail(ctx, MR_EINPUT,
                           "storage %u was refused and is live before or after, or freed later,"
                           " expected none of it",
                           i);
    }
    return MR_OK;
}

static mr_status check_tensors(mr_ctx *ctx, const mr_trace *t)
{
    for (uint32_t i = 0; i < t->tensors.n; i++) {
        const mr_tensor *tensor = &t->tensors.at[i];
        MR_TRY(in_range(ctx, tensor->storage, t->storages.n, "storage", "tensor", i));
        MR_TRY(in_range(ctx, tensor->role, MR_ROLE_N, "role", "tensor", i));
        const uint64_t bytes = t->storages.at[tensor->storage].bytes;
        if (tensor->offset > bytes || tensor->bytes > bytes - tensor->offset)
            return mr_fail(ctx, MR_EINPUT,
                           "tensor %u has %" PRIu64 " bytes at offset %" PRIu64
                           ", expected it to lie inside the %" PRIu64 " bytes of storage %u",
                           i, tensor->bytes, tensor->offset, bytes, tensor->storage);
    }
    return MR_OK;
}

static mr_status check_ids(mr_ctx *ctx, const mr_trace *t, const mr_ids *ids, uint32_t op)
{
    for (uint32_t i = 0; i < ids->n; i++)
        MR_TRY(in_range(ctx, ids->at[i], t->tensors.n, "tensor", "op", op));
    return MR_OK;
}

static mr_status check_ops(mr_ctx *ctx, const mr_trace *t)
{
    uint64_t ns = 0, flops = 0, moved = 0;
    for (uint32_t o = 0; o < t->ops.n; o++) {
        const mr_op *op = &t->ops.at[o];
        MR_TRY(add_up(ctx, &ns, op->ns, NS_MOST, "ns", "op", o));
        MR_TRY(add_up(ctx, &flops, op->flops, SUM_MOST, "flops", "op", o));
        MR_TRY(add_up(ctx, &moved, op->read, SUM_MOST, "bytes read", "op", o));
        MR_TRY(add_up(ctx, &moved, op->written, SUM_MOST, "bytes written", "op", o));
        MR_TRY(check_size(ctx, op->workspace, "the workspace of op", o));
        MR_TRY(check_ids(ctx, t, &op->in, o));
        MR_TRY(check_ids(ctx, t, &op->out, o));
        MR_TRY(check_ids(ctx, t, &op->mutates, o));
        for (uint32_t i = 0; i < op->saved.n; i++) {
            MR_TRY(in_range(ctx, op->saved.at[i].tensor, t->tensors.n, "tensor", "op", o));
            MR_TRY(
                in_range(ctx, op->saved.at[i].as, MR_SAVED_MASK + 1, "way of saving", "op", o));
        }
        MR_TRY(in_range(ctx, op->stream, t->streams.n, "stream", "op", o));
        MR_TRY(in_range(ctx, op->phase, MR_UPDATE + 1, "phase", "op", o));
        MR_TRY(in_range(ctx, op->engine, MR_ENGINE_N, "engine", "op", o));
        if (op->again == o) return mr_fail(ctx, MR_EINPUT, "op %u recomputes itself", o);
        if (op->of == o) return mr_fail(ctx, MR_EINPUT, "op %u is its own gradient", o);
        if (op->again != MR_NONE) MR_TRY(in_range(ctx, op->again, t->ops.n, "op", "op", o));
        if (op->of != MR_NONE) MR_TRY(in_range(ctx, op->of, t->ops.n, "op", "op", o));
    }
    return MR_OK;
}

/* ---- events, in order -------------------------------------------------------------------- */

static mr_status foul(const referee *r, const char *does, uint32_t id, const char *expected)
{
    return mr_fail(r->ctx, MR_EINPUT, "event %u %s %u, expected %s", r->event, does, id,
                   expected);
}

static mr_status alloc(referee *r, uint32_t s)
{
    if (r->state[s] != UNBORN)
        return foul(r, "allocates storage", s, "one that was never live before");
    r->state[s] = r->trace->storages.at[s].refused ? REFUSED : LIVE;
    return MR_OK;
}

static mr_status release(referee *r, uint32_t s)
{
    static const char *const expected[] = {
        [UNBORN] = "it to be allocated before",
        [PENDING] = "it to be freed only once",
        [GONE] = "it to be freed only once",
        [REFUSED] = "no free, for its allocation was refused",
    };
    if (r->state[s] != LIVE) return foul(r, "frees storage", s, expected[r->state[s]]);
    r->state[s] = r->trace->storages.at[s].deferred ? PENDING : GONE;
    return MR_OK;
}

static mr_status done(referee *r, uint32_t s)
{
    if (r->state[s] != PENDING)
        return foul(r, "completes the free of storage", s, "a deferred free before");
    r->state[s] = GONE;
    return MR_OK;
}

static mr_status drop(referee *r, uint32_t tensor)
{
    if (r->dropped[tensor])
        return foul(r, "drops tensor", tensor, "it to be dropped only once");
    r->dropped[tensor] = true;
    return MR_OK;
}

static mr_status run(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    const mr_ids lists[] = {op->in, op->out, op->mutates};
    const mr_tensor *tensors = r->trace->tensors.at;
    for (size_t list = 0; list < MR_COUNT(lists); list++)
        for (uint32_t i = 0; i < lists[list].n; i++) {
            const uint32_t t = lists[list].at[i], s = tensors[t].storage;
            if (r->state[s] == GONE || r->state[s] == REFUSED)
                return foul(r, "runs an op on tensor", t, "its storage not to be freed before");
            if (list == 0 && !r->written[s])
                return foul(r, "runs an op that reads tensor", t, "an op that wrote it before");
            if (list != 0) r->written[s] = true;
        }
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (!r->written[tensors[op->saved.at[i].tensor].storage])
            return foul(r, "runs an op that saves tensor", op->saved.at[i].tensor,
                        "an op that wrote it before");
    return MR_OK;
}

static mr_status judge(referee *r, const mr_event *event)
{
    const mr_trace *t = r->trace;
    mr_status (*const verdict[])(referee *, uint32_t) = {
        [MR_ALLOC] = alloc, [MR_FREE] = release, [MR_DONE] = done,
        [MR_RUN] = run,     [MR_DROP] = drop,
    };
    const uint32_t limit[] = {
        [MR_ALLOC] = t->storages.n, [MR_FREE] = t->storages.n, [MR_DONE] = t->storages.n,
        [MR_RUN] = t->ops.n,        [MR_DROP] = t->tensors.n,  [MR_FLUSH] = UINT16_MAX + 1,
        [MR_MARK] = t->marks.n,
    };
    static const char *const thing[] = {
        [MR_ALLOC] = "storage", [MR_FREE] = "storage", [MR_DONE] = "storage",
        [MR_RUN] = "op",        [MR_DROP] = "tensor",  [MR_FLUSH] = "device",
        [MR_MARK] = "mark",
    };
    if (event->kind >= MR_CARRY)
        return mr_fail(r->ctx, MR_EINPUT, "event %u is of kind %d, expected one of a recording",
                       r->event, (int)event->kind);
    MR_TRY(
        in_range(r->ctx, event->id, limit[event->kind], thing[event->kind], "event", r->event));
    if (event->kind == MR_FLUSH || event->kind == MR_MARK) return MR_OK;
    return verdict[event->kind](r, event->id);
}

static void begin(referee *r)
{
    const mr_trace *t = r->trace;
    r->state = MR_NEW_N(r->ctx, uint8_t, t->storages.n);
    r->written = MR_NEW_N(r->ctx, bool, t->storages.n);
    r->dropped = MR_NEW_N(r->ctx, bool, t->tensors.n);
    for (uint32_t s = 0; s < t->storages.n; s++) {
        r->written[s] = t->storages.at[s].before;
        r->state[s] = t->storages.at[s].before ? LIVE : UNBORN;
    }
    /* A pending piece was freed by the program before the recording began. */
    for (uint32_t h = 0; h < t->histories.n; h++)
        for (uint32_t p = 0; p < t->histories.at[h].start.n; p++) {
            const mr_piece *piece = &t->histories.at[h].start.at[p];
            if (piece->pending && piece->storage != MR_NONE) r->state[piece->storage] = PENDING;
        }
}

/* Without ops, lifetimes are what the events say, so they must agree with `after`. */
static mr_status check_end(const referee *r)
{
    const mr_trace *t = r->trace;
    for (uint32_t s = 0; s < t->storages.n; s++) {
        const bool after = t->storages.at[s].after;
        if (after && r->state[s] == GONE)
            return mr_fail(r->ctx, MR_EINPUT,
                           "storage %u is freed, expected it to be live after the last event",
                           s);
        if (t->ops.n) continue;
        if (after && r->state[s] == UNBORN)
            return mr_fail(
                r->ctx, MR_EINPUT,
                "storage %u is never allocated, expected it to be live after the last"
                " event",
                s);
        if (!after && r->state[s] == LIVE)
            return mr_fail(
                r->ctx, MR_EINPUT,
                "storage %u is never freed, expected it not to be live after the last"
                " event",
                s);
    }
    return MR_OK;
}

mr_status mr_trace_check(mr_ctx *ctx, const mr_trace *trace)
{
    MR_TRY(check_streams_and_pools(ctx, trace));
    MR_TRY(check_stacks(ctx, trace));
    MR_TRY(check_storages(ctx, trace));
    MR_TRY(check_tensors(ctx, trace));
    MR_TRY(check_ops(ctx, trace));
    MR_TRY(mr_trace_check_histories(ctx, trace));
    if (trace->times.n && trace->times.n != trace->events.n)
        return mr_fail(ctx, MR_EINPUT, "%u events have %u times, expected one each or none",
                       trace->events.n, trace->times.n);
    referee r = {.ctx = ctx, .trace = trace};
    begin(&r);
    for (; r.event < trace->events.n; r.event++)
        MR_TRY(judge(&r, &trace->events.at[r.event]));
    return check_end(&r);
}
