/* start -- the state before the first event, from the final one backwards.
 *
 * Segments are undone event by event.  Blocks need no walk: one that lived before is freed
 * without having been allocated, or is still there at the end without any event.  What lies
 * between live blocks is free.  How far such a block reaches is known but for one case: in a
 * large segment a block may own a tail of up to a mebibyte that was not worth splitting off.
 *
 *     | block, rounded | tail? | free ........ | next block
 *                      ^ end   ^ the first use of the gap, while the block lives, begins here
 */
#include "rebuild.h"

#include <inttypes.h>
#include <stdlib.h>

#define TAIL_MAX MR_MIB /* more than this is split off */

/* ---- segments -------------------------------------------------------------------------- */

static mr_status undo_alloc(mr_device_events *device, mr_act *a, const mr_raw_event *e,
                            uint64_t address)
{
    mr_stretches *held = &device->held;
    const uint32_t i = mr_stretches_find(held, address);
    const mr_stretch *range = i == MR_NONE ? NULL : mr_stretches_at(held, i);
    if (!range || range->address != address || range->bytes != e->size || range->expandable)
        return mr_device_fail(device, a->event,
                              "a segment of %" PRIu64 " bytes is taken at 0x%" PRIx64
                              ", but what follows shows no such segment there",
                              e->size, address);
    a->final = range->segment;
    mr_stretches_remove(device->raw->ctx, held, i);
    return MR_OK;
}

/* The segment at the end whose memory lies directly beside; one address range belongs to one
 * stream and pool. */
static uint32_t final_beside(const mr_device_events *device, const mr_raw_event *e,
                             uint64_t address)
{
    const uint64_t sides[] = {address - 1, address + e->size};
    for (size_t i = 0; i < MR_COUNT(sides); i++) {
        const uint32_t r = mr_stretches_find(&device->held, sides[i]);
        const mr_stretch *range = r == MR_NONE ? NULL : mr_stretches_at(&device->held, r);
        if (!range || !range->expandable || range->segment == MR_NONE) continue;
        if (device->finals.at[range->segment].raw->stream == e->stream) return range->segment;
    }
    return MR_NONE;
}

static mr_status undo_act(mr_device_events *device, mr_act *a)
{
    mr_stretches *held = &device->held;
    const mr_raw_event *e = &device->at[a->event];
    if (e->action == MR_RAW_oom) return MR_OK;
    const uint64_t address = device->raw->addresses.all.at[e->slot];
    if (!e->size || address > UINT64_MAX - e->size)
        return mr_device_fail(device, a->event,
                              "%s of %" PRIu64 " bytes at 0x%" PRIx64
                              ", expected a range of addresses",
                              mr_raw_word(e->action), e->size, address);
    if (e->action == MR_RAW_segment_alloc) return undo_alloc(device, a, e, address);
    if (e->action == MR_RAW_segment_map) {
        if (mr_stretches_cut(device->raw->ctx, held, address, e->size, &a->final)) return MR_OK;
        return mr_device_fail(device, a->event,
                              "%" PRIu64 " bytes are mapped at 0x%" PRIx64
                              ", but what follows shows them not mapped",
                              e->size, address);
    }
    const bool expandable = e->action == MR_RAW_segment_unmap;
    const uint32_t final = expandable ? final_beside(device, e, address) : MR_NONE;
    const mr_stretch range = {address, e->size, final, a->event, expandable};
    if (mr_stretches_add(device->raw->ctx, held, range)) return MR_OK;
    return mr_device_fail(device, a->event,
                          "%s of %" PRIu64 " bytes at 0x%" PRIx64 ", but what"
                          " follows shows them still held",
                          mr_raw_word(e->action), e->size, address);
}

static mr_status faulty(mr_device_events *device, uint32_t event)
{
    const mr_raw_fault fault = mr_raw_event_fault(&device->at[event]);
    const char *what = mr_printf(device->raw->ctx, "event %" PRIu32 " of device %" PRIu32,
                                 event, device->number);
    return mr_raw_fault_fail(device->raw, &fault, what);
}

static mr_status collect_acts(mr_device_events *device)
{
    for (uint32_t i = 0; i < device->n; i++) {
        const uint32_t action = device->at[i].action;
        if (action == MR_RAW_all) return faulty(device, i);
        if ((action >= MR_RAW_segment_alloc && action <= MR_RAW_segment_unmap)
            || action == MR_RAW_oom)
            MR_PUSH(device->raw->ctx, &device->acts, (mr_act){i, MR_NONE, false});
    }
    return MR_OK;
}

/* ---- who lived before ------------------------------------------------------------------ */

/* What the events say of each slot. */
typedef struct slot_story {
    uint32_t first_alloc; /* event, when the first event is an alloc; else MR_NONE */
    uint32_t before;      /* index into device->before, plus 1; 0 none */
    bool seen;
} slot_story;

static void note_before(mr_device_events *device, slot_story *story, const mr_raw_event *e)
{
    const mr_before_block block = {
        .address = device->raw->addresses.all.at[e->slot],
        .requested = e->size,
        .slot = e->slot,
        .storage = MR_NONE,
        .final = MR_NONE,
        .done = MR_NONE,
        .pending = e->action == MR_RAW_free_completed,
    };
    MR_PUSH(device->raw->ctx, &device->before, block);
    story->before = device->before.n;
}

