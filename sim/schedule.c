/* schedule -- from a trace to what is allocated, run and freed, in order. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---- recorded lifetimes ------------------------------------------------------------------ */

static bool concerns(const mr_trace *trace, const mr_event *event, uint32_t device)
{
    switch (event->kind) {
    case MR_ALLOC:
    case MR_FREE:
    case MR_DONE: return trace->storages.at[event->id].device == device;
    case MR_FLUSH: return event->id == device;
    case MR_RUN:
    case MR_MARK: return true;
    case MR_DROP:
    case MR_CARRY: return false;
    }
    return false;
}

static void take_recorded(mr_ctx *ctx, const mr_trace *trace, mr_schedule *out)
{
    bool all = true;
    for (uint32_t e = 0; e < trace->events.n && all; e++)
        all = concerns(trace, &trace->events.at[e], out->device);
    if (all) { /* ten million events need no second copy: a schedule's are not written to */
        out->events.at = trace->events.at;
        out->events.n = out->events.cap = trace->events.n;
        return;
    }
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (concerns(trace, &trace->events.at[e], out->device))
            MR_PUSH(ctx, &out->events, trace->events.at[e]);
}

/* ---- derived lifetimes ------------------------------------------------------------------- */

typedef struct lives {
    const mr_trace *trace;
    uint32_t *last;  /* event after which a storage ends; MR_NONE: nothing ever used it */
    uint32_t *first; /* by event: of the storages that end with it the first, */
    uint32_t *next;  /* and for each the next */
} lives;

static void touch(lives *l, mr_ids tensors, uint32_t event)
{
    for (uint32_t i = 0; i < tensors.n; i++)
        l->last[l->trace->tensors.at[tensors.at[i]].storage] = event;
}

/* What an op saved is kept until the last op that computes its gradient has run. */
static void touch_saved(lives *l, const mr_op *op, uint32_t event)
{
    for (uint32_t i = 0; i < op->saved.n; i++)
        l->last[l->trace->tensors.at[op->saved.at[i].tensor].storage] = event;
}

static lives find_ends(mr_ctx *ctx, const mr_trace *trace)
{
    lives l = {.trace = trace,
               .last = MR_NEW_N(ctx, uint32_t, trace->storages.n),
               .first = MR_NEW_N(ctx, uint32_t, trace->events.n),
               .next = MR_NEW_N(ctx, uint32_t, trace->storages.n)};
    memset(l.last, 0xff, trace->storages.n * sizeof *l.last);
    memset(l.first, 0xff, trace->events.n * sizeof *l.first);
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event *event = &trace->events.at[e];
        if (event->kind == MR_DROP)
            l.last[trace->tensors.at[event->id].storage] = e;
        if (event->kind != MR_RUN) continue;
        const mr_op *op = &trace->ops.at[event->id];
        touch(&l, op->in, e);
        touch(&l, op->out, e);
        touch(&l, op->mutates, e);
        if (op->of == MR_NONE) continue;
        const mr_op *forward = &trace->ops.at[op->of];
        touch_saved(&l, forward, e);
        if (forward->again != MR_NONE) /* the first run has kept what the second one reads */
            touch_saved(&l, &trace->ops.at[forward->again], e);
    }
    for (uint32_t s = trace->storages.n; s-- > 0;) {
        if (l.last[s] == MR_NONE || trace->storages.at[s].after) continue;
        l.next[s] = l.first[l.last[s]];
        l.first[l.last[s]] = s;
    }
    return l;
}

bool mr_schedule_asks_backwards(const mr_op *op)
{
    return !strcmp(op->name, "aten::native_dropout"); /* on a GPU: the mask first */
}

static void give_birth(mr_ctx *ctx, const mr_trace *trace, const mr_op *op, bool *born,
                       mr_schedule *out)
{
    const bool backwards = mr_schedule_asks_backwards(op);
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t t = op->out.at[backwards ? op->out.n - 1 - i : i];
        const uint32_t s = trace->tensors.at[t].storage;
        if (born[s] || trace->storages.at[s].device != out->device) continue;
        born[s] = true;
        MR_PUSH(ctx, &out->events, (mr_event){MR_ALLOC, s});
    }
}

