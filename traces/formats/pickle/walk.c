/* walk -- forward through all events of all devices, in the order of their times.
 *
 * What a program did becomes events of the trace, what the allocator did becomes commands of the
 * device's history.  A free that takes effect at once is one event, FREE, and one command, UNBIND;
 * one that another stream holds up is FREE and later DONE, DEFER and later UNBIND.
 */
#include "rebuild.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    raw_snapshot *raw;
    mr_ctx *ctx;
    mr_trace *trace;
    const raw_annotation **annotations; /* by time */
    uint32_t n_annotations, next_annotation;
    bool timed;
    uint64_t zero, now; /* microseconds */
} walk;

static void add_event(walk *w, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(w->ctx, &w->trace->events, (mr_event){kind, id});
    if (w->timed) MR_PUSH(w->ctx, &w->trace->times, (w->now - w->zero) * 1000);
}

static void add_mark(walk *w, mr_mark_kind kind, const char *name)
{
    MR_PUSH(w->ctx, &w->trace->marks, (mr_mark){kind, name});
    add_event(w, MR_MARK, w->trace->marks.n - 1);
}

static void add_command(walk *w, device_events *device, mr_cmd_kind kind, uint32_t storage,
                        uint32_t slot)
{
    const uint64_t address = w->raw->addresses.all.at[slot];
    const mr_cmd cmd = {kind, storage, {device->segment[slot], 0, address, 0}};
    MR_PUSH(w->ctx, &device->history.cmds, cmd);
}

/* ---- one event -------------------------------------------------------------------------------- */

/* Where the block of the event lies; remembered, because addresses come again and again. */
static mr_status locate(walk *w, device_events *device, const raw_event *e)
{
    const uint64_t address = w->raw->addresses.all.at[e->slot];
    const uint32_t s = mr_stretches_find(&device->now, address);
    const mr_stretch *found = s == MR_NONE ? NULL : &device->now.all.at[s];
    if (!found || !e->size || e->size > found->bytes - (address - found->address))
        return device_fail(device, device->i, "%" PRIu64 " bytes are allocated at 0x%" PRIx64
                           ", expected them inside a segment that is held", e->size, address);
    device->segment[e->slot] = found->segment;
    return MR_OK;
}

static mr_status walk_alloc(walk *w, device_events *device, const raw_event *e)
{
    if (device->storage[e->slot] != MR_NONE)
        return device_fail(device, device->i, "the block at 0x%" PRIx64 " is allocated while it"
                           " is in use", w->raw->addresses.all.at[e->slot]);
    MR_TRY(locate(w, device, e));
    const mr_storage storage = {
        .bytes = e->size,
        .stream = device->stream_index[e->stream],
        .pool = device->history.segments.at[device->segment[e->slot]].pool,
        .stack = e->stack,
        .device = (uint16_t)device->number,
    };
    const uint32_t id = w->trace->storages.n;
    if (id >= LEAVING - 1) return device_fail(device, device->i, "too many allocations");
    MR_PUSH(w->ctx, &w->trace->storages, storage);
    device->storage[e->slot] = id;
    add_event(w, MR_ALLOC, id);
    add_command(w, device, MR_BIND, id, e->slot);
    return MR_OK;
}

static mr_status not_live(walk *w, device_events *device, const raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    return device_fail(device, device->i, "%s of the block at 0x%" PRIx64 ", %s",
                       raw_word(e->action), w->raw->addresses.all.at[e->slot],
                       id == MR_NONE ? "which is not in use"
                       : e->action == RAW_free_completed ? "whose free was not requested"
                       : "whose free was requested already");
}

static bool completes_at_once(const device_events *device, const raw_event *e)
{
    if (device->i + 1 == device->n) return false;
    const raw_event *next = e + 1;
    return next->action == RAW_free_completed && next->slot == e->slot;
}

