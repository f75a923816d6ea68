/* reserve -- segments, walking forward.
 *
 * A cudaMalloc is a segment.  Of expandable memory only mapping and unmapping is recorded, so
 * the address ranges are concluded: the allocator has one for each stream, pool and size class;
 * it is there from the first mapping on and given back when the last page is unmapped.  Until
 * all is done the commands hold addresses in place of offsets, because where a range begins is
 * known only when the lowest page of it was seen.
 */
#include "rebuild.h"

#include <inttypes.h>

#define INVENTED_MAX 16 /* pools; more are no program's, but a mutilated file's */
#define LOOK_AHEAD 64 /* events between a mapping and the request it was made for */

static uint32_t class_index(mr_device_events *device, uint32_t stream, uint32_t pool,
                            bool large)
{
    const uint64_t key = (uint64_t)stream << 32 | (uint64_t)pool << 1 | large;
    const uint32_t c = mr_numbers_index(device->raw->ctx, &device->class_keys, key);
    const mr_address_class none = {
        .segment = MR_NONE, .stream = stream, .pool = pool, .large = large};
    if (c == device->classes.n) MR_PUSH(device->raw->ctx, &device->classes, none);
    return c;
}

static uint32_t add_segment(mr_device_events *device, mr_segment segment, uint32_t class)
{
    MR_PUSH(device->raw->ctx, &device->history.segments, segment);
    MR_PUSH(device->raw->ctx, &device->class_of, class);
    return device->history.segments.n - 1;
}

static uint32_t add_malloc(mr_device_events *device, uint64_t address, uint64_t bytes,
                           uint32_t stream, uint32_t final)
{
    const mr_raw_segment *s = final == MR_NONE ? NULL : device->finals.at[final].raw;
    const mr_segment segment = {
        .address = address,
        .bytes = bytes,
        .stream = device->stream_index[s ? s->stream : stream],
        .pool = s ? s->pool : 0,
        .large = s ? s->large : bytes > MR_SMALL_SEGMENT,
    };
    return add_segment(device, segment, MR_NONE);
}

/* The range of the class; *fresh when it had none. */
static uint32_t class_segment(mr_device_events *device, uint32_t c, uint64_t address,
                              bool *fresh)
{
    mr_address_class *class = &device->classes.at[c];
    *fresh = class->segment == MR_NONE;
    if (*fresh) {
        const mr_segment segment = {
            .address = address,
            .stream = device->stream_index[class->stream],
            .pool = class->pool,
            .page = class->large ? device->options->large_segment : MR_SMALL_SEGMENT,
            .large = class->large,
            .expandable = true,
        };
        class->segment = add_segment(device, segment, c);
    }
    mr_segment *segment = &device->history.segments.at[class->segment];
    if (address < segment->address) segment->address = address;
    return class->segment;
}

/* ---- whose memory is it? --------------------------------------------------------------- */

/* The class of what is mapped directly before or behind, on the same stream. */
static uint32_t beside(const mr_device_events *device, uint64_t address, uint64_t bytes,
                       uint32_t stream)
{
    const uint64_t sides[] = {address - 1, address + bytes};
    for (int i = 0; i < 2; i++) {
        const uint32_t r = mr_stretches_find(&device->now, sides[i]);
        if (r == MR_NONE || !mr_stretches_at(&device->now, r)->expandable) continue;
        const uint32_t c = device->class_of.at[mr_stretches_at(&device->now, r)->segment];
        if (device->classes.at[c].stream == stream) return c;
    }
    return MR_NONE;
}

/* Small or large, by the request that follows; without one by the size of pages. */
static bool looks_large(const mr_device_events *device, uint32_t event)
{
    for (uint32_t i = event + 1; i < device->n && i - event < LOOK_AHEAD; i++) {
        const mr_raw_event *e = &device->at[i];
        if (e->action == MR_RAW_alloc || e->action == MR_RAW_oom) return e->size > MR_SMALL_MAX;
        if (e->action == MR_RAW_free_requested || e->action == MR_RAW_snapshot) break;
    }
    return device->at[event].size % device->options->large_segment == 0;
}

