/* c10_snapshot -- showing the state. */
#include "c10_internal.h"

#include <stdlib.h>

static c10_piece piece_of(const c10_allocator *a, uint32_t b)
{
    static const c10_state states[] = {
        [C10_BLOCK_FREE] = C10_INACTIVE,
        [C10_BLOCK_PENDING] = C10_PENDING_FREE,
        [C10_BLOCK_LIVE] = C10_ALLOCATED,
    };
    const c10_block *block = &a->blocks[b];
    return (c10_piece){block->address,       block->size, block->requested,
                       states[block->state], 0,           b};
}

static bool mapped(const c10_allocator *a, uint32_t b)
{
    return b != MR_NONE && a->blocks[b].state != C10_BLOCK_HOLE;
}

/* A segment, or what is mapped without a gap from `b` on. */
static c10_segment segment_from(const c10_allocator *a, mr_ctx *ctx, uint32_t b)
{
    const c10_block *head = &a->blocks[b];
    const c10_set *set = &a->sets.at[head->set];
    c10_segment segment = {.address = head->address,
                           .stream = set->stream,
                           .large = set->large,
                           .expandable = head->expandable != MR_NONE,
                           .order = head->order,
                           .pool = a->pools.at[set->pool].id};
    if (segment.expandable) {
        segment.reserved_at = a->expandables.at[head->expandable].base;
        segment.reserved = a->expandables.at[head->expandable].size;
        segment.page = a->expandables.at[head->expandable].page;
    }
    for (; mapped(a, b); b = a->blocks[b].next) {
        const c10_piece piece = piece_of(a, b);
        MR_PUSH(ctx, &segment.pieces, piece);
        segment.total += piece.size;
        segment.allocated += piece.state == C10_ALLOCATED ? piece.size : 0;
        segment.active += piece.state != C10_INACTIVE ? piece.size : 0;
        segment.requested += piece.state != C10_INACTIVE ? piece.requested : 0;
    }
    return segment;
}

/* The foreign stream of a pending block whose event is next in its queue. */
static void name_streams(const c10_allocator *a, uint32_t *waits_for)
{
    for (uint32_t i = 0; i < a->waiting.n; i++) {
        const c10_queue *queue = &a->queues.at[a->waiting.at[i]];
        for (uint32_t k = queue->head; k < queue->events.n; k++)
            waits_for[queue->events.at[k].block] = a->waiting.at[i];
    }
    for (uint32_t i = 0; i < a->deferred.n; i++)
        waits_for[a->deferred.at[i]] = a->uses.at[a->blocks[a->deferred.at[i]].uses].stream;
}

int c10_by_address(const void *one, const void *other)
{
    const uint64_t x = ((const c10_segment *)one)->address;
    const uint64_t y = ((const c10_segment *)other)->address;
    return (x > y) - (x < y);
}

void c10_snapshot(c10_allocator *a, mr_ctx *ctx, c10_segments *out)
{
    *out = (c10_segments){0};
    uint64_t active = 0;
    for (uint32_t b = 0; b < a->blocks_n; b++) {
        const c10_block *block = &a->blocks[b];
        if (block->state == C10_BLOCK_UNUSED || !mapped(a, b) || mapped(a, block->prev))
            continue;
        const c10_segment segment = segment_from(a, ctx, b);
        active += segment.active;
        MR_PUSH(ctx, out, segment);
    }
    if (out->n) qsort(out->at, out->n, sizeof *out->at, c10_by_address);
    uint32_t *waits_for = MR_NEW_N(ctx, uint32_t, a->blocks_n + 1);
    name_streams(a, waits_for);
    for (uint32_t i = 0; i < out->n; i++)
        for (uint32_t k = 0; k < out->at[i].pieces.n; k++)
            out->at[i].pieces.at[k].waits_for = waits_for[out->at[i].pieces.at[k].block];
    c10_log(a, C10_SNAPSHOT, 0, active, 0);
}
