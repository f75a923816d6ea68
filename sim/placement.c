/* placement -- the placer, which writes commands down, and the driver of online allocators. */
#include "placement.h"
#include "param.h"

/* ---- segments ---------------------------------------------------------------------------- */

static uint64_t physical(const mr_placer *placer, uint64_t bytes)
{
    const uint64_t part = bytes % placer->granularity;
    return part ? bytes + (placer->granularity - part) : bytes;
}

static bool charge(mr_placer *placer, uint64_t bytes)
{
    if (bytes > placer->capacity - placer->used) return false;
    placer->used += bytes;
    if (placer->used > placer->used_peak) placer->used_peak = placer->used;
    return true;
}

static void write_down(mr_placer *placer, mr_cmd_kind kind, uint32_t id, const mr_block *block)
{
    MR_PUSH(placer->ctx, &placer->out->cmds, (mr_cmd){kind, id, *block});
}

/* The segment that a command of the recording is the beginning of, NULL for other commands. */
static const mr_segment *begun_by(const mr_history *history, const mr_cmd *cmd)
{
    return cmd->kind == MR_RESERVE ? &history->segments.at[cmd->block.segment] : NULL;
}

/* Where the recording's next new segment lay, but for expandable ones.  0 once it has no more,
 * or once the placement does not follow it any longer: its addresses could be in use then. */
static uint64_t recorded_address(mr_placer *placer, const mr_segment *want)
{
    const mr_history *history = placer->addresses;
    const mr_segment *next = NULL;
    while (placer->next_recorded < history->cmds.n && (!next || next->expandable))
        next = begun_by(history, &history->cmds.at[placer->next_recorded++]);
    if (next && !next->expandable && next->bytes == want->bytes
        && !mr_ranges_overlap(&placer->taken, 0, next->address, next->bytes))
        return next->address;
    placer->addresses = NULL;
    return 0;
}

/* Of an expandable range in a recording only the beginning is known. */
static uint64_t span(const mr_segment *segment)
{
    return segment->expandable ? 1 : segment->bytes;
}

static bool same_owner(const mr_segment *a, const mr_segment *b)
{
    return a->stream == b->stream && a->pool == b->pool && a->large == b->large;
}

/* Where the next expandable range of the same stream, pool and size of pages lay.  A
 * range shows in a recording when its first page is mapped, which may be long after
 * it was reserved. */
static uint64_t recorded_range(mr_placer *placer, const mr_segment *want)
{
    const mr_history *history = placer->addresses;
    if (!placer->given) placer->given = MR_NEW_N(placer->ctx, bool, history->segments.n);
    bool all_given = true;
    for (uint32_t i = placer->next_range; i < history->cmds.n; i++) {
        const mr_segment *range = begun_by(history, &history->cmds.at[i]);
        if (!range || !range->expandable) continue;
        bool *given = &placer->given[range - history->segments.at];
        if (*given) continue;
        if (all_given) placer->next_range = i;
        all_given = false;
        if (!same_owner(range, want)) continue;
        if (mr_ranges_overlap(&placer->taken, 0, range->address, span(range))) continue;
        *given = true;
        return range->address;
    }
    return 0;
}

#define ADDRESS_ALIGN (2 * MR_MIB)

static uint64_t new_address(mr_placer *placer, const mr_segment *want)
{
    uint64_t recorded = 0;
    if (placer->addresses)
        recorded =
            want->expandable ? recorded_range(placer, want) : recorded_address(placer, want);
    if (recorded) return recorded;
    const uint64_t address = placer->next_address;
    placer->next_address += (want->bytes + ADDRESS_ALIGN - 1) / ADDRESS_ALIGN * ADDRESS_ALIGN;
    return address;
}

static uint32_t take_segment(mr_placer *placer, const mr_segment *segment)
{
    if (placer->addresses)
        mr_ranges_add(placer->ctx, &placer->taken,
                      (mr_range){.offset = segment->address, .bytes = span(segment)});
    MR_PUSH(placer->ctx, &placer->out->segments, *segment);
    const uint32_t index = placer->out->segments.n - 1;
    write_down(placer, MR_RESERVE, MR_NONE, &(mr_block){index, 0, 0, segment->bytes});
    return index;
}

