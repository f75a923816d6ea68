/* evaluate -- the whole pipeline in one function.  Read this first. */
#include "evaluate.h"

#include "rewrite_check.h"

/* What a recording must say for a rewrite to work on it: bit, what is missing, how
 * to get it. */
static mr_status check_needs(mr_ctx *ctx, const mr_strategy *strategy, const mr_trace *trace)
{
    static const struct need {
        unsigned bit;
        const char *what;
    } list[] = {
        {MR_HAS_DATAFLOW, "which tensors ops read and write"},
        {MR_HAS_PHASES, "which ops are of the forward and of the backward pass"},
        {MR_HAS_SAVED, "what ops save for the backward pass"},
        {MR_HAS_DROPS, "when the program drops tensors"},
        {MR_HAS_TIMES, "how long ops take"},
        {MR_HAS_HISTORY, "what the real allocator did"},
    };
    const unsigned missing = strategy->needs & ~trace->has;
    for (size_t i = 0; i < MR_COUNT(list); i++)
        if (missing & list[i].bit)
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "'%s' needs to know %s, which '%s' does not record (a recording by"
                           " traces/record/memreuse_record.py does)",
                           strategy->name, list[i].what, trace->name);
    return MR_OK;
}

/* A broken rewrite is a bug of the strategy, so the sentence says whose. */
static mr_status blame(mr_ctx *ctx, const mr_strategy *strategy, mr_status status)
{
    if (!status) return MR_OK;
    const char *text = mr_strdup(ctx, ctx->failure.text);
    return mr_fail(ctx, MR_EINVARIANT, "'%s' broke the step: %s", strategy->name, text);
}

static mr_status rewrite(mr_ctx *ctx, const mr_spec *spec, mr_trace *current)
{
    for (uint32_t i = 0; i < spec->rewrites.n; i++) {
        const mr_stage *stage = &spec->rewrites.at[i];
        MR_TRY(check_needs(ctx, stage->strategy, current));
        mr_trace next;
        MR_TRY(stage->strategy->rewrite(ctx, stage->params, current, &next));
        MR_TRY(blame(ctx, stage->strategy, mr_trace_check(ctx, &next)));
        MR_TRY(blame(ctx, stage->strategy, mr_rewrite_check(ctx, current, &next)));
        mr_rewrite_settle(ctx, &next);
        *current = next;
    }
    return MR_OK;
}

static mr_status schedule(mr_ctx *ctx, const mr_question *question, mr_answer *answer)
{
    mr_schedule once;
    MR_TRY(mr_schedule_make(ctx, &answer->trace, question->cuda_device, &once));
    mr_schedule_workspaces(ctx, &answer->trace, &once);
    if (question->iterations < 2) {
        answer->schedule = once;
        return MR_OK;
    }
    const bool fixed = question->spec->place.strategy->fixed_inputs;
    MR_TRY(mr_schedule_train(ctx, &answer->trace, &once, question->iterations,
                             fixed ? MR_BATCHES_SAME : question->batches, &answer->schedule));
    if (!answer->schedule.history) mr_schedule_first_step(ctx, &answer->trace, &answer->schedule);
    return MR_OK;
}

mr_status mr_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer)
{
    const mr_spec *spec = question->spec;
    const mr_device *device = question->device;
    answer->rewritten = *question->trace;
    MR_TRY(rewrite(ctx, spec, &answer->rewritten));
    answer->trace = answer->rewritten;
    MR_TRY(schedule(ctx, question, answer));

    answer->placement = (mr_placement){.schedule = &answer->schedule, .oom_at = MR_NONE};
    mr_placer placer = {
        .ctx = ctx,
        .capacity = question->capacity,
        .total = device->memory,
        .granularity = device->granularity ? device->granularity : 1,
        .addresses = question->as_recorded ? answer->schedule.history : NULL,
        .first_refusal_ends = !question->go_on,
        .out = &answer->placement,
    };
    MR_TRY(spec->place.strategy->place(ctx, spec->place.params, &answer->schedule, &placer));
    MR_TRY(mr_placement_check(ctx, &answer->placement, question->capacity, placer.granularity));

    return mr_replay(ctx, &answer->placement, device,
                     question->backend ? question->backend : &mr_backend_model,
                     question->manner, &answer->metrics);
}
