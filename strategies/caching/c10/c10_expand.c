/* c10_expand -- expandable segments: a wide range of addresses, filled with memory page by
 * page.
 *
 *     |live|free|live|free|..........hole..........|
 *      mapped pages        reserved addresses only
 *
 * A request that no free block serves maps pages at the lowest hole that has room, counted
 * together with the free neighbours; freed memory stays mapped until everything is released.
 */
#include "c10_internal.h"

#include <string.h>

#define PAGE_GRANULE (2 * MR_MIB) /* of the driver */

static bool idle(const c10_allocator *a, uint32_t b)
{
    return a->blocks[b].state <= C10_BLOCK_HOLE;
}

static c10_reserve reserve_for(const c10_allocator *a, uint32_t stream)
{
    const c10_options *o = &a->options;
    const char *name = stream < a->classes.n ? a->classes.at[stream] : NULL;
    for (uint32_t i = o->expandable_segments_reserve_by_class.n; name && i-- > 0;)
        if (!strcmp(o->expandable_segments_reserve_by_class.at[i].name, name))
            return o->expandable_segments_reserve_by_class.at[i].reserve;
    return o->expandable_segments_reserve;
}

static uint64_t reserved_bytes(const c10_allocator *a, uint32_t stream)
{
    const uint64_t total = a->device.total, most = total + total / 8;
    const c10_reserve r = reserve_for(a, stream);
    if (!(r.amount > 0)) return most;
    const double bytes = r.amount * (double)(r.gibibytes ? MR_GIB : total);
    return bytes < (double)most ? (uint64_t)bytes : most;
}

/* A new segment, which is one hole; MR_NONE when not even that has room. */
static uint32_t reserve(c10_allocator *a, uint32_t set, uint64_t least)
{
    const c10_set *s = &a->sets.at[set];
    const uint64_t page = s->large ? a->options.large_segment_size : C10_SMALL_SEGMENT;
    const uint64_t size = (reserved_bytes(a, s->stream) + page - 1) / page * page;
    if (size < least) return MR_NONE;
    if (page % PAGE_GRANULE) {
        c10_break(a, "CUDA driver error: invalid argument",
                  "large_segment_size_mb is odd, and pages are multiples of 2 MiB");
        return MR_NONE;
    }
    const uint64_t base = a->device.reserve(a->device.self, size, page, s->stream);
    if (!base) return MR_NONE;
    MR_PUSH(a->ctx, &a->expandables, (c10_expandable){base, size, page});
    uint32_t hole = c10_block_new(a, set, base, size);
    a->blocks[hole].expandable = a->expandables.n - 1;
    a->blocks[hole].order = ++a->order;
    c10_block_settle(a, &hole, C10_BLOCK_HOLE);
    return hole;
}

mr_status c10_set_reserve_class(c10_allocator *a, uint32_t stream, const char *name)
{
    if (!a->quirks.reserves_by_class)
        return mr_fail(a->ctx, MR_EUNSUPPORTED,
                       "this version has no reserve classes; a newer release does");
    while (a->classes.n <= stream) MR_PUSH(a->ctx, &a->classes, NULL);
    a->classes.at[stream] = mr_strdup(a->ctx, name);
    return MR_OK;
}

/* Whether free blocks and holes from `b` on add up to `size`. */
static bool has_room(const c10_allocator *a, uint32_t b, uint64_t size)
{
    uint64_t room = 0;
    for (; room < size && b != MR_NONE && idle(a, b); b = a->blocks[b].next)
        room += a->blocks[b].size;
    return room >= size;
}

/* The lowest place with enough room; the first block of it. */
static uint32_t lowest_room(c10_allocator *a, uint32_t set, uint64_t size)
{
    const c10_tree *holes = &a->sets.at[set].holes;
    c10_key at = {0, 0, 0};
    for (uint32_t b; (b = c10_tree_at_least(a, holes, at)) != MR_NONE;) {
        at.address = a->blocks[b].address + 1;
        const uint32_t prev = a->blocks[b].prev;
        if (prev != MR_NONE && idle(a, prev)) b = prev;
        if (has_room(a, b, size)) return b;
    }
    return reserve(a, set, size);
}

/* Maps pages from the start of a hole on, `size` bytes or a little more.  Returns the free
 * block they became part of, MR_NONE when the device is full. */
