/* agree -- truth and prediction are both lists of commands, compared in step. */
#include "agree.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading either side ----------------------------------------------------------------- */

/* Taking or leaving a range of addresses is no memory operation; running an op, and asking for
 * a free that takes effect later, are the program's doing. */
static bool is_deed(const mr_cmd *cmd, const mr_segment *segments)
{
    if (cmd->kind == MR_EXEC || cmd->kind == MR_DEFER) return false;
    if (cmd->kind != MR_RESERVE && cmd->kind != MR_RELEASE) return true;
    return !segments[cmd->block.segment].expandable;
}

static mr_deed deed_of(const mr_cmd *cmd, const mr_segment *segments, uint32_t command)
{
    mr_deed out = {.kind = cmd->kind, .id = cmd->id, .command = command};
    if (cmd->kind == MR_REFUSE || cmd->block.segment == MR_NONE)
        return out; /* has no place: refused, or nothing was asked for */
    out.bytes = cmd->block.bytes;
    out.address = segments[cmd->block.segment].address + cmd->block.offset;
    return out;
}

static int by_id(const void *a, const void *b)
{
    const mr_deed *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_late_free(const mr_trace *trace, const mr_deed *deed)
{
    return deed->kind == MR_UNBIND && trace->storages.at[deed->id].deferred;
}

/* Deferred frees that complete together do so in the order of a hash table of streams. */
static void order_frees(const mr_trace *trace, mr_deeds *deeds)
{
    for (uint32_t i = 0; i < deeds->n; i++) {
        uint32_t n = 0;
        while (i + n < deeds->n && is_late_free(trace, &deeds->at[i + n])) n++;
        if (n > 1) qsort(deeds->at + i, n, sizeof *deeds->at, by_id);
        i += n;
    }
}

static mr_deeds deeds_of(mr_ctx *ctx, const mr_trace *trace, const mr_cmds *cmds, uint32_t from,
                         const mr_segment *segments)
{
    mr_deeds out = {0};
    for (uint32_t i = from; i < cmds->n; i++)
        if (is_deed(&cmds->at[i], segments))
            MR_PUSH(ctx, &out, deed_of(&cmds->at[i], segments, i));
    order_frees(trace, &out);
    return out;
}

/* ---- comparing --------------------------------------------------------------------------- */

static bool same(const mr_deed *recorded, const mr_deed *predicted)
{
    if (recorded->kind != predicted->kind) return false;
    if (recorded->kind >= MR_BIND && recorded->id != predicted->id) return false;
    if (recorded->kind == MR_REFUSE) return true;
    if (recorded->address != predicted->address) return false;
    return !recorded->bytes || recorded->bytes == predicted->bytes;
}

static mr_event_kind event_of(mr_cmd_kind kind)
{
    return kind == MR_BIND || kind == MR_REFUSE ? MR_ALLOC : MR_FREE;
}

/* What a request makes the allocator do stands before its allocation, deferred frees that
 * complete meanwhile among it. */
static bool belongs_to_next(const mr_trace *trace, const mr_cmd *cmd)
{
    if (cmd->kind < MR_BIND || cmd->id == MR_NONE) return true;
    return cmd->kind == MR_UNBIND && trace->storages.at[cmd->id].deferred;
}

/* The event of the recording that the commands from `at` on belong to. */
static uint32_t event_number(const mr_trace *trace, const mr_history *history, uint32_t at)
{
    const mr_cmds *cmds = &history->cmds;
    while (at < cmds->n && belongs_to_next(trace, &cmds->at[at])) at++;
    if (at == cmds->n) return trace->events.n;
    const uint32_t id = cmds->at[at].id;
    const mr_event_kind kind = event_of(cmds->at[at].kind);
    for (uint32_t i = 0; i < trace->events.n; i++)
        if (trace->events.at[i].kind == kind && trace->events.at[i].id == id) return i;
    return trace->events.n;
}

void mr_agree(mr_ctx *ctx, const mr_history *history, const mr_placement *placement,
              mr_parting *out)
{
    const mr_trace *trace = placement->schedule->trace;
    const mr_deeds recorded = deeds_of(ctx, trace, &history->cmds, 0, history->segments.at);
    const mr_deeds predicted =
        deeds_of(ctx, trace, &placement->cmds, placement->start, placement->segments.at);
    uint32_t i = 0;
    while (i < recorded.n && i < predicted.n && same(&recorded.at[i], &predicted.at[i])) i++;
    *out = (mr_parting){.agreed = i, .event = trace->events.n};
    if (i == recorded.n && i == predicted.n) return;
    out->parted = true;
    if (i < recorded.n) out->recorded = &recorded.at[i];
    if (i < predicted.n) out->predicted = &predicted.at[i];
    if (out->recorded) out->event = event_number(trace, history, out->recorded->command);
}

uint32_t mr_count_deeds(const mr_history *history, mr_cmd_kind first, mr_cmd_kind last)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < history->cmds.n; i++) {
        const mr_cmd *cmd = &history->cmds.at[i];
        n += is_deed(cmd, history->segments.at) && cmd->kind >= first && cmd->kind <= last;
    }
    return n;
}

