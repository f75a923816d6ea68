/* account -- what is live, and which ops made, saved and read each storage. */
#include "account.h"

#include <string.h>

mr_live mr_live_after(mr_ctx *ctx, const mr_schedule *schedule, uint32_t events)
{
    const mr_trace *trace = schedule->trace;
    mr_live set = {.is = MR_NEW_N(ctx, bool, trace->storages.n)};
    for (uint32_t s = 0; s < trace->storages.n; s++)
        set.is[s] =
            trace->storages.at[s].before && trace->storages.at[s].device == schedule->device;
    for (uint32_t i = 0; i < events; i++) {
        const mr_event e = schedule->events.at[i];
        if (e.kind > MR_DONE) continue;
        const mr_storage *s = &trace->storages.at[e.id];
        if (e.kind == MR_ALLOC) set.is[e.id] = !s->refused;
        else if (e.kind == MR_DONE || !s->deferred) set.is[e.id] = false;
    }
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        set.n += set.is[s];
        set.bytes += set.is[s] ? trace->storages.at[s].bytes : 0;
    }
    return set;
}

/* ---- the ledger -------------------------------------------------------------------------- */

static bool is_in(const mr_stretch *stretch, uint32_t event)
{
    return event >= stretch->first && event < stretch->end;
}

/* Is it kept because of the backward pass alone? */
static bool counts_as_saved(const mr_ledger *ledger, const mr_storage *s)
{
    return s->device == ledger->schedule->device && s->role != MR_ROLE_parameter
           && s->role != MR_ROLE_input;
}

static void enter_saved(mr_ledger *ledger, uint32_t id)
{
    const mr_trace *trace = ledger->schedule->trace;
    const mr_op *op = &trace->ops.at[id];
    for (uint32_t i = 0; i < op->saved.n && op->again == MR_NONE; i++) {
        const uint32_t s = trace->tensors.at[op->saved.at[i].tensor].storage;
        if (ledger->saver[s] != MR_NONE || !counts_as_saved(ledger, &trace->storages.at[s]))
            continue;
        ledger->saver[s] = id;
        ledger->as[s] = (uint8_t)op->saved.at[i].as;
    }
}

static void enter_op(mr_ledger *ledger, uint32_t id)
{
    const mr_trace *trace = ledger->schedule->trace;
    const mr_op *op = &trace->ops.at[id];
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = trace->tensors.at[op->out.at[i]].storage;
        if (ledger->maker[s] == MR_NONE && !trace->storages.at[s].before) ledger->maker[s] = id;
    }
    for (uint32_t i = 0; i < op->in.n; i++)
        ledger->reader[trace->tensors.at[op->in.at[i]].storage] = id;
}

static uint32_t *nobody(mr_ctx *ctx, uint32_t n)
{
    uint32_t *list = MR_NEW_N(ctx, uint32_t, n);
    if (n) memset(list, 0xff, n * sizeof *list);
    return list;
}

mr_ledger mr_ledger_make(mr_ctx *ctx, const mr_schedule *schedule, mr_stretch stretch,
                         uint32_t events)
{
    const uint32_t n = schedule->trace->storages.n;
    mr_ledger ledger = {.schedule = schedule,
                        .stretch = stretch,
                        .live = mr_live_after(ctx, schedule, events),
                        .maker = nobody(ctx, n),
                        .saver = nobody(ctx, n),
                        .reader = nobody(ctx, n),
                        .as = MR_NEW_N(ctx, uint8_t, n)};
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        if (schedule->events.at[e].kind != MR_RUN) continue;
        enter_op(&ledger, schedule->events.at[e].id);
        if (is_in(&stretch, e)) enter_saved(&ledger, schedule->events.at[e].id);
    }
    return ledger;
}
