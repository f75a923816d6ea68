/* schedule_repeat -- steps as they follow each other in training, and what happens between two. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

enum { ABSENT, LIVE, PENDING }; /* state of a storage between two events */

static uint8_t state_after(const mr_trace *trace, const mr_event *event, uint8_t before)
{
    switch (event->kind) {
    case MR_ALLOC: return trace->storages.at[event->id].refused ? ABSENT : LIVE;
    case MR_FREE: return trace->storages.at[event->id].deferred ? PENDING : ABSENT;
    case MR_DONE: return ABSENT;
    default: return before;
    }
}

/* State of every storage at the end, given that at the start. */
static uint8_t *run_through(mr_ctx *ctx, const mr_schedule *in, const uint8_t *start)
{
    const mr_trace *trace = in->trace;
    uint8_t *state = MR_NEW_N(ctx, uint8_t, trace->storages.n);
    memcpy(state, start, trace->storages.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event *event = &in->events.at[e];
        if (event->kind == MR_ALLOC || event->kind == MR_FREE || event->kind == MR_DONE)
            state[event->id] = state_after(trace, event, state[event->id]);
    }
    return state;
}

/* ---- the seam ---------------------------------------------------------------------------- */

typedef struct seam { /* what has to be done between two iterations */
    MR_VEC(mr_event) events;
    MR_VEC(mr_carry) carries;
} seam;

typedef struct loose { /* a storage that only one side of the seam knows */
    uint64_t bytes;
    uint32_t stream, pool, id;
} loose;

typedef MR_VEC(loose) looses;

static int by_kind(const void *a, const void *b)
{
    const loose *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->pool != y->pool) return x->pool < y->pool ? -1 : 1;
    return 0;
}

static int by_kind_then_id(const void *a, const void *b)
{
    const int kind = by_kind(a, b);
    if (kind) return kind;
    const loose *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static loose loose_of(const mr_trace *trace, uint32_t s)
{
    const mr_storage *storage = &trace->storages.at[s];
    return (loose){storage->bytes, storage->stream, storage->pool, s};
}

static void sort(looses *list)
{
    if (list->n) qsort(list->at, list->n, sizeof *list->at, by_kind_then_id);
}

/* Frees come first and allocations last, so that the seam itself raises no peak. */
static void join(mr_ctx *ctx, looses *ended, looses *wanted, seam *out)
{
    MR_VEC(uint32_t) missing = {0};
    uint32_t i = 0, j = 0;
    sort(ended);
    sort(wanted);
    while (i < ended->n || j < wanted->n) {
        const int side = i == ended->n    ? 1
                         : j == wanted->n ? -1
                                          : by_kind(&ended->at[i], &wanted->at[j]);
        if (side < 0)
            MR_PUSH(ctx, &out->events, (mr_event){MR_FREE, ended->at[i++].id});
        else if (side > 0)
            MR_PUSH(ctx, &missing, wanted->at[j++].id);
        else
            MR_PUSH(ctx, &out->carries, (mr_carry){ended->at[i++].id, wanted->at[j++].id});
    }
    for (uint32_t c = 0; c < out->carries.n; c++)
        MR_PUSH(ctx, &out->events, (mr_event){MR_CARRY, c});
    for (uint32_t m = 0; m < missing.n; m++)
        MR_PUSH(ctx, &out->events, (mr_event){MR_ALLOC, missing.at[m]});
}

static uint8_t *at_start(mr_ctx *ctx, const mr_schedule *in)
{
    const mr_trace *trace = in->trace;
    uint8_t *start = MR_NEW_N(ctx, uint8_t, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++)
        start[s] = trace->storages.at[s].before && trace->storages.at[s].device == in->device
                       ? LIVE
                       : ABSENT;
    return start;
}

/* Other streams use it: its block is nobody's until they are done. */
static void release(mr_ctx *ctx, uint32_t s, seam *out)
{
    MR_PUSH(ctx, &out->events, (mr_event){MR_FREE, s});
    MR_PUSH(ctx, &out->events, (mr_event){MR_DONE, s});
}

static seam find_seam(mr_ctx *ctx, const mr_schedule *in)
{
    const mr_trace *trace = in->trace;
    const uint8_t *start = at_start(ctx, in);
    const uint8_t *end = run_through(ctx, in, start);
    looses ended = {0}, wanted = {0};
    seam out = {0};
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (end[s] == PENDING) MR_PUSH(ctx, &out.events, (mr_event){MR_DONE, s});
        if (end[s] == LIVE && start[s] != LIVE) {
            if (trace->storages.at[s].deferred) release(ctx, s, &out);
            else MR_PUSH(ctx, &ended, loose_of(trace, s));
        }
        if (start[s] == LIVE && end[s] != LIVE) MR_PUSH(ctx, &wanted, loose_of(trace, s));
    }
    join(ctx, &ended, &wanted, &out);
    return out;
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Weights that a recorder was not told of are read as inputs are, but stay: what belongs to a
 * batch is told by a part for each sample, or by its first dimension. */
static bool *find_batch(mr_ctx *ctx, const mr_trace *trace)
{
    const char *said = trace->about[MR_ABOUT_batch];
    const uint64_t samples = said ? strtoull(said, NULL, 10) : 0;
    bool *out = MR_NEW_N(ctx, bool, trace->storages.n), known = false;
    for (uint32_t s = 0; s < trace->storages.n; s++) known |= trace->storages.at[s].per_sample > 0;
    for (uint32_t t = 0; !known && samples && t < trace->tensors.n; t++) {
        const mr_tensor *tensor = &trace->tensors.at[t];
        out[tensor->storage] |= tensor->rank && tensor->shape[0] == samples;
    }
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        const mr_storage *storage = &trace->storages.at[s];
        out[s] = storage->role == MR_ROLE_input && !storage->deferred && !storage->refused
                 && (known ? storage->per_sample > 0 : out[s]);
    }
    return out;
}

