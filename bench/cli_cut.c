/* cut -- a part of a recording as a recording of its own.
 *
 *     events      |----------[ first ........ end )---------|
 *     storage a       +-------------------------------          before and after
 *     storage b                  +-----------                   after
 *     storage c    +---...                        (pending)     before, freed at once
 *
 * What is live at the first event is live before the cut, what is live at the last is live
 * after it. What the allocator did is known only from the recording's own beginning on.
 */
#include "commands.h"

typedef enum life { UNBORN, LIVE, PENDING, DEAD } life;

static life after_event(const mr_storage *s, life now, mr_event_kind kind)
{
    switch (kind) {
    case MR_ALLOC: return s->refused ? DEAD : LIVE;
    case MR_FREE: return s->deferred ? PENDING : DEAD;
    case MR_DONE: return DEAD;
    default: return now;
    }
}

/* The lives of all storages just before event `to`, from those before event `from`. */
static void live_through(const mr_trace *trace, uint32_t from, uint32_t to, life *lives)
{
    for (uint32_t i = from; i < to; i++) {
        const mr_event e = trace->events.at[i];
        if (e.kind > MR_DONE) continue;
        lives[e.id] = after_event(&trace->storages.at[e.id], lives[e.id], e.kind);
    }
}

static void touch(const mr_trace *trace, mr_ids tensors, uint32_t event, uint32_t *first,
                  uint32_t *last)
{
    for (uint32_t i = 0; i < tensors.n; i++) {
        const uint32_t s = trace->tensors.at[tensors.at[i]].storage;
        if (first[s] == MR_NONE) first[s] = event;
        last[s] = event;
    }
}

/* Lives that follow from ops: from the first op that touches a storage to the last, or its
 * drop. */
static void cut_operators(mr_ctx *ctx, const mr_trace *in, uint32_t from, uint32_t to,
                          mr_trace *out)
{
    uint32_t *first = MR_NEW_N(ctx, uint32_t, in->storages.n);
    uint32_t *last = MR_NEW_N(ctx, uint32_t, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++) first[s] = MR_NONE;
    for (uint32_t i = 0; i < in->events.n; i++) {
        const mr_event e = in->events.at[i];
        if (e.kind == MR_DROP) last[in->tensors.at[e.id].storage] = i;
        if (e.kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[e.id];
        touch(in, op->out, i, first, last);
        touch(in, op->in, i, first, last);
        touch(in, op->mutates, i, first, last);
    }
    for (uint32_t s = 0; s < in->storages.n; s++) {
        const mr_storage *old = &in->storages.at[s];
        mr_storage *storage = &out->storages.at[s];
        const bool begun = old->before || first[s] < from, ended = !old->after && last[s] < to;
        storage->before = begun && (old->after || last[s] >= from);
        storage->after = !ended && (begun || first[s] < to);
    }
}

static void cut_allocations(mr_ctx *ctx, const mr_trace *in, uint32_t from, uint32_t to,
                            mr_trace *out)
{
    life *lives = MR_NEW_N(ctx, life, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++)
        lives[s] = in->storages.at[s].before ? LIVE : UNBORN;
    live_through(in, 0, from, lives);
    for (uint32_t s = 0; s < in->storages.n; s++) {
        out->storages.at[s].before = lives[s] == LIVE || lives[s] == PENDING;
        if (lives[s] != PENDING) continue;
        MR_PUSH(ctx, &out->events, (mr_event){MR_FREE, s});
        if (in->times.n) MR_PUSH(ctx, &out->times, 0);
    }
    live_through(in, from, to, lives);
    for (uint32_t s = 0; s < in->storages.n; s++) out->storages.at[s].after = lives[s] == LIVE;
}

mr_status mr_trace_cut(mr_ctx *ctx, const mr_trace *in, uint32_t first, uint32_t end,
                       mr_trace *out)
{
    mr_trace_copy(ctx, in, out);
    out->events.n = out->times.n = 0;
    if (first > 0) {
        out->histories.n = 0;
        out->has &= ~(unsigned)MR_HAS_HISTORY;
    }
    if (mr_trace_knows_lives(in)) cut_allocations(ctx, in, first, end, out);
    else cut_operators(ctx, in, first, end, out);
    for (uint32_t i = first; i < end; i++) {
        MR_PUSH(ctx, &out->events, in->events.at[i]);
        if (in->times.n) MR_PUSH(ctx, &out->times, in->times.at[i] - in->times.at[first]);
    }
    return mr_trace_check(ctx, out);
}
