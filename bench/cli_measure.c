/* measure -- carries placements out on a device, one after the other. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "measured.h"
#include "profiler.h"

#define MOST_GPU 1023

/* The number that the text begins with; what is behind it. */
static mr_status take_gpu(mr_ctx *ctx, const char *all, const char **text, uint32_t *out)
{
    char *end;
    const unsigned long gpu = strtoul(*text, &end, 10);
    if (**text < '0' || **text > '9' || gpu > MOST_GPU || (*end && (*end != ',' || !end[1])))
        return mr_fail(ctx, MR_EUSAGE,
                       "--gpu is '%s', expected the number of a GPU, such as 0, or several,"
                       " such as 0,1",
                       all);
    *text = *end ? end + 1 : end;
    *out = (uint32_t)gpu;
    return MR_OK;
}

mr_status mr_gpus_of(mr_ctx *ctx, const mr_args *args, uint32_t devices, const uint32_t **out)
{
    uint32_t *gpus = MR_NEW_N(ctx, uint32_t, devices), n = 0, gpu = 0;
    const char *text = args->gpus;
    *out = gpus;
    if (!text) return MR_OK;
    do {
        MR_TRY(take_gpu(ctx, args->gpus, &text, &gpu));
        if (n < devices) gpus[n] = gpu;
        n++;
    } while (*text);
    if (n == devices) return MR_OK;
    if (n > 1)
        return mr_fail(ctx, MR_EUSAGE,
                       "--gpu names %" PRIu32 " GPUs for %s: name one for each, or one",
                       n, mr_show_count(ctx, devices, "device", "devices"));
    for (uint32_t i = 1; i < devices; i++) gpus[i] = gpu;
    return MR_OK;
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
    const char *idle = args->verify    ? "verify"
                       : args->limit   ? "limit"
                       : args->compute ? "compute"
                       : args->gpus    ? "gpu"
                                       : NULL;
    if (!out->on_device && idle)
        return mr_fail(ctx, MR_EUSAGE, "--%s is for devices: say --on cuda as well", idle);
    out->manner = mr_manner_of(args);
    return mr_gpus_of(ctx, args, out->scene->cuda_device_count, &out->gpus);
}

mr_status mr_measure_probe(mr_ctx *ctx, const mr_comparison *c)
{
    for (uint32_t i = 0; c->on_device && i < c->scene->cuda_device_count; i++) {
        mr_manner manner = c->manner;
        manner.gpu = c->gpus[i];
        MR_TRY(mr_probe(ctx, &c->scene->device, &manner));
    }
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
        mr_manner manner = c->manner;
        manner.gpu = c->gpus[i / c->specs];
        if (!cell->failure.status && !mr_signal_waits()
            && mr_carry_out(&ctx, &question, &manner, &cell->was_measured, &cell->measured))
            cell->not_measured = ctx.failure;
        mr_ctx_clear(&ctx);
    }
    mr_signals_let();
}

static void report_one(mr_ctx *ctx, const mr_comparison *c, uint32_t device, bool markdown,
                       mr_sink *sink)
{
    mr_measureds rows = {0};
    mr_manner manner = c->manner;
    manner.gpu = c->gpus[device];
    for (uint32_t i = 0; i < c->specs; i++) {
        const mr_cell *cell = &c->cells[device * c->specs + i];
        if (!cell->was_measured) continue;
        MR_PUSH(ctx, &rows, (mr_measured){cell->spec->text, &cell->metrics, &cell->measured});
    }
    mr_sink_print(sink, "\n");
    if (c->scene->cuda_device_count > 1)
        mr_sink_print(sink, "device %" PRIu32 " of the recording: ",
                      c->scene->cuda_devices[device]);
    mr_sink_print(sink, "measured on %s; predicted for %s\n\n", mr_show_manner(ctx, &manner),
                  c->scene->device.name);
    mr_report_measureds(ctx, &rows, markdown, sink);
}

void mr_report_measured(mr_ctx *ctx, const mr_comparison *c, bool markdown, mr_sink *sink)
{
    for (uint32_t i = 0; i < c->scene->cuda_device_count; i++)
        report_one(ctx, c, i, markdown, sink);
}