/* Would the class have memory on both sides of another one's, were this its own?  An address
 * range holds memory of one class only. */
static bool encloses(const mr_device_events *device, uint32_t c, uint64_t address)
{
    const mr_address_class *class = &device->classes.at[c];
    if (class->segment == MR_NONE) return false;
    const uint64_t other = device->history.segments.at[class->segment].address;
    const uint64_t from = other < address ? other : address;
    const uint64_t to = other < address ? address : other;
    for (uint32_t r = 0; r < device->now.order.n; r++) {
        const mr_stretch *held = mr_stretches_at(&device->now, r);
        if (!held->expandable || device->class_of.at[held->segment] == c) continue;
        if (held->address > from && held->address < to) return true;
    }
    return false;
}

/* A private pool that is gone at the end: its id is ours. */
static void invent_pool(mr_device_events *device)
{
    mr_raw_snapshot *raw = device->raw;
    uint64_t id = 1;
    for (uint32_t i = 0; i < raw->pools.all.n; i++)
        if (raw->pools.all.at[i] >= id) id = raw->pools.all.at[i] + 1;
    mr_numbers_index(raw->ctx, &raw->pools, id);
    MR_PUSH(raw->ctx, &raw->trace->pools, id);
    MR_PUSH(raw->ctx, &raw->trace->notes,
            mr_printf(raw->ctx,
                      "device %" PRIu32 " had memory in a private pool, here %" PRIu64
                      ", that is gone at the end; what it held is concluded from addresses",
                      device->number, id));
}

/* Of memory that is not there at the end: the default pool's, unless addresses forbid it. */
static uint32_t class_of_gone(mr_device_events *device, uint64_t address, uint32_t stream,
                              bool large)
{
    const uint32_t first = device->pools_at_end;
    uint32_t c = class_index(device, stream, 0, large);
    for (uint32_t p = first; p < first + INVENTED_MAX && encloses(device, c, address); p++) {
        if (p == device->raw->pools.all.n) invent_pool(device);
        c = class_index(device, stream, p, large);
    }
    return c;
}

static uint32_t which_class(mr_device_events *device, uint64_t address, uint64_t bytes,
                            uint32_t final, uint32_t event)
{
    if (final != MR_NONE) {
        const mr_raw_segment *s = device->finals.at[final].raw;
        return class_index(device, s->stream, s->pool, s->large);
    }
    const mr_raw_event *e = &device->at[event];
    const uint32_t c = beside(device, address, bytes, e->stream);
    if (c != MR_NONE) return c;
    const bool large = e->action == MR_RAW_segment_map
                           ? looks_large(device, event)
                           : bytes % device->options->large_segment == 0;
    return class_of_gone(device, address, e->stream, large);
}

/* ---- start ----------------------------------------------------------------------------- */

static mr_status hold(mr_device_events *device, const mr_stretch *range)
{
    mr_stretch held = *range;
    if (range->expandable) {
        bool fresh;
        const uint32_t c =
            which_class(device, range->address, range->bytes, range->segment, range->event);
        device->classes.at[c].mapped += range->bytes;
        held.segment = class_segment(device, c, range->address, &fresh);
    } else {
        const uint32_t stream = range->event == MR_NONE ? 0 : device->at[range->event].stream;
        held.segment = add_malloc(device, range->address, range->bytes, stream, range->segment);
    }
    mr_stretches_join(device->raw->ctx, &device->now, held);
    return MR_OK;
}

mr_status mr_hold_segments(mr_device_events *device)
{
    device->pools_at_end = device->raw->pools.all.n;
    /* Those known from the end first: what was unmapped later is judged by its neighbours. */
    for (int known = 1; known >= 0; known--)
        for (uint32_t r = 0; r < device->held.order.n; r++)
            if ((mr_stretches_at(&device->held, r)->segment != MR_NONE) == known)
                MR_TRY(hold(device, mr_stretches_at(&device->held, r)));
    device->history.held = device->history.segments.n;
    return MR_OK;
}

/* ---- acts ------------------------------------------------------------------------------ */