/* ---- other readings ---------------------------------------------------------------------- */

/* What stands directly before a request, and is open to more than one reading. */
typedef struct before {
    uint32_t frees;   /* deferred ones that complete here */
    uint32_t flushes; /* empty_cache() */
    uint32_t hidden;  /* storage of a free that may have been a deferred one, MR_NONE */
} before;

static before look_before(const mr_trace *trace, uint32_t event)
{
    before b = {.hidden = MR_NONE};
    for (; event > 0; event--) {
        const mr_event *e = &trace->events.at[event - 1];
        if (e->kind == MR_DONE) b.frees++;
        else if (e->kind == MR_FLUSH) b.flushes++;
        else break;
    }
    const mr_event *last = event ? &trace->events.at[event - 1] : NULL;
    if (last && last->kind == MR_FREE && !trace->storages.at[last->id].deferred)
        b.hidden = last->id;
    return b;
}

/* Writes the events anew: the last `put_off` frees complete behind the request. */
static void rewrite(mr_ctx *ctx, const mr_trace *in, uint32_t event, const before *b,
                    const mr_reading *reading, mr_trace *out)
{
    const mr_event request = in->events.at[event];
    const uint32_t first = event - b->frees - b->flushes;
    const bool hidden = reading->put_off > b->frees;
    uint32_t polled = b->frees - (hidden ? b->frees : reading->put_off);
    MR_VEC(mr_event) late = {0};
    out->events.n = first;
    if (hidden) MR_PUSH(ctx, &late, (mr_event){MR_DONE, b->hidden});
    for (uint32_t i = first; i < event; i++) {
        const mr_event e = in->events.at[i];
        if (e.kind == MR_FLUSH && reading->no_flush) continue;
        if (e.kind == MR_DONE && !polled) {
            MR_PUSH(ctx, &late, e);
            continue;
        }
        if (e.kind == MR_DONE) polled--;
        MR_PUSH(ctx, &out->events, e);
    }
    if (reading->flush)
        MR_PUSH(ctx, &out->events,
                (mr_event){MR_FLUSH, in->storages.at[request.id].device});
    MR_PUSH(ctx, &out->events, request);
    for (uint32_t i = 0; i < late.n; i++) MR_PUSH(ctx, &out->events, late.at[i]);
    for (uint32_t i = event + 1; i < in->events.n; i++)
        MR_PUSH(ctx, &out->events, in->events.at[i]);
    if (hidden) out->storages.at[b->hidden].deferred = true;
}

/* The k-th other pool for a request: those of the recording, then one more. */
static bool other_pool(mr_ctx *ctx, uint32_t storage, uint32_t k, mr_trace *out)
{
    const uint32_t now = out->storages.at[storage].pool, pool = k < now ? k : k + 1;
    if (pool > out->pools.n) return false;
    if (pool == out->pools.n) {
        uint64_t id = 1;
        for (uint32_t i = 0; i < out->pools.n; i++)
            if (out->pools.at[i] >= id) id = out->pools.at[i] + 1;
        MR_PUSH(ctx, &out->pools, id);
    }
    out->storages.at[storage].pool = pool;
    return true;
}

bool mr_reread(mr_ctx *ctx, const mr_trace *trace, uint32_t event, uint32_t k, mr_trace *out,
               mr_reading *reading)
{
    if (event >= trace->events.n || trace->events.at[event].kind != MR_ALLOC) return false;
    const before b = look_before(trace, event);
    const uint32_t ways = b.frees + (b.hidden != MR_NONE) + 1; /* to put off none, one, ... */
    *reading = (mr_reading){0};
    mr_trace_copy(ctx, trace, out);
    if (k + 1 >= 2 * ways) {
        reading->pool = true;
        return other_pool(ctx, trace->events.at[event].id, k + 1 - 2 * ways, out);
    }
    const bool other_flush = k + 1 >= ways;
    *reading = (mr_reading){.put_off = (k + 1) % ways,
                            .flush = other_flush && !b.flushes,
                            .no_flush = other_flush && b.flushes};
    memset(&out->times, 0, sizeof out->times); /* no longer one per event */
    rewrite(ctx, trace, event, &b, reading, out);
    return true;
}