bool mr_reserve(mr_placer *placer, const mr_segment *want, uint32_t *segment)
{
    if (!want->expandable && !charge(placer, physical(placer, want->bytes))) return false;
    mr_segment got = *want;
    got.address = new_address(placer, want);
    *segment = take_segment(placer, &got);
    return true;
}

void mr_release(mr_placer *placer, uint32_t segment)
{
    const mr_segment *s = &placer->out->segments.at[segment];
    if (!s->expandable) placer->used -= physical(placer, s->bytes);
    if (placer->addresses) mr_ranges_remove(&placer->taken, 0, s->address);
    write_down(placer, MR_RELEASE, MR_NONE, &(mr_block){segment, 0, 0, s->bytes});
}

bool mr_map(mr_placer *placer, uint32_t segment, uint64_t offset, uint64_t bytes)
{
    if (!charge(placer, bytes)) return false;
    write_down(placer, MR_MAP, MR_NONE, &(mr_block){segment, 0, offset, bytes});
    return true;
}

void mr_unmap(mr_placer *placer, uint32_t segment, uint64_t offset, uint64_t bytes)
{
    placer->used -= bytes;
    write_down(placer, MR_UNMAP, MR_NONE, &(mr_block){segment, 0, offset, bytes});
}

void mr_switch(mr_placer *placer, const mr_block *from, const mr_block *to, bool standing)
{
    mr_block at = *from, then = *to;
    at.handle = MR_STANDING;
    then.handle = standing ? MR_STANDING : 0;
    write_down(placer, MR_UNMAP, MR_NONE, &at);
    write_down(placer, MR_MAP, MR_NONE, &then);
}

void mr_settled(mr_placer *placer)
{
    if (placer->settle) placer->settle(placer->driver);
}

uint64_t mr_available(const mr_placer *placer)
{
    return placer->capacity - placer->used;
}

/* ---- the driver of online allocators ----------------------------------------------------- */

typedef enum state { ABSENT, LIVE, PENDING } state;

/* What the driver has to know of a storage to free it: all of it in one line of the cache. */
typedef struct tenant {
    mr_block block; /* while it is not ABSENT */
    uint8_t state;
    bool deferred;
} tenant;

typedef struct driver {
    mr_placer *placer;
    const mr_trace *trace;
    const mr_online *policy;
    tenant *tenants;          /* by storage */
    MR_VEC(uint32_t) pending; /* storages that are or were PENDING since the last settling */
} driver;

static mr_block block_of(const driver *d, uint32_t s)
{
    return d->tenants[s].block;
}

static void bind(driver *d, uint32_t s, const mr_block *block)
{
    d->tenants[s] = (tenant){*block, LIVE, d->trace->storages.at[s].deferred};
    write_down(d->placer, MR_BIND, s, block);
}

static void unbind(driver *d, uint32_t s, const mr_block *block)
{
    d->tenants[s].state = ABSENT;
    write_down(d->placer, MR_UNBIND, s, block);
}

static void postpone(driver *d, uint32_t s, const mr_block *block)
{
    d->tenants[s].state = PENDING;
    MR_PUSH(d->placer->ctx, &d->pending, s);
    write_down(d->placer, MR_DEFER, s, block);
}

/* The allocator has waited for the device: what was deferred is free, whenever
 * its DONE comes. */
static void settle(void *self)
{
    driver *d = self;
    for (uint32_t i = 0; i < d->pending.n; i++) {
        const uint32_t s = d->pending.at[i];
        if (d->tenants[s].state != PENDING) continue;
        const mr_block block = block_of(d, s);
        unbind(d, s, &block);
    }
    d->pending.n = 0;
}

