/* placement_check -- the referee of placements.  Shares no code with the placer or a strategy.
 *
 * It carries the commands out on a device of its own: which ranges are held, which are mapped,
 * which are bound; and walks the schedule beside them.
 */
#include "placement.h"
#include "ranges.h"

typedef enum state { ABSENT, LIVE, DEFERRED } state;

typedef struct referee {
    mr_ctx *ctx;
    const mr_placement *placement;
    const mr_schedule *schedule;
    const mr_trace *trace;
    uint64_t capacity, granularity, used;
    uint32_t cmd;    /* index of the command under judgement */
    uint32_t event;  /* next event of the schedule */
    uint32_t carried; /* storage to which the last command's block goes, MR_NONE */
    uint32_t waiting; /* number of storages that are DEFERRED */
    bool settling;    /* a deferred free took effect before its DONE, so all have to */
    bool flushed;     /* the program asked for a FLUSH since the last event with a command */
    bool *held;      /* by segment */
    uint32_t *bound; /* by segment: number of bound blocks */
    mr_ranges mapped, live;
    uint8_t *state; /* by storage */
} referee;

static mr_status foul(referee *r, const char *what, uint64_t found, uint64_t expected)
{
    return mr_fail(r->ctx, MR_EINVARIANT,
                   "command %u of the placement: %s (found %llu, expected %llu)", r->cmd, what,
                   (unsigned long long)found, (unsigned long long)expected);
}

/* ---- segments ---------------------------------------------------------------------------- */

static uint64_t physical(const referee *r, uint64_t bytes)
{
    return (bytes + r->granularity - 1) / r->granularity * r->granularity;
}

static mr_status take(referee *r, uint64_t bytes)
{
    if (bytes > r->capacity - r->used)
        return foul(r, "takes more than the device has left", bytes, r->capacity - r->used);
    r->used += bytes;
    return MR_OK;
}

static mr_status reserve(referee *r, const mr_block *block)
{
    const mr_segment *segment = &r->placement->segments.at[block->segment];
    if (r->held[block->segment]) return foul(r, "reserves a segment twice", block->segment, 0);
    if (segment->bytes != block->bytes)
        return foul(r, "reserves another size than the segment's", block->bytes,
                    segment->bytes);
    r->held[block->segment] = true;
    return segment->expandable ? MR_OK : take(r, physical(r, block->bytes));
}

static mr_status release(referee *r, const mr_block *block)
{
    const mr_segment *segment = &r->placement->segments.at[block->segment];
    if (r->bound[block->segment])
        return foul(r, "releases a segment with bound blocks", r->bound[block->segment], 0);
    r->held[block->segment] = false;
    if (!segment->expandable) {
        r->used -= physical(r, segment->bytes);
    } else if (mr_ranges_at(&r->mapped, block->segment, UINT64_MAX)) {
        return foul(r, "releases addresses that are still mapped", block->segment, 0);
    }
    return MR_OK;
}

static mr_status map(referee *r, const mr_block *block)
{
    const uint32_t segment = block->segment;
    if (!r->placement->segments.at[segment].expandable)
        return foul(r, "maps into a segment that is not expandable", segment, 0);
    if (mr_ranges_overlap(&r->mapped, segment, block->offset, block->bytes))
        return foul(r, "maps what is mapped already", block->offset, 0);
    mr_range range = {block->offset, block->bytes, segment, 0};
    mr_range *left = mr_ranges_at(&r->mapped, segment, block->offset);
    if (left && left->offset + left->bytes == range.offset) {
        range.offset = left->offset;
        range.bytes += left->bytes;
        mr_ranges_remove(&r->mapped, segment, range.offset);
    }
    const mr_range *right = mr_ranges_after(&r->mapped, segment, range.offset);
    if (right && right->offset == range.offset + range.bytes) {
        range.bytes += right->bytes;
        mr_ranges_remove(&r->mapped, segment, right->offset);
    }
    mr_ranges_add(r->ctx, &r->mapped, range);
    return take(r, block->bytes);
}

