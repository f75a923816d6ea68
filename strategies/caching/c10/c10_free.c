/* c10_free -- giving blocks back, and waiting for foreign streams first.
 *
 * A block that other streams used is pending after its free: an event is recorded on each of
 * them at that moment, and the free completes when a later request finds all of them passed.
 * While a private pool is being recorded no events may be recorded, and such blocks wait.
 */
#include "c10_internal.h"

#include <string.h>

static void complete(c10_allocator *a, uint32_t b)
{
    const c10_block block = a->blocks[b];
    const bool large = a->sets.at[block.set].large;
    c10_log(a, C10_FREE_COMPLETED, block.address, block.requested,
            a->sets.at[block.set].stream);
    const c10_absorbed absorbed = c10_block_settle(a, &b, C10_BLOCK_FREE);
    c10_lower(&a->active, large, 1);
    c10_lower(&a->active_bytes, large, block.size);
    c10_lower(&a->requested_bytes, large, block.requested);
    if (block.expandable != MR_NONE) return;
    /* The net change, in one step: one part absorbed and one made are none at all. */
    const uint64_t made = c10_block_split(&a->blocks[b]);
    if (made > absorbed.n) c10_raise(&a->inactive_split, large, made - absorbed.n);
    else c10_lower(&a->inactive_split, large, absorbed.n - made);
    if (made) c10_raise(&a->inactive_split_bytes, large, block.size);
    else c10_lower(&a->inactive_split_bytes, large, absorbed.bytes);
}

void c10_event_append(c10_allocator *a, uint32_t stream, uint32_t block)
{
    while (a->queues.n <= stream) MR_PUSH(a->ctx, &a->queues, (c10_queue){.head = 0});
    c10_queue *queue = &a->queues.at[stream];
    if (!queue->waiting) {
        queue->waiting = true;
        MR_PUSH(a->ctx, &a->waiting, stream);
    }
    const uint64_t ticket = a->device.record(a->device.self, stream);
    MR_PUSH(a->ctx, &queue->events, (c10_event){ticket, block});
    a->blocks[block].events++;
}

static void drop_use(c10_allocator *a, uint32_t use)
{
    a->uses.at[use].next = a->unused_use;
    a->unused_use = use;
}

/* Turns the foreign streams of a freed block into events. */
static void record_events(c10_allocator *a, uint32_t b, bool skip_captured)
{
    uint32_t next;
    for (uint32_t use = a->blocks[b].uses; use != MR_NONE; use = next) {
        next = a->uses.at[use].next;
        if (!skip_captured || !a->uses.at[use].captured)
            c10_event_append(a, a->uses.at[use].stream, b);
        drop_use(a, use);
    }
    a->blocks[b].uses = MR_NONE;
}

static void fetch(const c10_allocator *a, uint32_t b)
{
    if (b == MR_NONE) return;
    MR_FETCH(&a->blocks[b].address); /* it may lie across two lines of the cache */
    MR_FETCH(&a->blocks[b].state);
}

void c10_near(const c10_allocator *a, uint32_t block, bool closer)
{
    if (!closer || block == MR_NONE) {
        fetch(a, block);
        return;
    }
    fetch(a, a->blocks[block].next);
    fetch(a, a->blocks[block].prev);
}

void c10_free(c10_allocator *a, uint32_t b)
{
    if (b == MR_NONE) return;
    c10_block *block = &a->blocks[b];
    const c10_set *set = &a->sets.at[block->set];
    c10_lower(&a->allocation, set->large, 1);
    c10_lower(&a->allocated_bytes, set->large, block->size);
    c10_log(a, C10_FREE_REQUESTED, block->address, block->requested, set->stream);
    if (block->size >= a->options.max_split_size) c10_lower(&a->oversize_allocations, 0, 1);
    block->state = C10_BLOCK_PENDING;
    if (block->uses == MR_NONE) complete(a, b);
    else if (c10_captures(a)) MR_PUSH(a->ctx, &a->deferred, b);
    else record_events(a, b, false);
}

static uint32_t new_use(c10_allocator *a, c10_use use)
{
    const uint32_t i = a->unused_use;
    if (i == MR_NONE) {
        MR_PUSH(a->ctx, &a->uses, use);
        return a->uses.n - 1;
    }
    a->unused_use = a->uses.at[i].next;
    a->uses.at[i] = use;
    return i;
}