static mr_status walk_free(walk *w, device_events *device, const raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    if (id == MR_NONE || id & LEAVING) return not_live(w, device, e);
    mr_storage *storage = &w->trace->storages.at[id];
    if (storage->bytes != e->size)
        return device_fail(device, device->i, "the block at 0x%" PRIx64 " is freed with %" PRIu64
                           " bytes, expected the %" PRIu64 " that were asked for",
                           w->raw->addresses.all.at[e->slot], e->size, storage->bytes);
    add_event(w, MR_FREE, id);
    if (completes_at_once(device, e)) {
        add_command(w, device, MR_UNBIND, id, e->slot);
        device->storage[e->slot] = MR_NONE;
        device->i++;
        return MR_OK;
    }
    storage->deferred = true;
    add_command(w, device, MR_DEFER, id, e->slot);
    device->storage[e->slot] = id | LEAVING;
    return MR_OK;
}

static mr_status walk_done(walk *w, device_events *device, const raw_event *e)
{
    const uint32_t id = device->storage[e->slot];
    if (id == MR_NONE || !(id & LEAVING)) return not_live(w, device, e);
    add_event(w, MR_DONE, id & ~LEAVING);
    add_command(w, device, MR_UNBIND, id & ~LEAVING, e->slot);
    device->storage[e->slot] = MR_NONE;
    return MR_OK;
}

static void walk_oom(walk *w, device_events *device, const raw_event *e)
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
    add_event(w, MR_ALLOC, id);
    MR_PUSH(w->ctx, &device->history.cmds, (mr_cmd){MR_REFUSE, id, {MR_NONE, 0, 0, 0}});
}

static mr_status act_now(walk *w, device_events *device, const raw_event *e)
{
    const act *a = &device->acts.at[device->next_act++];
    if (a->flush) add_event(w, MR_FLUSH, device->number);
    if (e->action != RAW_oom) return walk_act(device, a);
    walk_oom(w, device, e);
    return MR_OK;
}

static void tell_metadata(walk *w, device_events *device)
{
    const uint64_t event = device->first_event + device->i;
    while (device->next_note < w->raw->notes.n
           && w->raw->notes.at[device->next_note].event <= event) {
        const raw_note note = w->raw->notes.at[device->next_note++];
        if (note.event == event && w->raw->pickle.texts.all.at[note.text].bytes)
            add_mark(w, MR_NOTE, raw_text(w->raw, note.text));
    }
}

static mr_status walk_event(walk *w, device_events *device)
{
    const raw_event *e = &device->at[device->i];
    if (device->next_note < w->raw->notes.n) tell_metadata(w, device);
    switch (e->action) {
    case RAW_alloc: return walk_alloc(w, device, e);
    case RAW_free_requested: return walk_free(w, device, e);
    case RAW_free_completed: return walk_done(w, device, e);
    case RAW_snapshot: add_mark(w, MR_NOTE, "snapshot"); return MR_OK;
    default: return act_now(w, device, e);
    }
}

/* ---- annotations ------------------------------------------------------------------------------ */

