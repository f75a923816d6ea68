/* ends -- pieces of memory before the first event, from what was rebuilt, and after the last.
 */
#include "walk.h"

#include <inttypes.h>

static void add_piece(mr_walk *w, mr_pieces *pieces, uint32_t segment, uint64_t from,
                      uint64_t to, uint32_t storage, bool pending)
{
    const mr_piece piece = {segment, storage, from, to - from, pending};
    if (to > from) MR_PUSH(w->ctx, pieces, piece);
}

static void add_before(mr_walk *w, mr_device_events *device, mr_before_block *block)
{
    const uint32_t s = mr_stretches_find(&device->now, block->address);
    const uint32_t segment = mr_stretches_at(&device->now, s)->segment;
    const mr_final_block *final =
        block->final == MR_NONE ? NULL : &device->blocks.at[block->final];
    const mr_segment *in = &device->history.segments.at[segment];
    const mr_storage storage = {
        .bytes = block->requested,
        .stream = in->stream,
        .pool = in->pool,
        .stack = final ? final->stack : MR_NONE,
        .device = (uint16_t)device->number,
        .before = true,
        .deferred = block->pending,
    };
    block->storage = w->trace->storages.n;
    MR_PUSH(w->ctx, &w->trace->storages, storage);
    device->segment[block->slot] = segment;
    device->storage[block->slot] = block->storage | (block->pending ? MR_LEAVING : 0);
}

/* Pieces that tile what is held. A block whose free was requested before the first event is a
 * pending piece: of its end only the completion is an event, and it may not even complete. */
void mr_begin_device(mr_walk *w, mr_device_events *device)
{
    const uint32_t slots = w->raw->addresses.all.n;
    device->storage = MR_NEW_N(w->ctx, uint32_t, slots);
    device->segment = MR_NEW_N(w->ctx, uint32_t, slots);
    for (uint32_t s = 0; s < slots; s++) device->storage[s] = device->segment[s] = MR_NONE;
    uint32_t b = 0;
    for (uint32_t s = 0; s < device->now.order.n; s++) {
        const mr_stretch *held = mr_stretches_at(&device->now, s);
        const uint64_t end = held->address + held->bytes;
        uint64_t at = held->address;
        for (; b < device->before.n && device->before.at[b].address < end; b++) {
            mr_before_block *block = &device->before.at[b];
            add_before(w, device, block);
            add_piece(w, &device->history.start, held->segment, at, block->address, MR_NONE,
                      false);
            at = block->address + block->bytes;
            add_piece(w, &device->history.start, held->segment, block->address, at,
                      block->storage, block->pending);
        }
        add_piece(w, &device->history.start, held->segment, at, end, MR_NONE, false);
    }
}

static mr_status end_block(mr_walk *w, mr_device_events *device, const mr_final_block *b,
                           uint32_t segment)
{
    uint32_t id = MR_NONE;
    if (b->slot != MR_NONE) {
        id = device->storage[b->slot];
        const bool leaving = id != MR_NONE && id & MR_LEAVING;
        if (id == MR_NONE || leaving != b->pending)
            return mr_device_fail(device, MR_NONE,
                                  "the block at 0x%" PRIx64 " is %s at the end, but"
                                  " the events leave it %s",
                                  b->address, b->pending ? "being freed" : "in use",
                                  id == MR_NONE ? "free"
                                  : leaving     ? "being freed"
                                                : "in use");
        id &= ~MR_LEAVING;
        device->live++;
        w->trace->storages.at[id].after = !leaving;
    }
    add_piece(w, &device->history.end, segment, b->address, b->address + b->bytes, id,
              b->pending);
    return MR_OK;
}

/* Where an address range begins is known by now. */
static void make_offsets(mr_device_events *device)
{
    mr_history *h = &device->history;
    const mr_segment *segments = h->segments.at;
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        mr_cmd *cmd = &h->cmds.at[i];
        if (cmd->block.segment == MR_NONE) continue;
        if (cmd->kind == MR_RESERVE || cmd->kind == MR_RELEASE) cmd->block.offset = 0;
        else cmd->block.offset -= segments[cmd->block.segment].address;
    }
    for (uint32_t i = 0; i < h->start.n; i++)
        h->start.at[i].offset -= segments[h->start.at[i].segment].address;
    for (uint32_t i = 0; i < h->end.n; i++)
        h->end.at[i].offset -= segments[h->end.at[i].segment].address;
}

mr_status mr_end_device(mr_walk *w, mr_device_events *device)
{
    uint64_t left = 0;
    for (uint32_t f = 0; f < device->finals.n; f++) {
        const mr_final_segment *final = &device->finals.at[f];
        const uint32_t s = mr_stretches_find(&device->now, final->raw->address);
        if (s == MR_NONE)
            return mr_device_fail(device, MR_NONE,
                                  "the segment at 0x%" PRIx64 " is there at the end,"
                                  " but the events do not leave it",
                                  final->raw->address);
        for (uint32_t b = final->first; b < final->first + final->n; b++)
            MR_TRY(end_block(w, device, &device->blocks.at[b],
                             mr_stretches_at(&device->now, s)->segment));
    }
    for (uint32_t s = 0; s < w->raw->addresses.all.n; s++)
        left += device->storage[s] != MR_NONE;
    if (left != device->live)
        return mr_device_fail(device, MR_NONE,
                              "the events leave %" PRIu64 " blocks in use, but the"
                              " segments at the end show %" PRIu64,
                              left, device->live);
    make_offsets(device);
    return MR_OK;
}
