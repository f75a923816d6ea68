/* walk -- forward through all events of all devices, in the order of their times.
 *
 * What a program did becomes events of the trace, what the allocator did becomes commands of
 * the device's history.  A free that takes effect at once is one event, FREE, and one command,
 * UNBIND; one that another stream holds up is FREE and later DONE, DEFER and later UNBIND.
 */
#include "walk.h"

#include <inttypes.h>

void mr_walk_add(mr_walk *w, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(w->ctx, &w->trace->events, (mr_event){kind, id});
    if (w->timed) MR_PUSH(w->ctx, &w->trace->times, (w->now - w->zero) * MR_NS_PER_US);
}

void mr_walk_mark(mr_walk *w, mr_mark_kind kind, const char *name)
{
    MR_PUSH(w->ctx, &w->trace->marks, (mr_mark){kind, name});
    mr_walk_add(w, MR_MARK, w->trace->marks.n - 1);
}

void mr_walk_command(mr_walk *w, mr_device_events *device, mr_cmd_kind kind, uint32_t storage,
                     uint32_t slot)
{
    const uint64_t address = w->raw->addresses.all.at[slot];
    const mr_cmd cmd = {kind, storage, {device->segment[slot], 0, address, 0}};
    MR_PUSH(w->ctx, &device->history.cmds, cmd);
}

/* ---- one event ------------------------------------------------------------------------- */

/* Where the block of the event lies; remembered, because addresses come again and again. */
static mr_status locate(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const uint64_t address = w->raw->addresses.all.at[e->slot];
    const uint32_t s = mr_stretches_find(&device->now, address);
    const mr_stretch *found = s == MR_NONE ? NULL : mr_stretches_at(&device->now, s);
    if (!found || !e->size || e->size > found->bytes - (address - found->address))
        return mr_device_fail(device, device->i,
                              "%" PRIu64 " bytes are allocated at 0x%" PRIx64
                              ", expected them inside a segment that is held",
                              e->size, address);
    device->segment[e->slot] = found->segment;
    return MR_OK;
}

static mr_status walk_alloc(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    if (device->storage[e->slot] != MR_NONE)
        return mr_device_fail(device, device->i,
                              "the block at 0x%" PRIx64 " is allocated while it"
                              " is in use",
                              w->raw->addresses.all.at[e->slot]);
    MR_TRY(locate(w, device, e));
    const mr_storage storage = {
        .bytes = e->size,
        .stream = device->stream_index[e->stream],
        .pool = device->history.segments.at[device->segment[e->slot]].pool,
        .stack = e->stack,
        .device = (uint16_t)device->number,
    };
    const uint32_t id = w->trace->storages.n;
    if (id >= MR_LEAVING - 1) return mr_device_fail(device, device->i, "too many allocations");
    MR_PUSH(w->ctx, &w->trace->storages, storage);
    device->storage[e->slot] = id;
    mr_walk_add(w, MR_ALLOC, id);
    mr_walk_command(w, device, MR_BIND, id, e->slot);
    return MR_OK;
}

static mr_status not_live(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    return mr_device_fail(device, device->i, "%s of the block at 0x%" PRIx64 ", %s",
                          mr_raw_word(e->action), w->raw->addresses.all.at[e->slot],
                          id == MR_NONE ? "which is not in use"
                          : e->action == MR_RAW_free_completed
                              ? "whose free was not requested"
                              : "whose free was requested already");
}

static bool completes_at_once(const mr_device_events *device, const mr_raw_event *e)
{
    if (device->i + 1 == device->n) return false;
    const mr_raw_event *next = e + 1;
    return next->action == MR_RAW_free_completed && next->slot == e->slot;
}

static mr_status walk_free(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    if (id == MR_NONE || id & MR_LEAVING) return not_live(w, device, e);
    mr_storage *storage = &w->trace->storages.at[id];
    if (storage->bytes != e->size)
        return mr_device_fail(device, device->i,
                              "the block at 0x%" PRIx64 " is freed with %" PRIu64
                              " bytes, expected the %" PRIu64 " that were asked for",
                              w->raw->addresses.all.at[e->slot], e->size, storage->bytes);
    mr_walk_add(w, MR_FREE, id);
    if (completes_at_once(device, e)) {
        mr_walk_command(w, device, MR_UNBIND, id, e->slot);
        device->storage[e->slot] = MR_NONE;
        device->i++;
        return MR_OK;
    }
    storage->deferred = true;
    mr_walk_command(w, device, MR_DEFER, id, e->slot);
    device->storage[e->slot] = id | MR_LEAVING;
    return MR_OK;
}

static mr_status walk_done(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    if (id == MR_NONE || !(id & MR_LEAVING)) return not_live(w, device, e);
    mr_walk_add(w, MR_DONE, id & ~MR_LEAVING);
    mr_walk_command(w, device, MR_UNBIND, id & ~MR_LEAVING, e->slot);
    device->storage[e->slot] = MR_NONE;
    return MR_OK;
}

static void walk_oom(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const mr_storage storage = {
        .bytes = e->size,
        .stream = device->stream_index[e->stream],
        .stack = e->stack,
        .device = (uint16_t)device->number,
        .refused = true,
    };
    const uint32_t id = w->trace->storages.n;
    MR_PUSH(w->ctx, &w->trace->storages, storage);
    mr_walk_add(w, MR_ALLOC, id);
    MR_PUSH(w->ctx, &device->history.cmds, (mr_cmd){MR_REFUSE, id, {MR_NONE, 0, 0, 0}});
}