static int by_time(const void *left, const void *right)
{
    const raw_annotation *a = *(const raw_annotation *const *)left;
    const raw_annotation *b = *(const raw_annotation *const *)right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a < b ? -1 : 1; /* as recorded */
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* PyTorch itself annotates optimizers and its profiler's steps. */
static void annotate(walk *w, const raw_annotation *a)
{
    const char *name = raw_text(w->raw, a->name);
    if (begins(name, "Optimizer.step#"))
        add_mark(w, a->end ? MR_PHASE_END : MR_PHASE_BEGIN, mr_phase_name(MR_UPDATE));
    else if (begins(name, "ProfilerStep#"))
        add_mark(w, a->end ? MR_STEP_END : MR_STEP_BEGIN, name);
    else
        add_mark(w, a->end ? MR_REGION_END : MR_REGION_BEGIN, name);
}

static void annotate_until(walk *w, uint64_t time)
{
    while (w->next_annotation < w->n_annotations) {
        const raw_annotation *a = w->annotations[w->next_annotation];
        if (a->time > time) return;
        if (a->time > w->now) w->now = a->time;
        annotate(w, a);
        w->next_annotation++;
    }
}

/* "Optimizer.step#AdamW.step" names the optimizer. */
static const char *optimizer_of(walk *w, const char *name)
{
    name += strlen("Optimizer.step#");
    char *found = mr_strndup(w->ctx, name, strcspn(name, "."));
    for (char *c = found; *c; c++) *c = (char)tolower((unsigned char)*c);
    return found;
}

static mr_status sort_annotations(walk *w, const raw_annotation *annotations, uint32_t n)
{
    w->annotations = MR_NEW_N(w->ctx, const raw_annotation *, n);
    for (uint32_t i = 0; i < n; i++) {
        const raw_annotation *a = &annotations[i];
        if (a->fault != MR_NONE) return raw_fault_fail(w->raw, a->fault, "an annotation");
        const char *name = raw_text(w->raw, a->name);
        if (begins(name, "Optimizer.step#")) w->trace->about[MR_ABOUT_optimizer] = optimizer_of(w, name);
        if (a->time != RAW_NO_TIME) w->annotations[w->n_annotations++] = a;
    }
    if (w->n_annotations)
        qsort(w->annotations, w->n_annotations, sizeof *w->annotations, by_time);
    if (n && !w->timed)
        MR_PUSH(w->ctx, &w->trace->notes, "annotations are left out: events have no times that"
                                          " would say where they belong");
    if (!w->timed) w->n_annotations = 0;
    return MR_OK;
}

/* ---- start and end -------------------------------------------------------------------------------- */

static void add_piece(walk *w, mr_pieces *pieces, uint32_t segment, uint64_t from, uint64_t to,
                      uint32_t storage, bool pending)
{
    const mr_piece piece = {segment, storage, from, to - from, pending};
    if (to > from) MR_PUSH(w->ctx, pieces, piece);
}

static void add_before(walk *w, device_events *device, before_block *block)
{
    const uint32_t s = mr_stretches_find(&device->now, block->address);
    const uint32_t segment = device->now.all.at[s].segment;
    const final_block *final = block->final == MR_NONE ? NULL : &device->blocks.at[block->final];
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
    device->storage[block->slot] = block->storage;
}

/* Pieces that tile what is held; a free that is pending already is made again as the first
 * event, because a trace has no other place for it. */
static void begin_device(walk *w, device_events *device)
{
    const uint32_t slots = w->raw->addresses.all.n;
    device->storage = MR_NEW_N(w->ctx, uint32_t, slots);
    device->segment = MR_NEW_N(w->ctx, uint32_t, slots);
    for (uint32_t s = 0; s < slots; s++) device->storage[s] = device->segment[s] = MR_NONE;
    uint32_t b = 0;
    for (uint32_t s = 0; s < device->now.all.n; s++) {
        const mr_stretch *held = &device->now.all.at[s];
        const uint64_t end = held->address + held->bytes;
        uint64_t at = held->address;
        for (; b < device->before.n && device->before.at[b].address < end; b++) {
            before_block *block = &device->before.at[b];
            add_before(w, device, block);
            add_piece(w, &device->history.start, held->segment, at, block->address, MR_NONE, false);
            at = block->address + block->bytes;
            add_piece(w, &device->history.start, held->segment, block->address, at,
                      block->storage, false);
        }
        add_piece(w, &device->history.start, held->segment, at, end, MR_NONE, false);
    }
}

static void free_pending(walk *w, device_events *device)
{
    for (uint32_t b = 0; b < device->before.n; b++) {
        const before_block *block = &device->before.at[b];
        if (!block->pending) continue;
        add_event(w, MR_FREE, block->storage);
        add_command(w, device, MR_DEFER, block->storage, block->slot);
        device->storage[block->slot] |= LEAVING;
    }
}

static mr_status end_block(walk *w, device_events *device, const final_block *b, uint32_t segment)
{
    uint32_t id = MR_NONE;
    if (b->slot != MR_NONE) {
        id = device->storage[b->slot];
        const bool leaving = id != MR_NONE && id & LEAVING;
        if (id == MR_NONE || leaving != b->pending)
            return device_fail(device, MR_NONE, "the block at 0x%" PRIx64 " is %s at the end, but"
                               " the events leave it %s", b->address,
                               b->pending ? "being freed" : "in use",
                               id == MR_NONE ? "free" : leaving ? "being freed" : "in use");
        id &= ~LEAVING;
        device->live++;
        w->trace->storages.at[id].after = !leaving;
    }
    add_piece(w, &device->history.end, segment, b->address, b->address + b->bytes, id, b->pending);
    return MR_OK;
}

static mr_status end_device(walk *w, device_events *device)
{
    uint64_t left = 0;
    for (uint32_t f = 0; f < device->finals.n; f++) {
        const final_segment *final = &device->finals.at[f];
        const uint32_t s = mr_stretches_find(&device->now, final->raw->address);
        if (s == MR_NONE)
            return device_fail(device, MR_NONE, "the segment at 0x%" PRIx64 " is there at the end,"
                               " but the events do not leave it", final->raw->address);
        for (uint32_t b = final->first; b < final->first + final->n; b++)
            MR_TRY(end_block(w, device, &device->blocks.at[b], device->now.all.at[s].segment));
    }
    for (uint32_t s = 0; s < w->raw->addresses.all.n; s++) left += device->storage[s] != MR_NONE;
    if (left == device->live) return MR_OK;
    return device_fail(device, MR_NONE, "the events leave %" PRIu64 " blocks in use, but the"
                       " segments at the end show %" PRIu64, left, device->live);
}

/* Where an address range begins is known by now. */
static void make_offsets(device_events *device)
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

/* ---- all devices ------------------------------------------------------------------------------------ */

static device_events *soonest(walk *w, device_events *devices, uint32_t n)
{
    device_events *best = NULL;
    for (uint32_t d = 0; d < n; d++) {
        device_events *device = &devices[d];
        if (device->i == device->n) continue;
        if (!best) best = device;
        else if (w->timed && device->at[device->i].time < best->at[best->i].time) best = device;
    }
    return best;
}

static void look_at_times(walk *w, const device_events *devices, uint32_t n)
{
    w->timed = true;
    w->zero = UINT64_MAX;
    for (uint32_t d = 0; d < n; d++)
        for (uint32_t i = 0; i < devices[d].n; i++) {
            const uint64_t time = devices[d].at[i].time;
            if (time == RAW_NO_TIME) w->timed = false;
            if (time < w->zero) w->zero = time;
        }
    if (!w->zero) w->timed = false; /* the key is there, but nobody filled it */
}

mr_status walk_devices(raw_snapshot *raw, device_events *devices, uint32_t n,
                       const raw_annotation *annotations, uint32_t n_annotations)
{
    walk w = {.raw = raw, .ctx = raw->ctx, .trace = raw->trace};
    look_at_times(&w, devices, n);
    MR_TRY(sort_annotations(&w, annotations, n_annotations));
    if (w.n_annotations && w.annotations[0]->time < w.zero) w.zero = w.annotations[0]->time;
    w.now = w.zero;
    for (uint32_t d = 0; d < n; d++) begin_device(&w, &devices[d]);
    for (uint32_t d = 0; d < n; d++) free_pending(&w, &devices[d]);
    for (device_events *device; (device = soonest(&w, devices, n)); device->i++) {
        if (w.timed) {
            const uint64_t time = device->at[device->i].time;
            annotate_until(&w, time);
            if (time > w.now) w.now = time;
        }
        MR_TRY(walk_event(&w, device));
    }
    annotate_until(&w, UINT64_MAX);
    for (uint32_t d = 0; d < n; d++) {
        MR_TRY(end_device(&w, &devices[d]));
        make_offsets(&devices[d]);
        MR_PUSH(raw->ctx, &raw->trace->histories, devices[d].history);
    }
    return MR_OK;
}
