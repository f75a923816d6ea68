/* c10_release -- giving memory back to the device: on demand, all of it, or what is old. */
#include "c10_internal.h"

/* cudaFree of a segment that is one free block. */
static void release_segment(c10_allocator *a, uint32_t b)
{
    const c10_block block = a->blocks[b];
    c10_set *set = &a->sets.at[block.set];
    c10_log(a, C10_SEGMENT_FREE, block.address, block.size, set->stream);
    a->device.free(a->device.self, block.address, block.size);
    a->total -= block.size;
    a->num_device_free++;
    a->pools.at[set->pool].device_allocs--;
    c10_lower(&a->segment, set->large, 1);
    c10_lower(&a->reserved_bytes, set->large, block.size);
    if (block.size >= a->options.max_split_size) c10_lower(&a->oversize_segments, 0, 1);
    c10_tree_remove(a, &set->free, b);
    c10_block_drop(a, b);
}

static bool in_expandable(const c10_allocator *a, uint32_t b)
{
    return a->blocks[b].expandable != MR_NONE;
}

/* From the largest block of the stream below `want` downwards, until that much is released. */
static bool release_largest(c10_allocator *a, const c10_tree *free, uint64_t want)
{
    uint64_t released = 0;
    a->scratch.n = 0;
    for (c10_cursor at = c10_tree_below(a, free, want); released < want;
         at = c10_tree_previous(a, at)) {
        const uint32_t b = c10_tree_block(a, at);
        if (b == MR_NONE || a->blocks[b].size < a->options.max_split_size) break;
        if (in_expandable(a, b)) continue;
        released += a->blocks[b].size;
        MR_PUSH(a->ctx, &a->scratch, b);
    }
    for (uint32_t i = 0; i < a->scratch.n; i++) release_segment(a, a->scratch.at[i]);
    return released >= want;
}

bool c10_release_available(c10_allocator *a, uint32_t set, uint64_t size)
{
    if (a->options.max_split_size == C10_UNLIMITED) return false;
    const c10_tree *free = &a->sets.at[set].free;
    const uint64_t want = size > a->options.max_split_size ? size : a->options.max_split_size;
    const uint32_t b = c10_tree_block(a, c10_tree_at_least(a, free, want));
    if (b == MR_NONE || in_expandable(a, b)) return release_largest(a, free, want);
    release_segment(a, b);
    return true;
}

/* Lists the free blocks of half a pool in order: whole cudaMalloc segments, or what lies in
 * expandable ones. */
static void list_free(c10_allocator *a, const c10_half *half, bool expandable)
{
    a->scratch.n = 0;
    for (uint32_t i = 0; i < half->sets.n; i++) {
        c10_cursor at = c10_tree_first(&a->sets.at[half->sets.at[i]].free);
        for (uint32_t b; (b = c10_tree_block(a, at)) != MR_NONE; at = c10_tree_next(a, at)) {
            if (in_expandable(a, b) != expandable) continue;
            if (expandable || !c10_block_split(&a->blocks[b])) MR_PUSH(a->ctx, &a->scratch, b);
        }
    }
}

static void release_half(c10_allocator *a, const c10_half *half)
{
    list_free(a, half, false);
    for (uint32_t i = 0; i < a->scratch.n; i++) release_segment(a, a->scratch.at[i]);
    list_free(a, half, true);
    for (uint32_t i = 0; i < a->scratch.n; i++) c10_unmap(a, a->scratch.at[i]);
}

static void release_private(c10_allocator *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->freeable.n; i++) {
        c10_pool *pool = &a->pools.at[a->freeable.at[i]];
        release_half(a, &pool->half[0]);
        release_half(a, &pool->half[1]);
        pool->gone = !pool->device_allocs;
        if (!pool->gone) a->freeable.at[kept++] = a->freeable.at[i];
    }
    a->freeable.n = kept;
}

void c10_release_cached(c10_allocator *a)
{
    c10_wait_for_events(a);
    release_half(a, &a->pools.at[0].half[1]);
    release_half(a, &a->pools.at[0].half[0]);
    release_private(a);
}

void c10_empty_cache(c10_allocator *a)
{
    c10_release_cached(a);
}

/* ---- garbage collection ------------------------------------------------------------------- */

/* Blocks that a collection looks at, and the sum of their ages: searches since they became
 * free. */
typedef struct garbage {
    uint64_t target, collected, age;
    uint64_t n; /* whole free blocks; those in expandable memory count, but stay */
} garbage;

static uint64_t age(const c10_allocator *a, uint32_t b)
{
    return a->pools.at[0].half[1].searches - a->blocks[b].born;
}

static void list_garbage(c10_allocator *a, garbage *g)
{
    const c10_half *half = &a->pools.at[0].half[1];
    list_free(a, half, true);
    for (uint32_t i = 0; i < a->scratch.n; i++) {
        if (c10_block_split(&a->blocks[a->scratch.at[i]])) continue;
        g->n++;
        g->age += age(a, a->scratch.at[i]);
    }
    list_free(a, half, false);
    g->n += a->scratch.n;
    for (uint32_t i = 0; i < a->scratch.n; i++) g->age += age(a, a->scratch.at[i]);
}

/* Frees everything that is at least as old as the average; the average is that of the start of
 * the pass, and a pass does not stop when the target is reached. */
static bool collect_older(c10_allocator *a, garbage *g)
{
    const double average = (double)g->age / (double)g->n;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->scratch.n; i++) {
        const uint32_t b = a->scratch.at[i];
        if ((double)age(a, b) < average) {
            a->scratch.at[kept++] = b;
            continue;
        }
        g->collected += a->blocks[b].size;
        g->age -= age(a, b);
        g->n--;
        release_segment(a, b);
    }
    const bool some = kept < a->scratch.n;
    a->scratch.n = kept;
    return some;
}

void c10_collect(c10_allocator *a)
{
    const uint64_t threshold =
        (uint64_t)(a->options.garbage_collection_threshold * (double)a->limit);
    if (a->total <= threshold) return;
    garbage g = {.target = a->total - threshold};
    list_garbage(a, &g);
    bool some = true;
    while (g.collected < g.target && some && g.n) some = collect_older(a, &g);
}