void c10_record_stream(c10_allocator *a, uint32_t b, uint32_t stream)
{
    if (b == MR_NONE || a->sets.at[a->blocks[b].set].stream == stream) return;
    const bool captured = c10_captures(a);
    uint32_t last = MR_NONE;
    for (uint32_t use = a->blocks[b].uses; use != MR_NONE; use = a->uses.at[use].next) {
        last = use;
        if (a->uses.at[use].stream != stream) continue;
        a->uses.at[use].captured |= captured;
        return;
    }
    const uint32_t use = new_use(a, (c10_use){stream, MR_NONE, captured});
    if (last == MR_NONE) a->blocks[b].uses = use;
    else a->uses.at[last].next = use;
}

static bool belongs(const c10_allocator *a, uint32_t b, uint32_t pool)
{
    return pool == MR_NONE || a->sets.at[a->blocks[b].set].pool == pool;
}

/* Streams recorded during the capture are forgotten: the graph orders them. */
void c10_complete_deferred(c10_allocator *a, uint32_t pool)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->deferred.n; i++) {
        const uint32_t b = a->deferred.at[i];
        if (!belongs(a, b, pool)) {
            a->deferred.at[kept++] = b;
            continue;
        }
        record_events(a, b, true);
        if (!a->blocks[b].events) complete(a, b);
    }
    a->deferred.n = kept;
}

static void event_passed(c10_allocator *a, uint32_t b)
{
    if (!--a->blocks[b].events) complete(a, b);
}

/* Forgets what was taken from the front, once that is most of the queue. */
static void tidy(c10_queue *queue)
{
    if (queue->head <= queue->events.n / 2) return;
    queue->events.n -= queue->head;
    memmove(queue->events.at, queue->events.at + queue->head,
            queue->events.n * sizeof *queue->events.at);
    queue->head = 0;
}

static void poll_streams(c10_allocator *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->waiting.n; i++) {
        const uint32_t stream = a->waiting.at[i];
        c10_queue *queue = &a->queues.at[stream];
        while (queue->head < queue->events.n
               && a->device.done(a->device.self, stream, queue->events.at[queue->head].ticket))
            event_passed(a, queue->events.at[queue->head++].block);
        queue->waiting = queue->head < queue->events.n;
        if (queue->waiting) a->waiting.at[kept++] = stream;
        tidy(queue);
    }
    a->waiting.n = kept;
}

void c10_poll(c10_allocator *a)
{
    if (a->deferred.n) c10_complete_deferred(a, MR_NONE);
    if (a->waiting.n) poll_streams(a);
}

/* Takes the events of a pool's blocks out of a queue, in order. */
static void wait_for_queue(c10_allocator *a, uint32_t stream, uint32_t pool)
{
    c10_queue *queue = &a->queues.at[stream];
    uint32_t kept = 0;
    for (uint32_t i = queue->head; i < queue->events.n; i++) {
        const c10_event event = queue->events.at[i];
        if (!belongs(a, event.block, pool)) {
            queue->events.at[kept++] = event;
            continue;
        }
        a->device.synchronize(a->device.self, stream, event.ticket);
        event_passed(a, event.block);
    }
    queue->head = 0;
    queue->events.n = kept;
    queue->waiting = kept > 0;
}

mr_status c10_wait_for_events(c10_allocator *a, uint32_t pool)
{
    a->num_sync_all_streams++;
    if (c10_captures(a))
        return c10_break(a, "assertion", "the cache cannot be released during a capture");
    c10_complete_deferred(a, MR_NONE);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->waiting.n; i++) {
        const uint32_t stream = a->waiting.at[i];
        wait_for_queue(a, stream, pool);
        if (a->queues.at[stream].waiting) a->waiting.at[kept++] = stream;
    }
    a->waiting.n = kept;
    return MR_OK;
}

mr_status c10_annotate(c10_allocator *a, uint32_t b)
{
    if (!a->quirks.annotates)
        return mr_fail(a->ctx, MR_EUNSUPPORTED,
                       "this version has no annotateMemory; a newer release does");
    const c10_block *block = &a->blocks[b];
    c10_log(a, C10_ANNOTATE, block->address, block->requested, a->sets.at[block->set].stream);
    return MR_OK;
}