/* False when the request was not served. */
static bool allocate(driver *d, uint32_t s)
{
    const mr_storage *storage = &d->trace->storages.at[s];
    const mr_request request = {storage->bytes, storage->stream, storage->pool};
    mr_block block;
    if (!d->policy->alloc(d->policy->self, d->placer, &request, &block)) {
        write_down(d->placer, MR_REFUSE, s, &(mr_block){.segment = MR_NONE});
        d->placer->out->refusals++;
        return false;
    }
    bind(d, s, &block);
    if (!storage->refused) return true;
    /* The recorded program did without what it did not get. */
    unbind(d, s, &block);
    d->policy->free(d->policy->self, d->placer, &block);
    return true;
}

static void release(driver *d, uint32_t s)
{
    if (d->tenants[s].state == ABSENT) return; /* was refused */
    const mr_online *policy = d->policy;
    const mr_block block = block_of(d, s);
    if (!d->tenants[s].deferred) {
        unbind(d, s, &block);
        policy->free(policy->self, d->placer, &block);
        return;
    }
    postpone(d, s, &block);
    if (policy->defer) policy->defer(policy->self, d->placer, &block);
}

static void complete(driver *d, uint32_t s)
{
    const mr_online *policy = d->policy;
    if (d->tenants[s].state == ABSENT) return;
    if (d->tenants[s].state == LIVE) release(d, s); /* was pending before the first event */
    const mr_block block = block_of(d, s);
    unbind(d, s, &block);
    if (policy->done) policy->done(policy->self, d->placer, &block);
    else policy->free(policy->self, d->placer, &block);
}

static void carry(driver *d, const mr_carry *pair)
{
    if (d->tenants[pair->from].state == ABSENT) return;
    const mr_block block = block_of(d, pair->from);
    unbind(d, pair->from, &block);
    bind(d, pair->to, &block);
}

/* False when the request of this event was not served. */
static bool step(driver *d, const mr_schedule *schedule, const mr_event *event)
{
    switch (event->kind) {
    case MR_ALLOC: return allocate(d, event->id);
    case MR_FREE: release(d, event->id); break;
    case MR_DONE: complete(d, event->id); break;
    case MR_FLUSH:
        if (d->policy->flush) d->policy->flush(d->policy->self, d->placer);
        break;
    case MR_RUN:
        write_down(d->placer, MR_EXEC, event->id, &(mr_block){.segment = MR_NONE});
        break;
    case MR_CARRY: carry(d, &schedule->carries.at[event->id]); break;
    case MR_MARK:
    case MR_DROP: break;
    }
    return true;
}

/* ---- what is there before the first event ------------------------------------------------ */

#define LONG_RANGE ((uint64_t)1 << 42) /* longer than any expandable segment */

static uint64_t end_of(const mr_history *history)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < history->segments.n; i++) {
        const mr_segment *s = &history->segments.at[i];
        const uint64_t bytes = s->expandable && !s->bytes ? LONG_RANGE : s->bytes;
        if (s->address + bytes > end) end = s->address + bytes;
    }
    return (end / ADDRESS_ALIGN + 1) * ADDRESS_ALIGN;
}

/* Takes the recording's segments over, as if the placer had asked for them. */
static void hold(mr_placer *placer, const mr_history *history)
{
    for (uint32_t i = 0; i < history->held; i++) {
        const mr_segment *s = &history->segments.at[i];
        take_segment(placer, s);
        if (!s->expandable) placer->used += physical(placer, s->bytes);
    }
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        if (!history->segments.at[piece->segment].expandable) continue;
        placer->used += piece->bytes;
        write_down(placer, MR_MAP, MR_NONE,
                   &(mr_block){piece->segment, 0, piece->offset, piece->bytes});
    }
    placer->used_peak = placer->used;
}