static mr_status act_now(mr_walk *w, mr_device_events *device, const mr_raw_event *e)
{
    const mr_act *a = &device->acts.at[device->next_act++];
    if (a->flush) mr_walk_add(w, MR_FLUSH, device->number);
    if (e->action != MR_RAW_oom) return mr_walk_act(device, a);
    walk_oom(w, device, e);
    return MR_OK;
}

static void tell_metadata(mr_walk *w, mr_device_events *device)
{
    const uint64_t event = device->first_event + device->i;
    while (device->next_note < w->raw->notes.n
           && w->raw->notes.at[device->next_note].event <= event) {
        const mr_raw_note note = w->raw->notes.at[device->next_note++];
        if (note.event == event && w->raw->pickle.texts.all.at[note.text].bytes)
            mr_walk_mark(w, MR_NOTE, mr_raw_text(w->raw, note.text));
    }
}

static mr_status walk_event(mr_walk *w, mr_device_events *device)
{
    const mr_raw_event *e = &device->at[device->i];
    if (device->next_note < w->raw->notes.n) tell_metadata(w, device);
    switch (e->action) {
    case MR_RAW_alloc: return walk_alloc(w, device, e);
    case MR_RAW_free_requested: return walk_free(w, device, e);
    case MR_RAW_free_completed: return walk_done(w, device, e);
    case MR_RAW_snapshot: mr_walk_mark(w, MR_NOTE, "snapshot"); return MR_OK;
    default: return act_now(w, device, e);
    }
}

/* ---- all devices ----------------------------------------------------------------------- */

static mr_device_events *soonest(mr_walk *w, mr_device_events *devices, uint32_t n)
{
    mr_device_events *best = NULL;
    for (uint32_t d = 0; d < n; d++) {
        mr_device_events *device = &devices[d];
        if (device->i == device->n) continue;
        if (!best) best = device;
        else if (w->timed && device->at[device->i].time < best->at[best->i].time) best = device;
    }
    return best;
}

/* About as much as will be needed, for a page that is touched costs more than a push. */
static void make_room(mr_walk *w, mr_device_events *devices, uint32_t n)
{
    uint64_t events = w->n_annotations, storages = 0;
    for (uint32_t d = 0; d < n; d++) {
        mr_device_events *device = &devices[d];
        uint32_t allocs = 0, frees = 0;
        for (uint32_t i = 0; i < device->n; i++) {
            allocs += device->at[i].action == MR_RAW_alloc;
            frees += device->at[i].action == MR_RAW_free_requested;
        }
        events += allocs + frees;
        storages += allocs + device->before.n;
        MR_RESERVE_N(w->ctx, &device->history.cmds, allocs + frees + device->acts.n);
    }
    if (events > UINT32_MAX / 2) return;
    MR_RESERVE_N(w->ctx, &w->trace->storages, (uint32_t)storages);
    MR_RESERVE_N(w->ctx, &w->trace->events, (uint32_t)events);
    if (w->timed) MR_RESERVE_N(w->ctx, &w->trace->times, (uint32_t)events);
}

static void look_at_times(mr_walk *w, const mr_device_events *devices, uint32_t n)
{
    uint64_t last = 0;
    w->timed = true;
    w->zero = UINT64_MAX;
    for (uint32_t d = 0; d < n; d++)
        for (uint32_t i = 0; i < devices[d].n; i++) {
            const uint64_t time = devices[d].at[i].time;
            if (time == MR_RAW_NO_TIME) w->timed = false;
            if (time < w->zero) w->zero = time;
            if (time > last) last = time;
        }
    if (!last) w->timed = false; /* the key is there, but nobody filled it */
    if (last > MR_TIME_MAX) w->timed = false;
}

mr_status mr_walk_devices(mr_raw_snapshot *raw, mr_device_events *devices, uint32_t n,
                          const mr_raw_annotation *annotations, uint32_t n_annotations)
{
    mr_walk w = {.raw = raw, .ctx = raw->ctx, .trace = raw->trace};
    look_at_times(&w, devices, n);
    MR_TRY(mr_walk_annotations(&w, annotations, n_annotations));
    if (w.n_annotations && w.annotations[0]->time < w.zero) w.zero = w.annotations[0]->time;
    w.now = w.zero;
    make_room(&w, devices, n);
    for (uint32_t d = 0; d < n; d++) mr_begin_device(&w, &devices[d]);
    for (mr_device_events *device; (device = soonest(&w, devices, n)); device->i++) {
        if (w.timed) {
            const uint64_t time = device->at[device->i].time;
            mr_annotate_until(&w, time);
            if (time > w.now) w.now = time;
        }
        MR_TRY(walk_event(&w, device));
    }
    mr_annotate_until(&w, UINT64_MAX);
    for (uint32_t d = 0; d < n; d++) {
        MR_TRY(mr_end_device(&w, &devices[d]));
        MR_PUSH(raw->ctx, &raw->trace->histories, devices[d].history);
    }
    return MR_OK;
}