static void command(mr_device_events *device, mr_cmd_kind kind, uint32_t segment,
                    uint64_t address, uint64_t bytes)
{
    const mr_cmd cmd = {kind, MR_NONE, {segment, 0, address, bytes}};
    MR_PUSH(device->raw->ctx, &device->history.cmds, cmd);
}

static mr_status map(mr_device_events *device, const mr_act *a, uint64_t address,
                     uint64_t bytes)
{
    bool fresh;
    const uint32_t c = which_class(device, address, bytes, a->final, a->event);
    const uint32_t segment = class_segment(device, c, address, &fresh);
    const mr_stretch range = {address, bytes, segment, a->event, true};
    if (!mr_stretches_join(device->raw->ctx, &device->now, range))
        return mr_device_fail(device, a->event,
                              "%" PRIu64 " bytes are mapped at 0x%" PRIx64
                              ", where memory is held already",
                              bytes, address);
    device->classes.at[c].mapped += bytes;
    if (fresh) command(device, MR_RESERVE, segment, address, 0);
    command(device, MR_MAP, segment, address, bytes);
    return MR_OK;
}

static mr_status unmap(mr_device_events *device, const mr_act *a, uint64_t address,
                       uint64_t bytes)
{
    const uint32_t r = mr_stretches_find(&device->now, address);
    const mr_stretch *range = r == MR_NONE ? NULL : mr_stretches_at(&device->now, r);
    if (!range || range->address + range->bytes - address < bytes)
        return mr_device_fail(device, a->event,
                              "%" PRIu64 " bytes are unmapped at 0x%" PRIx64
                              ", but not all of them are mapped",
                              bytes, address);
    uint32_t segment;
    mr_stretches_cut(device->raw->ctx, &device->now, address, bytes, &segment);
    command(device, MR_UNMAP, segment, address, bytes);
    mr_address_class *class = &device->classes.at[device->class_of.at[segment]];
    class->mapped -= bytes;
    if (class->mapped) return MR_OK;
    class->segment = MR_NONE;
    command(device, MR_RELEASE, segment, address, 0);
    return MR_OK;
}

static mr_status release(mr_device_events *device, const mr_act *a, uint64_t address,
                         uint64_t bytes)
{
    const uint32_t r = mr_stretches_find(&device->now, address);
    const mr_stretch *range = r == MR_NONE ? NULL : mr_stretches_at(&device->now, r);
    if (!range || range->address != address || range->bytes != bytes || range->expandable)
        return mr_device_fail(device, a->event,
                              "a segment of %" PRIu64 " bytes is given back at 0x%" PRIx64
                              ", but none like it is held",
                              bytes, address);
    command(device, MR_RELEASE, range->segment, address, bytes);
    mr_stretches_remove(device->raw->ctx, &device->now, r);
    return MR_OK;
}

static mr_status reserve(mr_device_events *device, const mr_act *a, uint64_t address,
                         uint64_t bytes)
{
    const uint32_t stream = device->at[a->event].stream;
    const uint32_t segment = add_malloc(device, address, bytes, stream, a->final);
    const mr_stretch range = {address, bytes, segment, a->event, false};
    if (!mr_stretches_add(device->raw->ctx, &device->now, range))
        return mr_device_fail(device, a->event,
                              "a segment of %" PRIu64 " bytes is taken at 0x%" PRIx64
                              ", where memory is held already",
                              bytes, address);
    command(device, MR_RESERVE, segment, address, bytes);
    return MR_OK;
}

mr_status mr_walk_act(mr_device_events *device, const mr_act *a)
{
    const mr_raw_event *e = &device->at[a->event];
    const uint64_t address = device->raw->addresses.all.at[e->slot];
    switch (e->action) {
    case MR_RAW_segment_alloc: return reserve(device, a, address, e->size);
    case MR_RAW_segment_free: return release(device, a, address, e->size);
    case MR_RAW_segment_map: return map(device, a, address, e->size);
    case MR_RAW_segment_unmap: return unmap(device, a, address, e->size);
    default: return MR_OK;
    }
}
