/* c10_adopt -- starting in the middle of a run, from segments that are there already. */
#include "c10_internal.h"

#include <inttypes.h>
#include <stdlib.h>

static mr_status refuse(c10_allocator *a, const c10_segment *s, uint64_t address,
                        const char *what)
{
    return mr_fail(a->ctx, MR_EINPUT, "segment 0x%" PRIx64 ", at 0x%" PRIx64 ": %s", s->address,
                   address, what);
}

/* ---- what could have come about --------------------------------------------------------- */

static mr_status check_pieces(c10_allocator *a, const c10_segment *s)
{
    uint64_t end = s->address;
    for (uint32_t i = 0; i < s->pieces.n; i++) {
        const c10_piece *p = &s->pieces.at[i];
        if (p->address != end) return refuse(a, s, end, "the blocks leave a gap or overlap");
        if (!p->size || (p->size % C10_MIN_BLOCK && a->quirks.one_division_rounds))
            return refuse(a, s, end, "a block's size is no multiple of 512");
        if (p->state != C10_INACTIVE && p->requested > p->size)
            return refuse(a, s, end, "a block is smaller than what was requested");
        if (i && p->state == C10_INACTIVE && p[-1].state == C10_INACTIVE)
            return refuse(a, s, end,
                          "two free blocks beside each other, which would have merged");
        if (p->size > s->address + s->total - end)
            return refuse(a, s, end, "a block reaches past the end of its segment");
        end += p->size;
    }
    if (end - s->address != s->total || !s->total)
        return refuse(a, s, end, "the blocks do not fill the segment");
    return MR_OK;
}

static uint64_t page_of(const c10_allocator *a, const c10_segment *s)
{
    if (s->page) return s->page;
    return s->large ? a->options.large_segment_size : C10_SMALL_SEGMENT;
}

static mr_status check_reserved(c10_allocator *a, const c10_segment *s)
{
    const uint64_t page = page_of(a, s), start = s->address - s->reserved_at;
    if (s->address < s->reserved_at || s->reserved < start || s->reserved - start < s->total)
        return refuse(a, s, s->reserved_at, "the reservation does not cover what is mapped");
    if (start % page || s->total % page || s->reserved % page)
        return refuse(a, s, s->reserved_at, "mapped or reserved are not whole pages");
    return MR_OK;
}

static bool same_reservation(const c10_segment *one, const c10_segment *other)
{
    return one->expandable && other->expandable && one->reserved_at == other->reserved_at
           && one->reserved == other->reserved && one->page == other->page
           && one->stream == other->stream && one->large == other->large
           && one->pool == other->pool;
}

static mr_status check_apart(c10_allocator *a, const c10_segment *before, const c10_segment *s)
{
    const uint64_t start = s->expandable ? s->reserved_at : s->address;
    uint64_t end = before->address + before->total;
    if (!same_reservation(before, s)) {
        if (before->expandable) end = before->reserved_at + before->reserved;
        return start >= end ? MR_OK : refuse(a, s, start, "it overlaps the segment before");
    }
    if (s->address > end) return MR_OK;
    return refuse(a, s, s->address, "it does not lie apart from what is mapped before it");
}

static mr_status check(c10_allocator *a, const c10_segments *segments)
{
    if (a->blocks_n)
        return mr_fail(a->ctx, MR_EINPUT,
                       "segments are taken over before the first request only");
    for (uint32_t i = 0; i < segments->n; i++) {
        const c10_segment *s = &segments->at[i];
        if (s->stream >= C10_STREAMS_MAX) return refuse(a, s, s->address, "no such stream");
        if (s->total >= C10_BLOCK_LIMIT) return refuse(a, s, s->address, "it is too large");
        if (s->address + s->total < s->address || s->reserved_at + s->reserved < s->reserved_at)
            return refuse(a, s, s->address, "it ends past all addresses");
        MR_TRY(check_pieces(a, s));
        if (s->expandable) MR_TRY(check_reserved(a, s));
        if (i) MR_TRY(check_apart(a, &segments->at[i - 1], s));
    }
    return MR_OK;
}

/* ---- taking over ------------------------------------------------------------------------ */

static void count(c10_allocator *a, const c10_segment *s, const c10_piece *p)
{
    const bool large = s->large;
    if (p->state == C10_INACTIVE) {
        if (s->expandable || s->pieces.n == 1) return;
        c10_raise(&a->inactive_split, large, 1);
        c10_raise(&a->inactive_split_bytes, large, p->size);
        return;
    }
    c10_raise(&a->active, large, 1);
    c10_raise(&a->active_bytes, large, p->size);
    c10_raise(&a->requested_bytes, large, p->requested);
    if (p->state != C10_ALLOCATED) return;
    c10_raise(&a->allocation, large, 1);
    c10_raise(&a->allocated_bytes, large, p->size);
    if (p->size >= a->options.max_split_size) c10_raise(&a->oversize_allocations, 0, 1);
}