static bool is_mapped(referee *r, const mr_block *block)
{
    const mr_range *range = mr_ranges_at(&r->mapped, block->segment, block->offset);
    return range && block->bytes <= range->bytes
           && block->offset - range->offset <= range->bytes - block->bytes;
}

static mr_status unmap(referee *r, const mr_block *block)
{
    const uint32_t segment = block->segment;
    const mr_range *user = mr_ranges_overlap(&r->live, segment, block->offset, block->bytes);
    if (user) return foul(r, "unmaps memory under a bound block", user->offset, 0);
    if (!is_mapped(r, block)) return foul(r, "unmaps what is not mapped", block->offset, 0);
    const mr_range whole = *mr_ranges_at(&r->mapped, segment, block->offset);
    const uint64_t head = block->offset - whole.offset;
    const uint64_t tail = whole.bytes - head - block->bytes;
    mr_ranges_remove(&r->mapped, segment, whole.offset);
    if (head) mr_ranges_add(r->ctx, &r->mapped, (mr_range){whole.offset, head, segment, 0});
    if (tail)
        mr_ranges_add(r->ctx, &r->mapped,
                      (mr_range){block->offset + block->bytes, tail, segment, 0});
    r->used -= block->bytes;
    return MR_OK;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static mr_status is_inside(referee *r, const mr_block *block)
{
    const mr_segment *segment = &r->placement->segments.at[block->segment];
    if (segment->expandable)
        return !block->bytes || is_mapped(r, block)
                   ? MR_OK
                   : foul(r, "binds where nothing is mapped", block->offset, 0);
    if (block->bytes > segment->bytes || block->offset > segment->bytes - block->bytes)
        return foul(r, "binds beyond the end of the segment", block->offset + block->bytes,
                    segment->bytes);
    return MR_OK;
}

static mr_status bind(referee *r, uint32_t s, const mr_block *block)
{
    const uint64_t want = r->trace->storages.at[s].bytes;
    if (r->state[s] != ABSENT) return foul(r, "binds a storage that is bound", s, MR_NONE);
    if (block->bytes < want)
        return foul(r, "gives less than was asked for", block->bytes, want);
    r->state[s] = LIVE;
    if (!block->bytes) return MR_OK; /* nothing was asked for */
    MR_TRY(is_inside(r, block));
    const mr_range *other =
        mr_ranges_overlap(&r->live, block->segment, block->offset, block->bytes);
    if (other) return foul(r, "binds over the block of another storage", other->owner, s);
    mr_ranges_add(r->ctx, &r->live, (mr_range){block->offset, block->bytes, block->segment, s});
    r->bound[block->segment]++;
    return MR_OK;
}

static mr_status is_own(referee *r, uint32_t s, const mr_block *block, const char *otherwise)
{
    const mr_range *range = mr_ranges_at(&r->live, block->segment, block->offset);
    if (range && range->owner == s && range->offset == block->offset
        && range->bytes == block->bytes)
        return MR_OK;
    return foul(r, otherwise, s, range ? range->owner : MR_NONE);
}

static mr_status unbind(referee *r, uint32_t s, const mr_block *block)
{
    if (r->state[s] == ABSENT)
        return foul(r, "unbinds a storage that is not bound", s, MR_NONE);
    r->waiting -= r->state[s] == DEFERRED;
    r->state[s] = ABSENT;
    if (!block->bytes) return MR_OK;
    MR_TRY(is_own(r, s, block, "unbinds another block than was bound"));
    mr_ranges_remove(&r->live, block->segment, block->offset);
    r->bound[block->segment]--;
    return MR_OK;
}

static mr_status defer(referee *r, uint32_t s, const mr_block *block)
{
    if (r->state[s] != LIVE) return foul(r, "defers a storage that is not live", s, MR_NONE);
    r->state[s] = DEFERRED;
    r->waiting++;
    return block->bytes ? is_own(r, s, block, "defers another block than was bound") : MR_OK;
}

static mr_status carry_out(referee *r, const mr_cmd *cmd)
{
    const mr_block *block = &cmd->block;
    const bool zero = cmd->kind >= MR_BIND && !block->bytes;
    const bool placeless = cmd->kind == MR_EXEC || cmd->kind == MR_REFUSE || zero;
    if (!placeless && block->segment >= r->placement->segments.n)
        return foul(r, "names a segment that does not exist", block->segment,
                    r->placement->segments.n);
    if (!placeless && cmd->kind != MR_RESERVE && !r->held[block->segment])
        return foul(r, "uses a segment that is not held", block->segment, 0);
    switch (cmd->kind) {
    case MR_RESERVE: return reserve(r, block);
    case MR_RELEASE: return release(r, block);
    case MR_MAP: return map(r, block);
    case MR_UNMAP: return unmap(r, block);
    case MR_BIND: return bind(r, cmd->id, block);
    case MR_UNBIND: return unbind(r, cmd->id, block);
    case MR_DEFER: return defer(r, cmd->id, block);
    case MR_EXEC:
    case MR_REFUSE: break;
    }
    return MR_OK;
}

/* ---- the schedule ------------------------------------------------------------------------ */

/* What the schedule wants next: skips what needs no command, because it was
 * refused or settled. */
static const mr_event *next_event(referee *r)
{
    for (; r->event < r->schedule->events.n; r->event++) {
        const mr_event *event = &r->schedule->events.at[r->event];
        const mr_carry *pair =
            event->kind == MR_CARRY ? &r->schedule->carries.at[event->id] : NULL;
        r->flushed |= event->kind == MR_FLUSH;
        if (event->kind == MR_MARK || event->kind == MR_DROP || event->kind == MR_FLUSH)
            continue;
        if (event->kind == MR_FREE && r->state[event->id] != LIVE) continue;
        if (event->kind == MR_DONE && r->state[event->id] == ABSENT) continue;
        if (pair && r->state[pair->from] == ABSENT) continue;
        return event;
    }
    return NULL;
}

/* A carry is two commands: the first leaves the event in place. */
static bool carries(referee *r, const mr_event *event, const mr_cmd *cmd)
{
    const mr_carry *pair = &r->schedule->carries.at[event->id];
    if (cmd->kind == MR_UNBIND && cmd->id == pair->from) {
        const mr_cmd *then = cmd + 1;
        const bool follows = r->cmd + 1 < r->placement->cmds.n && then->kind == MR_BIND
                             && then->id == pair->to
                             && then->block.segment == cmd->block.segment
                             && then->block.offset == cmd->block.offset;
        return follows;
    }
    return false;
}

static bool agrees(referee *r, const mr_event *event, const mr_cmd *cmd)
{
    if (!event) return false;
    switch (event->kind) {
    case MR_ALLOC:
        return (cmd->kind == MR_BIND || cmd->kind == MR_REFUSE) && cmd->id == event->id;
    case MR_FREE:
        return cmd->id == event->id
               && cmd->kind
                      == (r->trace->storages.at[event->id].deferred ? MR_DEFER : MR_UNBIND);
    case MR_DONE: return cmd->kind == MR_UNBIND && cmd->id == event->id;
    case MR_RUN: return cmd->kind == MR_EXEC && cmd->id == event->id;
    case MR_CARRY: return carries(r, event, cmd);
    default: return false;
    }
}

/* Commands that no event asks for: a settled free, a free that the recording saw only the end
 * of, a block that the recorded program never got. */
static bool unasked(const referee *r, const mr_event *next, const mr_cmd *cmd)
{
    if (cmd->kind == MR_DEFER) return next && next->kind == MR_DONE && next->id == cmd->id;
    if (cmd->kind == MR_UNBIND && r->state[cmd->id] == DEFERRED)
        return r->flushed || (next && next->kind == MR_ALLOC);
    if (r->cmd <= r->placement->start) return false;
    const mr_cmd *last = cmd - 1;
    return cmd->kind == MR_UNBIND && last->kind == MR_BIND && last->id == cmd->id
           && r->trace->storages.at[cmd->id].refused;
}

/* Who waits for the device waits for all of it: no deferred free is left out. */
static mr_status is_settled(referee *r, const mr_event *event)
{
    if (!r->settling || (event && event->kind == MR_DONE)) return MR_OK;
    r->settling = false;
    if (!r->waiting) return MR_OK;
    return foul(r, "comes after some deferred frees took effect before their time, but not all",
                r->waiting, 0);
}

static mr_status keep_step(referee *r, const mr_cmd *cmd)
{
    if (cmd->kind < MR_BIND) return MR_OK; /* RESERVE to UNMAP: the strategy's own affair */
    if (cmd->kind == MR_BIND && cmd->id == r->carried) { /* the second half of a carry */
        r->carried = MR_NONE;
        return MR_OK;
    }
    const mr_event *event = next_event(r);
    if (agrees(r, event, cmd)) {
        MR_TRY(is_settled(r, event));
        const bool carry = event->kind == MR_CARRY;
        r->carried = carry ? r->schedule->carries.at[event->id].to : MR_NONE;
        r->event++;
        r->flushed = false;
        return MR_OK;
    }
    if (unasked(r, event, cmd)) {
        r->settling |= cmd->kind == MR_UNBIND && r->state[cmd->id] == DEFERRED;
        return MR_OK;
    }
    return foul(r, "is not what the schedule asks for: its storage or op", cmd->id,
                event ? event->id : MR_NONE);
}

/* What lives before the first event is placed before it, but for what was refused. */
static mr_status check_start(referee *r)
{
    uint32_t refused = 0, missing = 0, last = MR_NONE;
    for (uint32_t c = 0; c < r->placement->start; c++)
        refused += r->placement->cmds.at[c].kind == MR_REFUSE;
    for (uint32_t s = 0; s < r->trace->storages.n; s++) {
        const mr_storage *storage = &r->trace->storages.at[s];
        if (!storage->before || storage->device != r->schedule->device || r->state[s] != ABSENT)
            continue;
        missing++;
        last = s;
    }
    if (missing <= refused) return MR_OK;
    return foul(r, "is the first event's, and a storage that was live before has no place",
                last, MR_NONE);
}

static bool in_range(const referee *r, const mr_cmd *cmd)
{
    if (cmd->kind < MR_BIND) return true;
    return cmd->id < (cmd->kind == MR_EXEC ? r->trace->ops.n : r->trace->storages.n);
}

mr_status mr_placement_check(mr_ctx *ctx, const mr_placement *placement, uint64_t capacity,
                             uint64_t granularity)
{
    const mr_schedule *schedule = placement->schedule;
    referee r = {.ctx = ctx,
                 .placement = placement,
                 .schedule = schedule,
                 .trace = schedule->trace,
                 .capacity = capacity,
                 .granularity = granularity,
                 .carried = MR_NONE,
                 .held = MR_NEW_N(ctx, bool, placement->segments.n),
                 .bound = MR_NEW_N(ctx, uint32_t, placement->segments.n),
                 .state = MR_NEW_N(ctx, uint8_t, schedule->trace->storages.n)};
    for (r.cmd = 0; r.cmd < placement->cmds.n; r.cmd++) {
        const mr_cmd *cmd = &placement->cmds.at[r.cmd];
        if (!in_range(&r, cmd)) return foul(&r, "names what does not exist", cmd->id, 0);
        if (r.cmd == placement->start) MR_TRY(check_start(&r));
        if (r.cmd >= placement->start) MR_TRY(keep_step(&r, cmd));
        MR_TRY(carry_out(&r, cmd));
    }
    if (placement->start >= placement->cmds.n) MR_TRY(check_start(&r));
    MR_TRY(is_settled(&r, NULL));
    if (placement->oom_at == MR_NONE && next_event(&r))
        return foul(&r, "is missing: the schedule goes on with event", r.event,
                    schedule->events.n);
    return MR_OK;
}