static void derive(mr_ctx *ctx, const mr_trace *trace, mr_schedule *out)
{
    const lives l = find_ends(ctx, trace);
    bool *born = MR_NEW_N(ctx, bool, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++) born[s] = trace->storages.at[s].before;
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event event = trace->events.at[e];
        if (event.kind == MR_RUN)
            give_birth(ctx, trace, &trace->ops.at[event.id], born, out);
        if (concerns(trace, &event, out->device)) MR_PUSH(ctx, &out->events, event);
        for (uint32_t s = l.first[e]; s != MR_NONE; s = l.next[s])
            if (born[s] && trace->storages.at[s].device == out->device)
                MR_PUSH(ctx, &out->events, (mr_event){MR_FREE, s});
    }
}

mr_status mr_schedule_make(mr_ctx *ctx, const mr_trace *trace, uint32_t device,
                           mr_schedule *out)
{
    *out = (mr_schedule){.trace = trace,
                         .device = device,
                         .history = mr_trace_history(trace, device)};
    if (mr_trace_knows_lives(trace)) take_recorded(ctx, trace, out);
    else derive(ctx, trace, out);
    MR_PUSH(ctx, &out->ends, out->events.n);
    if (out->events.n) return MR_OK;
    return mr_fail(ctx, MR_EINPUT, "'%s' has no events on device %u: nothing to place",
                   trace->name, device);
}

/* ---- workspaces -------------------------------------------------------------------------- */

/* An op runs on the device of what it writes or reads. */
static uint32_t device_of(const mr_trace *trace, const mr_op *op)
{
    const mr_ids lists[] = {op->out, op->mutates, op->in};
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        if (lists[l].n)
            return trace->storages.at[trace->tensors.at[lists[l].at[0]].storage].device;
    return 0;
}

static bool takes_inside(const mr_trace *trace, const mr_event *event, uint32_t device)
{
    if (event->kind != MR_RUN) return false;
    const mr_op *op = &trace->ops.at[event->id];
    return op->workspace && device_of(trace, op) == device;
}

static uint32_t add_workspace(mr_ctx *ctx, mr_trace *trace, uint32_t o, uint32_t device)
{
    const mr_op *op = &trace->ops.at[o];
    MR_PUSH(ctx, &trace->storages,
            (mr_storage){.bytes = op->workspace,
                         .stream = op->stream,
                         .stack = MR_NONE,
                         .device = (uint16_t)device,
                         .role = MR_ROLE_temporary,
                         .workspace = true,
                         .op = o});
    return trace->storages.n - 1;
}

void mr_schedule_workspaces(mr_ctx *ctx, mr_trace *trace, mr_schedule *schedule)
{
    const mr_schedule in = *schedule;
    uint32_t n = 0;
    if (!trace->ops.n || in.history) return;
    for (uint32_t e = 0; e < in.events.n; e++)
        n += takes_inside(trace, &in.events.at[e], in.device);
    if (!n) return;
    const mr_trace given = *trace;
    memset(&trace->storages, 0, sizeof trace->storages);
    MR_RESERVE_N(ctx, &trace->storages, given.storages.n + n);
    memcpy(trace->storages.at, given.storages.at, given.storages.n * sizeof *given.storages.at);
    trace->storages.n = given.storages.n;
    memset(&schedule->events, 0, sizeof schedule->events);
    MR_RESERVE_N(ctx, &schedule->events, in.events.n + 2 * n);
    for (uint32_t e = 0; e < in.events.n; e++) {
        const mr_event event = in.events.at[e];
        const bool takes = takes_inside(trace, &event, in.device);
        const uint32_t s = takes ? add_workspace(ctx, trace, event.id, in.device) : MR_NONE;
        if (takes) MR_PUSH(ctx, &schedule->events, (mr_event){MR_ALLOC, s});
        MR_PUSH(ctx, &schedule->events, event);
        if (takes) MR_PUSH(ctx, &schedule->events, (mr_event){MR_FREE, s});
    }
    schedule->ends.at[schedule->ends.n - 1] = schedule->events.n;
}

/* ---- the bound --------------------------------------------------------------------------- */

uint64_t mr_schedule_peak(const mr_schedule *schedule, uint32_t *at)
{
    const mr_trace *trace = schedule->trace;
    uint64_t live = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].before && trace->storages.at[s].device == schedule->device)
            live += trace->storages.at[s].bytes;
    uint64_t peak = live;
    *at = 0;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind != MR_ALLOC && event->kind != MR_FREE && event->kind != MR_DONE)
            continue;
        const mr_storage *storage = &trace->storages.at[event->id];
        if (storage->refused || (event->kind == MR_FREE && storage->deferred)) continue;
        if (event->kind != MR_ALLOC) live -= storage->bytes;
        else live += storage->bytes;
        if (live <= peak) continue;
        peak = live;
        *at = e;
    }
    return peak;
}