typedef struct change { /* of batches */
    mr_trace *trace;
    const bool *batch; /* by storage */
    bool early;
    MR_VEC(mr_event) come, go, handed;
} change;

/* What lies where this batch's storage does has the same number: the next one is put there
 * under another, and handed over when this one is gone. */
static void renew(mr_ctx *ctx, change *c, uint32_t s, seam *at)
{
    uint32_t next = s;
    if (c->early) {
        mr_storage storage = c->trace->storages.at[s];
        storage.before = storage.after = false;
        next = c->trace->storages.n;
        MR_PUSH(ctx, &c->trace->storages, storage);
        MR_PUSH(ctx, &c->handed, (mr_event){MR_CARRY, at->carries.n});
        MR_PUSH(ctx, &at->carries, (mr_carry){next, s});
    }
    MR_PUSH(ctx, &c->come, (mr_event){MR_ALLOC, next});
    MR_PUSH(ctx, &c->go, (mr_event){MR_FREE, s});
}

/* Of several recorded steps the batch of the last is another one than that of the first. */
static bool is_of_batches(mr_ctx *ctx, change *c, const seam *at, const mr_event *event)
{
    if (event->kind == MR_CARRY) {
        const mr_carry *pair = &at->carries.at[event->id];
        if (!c->batch[pair->from] || !c->batch[pair->to]) return false;
        MR_PUSH(ctx, &c->come, (mr_event){MR_ALLOC, pair->to});
        MR_PUSH(ctx, &c->go, (mr_event){MR_FREE, pair->from});
        return true;
    }
    if (!c->batch[event->id]) return false;
    if (event->kind == MR_ALLOC) MR_PUSH(ctx, &c->come, *event);
    if (event->kind == MR_FREE) MR_PUSH(ctx, &c->go, *event);
    return event->kind == MR_ALLOC || event->kind == MR_FREE;
}

static void append(mr_ctx *ctx, seam *out, const mr_event *events, uint32_t n)
{
    for (uint32_t e = 0; e < n; e++) MR_PUSH(ctx, &out->events, events[e]);
}

static void change_batches(mr_ctx *ctx, mr_trace *trace, const mr_schedule *in, bool early,
                           seam *out)
{
    const uint8_t *start = at_start(ctx, in), *end = run_through(ctx, in, start);
    const uint32_t n = trace->storages.n;
    change c = {.trace = trace, .batch = find_batch(ctx, trace), .early = early};
    seam rest = {0};
    for (uint32_t e = 0; e < out->events.n; e++)
        if (!is_of_batches(ctx, &c, out, &out->events.at[e]))
            MR_PUSH(ctx, &rest.events, out->events.at[e]);
    for (uint32_t s = 0; s < n; s++)
        if (c.batch[s] && start[s] == LIVE && end[s] == LIVE) renew(ctx, &c, s, out);
    memset(&out->events, 0, sizeof out->events);
    if (early) append(ctx, out, c.come.at, c.come.n);
    append(ctx, out, c.go.at, c.go.n);
    if (!early) append(ctx, out, c.come.at, c.come.n);
    append(ctx, out, c.handed.at, c.handed.n);
    append(ctx, out, rest.events.at, rest.events.n);
}

/* ---- repeating --------------------------------------------------------------------------- */

static mr_status repeat(mr_ctx *ctx, const mr_schedule *in, const seam *s, uint32_t n,
                        mr_schedule *out)
{
    const uint64_t total = (uint64_t)in->events.n * n + (uint64_t)s->events.n * (n - 1);
    if (total >= MR_NONE)
        return mr_fail(ctx, MR_EUSAGE, "%u iterations of %u events are more than %u events", n,
                       in->events.n, MR_NONE);
    *out = *in;
    memset(&out->events, 0, sizeof out->events);
    memset(&out->ends, 0, sizeof out->ends);
    out->carries.at = s->carries.at;
    out->carries.n = out->carries.cap = s->carries.n;
    MR_RESERVE_N(ctx, &out->events, (uint32_t)total);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(out->events.at + out->events.n, in->events.at,
               in->events.n * sizeof *in->events.at);
        out->events.n += in->events.n;
        MR_PUSH(ctx, &out->ends, out->events.n);
        if (i + 1 == n || !s->events.n) continue;
        memcpy(out->events.at + out->events.n, s->events.at, s->events.n * sizeof *s->events.at);
        out->events.n += s->events.n;
    }
    return MR_OK;
}

mr_status mr_schedule_repeat(mr_ctx *ctx, const mr_schedule *in, uint32_t n, mr_schedule *out)
{
    const seam s = find_seam(ctx, in);
    return repeat(ctx, in, &s, n, out);
}

mr_status mr_schedule_train(mr_ctx *ctx, mr_trace *trace, const mr_schedule *in, uint32_t n,
                            mr_batches batches, mr_schedule *out)
{
    seam s = find_seam(ctx, in);
    if (batches != MR_BATCHES_SAME) {
        const mr_trace given = *trace; /* others read its storages as well */
        memset(&trace->storages, 0, sizeof trace->storages);
        MR_RESERVE_N(ctx, &trace->storages, given.storages.n);
        memcpy(trace->storages.at, given.storages.at,
               given.storages.n * sizeof *given.storages.at);
        trace->storages.n = given.storages.n;
        change_batches(ctx, trace, in, batches == MR_BATCHES_EARLY, &s);
    }
    return repeat(ctx, in, &s, n, out);
}