/* Makes a block of every piece and chains it behind `prev`; returns the last. */
static uint32_t take_pieces(c10_allocator *a, c10_segment *s, uint32_t set, uint32_t expandable,
                            uint32_t prev)
{
    for (uint32_t i = 0; i < s->pieces.n; i++) {
        c10_piece *p = &s->pieces.at[i];
        const uint32_t b = p->block = c10_block_new(a, set, p->address, p->size);
        c10_block *block = &a->blocks[b];
        block->requested = p->requested;
        block->expandable = expandable;
        block->order = s->order;
        block->state = p->state == C10_INACTIVE    ? C10_BLOCK_FREE
                       : p->state == C10_ALLOCATED ? C10_BLOCK_LIVE
                                                   : C10_BLOCK_PENDING;
        c10_block_link(a, b, prev, MR_NONE);
        if (p->state == C10_INACTIVE) c10_bins_insert(a, &a->sets.at[set].free, b);
        if (p->state == C10_PENDING_FREE) c10_event_append(a, p->waits_for, b);
        count(a, s, p);
        prev = b;
    }
    return prev;
}

/* A hole of a reservation, chained behind `prev`. */
static uint32_t leave_hole(c10_allocator *a, const c10_segment *s, uint32_t set, uint64_t from,
                           uint64_t to, uint32_t prev)
{
    if (from == to) return prev;
    const uint32_t hole = c10_block_new(a, set, from, to - from);
    a->blocks[hole].expandable = a->expandables.n - 1;
    a->blocks[hole].order = s->order;
    a->blocks[hole].state = C10_BLOCK_HOLE;
    c10_block_link(a, hole, prev, MR_NONE);
    c10_tree_insert(a, &a->sets.at[set].holes, c10_key_of_hole(a, hole));
    return hole;
}

/* All mapped stretches of one reservation, ascending. */
static void take_reservation(c10_allocator *a, c10_segment *s, uint32_t n, uint32_t set)
{
    uint64_t at = s->reserved_at;
    uint32_t last = MR_NONE;
    MR_PUSH(a->ctx, &a->expandables,
            (c10_expandable){s->reserved_at, s->reserved, page_of(a, s)});
    for (uint32_t i = 0; i < n; i++) {
        last = leave_hole(a, s, set, at, s[i].address, last);
        last = take_pieces(a, &s[i], set, a->expandables.n - 1, last);
        at = s[i].address + s[i].total;
    }
    leave_hole(a, s, set, at, s->reserved_at + s->reserved, last);
}

static uint32_t pool_of(c10_allocator *a, uint64_t id)
{
    if (!id) return 0;
    for (uint32_t i = 1; i < a->pools.n; i++)
        if (a->pools.at[i].id == id) return i;
    return c10_pool_hold(a, id);
}

/* Takes over the segment at the head of `s`, or the stretches of its reservation; how many. */
static uint32_t take(c10_allocator *a, c10_segment *s, uint32_t n)
{
    const uint32_t pool = pool_of(a, s->pool), set = c10_set_of(a, pool, s->large, s->stream);
    uint32_t taken = 1;
    if (s->expandable) {
        while (taken < n && same_reservation(s, s + taken)) taken++;
        take_reservation(a, s, taken, set);
    } else {
        take_pieces(a, s, set, MR_NONE, MR_NONE);
        c10_raise(&a->segment, s->large, 1);
        if (s->total >= a->options.max_split_size) c10_raise(&a->oversize_segments, 0, 1);
    }
    for (uint32_t i = 0; i < taken; i++) {
        a->total += s[i].total;
        a->pools.at[pool].device_allocs++;
        c10_raise(&a->reserved_bytes, s->large, s[i].total);
        if (s[i].order > a->order) a->order = s[i].order;
    }
    return taken;
}

mr_status c10_adopt(c10_allocator *a, c10_segments *segments)
{
    if (segments->n) qsort(segments->at, segments->n, sizeof *segments->at, c10_by_address);
    MR_TRY(check(a, segments));
    for (uint32_t i = 0; i < segments->n;) i += take(a, &segments->at[i], segments->n - i);
    c10_reset_peaks(a);
    c10_reset_accumulated(a);
    return MR_OK;
}
