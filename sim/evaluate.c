/* evaluate -- the whole pipeline in one function.  Read this first. */
#include "evaluate.h"

static mr_status rewrite(mr_ctx *ctx, const mr_spec *spec, mr_trace *current)
{
    for (uint32_t i = 0; i < spec->rewrites.n; i++) {
        const mr_stage *stage = &spec->rewrites.at[i];
        if (stage->strategy->needs & ~current->has)
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "'%s' needs more than '%s' records: an operator trace with dataflow",
                           stage->strategy->name, current->name);
        mr_trace next;
        MR_TRY(stage->strategy->rewrite(ctx, stage->params, current, &next));
        MR_TRY(mr_trace_check(ctx, &next));
        *current = next;
    }
    return MR_OK;
}

static mr_status schedule(mr_ctx *ctx, const mr_question *question, mr_answer *answer)
{
    if (question->iterations < 2)
        return mr_schedule_make(ctx, &answer->trace, question->cuda_device, &answer->schedule);
    mr_schedule once;
    MR_TRY(mr_schedule_make(ctx, &answer->trace, question->cuda_device, &once));
    return mr_schedule_repeat(ctx, &once, question->iterations, &answer->schedule);
}

mr_status mr_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer)
{
    const mr_spec *spec = question->spec;
    const mr_device *device = question->device;
    answer->trace = *question->trace;
    MR_TRY(rewrite(ctx, spec, &answer->trace));
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
                     &answer->metrics);
}