static mr_status adopt(driver *d, const mr_history *history)
{
    mr_placer *placer = d->placer;
    hold(placer, history);
    if (placer->used > placer->capacity)
        return mr_fail(
            placer->ctx, MR_EDEVICE, "the recording begins with %s held, the device has %s",
            mr_say_size(placer->ctx, placer->used), mr_say_size(placer->ctx, placer->capacity));
    uint32_t *handles = MR_NEW_N(placer->ctx, uint32_t, history->start.n);
    MR_TRY(d->policy->adopt(d->policy->self, placer, history, handles));
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        const uint32_t s = piece->storage;
        if (s == MR_NONE) continue;
        const mr_block block = {piece->segment, handles[i], piece->offset, piece->bytes};
        bind(d, s, &block);
        if (piece->pending) postpone(d, s, &block);
    }
    return MR_OK;
}

/* Storages live before the first event in the order of their addresses, where
 * these are known. */
static bool place_start(driver *d, const mr_schedule *schedule)
{
    bool served = true;
    const mr_history *history = schedule->history;
    for (uint32_t i = 0; history && i < history->start.n; i++)
        if (history->start.at[i].storage != MR_NONE)
            served &= allocate(d, history->start.at[i].storage);
    for (uint32_t s = 0; s < d->trace->storages.n; s++) {
        const mr_storage *storage = &d->trace->storages.at[s];
        if (storage->before && storage->device == schedule->device
            && d->tenants[s].state == ABSENT)
            served &= allocate(d, s);
    }
    return served;
}

static mr_status begin(driver *d, const mr_schedule *schedule, bool *served)
{
    mr_placer *placer = d->placer;
    const mr_history *history = placer->addresses;
    placer->next_address = history ? end_of(history) : (uint64_t)7 << 44;
    *served = true;
    if (history && history->held && d->policy->adopt) MR_TRY(adopt(d, history));
    else *served = place_start(d, schedule);
    placer->out->start = placer->out->cmds.n;
    return MR_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

#define STRIDE ((uint32_t)1 << 16) /* events between two reports of progress */

/* What a free will need lies far apart, and a processor can fetch it while it still works on
 * the events before: first what the driver knows of the storage, then what the allocator knows
 * of the block, then what lies beside that. */
enum { FAR = 12, NEAR = 8, CLOSE = 4 }; /* events ahead */

static void bring_near(const driver *d, const mr_event *event, bool closer)
{
    if (event->kind != MR_FREE || d->tenants[event->id].state != LIVE) return;
    d->policy->near(d->policy->self, &d->tenants[event->id].block, closer);
}

static void look_ahead(const driver *d, const mr_schedule *schedule, uint32_t e)
{
    const mr_event *events = schedule->events.at + e;
    if (schedule->events.n - e <= FAR) return;
    if (events[FAR].kind == MR_FREE) MR_FETCH(&d->tenants[events[FAR].id]);
    if (!d->policy->near) return;
    bring_near(d, &events[NEAR], false);
    bring_near(d, &events[CLOSE], true);
}

mr_status mr_place_online(mr_placer *placer, const mr_schedule *schedule,
                          const mr_online *policy)
{
    const mr_trace *trace = schedule->trace;
    driver d = {.placer = placer,
                .trace = trace,
                .policy = policy,
                .tenants = MR_NEW_N(placer->ctx, tenant, trace->storages.n)};
    mr_placement *out = placer->out;
    placer->driver = &d;
    placer->settle = policy->done ? settle : NULL;
    bool served;
    MR_TRY(begin(&d, schedule, &served));
    if (!served) out->oom_at = 0;
    const uint32_t n = schedule->events.n;
    for (uint32_t e = 0; e < n && !(out->oom_at != MR_NONE && placer->first_refusal_ends);
         e++) {
        if (e % STRIDE == 0) mr_progress(placer->ctx, "placing", (double)e / n);
        look_ahead(&d, schedule, e);
        if (!step(&d, schedule, &schedule->events.at[e]) && out->oom_at == MR_NONE)
            out->oom_at = e;
        if (out->seams.n < schedule->ends.n && e + 1 == schedule->ends.at[out->seams.n])
            MR_PUSH(placer->ctx, &out->seams, out->cmds.n);
    }
    placer->settle = NULL;
    return MR_OK;
}
