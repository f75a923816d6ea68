/* c10_joint_start -- starting in the middle of a run, with what a recording began with. */
#include "c10_joint.h"

#include <stdlib.h>

/* How long a recorded reservation is: not recorded, but no other segment begins inside it. */
static uint64_t reservation(const c10_joint *j, const mr_history *history, const mr_segment *s)
{
    const uint64_t page = s->large ? c10_configured(j->allocator)->large_segment_size
                                   : 2 * MR_MIB;
    uint64_t bytes = (j->placer->total / 8 * 9 / page + 1) * page;
    if (s->bytes) return s->bytes;
    for (uint32_t i = 0; i < history->held; i++) {
        const uint64_t other = history->segments.at[i].address;
        if (other > s->address && other - s->address < bytes) bytes = other - s->address;
    }
    return bytes;
}

/* `orders` are ages by segment of the history: nobody knows them, so the lower address counts
 * as the older, which decides between equals as if they were of one age. */
static c10_segment segment_like(const c10_joint *j, const mr_history *history, uint32_t segment,
                                const uint32_t *orders)
{
    const mr_segment *s = &history->segments.at[segment];
    return (c10_segment){
        .address = s->address,
        .stream = s->stream,
        .large = s->large,
        .expandable = s->expandable,
        .pool = j->trace->pools.at[s->pool],
        .reserved_at = s->expandable ? s->address : 0,
        .reserved = s->expandable ? reservation(j, history, s) : 0,
        .order = orders[segment],
    };
}

static c10_piece piece_like(c10_joint *j, const mr_history *history, const mr_piece *piece)
{
    const mr_segment *s = &history->segments.at[piece->segment];
    return (c10_piece){
        .address = s->address + piece->offset,
        .size = piece->bytes,
        .requested =
            piece->storage == MR_NONE ? 0 : j->trace->storages.at[piece->storage].bytes,
        .state = piece->storage == MR_NONE ? C10_INACTIVE
                 : piece->pending          ? C10_PENDING_FREE
                                           : C10_ALLOCATED,
        .waits_for = piece->pending ? j->streams + c10_joint_wait(j) : 0,
    };
}

/* One c10_segment per contiguous stretch: pieces come by segment and ascending. */
static void gather(c10_joint *j, const mr_history *history, const uint32_t *orders,
                   c10_segments *out)
{
    mr_ctx *ctx = j->placer->ctx;
    uint64_t end = 0;
    uint32_t last = MR_NONE;
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        c10_segment s = segment_like(j, history, piece->segment, orders);
        const c10_piece p = piece_like(j, history, piece);
        if (piece->segment != last || p.address != end) {
            s.address = p.address;
            MR_PUSH(ctx, out, s);
        }
        c10_segment *to = &out->at[out->n - 1];
        to->total += p.size;
        MR_PUSH(ctx, &to->pieces, p);
        last = piece->segment;
        end = p.address + p.size;
    }
}

typedef struct numbered {
    uint64_t address;
    uint32_t piece;
} numbered;

static int by_address(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The block of every piece, found again by address: adopting sorts the segments. */
static void match(c10_joint *j, const mr_history *history, const c10_segments *segments,
                  uint32_t *handles)
{
    numbered *pieces = MR_NEW_N(j->placer->ctx, numbered, history->start.n);
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        const uint64_t base = history->segments.at[piece->segment].address;
        pieces[i] = (numbered){base + piece->offset, i};
    }
    qsort(pieces, history->start.n, sizeof *pieces, by_address);
    for (uint32_t s = 0, next = 0; s < segments->n; s++) {
        const c10_segment *segment = &segments->at[s];
        for (uint32_t i = 0; i < segment->pieces.n; i++, next++) {
            const c10_piece *p = &segment->pieces.at[i];
            handles[pieces[next].piece] = p->block;
            if (p->state == C10_PENDING_FREE)
                c10_joint_await(j, p->block, p->waits_for - j->streams);
        }
    }
}

/* Takes the recording's segments as held; returns their ages by segment.  Addresses with
 * nothing mapped behind them have none: the allocator does not hear of them. */
static const uint32_t *hold_all(c10_joint *j, const mr_history *history)
{
    mr_ctx *ctx = j->placer->ctx;
    uint32_t *orders = MR_NEW_N(ctx, uint32_t, history->segments.n);
    bool *used = MR_NEW_N(ctx, bool, history->segments.n);
    for (uint32_t i = 0; i < history->start.n; i++) used[history->start.at[i].segment] = true;
    for (uint32_t i = 0; i < history->held; i++)
        c10_joint_hold(j, (c10_held){history->segments.at[i].address, i});
    for (uint32_t i = 0; i < history->held; i++) {
        if (!used[j->helds.at[i].segment]) continue;
        MR_PUSH(ctx, &j->by_order, j->helds.at[i]);
        orders[j->helds.at[i].segment] = j->by_order.n;
    }
    return orders;
}

mr_status c10_joint_adopt(void *self, mr_placer *placer, const mr_history *history,
                          uint32_t *handles)
{
    (void)placer;
    c10_joint *j = self;
    c10_segments segments = {0};
    const uint32_t *orders = hold_all(j, history);
    gather(j, history, orders, &segments);
    MR_TRY(c10_adopt(j->allocator, &segments));
    for (uint32_t i = 0; i < history->start.n; i++)
        j->holds[history->segments.at[history->start.at[i].segment].pool] = true;
    match(j, history, &segments, handles);
    return MR_OK;
}
