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

static bool stop(void *company)
{
    (void)company;
    return mr_signal_waits();
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
                       .stop = stop,
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

void mr_keep(mr_kept *kept, const mr_device *device, uint32_t gpu)
{
    mr_trace *nothing = MR_NEW(&kept->ctx, mr_trace);
    mr_trace_init(&kept->ctx, nothing, "nothing");
    const mr_assignment assignment = {
        device, nothing, {.compute = MR_COMPUTE_NONE, .gpu = gpu}, NULL};
    if (mr_backend_cuda.open(&kept->ctx, &assignment, &kept->self)) kept->self = NULL;
}

void mr_let_go(mr_kept *kept)
{
    if (kept->self) mr_backend_cuda.close(kept->self, &kept->ctx, MR_OK);
    mr_ctx_clear(&kept->ctx);
    kept->self = NULL;
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

/* One after the other where they share a GPU: its memory and time are one's alone. */
static bool share_gpus(const mr_comparison *c)
{
    for (uint32_t i = 0; i < c->scene->cuda_device_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (c->gpus[i] == c->gpus[k]) return true;
    return false;
}

static mr_cell *cell_at(const mr_comparison *c, uint32_t device, uint32_t spec)
{
    return &c->cells[device * c->specs + spec];
}

static mr_member member_of(const mr_comparison *c, uint32_t device, const mr_cell *cell)
{
    mr_member member = {.question = mr_scene_question(c->scene, cell->spec, cell->cuda_device),
                        .manner = c->manner};
    member.manner.gpu = c->gpus[device];
    return member;
}

/* What is predicted to fail is not tried.  False when something failed on a device. */
static bool measure_spec(const mr_comparison *c, uint32_t spec, uint32_t first, uint32_t n)
{
    mr_ctx ctx = {0};
    mr_member *members = MR_NEW_N(&ctx, mr_member, n);
    mr_cell **cells = MR_NEW_N(&ctx, mr_cell *, n);
    uint32_t begun = 0;
    bool well = true;
    for (uint32_t i = first; i < first + n && !mr_signal_waits(); i++) {
        mr_cell *cell = cell_at(c, i, spec);
        if (cell->failure.status) continue;
        cells[begun] = cell;
        members[begun++] = member_of(c, i, cell);
    }
    mr_carry_out_together(members, begun);
    for (uint32_t i = 0; i < begun; i++) {
        cells[i]->was_measured = members[i].measured;
        cells[i]->measured = members[i].metrics;
        if (members[i].status) cells[i]->not_measured = members[i].ctx.failure;
        well = well && !members[i].status;
        mr_ctx_clear(&members[i].ctx);
    }
    mr_ctx_clear(&ctx);
    return well;
}

static void keep_all(const mr_comparison *c, mr_kept *kept)
{
    for (uint32_t i = 0; i < c->scene->cuda_device_count; i++)
        mr_keep(&kept[i], &c->scene->device, c->gpus[i]);
}

static void let_all_go(const mr_comparison *c, mr_kept *kept)
{
    for (uint32_t i = c->scene->cuda_device_count; i-- > 0;) mr_let_go(&kept[i]);
}

/* Ctrl-C waits until the device has got everything back.  What failed may have left a context
 * useless. */
void mr_measure(mr_comparison *c)
{
    mr_ctx ctx = {0};
    const uint32_t devices = c->scene->cuda_device_count;
    const uint32_t at_once = share_gpus(c) ? 1 : devices;
    mr_kept *kept = MR_NEW_N(&ctx, mr_kept, devices);
    mr_signals_hold();
    keep_all(c, kept);
    for (uint32_t s = 0; s < c->specs; s++)
        for (uint32_t d = 0; d < devices; d += at_once)
            if (!measure_spec(c, s, d, at_once)) {
                let_all_go(c, kept);
                keep_all(c, kept);
            }
    let_all_go(c, kept);
    mr_signals_let();
    mr_ctx_clear(&ctx);
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
    mr_sink_print(sink, "measured on %s%s; predicted for %s\n\n", mr_show_manner(ctx, &manner),
                  c->scene->cuda_device_count > 1 && !share_gpus(c)
                      ? ", while the others were"
                      : "",
                  c->scene->device.name);
    mr_report_measureds(ctx, &rows, markdown, sink);
}

void mr_report_measured(mr_ctx *ctx, const mr_comparison *c, bool markdown, mr_sink *sink)
{
    for (uint32_t i = 0; i < c->scene->cuda_device_count; i++)
        report_one(ctx, c, i, markdown, sink);
}