static uint32_t map(c10_allocator *a, uint32_t hole, uint64_t size)
{
    const c10_block old = a->blocks[hole];
    c10_set *set = &a->sets.at[old.set];
    const uint64_t page = a->expandables.at[old.expandable].page;
    const uint64_t bytes = (size + page - 1) / page * page;
    if (!a->device.map(a->device.self, old.address, bytes, page)) return MR_NONE;
    uint32_t b = hole;
    if (bytes < old.size) {
        b = c10_block_piece(a, hole, old.address, bytes);
        a->blocks[b].requested = old.requested;
        c10_block_link(a, b, old.prev, hole);
        c10_block_resize(a, hole, C10_BLOCK_HOLE, old.size - bytes, old.address + bytes);
        a->blocks[hole].requested = 0;
    } else {
        c10_tree_remove(a, &set->holes, c10_key_of_hole(a, b));
    }
    c10_block_settle(a, &b, C10_BLOCK_FREE);
    a->total += bytes;
    a->num_device_alloc++;
    c10_raise(&a->reserved_bytes, set->large, bytes);
    c10_log(a, C10_SEGMENT_MAP, old.address, bytes, set->stream);
    return b;
}

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

uint32_t c10_expand(c10_allocator *a, uint32_t set, uint64_t size)
{
    uint32_t b = lowest_room(a, set, size);
    if (b == MR_NONE) return MR_NONE;
    if (a->blocks[b].state == C10_BLOCK_HOLE) b = map(a, b, least(a->blocks[b].size, size));
    while (b != MR_NONE && a->blocks[b].size < size) {
        const uint32_t hole = a->blocks[b].next;
        b = map(a, hole, least(size - a->blocks[b].size, a->blocks[hole].size));
    }
    return b;
}

/* A part of a block that keeps its memory while the middle is unmapped. */
static void keep_free(c10_allocator *a, uint32_t b, uint64_t address, uint64_t size,
                      bool before)
{
    uint32_t part = c10_block_piece(a, b, address, size);
    if (before) c10_block_link(a, part, a->blocks[b].prev, b);
    else c10_block_link(a, part, b, a->blocks[b].next);
    c10_block_settle(a, &part, C10_BLOCK_FREE);
}

/* Gives the addresses back when nothing is mapped in them any more. */
static void unreserve(c10_allocator *a, uint32_t hole)
{
    const c10_expandable segment = a->expandables.at[a->blocks[hole].expandable];
    if (c10_block_split(&a->blocks[hole])) return;
    c10_tree *holes = &a->sets.at[a->blocks[hole].set].holes;
    c10_tree_remove(a, holes, c10_key_of_hole(a, hole));
    c10_block_drop(a, hole);
    a->device.unreserve(a->device.self, segment.base, segment.size);
}

/* Unmaps the pages that lie completely inside a free block. */
void c10_unmap(c10_allocator *a, uint32_t b)
{
    const c10_block block = a->blocks[b];
    const c10_expandable segment = a->expandables.at[block.expandable];
    const uint64_t start = block.address - segment.base, end = start + block.size;
    const uint64_t from = (start + segment.page - 1) / segment.page * segment.page;
    const uint64_t to = end / segment.page * segment.page;
    if (from >= to) return;
    c10_set *set = &a->sets.at[block.set];
    c10_bins_remove(a, &set->free, b);
    a->blocks[b].state = C10_BLOCK_LIVE; /* until it is a hole: nobody may join it */
    a->blocks[b].address = segment.base + from;
    a->blocks[b].size = to - from;
    if (start < from) keep_free(a, b, block.address, from - start, true);
    if (to < end) keep_free(a, b, segment.base + to, end - to, false);
    c10_block_settle(a, &b, C10_BLOCK_HOLE);
    a->device.synchronize(a->device.self, set->stream, UINT64_MAX);
    a->device.unmap(a->device.self, segment.base + from, to - from, segment.page);
    a->total -= to - from;
    a->num_device_free++;
    a->pools.at[set->pool].device_allocs--;
    c10_lower(&a->reserved_bytes, set->large, to - from);
    c10_log(a, C10_SEGMENT_UNMAP, segment.base + from, to - from, set->stream);
    unreserve(a, b);
}
