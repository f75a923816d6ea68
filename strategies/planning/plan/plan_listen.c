/* plan_listen -- from a schedule to a problem.
 *
 * The driver of online allocators says which requests come in which order, whatever a schedule
 * is made of: what lives before it, iterations, blocks that are carried over.  So an allocator
 * that only listens learns of every block when it begins and when it ends; a clock ticks with
 * each.
 */
#include "plan.h"

typedef struct listener {
    mr_ctx *ctx;
    plan_problem *problem;
    uint64_t clock, align;
} listener;

/* Iterations that are over. */
static void look_up(listener *l, const mr_placement *heard)
{
    while (l->problem->turns.n < heard->seams.n)
        MR_PUSH(l->ctx, &l->problem->turns, l->clock);
}

static bool hear_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    listener *l = self;
    look_up(l, placer->out);
    *out = (mr_block){
        .segment = MR_NONE, .handle = l->problem->buffers.n, .bytes = request->bytes};
    if (!request->bytes) return true;
    const plan_buffer buffer = {.name = "",
                                .lower = l->clock++,
                                .upper = UINT64_MAX,
                                .bytes = request->bytes,
                                .align = l->align,
                                .fixed = PLAN_ANYWHERE};
    plan_add(l->ctx, l->problem, &buffer);
    return true;
}

static void hear_free(void *self, mr_placer *placer, const mr_block *block)
{
    listener *l = self;
    look_up(l, placer->out);
    if (block->bytes) l->problem->buffers.at[block->handle].upper = l->clock++;
}

/* A buffer is called by the number of the storage that it was first bound to. */
static void name(mr_ctx *ctx, const mr_placement *heard, plan_problem *problem)
{
    for (uint32_t c = 0; c < heard->cmds.n; c++) {
        const mr_cmd *cmd = &heard->cmds.at[c];
        if (cmd->kind != MR_BIND || !cmd->block.bytes) continue;
        plan_buffer *b = &problem->buffers.at[cmd->block.handle];
        if (!*b->name) b->name = mr_printf(ctx, "%u", cmd->id);
    }
}

/* Requests and releases before the first event. */
static uint64_t count_before(const mr_placement *heard)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < heard->start; c++) {
        const mr_cmd *cmd = &heard->cmds.at[c];
        n += (cmd->kind == MR_BIND || cmd->kind == MR_UNBIND) && cmd->block.bytes;
    }
    return n;
}

mr_status plan_listen(mr_ctx *ctx, const mr_schedule *schedule, uint64_t align,
                      plan_problem *out)
{
    *out = (plan_problem){0};
    listener l = {.ctx = ctx, .problem = out, .align = align};
    const mr_online policy = {.self = &l, .alloc = hear_alloc, .free = hear_free};
    mr_placement heard = {.schedule = schedule, .oom_at = MR_NONE};
    mr_placer placer = {.ctx = ctx,
                        .capacity = UINT64_MAX,
                        .total = UINT64_MAX,
                        .granularity = 1,
                        .out = &heard};
    MR_TRY(mr_place_online(&placer, schedule, &policy));
    look_up(&l, &heard);
    out->begin = count_before(&heard);
    for (uint32_t i = 0; i < out->buffers.n; i++)
        if (out->buffers.at[i].upper == UINT64_MAX) out->buffers.at[i].upper = l.clock;
    name(ctx, &heard, out);
    return out->buffers.n ? plan_prepare(ctx, out) : MR_OK;
}
