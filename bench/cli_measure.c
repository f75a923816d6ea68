/* measure -- carries the placements of a comparison out on a device, one after the other. */
#include <string.h>

#include "compare.h"

uint32_t mr_gpu_of(const mr_args *args)
{
    return args->gpu == MR_NONE ? 0 : (uint32_t)args->gpu;
}

mr_status mr_measure_options(mr_ctx *ctx, const mr_args *args, mr_comparison *out)
{
    const char *compute = args->compute ? args->compute : "touch";
    const bool touch = strcmp(compute, "touch") == 0, none = strcmp(compute, "none") == 0;
    const bool cuda = strcmp(args->on, "cuda") == 0;
    const char *idle = args->verify           ? "verify"
                       : args->limit          ? "limit"
                       : args->compute        ? "compute"
                       : args->gpu != MR_NONE ? "gpu"
                                              : NULL;
    if (!cuda && idle)
        return mr_fail(ctx, MR_EUSAGE, "--%s is for devices: say --on cuda as well", idle);
    out->backend = cuda ? &mr_backend_cuda : NULL;
    out->manner = (mr_manner){.compute = none    ? MR_COMPUTE_NONE
                                         : touch ? MR_COMPUTE_TOUCH
                                                 : MR_COMPUTE_FULL,
                              .verify = args->verify,
                              .limit = args->limit,
                              .gpu = mr_gpu_of(args),
                              .stop = mr_signal_waits};
    return MR_OK;
}

mr_status mr_measure_probe(mr_ctx *ctx, const mr_scene *scene, const mr_comparison *c)
{
    mr_trace nothing;
    void *self;
    mr_trace_init(ctx, &nothing, "nothing");
    const mr_assignment assignment = {&scene->device, &nothing, c->manner};
    MR_TRY(c->backend->open(ctx, &assignment, &self));
    return c->backend->close(self, ctx, MR_OK);
}

/* What is only a bound is carried out by nobody. */
static mr_status measure(mr_ctx *ctx, const mr_comparison *c, mr_cell *cell)
{
    const mr_scene *scene = c->scene;
    const mr_question question = mr_scene_question(scene, cell->spec, cell->cuda_device);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_evaluate(ctx, &question, answer));
    if (answer->placement.ideal) return MR_OK;
    MR_TRY(mr_replay(ctx, &answer->placement, &scene->device, c->backend, &c->manner,
                     &cell->measured));
    cell->was_measured = true;
    return MR_OK;
}

/* Ctrl-C waits until the device has got everything back. */
void mr_measure(mr_comparison *c)
{
    mr_signals_hold();
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++) {
        mr_ctx ctx = {0};
        mr_cell *cell = &c->cells[i];
        if (!cell->failure.status && !mr_signal_waits() && measure(&ctx, c, cell) != MR_OK)
            cell->not_measured = ctx.failure;
        mr_ctx_clear(&ctx);
    }
    mr_signals_let();
}
