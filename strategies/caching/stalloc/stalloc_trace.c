/* stalloc_trace -- the run that is listened to. */
#include "stalloc.h"

typedef struct listener {
    mr_ctx *ctx;
    stalloc_plan *plan;
} listener;

static bool hear_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    listener *l = self;
    const uint64_t units = request->bytes / STALLOC_UNIT + (request->bytes % STALLOC_UNIT != 0);
    *out = (mr_block){
        .segment = MR_NONE, .handle = l->plan->requests.n, .bytes = request->bytes};
    MR_PUSH(l->ctx, &l->plan->requests,
            (stalloc_request){.bytes = units * STALLOC_UNIT,
                              .stream = request->stream,
                              .pool = request->pool,
                              .turn = placer->out->seams.n,
                              .freed_in = MR_NONE,
                              .item = MR_NONE});
    return true;
}

static void hear_free(void *self, mr_placer *placer, const mr_block *block)
{
    const listener *l = self;
    stalloc_request *request = &l->plan->requests.at[block->handle];
    request->freed_in = placer->out->seams.n;
    request->freed_at = l->plan->requests.n;
}

static bool begins_step(const mr_schedule *schedule, uint32_t event)
{
    const mr_event *e = &schedule->events.at[event];
    return e->kind == MR_MARK && schedule->trace->marks.at[e->id].kind == MR_STEP_BEGIN;
}

/* Iterations end where steps do, if a recording has several. */
static void cut_into_steps(mr_ctx *ctx, mr_schedule *schedule)
{
    MR_VEC(uint32_t) begins = {0};
    for (uint32_t e = 0; e < schedule->events.n; e++)
        if (begins_step(schedule, e)) MR_PUSH(ctx, &begins, e);
    if (begins.n <= schedule->ends.n || begins.n < 2) return;
    const uint32_t n = begins.n;
    schedule->ends.at = begins.at + 1; /* the first one begins with the schedule */
    schedule->ends.n = schedule->ends.cap = n - 1;
}

static uint32_t count_before(const mr_placement *heard)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < heard->start; c++) n += heard->cmds.at[c].kind == MR_BIND;
    return n;
}

mr_status stalloc_trace(mr_ctx *ctx, const mr_schedule *schedule, stalloc_plan *out)
{
    *out = (stalloc_plan){0};
    mr_schedule heard_of = *schedule;
    cut_into_steps(ctx, &heard_of);
    listener l = {ctx, out};
    const mr_online policy = {.self = &l, .alloc = hear_alloc, .free = hear_free};
    mr_placement heard = {.schedule = &heard_of, .oom_at = MR_NONE};
    mr_placer placer = {.ctx = ctx,
                        .capacity = UINT64_MAX,
                        .total = UINT64_MAX,
                        .granularity = 1,
                        .out = &heard};
    MR_TRY(mr_place_online(&placer, &heard_of, &policy));
    out->before = count_before(&heard);
    for (uint32_t i = 0; i < out->requests.n; i++)
        if (out->requests.at[i].turn + 1 > out->turns)
            out->turns = out->requests.at[i].turn + 1;
    return MR_OK;
}