static slot_story *tell_stories(mr_device_events *device)
{
    const uint32_t n = device->raw->addresses.all.n;
    slot_story *stories = MR_NEW_N(device->raw->ctx, slot_story, n);
    for (uint32_t i = 0; i < device->n; i++) {
        const mr_raw_event *e = &device->at[i];
        if (e->action > MR_RAW_free_completed) continue;
        slot_story *story = &stories[e->slot];
        if (!story->seen) {
            story->seen = true;
            story->first_alloc = e->action == MR_RAW_alloc ? i : MR_NONE;
            if (e->action != MR_RAW_alloc) note_before(device, story, e);
        }
        if (e->action != MR_RAW_free_completed || !story->before) continue;
        mr_before_block *block = &device->before.at[story->before - 1];
        if (block->done == MR_NONE) block->done = i;
    }
    return stories;
}

/* Blocks that are there at the end and in no event. */
static void add_silent(mr_device_events *device, slot_story *stories)
{
    for (uint32_t b = 0; b < device->blocks.n; b++) {
        const mr_final_block *final = &device->blocks.at[b];
        if (final->slot == MR_NONE || stories[final->slot].seen) continue;
        const mr_before_block block = {
            .address = final->address,
            .bytes = final->bytes,
            .requested = final->requested,
            .slot = final->slot,
            .storage = MR_NONE,
            .final = b,
            .done = MR_NONE,
            .pending = final->pending,
        };
        MR_PUSH(device->raw->ctx, &device->before, block);
    }
}

static int by_address(const void *left, const void *right)
{
    const mr_before_block *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* ---- how far blocks reach -------------------------------------------------------------- */

typedef struct gap {
    uint64_t begin, end;
    uint64_t use;   /* address of the first use */
    uint32_t used;  /* event of it, MR_NONE for never */
    uint32_t block; /* of device->before, whose tail it may hold */
} gap;

typedef MR_VEC(gap) gaps;

static void narrow(mr_device_events *device, const slot_story *stories, gaps *open)
{
    const mr_raw_snapshot *raw = device->raw;
    for (uint32_t s = 0; s < raw->addresses.all.n && open->n; s++) {
        if (!stories[s].seen || stories[s].first_alloc == MR_NONE) continue;
        const uint64_t address = raw->addresses.all.at[s];
        uint32_t low = 0, high = open->n;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (open->at[middle].end <= address) low = middle + 1;
            else high = middle;
        }
        if (low == open->n || open->at[low].begin > address) continue;
        gap *g = &open->at[low];
        if (stories[s].first_alloc >= g->used) continue;
        g->used = stories[s].first_alloc;
        g->use = address;
    }
    for (uint32_t i = 0; i < open->n; i++) {
        const gap *g = &open->at[i];
        mr_before_block *block = &device->before.at[g->block];
        if (g->used < block->done && g->use - g->begin <= TAIL_MAX)
            block->bytes += g->use - g->begin;
    }
}

/* The block lies in `range` and the next one, or the end of the range, begins at `next`. */
static mr_status size_block(mr_device_events *device, uint32_t b, const mr_stretch *range,
                            uint64_t next, gaps *open)
{
    mr_before_block *block = &device->before.at[b];
    const uint64_t room = next - block->address;
    if (block->final == MR_NONE)
        block->bytes = mr_rounded_request(device->options, block->requested);
    if (block->bytes > room || !block->requested)
        return mr_device_fail(device, MR_NONE,
                              "a block at 0x%" PRIx64 " that is freed with %" PRIu64
                              " bytes has room for %" PRIu64
                              " before the next one or the end of"
                              " its segment",
                              block->address, block->requested, room);
    const bool large = range->bytes > MR_SMALL_SEGMENT;
    if (block->final != MR_NONE || range->expandable || !large) return MR_OK;
    const uint64_t rest = room - block->bytes;
    const bool whole = range->bytes >= device->options->max_split;
    if (rest <= TAIL_MAX || whole) block->bytes = room;
    else {
        const gap g = {block->address + block->bytes, next, 0, MR_NONE, b};
        MR_PUSH(device->raw->ctx, open, g);
    }
    return MR_OK;
}

static mr_status size_blocks(mr_device_events *device, const slot_story *stories)
{
    gaps open = {0};
    uint32_t b = 0;
    for (uint32_t r = 0; r < device->now.order.n; r++) {
        const mr_stretch *range = mr_stretches_at(&device->now, r);
        const uint64_t end = range->address + range->bytes;
        if (b < device->before.n && device->before.at[b].address < range->address) break;
        for (; b < device->before.n && device->before.at[b].address < end; b++) {
            uint64_t next = end;
            if (b + 1 < device->before.n && device->before.at[b + 1].address < end)
                next = device->before.at[b + 1].address;
            MR_TRY(size_block(device, b, range, next, &open));
        }
    }
    if (b < device->before.n)
        return mr_device_fail(device, MR_NONE,
                              "a block at 0x%" PRIx64 " was in use before the first"
                              " event, but lies in no segment of that time",
                              device->before.at[b].address);
    narrow(device, stories, &open);
    return MR_OK;
}

mr_status mr_rebuild_start(mr_device_events *device)
{
    MR_TRY(collect_acts(device));
    for (uint32_t a = device->acts.n; a-- > 0;) MR_TRY(undo_act(device, &device->acts.at[a]));
    MR_TRY(mr_hold_segments(device));
    slot_story *stories = tell_stories(device);
    add_silent(device, stories);
    if (device->before.n)
        qsort(device->before.at, device->before.n, sizeof *device->before.at, by_address);
    return size_blocks(device, stories);
}
