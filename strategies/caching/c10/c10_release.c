/* c10_release -- giving memory back to the device: on demand, all of it, or what is old. */
#include "c10_internal.h"

/* cudaFree of a segment that is one free block. */
static void release_segment(c10_allocator *a, uint32_t b)
{
    const c10_block block = a->blocks[b];
    if (block.expandable != MR_NONE) {
        c10_break(a, "assertion",
                  "this release cannot free a part of an expandable segment by itself");
        return;
    }
    c10_set *set = &a->sets.at[block.set];
    c10_log(a, C10_SEGMENT_FREE, block.address, block.size, set->stream);
    a->device.free(a->device.self, block.address, block.size);
    a->total -= block.size;
    a->num_device_free++;
    a->pools.at[set->pool].device_allocs--;
    c10_lower(&a->segment, set->large, 1);
    c10_lower(&a->reserved_bytes, set->large, block.size);
    if (block.size >= a->options.max_split_size) c10_lower(&a->oversize_segments, 0, 1);
    c10_bins_remove(a, &set->free, b);
    c10_block_drop(a, b);
}

static bool in_expandable(const c10_allocator *a, uint32_t b)
{
    return a->blocks[b].expandable != MR_NONE;
}

/* From the largest block of the stream below `want` downwards, until that much is released. */
static bool release_largest(c10_allocator *a, const c10_bins *free, uint64_t want)
{
    uint64_t released = 0;
    a->scratch.n = 0;
    for (uint32_t b = c10_bins_below(a, free, want); b != MR_NONE && released < want;
         b = c10_bins_before(a, free, b)) {
        if (a->blocks[b].size < a->options.max_split_size) break;
        if (in_expandable(a, b) && a->quirks.expandable_spared) continue;
        released += a->blocks[b].size;
        MR_PUSH(a->ctx, &a->scratch, b);
    }
    for (uint32_t i = 0; i < a->scratch.n && !a->broken; i++)
        release_segment(a, a->scratch.at[i]);
    return released >= want && !a->broken;
}

bool c10_release_available(c10_allocator *a, uint32_t set, uint64_t size)
{
    if (a->options.max_split_size == C10_UNLIMITED) return false;
    const c10_bins *free = &a->sets.at[set].free;
    const uint64_t want = size > a->options.max_split_size ? size : a->options.max_split_size;
    const uint32_t b = c10_bins_at_least(a, free, want);
    if (b == MR_NONE || (in_expandable(a, b) && a->quirks.expandable_spared))
        return release_largest(a, free, want);
    release_segment(a, b);
    return !a->broken;
}

typedef enum choice { WHOLE_SEGMENTS, EXPANDABLE, UNSPLIT } choice;

static bool chosen(const c10_allocator *a, uint32_t b, choice which)
{
    if (which == EXPANDABLE) return in_expandable(a, b);
    if (which == WHOLE_SEGMENTS && in_expandable(a, b)) return false;
    return !c10_block_split(&a->blocks[b]);
}

/* Lists free blocks of half a pool in the order of its sets. */
static void list_free(c10_allocator *a, const c10_half *half, choice which)
{
    a->scratch.n = 0;
    for (uint32_t i = 0; i < half->sets.n; i++) {
        const c10_bins *free = &a->sets.at[half->sets.at[i]].free;
        for (uint32_t b = c10_bins_first(a, free); b != MR_NONE; b = c10_bins_after(a, free, b))
            if (chosen(a, b, which)) MR_PUSH(a->ctx, &a->scratch, b);
    }
}

static void release_half(c10_allocator *a, const c10_half *half)
{
    list_free(a, half, WHOLE_SEGMENTS);
    for (uint32_t i = 0; i < a->scratch.n; i++) release_segment(a, a->scratch.at[i]);
    list_free(a, half, EXPANDABLE);
    for (uint32_t i = 0; i < a->scratch.n; i++) c10_unmap(a, a->scratch.at[i]);
}

/* Releases what a private pool holds; true when the pool is gone. */
static bool release_private(c10_allocator *a, uint32_t pool)
{
    release_half(a, &a->pools.at[pool].half[0]);
    release_half(a, &a->pools.at[pool].half[1]);
    if (a->pools.at[pool].device_allocs) return false;
    c10_pool_gone(a, pool);
    return true;
}

mr_status c10_release_cached(c10_allocator *a)
{
    if (!c10_captures(a) || !a->quirks.captures_may_empty) {
        MR_TRY(c10_wait_for_events(a, MR_NONE));
        release_half(a, &a->pools.at[0].half[1]);
        release_half(a, &a->pools.at[0].half[0]);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->freeable.n; i++)
        if (!release_private(a, a->freeable.at[i])) a->freeable.at[kept++] = a->freeable.at[i];
    a->freeable.n = kept;
    return MR_OK;
}

mr_status c10_empty_cache(c10_allocator *a)
{
    return c10_release_cached(a);
}

mr_status c10_pool_empty(c10_allocator *a, uint64_t id)
{
    if (!a->quirks.one_pool_empties)
        return mr_fail(a->ctx, MR_EUNSUPPORTED,
                       "this version has no emptyCache of one pool; a newer release does");
    uint32_t i = 0;
    while (i < a->freeable.n && a->pools.at[a->freeable.at[i]].id != id) i++;
    if (i == a->freeable.n) return MR_OK; /* somebody holds it, or there is none */
    MR_TRY(c10_wait_for_events(a, a->freeable.at[i]));
    if (!release_private(a, a->freeable.at[i])) return MR_OK;
    a->freeable.n--;
    for (; i < a->freeable.n; i++) a->freeable.at[i] = a->freeable.at[i + 1];
    return MR_OK;
}

/* ---- garbage collection ----------------------------------------------------------------- */

typedef struct garbage {
    uint64_t target, collected;
    uint64_t n, age; /* free whole blocks, and the sum of their ages */
} garbage;

/* Searches of the pool since the block became free. */
static uint64_t age(const c10_allocator *a, uint32_t b)
{
    return a->pools.at[0].half[1].searches - a->blocks[b].born;
}

/* Frees everything that is at least as old as the average; the average is that of the start of
 * the pass, and a pass does not stop when the target is reached.  Blocks in expandable
 * memory count, but stay. */
static bool collect_older(c10_allocator *a, garbage *g)
{
    const double average = (double)g->age / (double)g->n;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->scratch.n && !a->broken; i++) {
        const uint32_t b = a->scratch.at[i];
        if ((double)age(a, b) < average
            || (in_expandable(a, b) && a->quirks.expandable_spared)) {
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
    return some && !a->broken;
}

void c10_collect(c10_allocator *a)
{
    const uint64_t threshold =
        (uint64_t)(a->options.garbage_collection_threshold * (double)a->limit);
    if (a->total <= threshold) return;
    list_free(a, &a->pools.at[0].half[1], UNSPLIT);
    garbage g = {.target = a->total - threshold, .n = a->scratch.n};
    for (uint32_t i = 0; i < a->scratch.n; i++) g.age += age(a, a->scratch.at[i]);
    bool some = true;
    while (g.collected < g.target && some && g.n) some = collect_older(a, &g);
}
