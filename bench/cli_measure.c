/* measure -- carries placements out on a device, one after the other. */
#include <string.h>

#include "compare.h"
#include "measured.h"
#include "profiler.h"

uint32_t mr_gpu_of(const mr_args *args)
{
    return args->gpu == MR_NONE ? 0 : (uint32_t)args->gpu;
}

mr_manner mr_manner_of(const mr_args *args)
{
    const char *compute = args->compute ? args->compute : "touch";
    const bool touch = strcmp(compute, "touch") == 0, none = strcmp(compute, "none") == 0;
    return (mr_manner){.compute = none    ? MR_COMPUTE_NONE
                                  : touch ? MR_COMPUTE_TOUCH
                                          : MR_COMPUTE_FULL,
                       .verify = args->verify,
                       .limit = args->limit,
                       .gpu = mr_gpu_of(args),
                       .stop = mr_signal_waits,
                       .listener = mr_profiler()};
}

mr_status mr_probe(mr_ctx *ctx, const mr_device *device, const mr_manner *manner)
{
    mr_trace nothing;
    void *self;
    mr_trace_init(ctx, &nothing, "nothing");
    const mr_assignment assignment = {device, &nothing, *manner, NULL};
    MR_TRY(mr_backend_cuda.open(ctx, &assignment, &self));
    return mr_backend_cuda.close(self, ctx, MR_OK);
}

mr_status mr_carry_out(mr_ctx *ctx, const mr_question *question, const mr_manner *manner,
                       bool *measured, mr_metrics *out)
{
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    *measured = false;
    MR_TRY(mr_evaluate(ctx, question, answer));
    if (answer->placement.ideal) return MR_OK;
    if (manner->listener) manner->listener->begin(question->spec->text);
    const mr_status status =
        mr_replay(ctx, &answer->placement, question->device, &mr_backend_cuda, manner, out);
    if (manner->listener) manner->listener->end();
    *measured = !status;
    return status;
}

/* ---- of a comparison --------------------------------------------------------------------- */

mr_status mr_measure_options(mr_ctx *ctx, const mr_args *args, mr_comparison *out)
{
    out->on_device = strcmp(args->on, "cuda") == 0;
    const char *idle = args->verify           ? "verify"
                       : args->limit          ? "limit"
                       : args->compute        ? "compute"
                       : args->gpu != MR_NONE ? "gpu"
                                               : NULL;
    if (!out->on_device && idle)
        return mr_fail(ctx, MR_EUSAGE, "--%s is for devices: say --on cuda as well", idle);
    out->manner = mr_manner_of(args);
    return MR_OK;
}

/* Ctrl-C waits until the device has got everything back. */
void mr_measure(mr_comparison *c)
{
    mr_signals_hold();
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++) {
        mr_ctx ctx = {0};
        mr_cell *cell = &c->cells[i];
        const mr_question question = mr_scene_question(c->scene, cell->spec, cell->cuda_device);
        if (!cell->failure.status && !mr_signal_waits()
            && mr_carry_out(&ctx, &question, &c->manner, &cell->was_measured, &cell->measured))
            cell->not_measured = ctx.failure;
        mr_ctx_clear(&ctx);
    }
    mr_signals_let();
}

void mr_report_measured(mr_ctx *ctx, const mr_comparison *c, bool markdown, mr_sink *sink)
{
    mr_measureds rows = {0};
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++) {
        const mr_cell *cell = &c->cells[i];
        if (!cell->was_measured) continue;
        MR_PUSH(ctx, &rows,
                (mr_measured){cell->spec->text, &cell->metrics, &cell->measured});
    }
    mr_sink_print(sink, "\nmeasured on %s; predicted for %s\n\n",
                  mr_show_manner(ctx, &c->manner), c->scene->device.name);
    mr_report_measureds(ctx, &rows, markdown, sink);
}
