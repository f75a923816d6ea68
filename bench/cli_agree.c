/* agree -- truth and prediction are both lists of commands, compared in step. */
#include "agree.h"

#include <stdlib.h>

/* ---- reading either side ----------------------------------------------------------------- */

/* Taking or leaving a range of addresses is no memory operation, and running an op is none. */
static bool is_deed(const mr_cmd *cmd, const mr_segment *segments)
{
    if (cmd->kind == MR_EXEC) return false;
    if (cmd->kind != MR_RESERVE && cmd->kind != MR_RELEASE) return true;
    return !segments[cmd->block.segment].expandable;
}

static mr_deed deed_of(const mr_cmd *cmd, const mr_segment *segments, uint32_t command)
{
    mr_deed out = {.kind = cmd->kind, .id = cmd->id, .command = command};
    if (cmd->block.segment == MR_NONE) return out; /* a request of zero bytes, or refused */
    out.bytes = cmd->block.bytes;
    out.address = segments[cmd->block.segment].address + cmd->block.offset;
    return out;
}

static int by_id(const void *a, const void *b)
{
    const mr_deed *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Frees that complete together do so in the order of a hash table of streams. */
static void order_frees(mr_deeds *deeds)
{
    for (uint32_t i = 0; i < deeds->n;) {
        uint32_t n = 1;
        if (deeds->at[i].kind == MR_UNBIND)
            while (i + n < deeds->n && deeds->at[i + n].kind == MR_UNBIND) n++;
        qsort(deeds->at + i, n, sizeof *deeds->at, by_id);
        i += n;
    }
}

static mr_deeds deeds_of(mr_ctx *ctx, const mr_cmds *cmds, uint32_t from,
                         const mr_segment *segments)
{
    mr_deeds out = {0};
    for (uint32_t i = from; i < cmds->n; i++)
        if (is_deed(&cmds->at[i], segments))
            MR_PUSH(ctx, &out, deed_of(&cmds->at[i], segments, i));
    order_frees(&out);
    return out;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static bool same(const mr_deed *recorded, const mr_deed *predicted)
{
    if (recorded->kind != predicted->kind) return false;
    if (recorded->kind >= MR_BIND && recorded->id != predicted->id) return false;
    if (recorded->kind == MR_REFUSE) return true;
    if (recorded->address != predicted->address) return false;
    return !recorded->bytes || recorded->bytes == predicted->bytes;
}

static mr_event_kind event_of(mr_cmd_kind kind, const mr_storage *storage)
{
    if (kind == MR_BIND || kind == MR_REFUSE) return MR_ALLOC;
    return kind == MR_UNBIND && storage->deferred ? MR_DONE : MR_FREE;
}

/* The event of the recording that the commands from `at` on belong to: what a request makes the
 * allocator do stands before its allocation. */
static uint32_t event_number(const mr_trace *trace, const mr_history *history, uint32_t at)
{
    const mr_cmds *cmds = &history->cmds;
    while (at < cmds->n && (cmds->at[at].kind < MR_BIND || cmds->at[at].id == MR_NONE)) at++;
    if (at == cmds->n) return trace->events.n;
    const uint32_t id = cmds->at[at].id;
    const mr_event_kind kind = event_of(cmds->at[at].kind, &trace->storages.at[id]);
    for (uint32_t i = 0; i < trace->events.n; i++)
        if (trace->events.at[i].kind == kind && trace->events.at[i].id == id) return i;
    return trace->events.n;
}

void mr_agree(mr_ctx *ctx, const mr_history *history, const mr_placement *placement,
              mr_parting *out)
{
    const mr_trace *trace = placement->schedule->trace;
    const mr_deeds recorded = deeds_of(ctx, &history->cmds, 0, history->segments.at);
    const mr_deeds predicted =
        deeds_of(ctx, &placement->cmds, placement->start, placement->segments.at);
    uint32_t i = 0;
    while (i < recorded.n && i < predicted.n && same(&recorded.at[i], &predicted.at[i])) i++;
    *out = (mr_parting){.agreed = i, .event = trace->events.n};
    if (i == recorded.n && i == predicted.n) return;
    out->parted = true;
    if (i < recorded.n) out->recorded = &recorded.at[i];
    if (i < predicted.n) out->predicted = &predicted.at[i];
    if (out->recorded) out->event = event_number(trace, history, out->recorded->command);
}

uint32_t mr_count_deeds(mr_ctx *ctx, const mr_history *history, mr_cmd_kind first,
                        mr_cmd_kind last)
{
    const mr_deeds deeds = deeds_of(ctx, &history->cmds, 0, history->segments.at);
    uint32_t n = 0;
    for (uint32_t i = 0; i < deeds.n; i++)
        n += deeds.at[i].kind >= first && deeds.at[i].kind <= last;
    return n;
}

/* ---- deferred frees --------------------------------------------------------------------------- */

uint32_t mr_doubts(const mr_trace *trace, uint32_t event)
{
    if (event >= trace->events.n || trace->events.at[event].kind != MR_ALLOC) return 0;
    uint32_t n = 0;
    while (n < event && trace->events.at[event - n - 1].kind == MR_DONE) n++;
    return n;
}

void mr_put_off(mr_trace *trace, uint32_t event, uint32_t n)
{
    const mr_event request = trace->events.at[event];
    for (uint32_t i = event; i > event - n; i--) trace->events.at[i] = trace->events.at[i - 1];
    trace->events.at[event - n] = request;
}

void mr_put_back(mr_trace *trace, uint32_t event, uint32_t n)
{
    const mr_event request = trace->events.at[event - n];
    for (uint32_t i = event - n; i < event; i++) trace->events.at[i] = trace->events.at[i + 1];
    trace->events.at[event] = request;
}
