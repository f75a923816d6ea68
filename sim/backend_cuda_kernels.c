/* kernels -- finds those of kernels.cu on the device, and launches them. */
#include <string.h>

#include "backend_cuda.h"

enum { SPIN = 20000000 /* cycles: long against the clock's steps */ };

/* ---- beginning --------------------------------------------------------------------------- */

static mr_status find(mr_cuda *c, mr_ctx *ctx, const char *name, mr_cuda_function **out)
{
    return mr_cuda_check(ctx, &c->driver, c->driver.function(out, c->module, name),
                         "find a kernel");
}

/* At an address that a driver can read it from; a text ends with 0. */
static const void *aligned(mr_ctx *ctx, const unsigned char *image, unsigned long size)
{
    return memcpy(mr_alloc(ctx, size + 1), image, size);
}

static bool cannot_read(mr_cuda_result result)
{
    return result == MR_CUDA_BAD_IMAGE || result == MR_CUDA_NO_IMAGE
           || result == MR_CUDA_BAD_PTX || result == MR_CUDA_NO_COMPILER
           || result == MR_CUDA_PTX_TOO_NEW;
}

/* Machine code, and for a driver that does not know the compiler's, text that it compiles. */
static mr_cuda_result load_own(mr_cuda *c, mr_ctx *ctx)
{
    const mr_cuda_result result = c->driver.load(
        &c->module, aligned(ctx, mr_kernels_image, mr_kernels_image_size));
    if (!cannot_read(result)) return result;
    return c->driver.load(&c->module,
                          aligned(ctx, mr_kernels_older, mr_kernels_older_size));
}

static mr_status load(mr_cuda *c, mr_ctx *ctx)
{
    const void *given = c->manner.kernels;
    if (!given && !mr_kernels_image_size)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "this program was built without nvcc and has no kernels: build it where"
                       " the CUDA Toolkit is, or ask for --compute none");
    const mr_cuda_result result =
        given ? c->driver.load(&c->module, given) : load_own(c, ctx);
    if (result) c->module = NULL;
    if (cannot_read(result))
        return mr_fail(
            ctx, MR_EDEVICE,
            "the driver cannot run these kernels on %s: the driver is older than the"
            " CUDA Toolkit that they were built with, or the device older than Turing"
            " (CUDA error %d)",
            c->name, result);
    return mr_cuda_check(ctx, &c->driver, result, "load the kernels");
}

mr_status mr_cuda_launch_one(mr_cuda *c, mr_ctx *ctx, mr_cuda_function *kernel, uint32_t lane,
                             void **arguments)
{
    return mr_cuda_check(ctx, &c->driver,
                         c->driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, c->lane[lane].stream,
                                          arguments, NULL),
                         "launch a kernel");
}

/* Twice: the first time the device's clock may still be low. */
static mr_status measure_clock(mr_cuda *c, mr_ctx *ctx)
{
    uint64_t cycles = SPIN, ns = 0;
    void *arguments[] = {&c->report, &cycles};
    for (int i = 0; i < 2; i++) MR_TRY(mr_cuda_launch_one(c, ctx, c->clock, 0, arguments));
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.fetch(&ns, c->report, sizeof ns),
                         "copy a number"));
    c->cycles_per_ns = ns ? (double)cycles / (double)ns : 1;
    return MR_OK;
}

/* Both ways, on the lanes of copies. */
static mr_status copy_first(mr_cuda *c, mr_ctx *ctx)
{
    const mr_cuda_driver *d = &c->driver;
    void *host;
    mr_status status = mr_cuda_check(ctx, d, d->take_host(&host, sizeof(mr_report), 0),
                                     "pin host memory for a copy");
    if (status) return status;
    mr_cuda_result result =
        d->copy_out(host, c->report, sizeof(mr_report), c->lane[c->lanes - 2].stream);
    if (!result) result = d->wait();
    if (!result)
        result = d->copy_in(c->report, host, sizeof(mr_report), c->lane[c->lanes - 1].stream);
    if (!result) result = d->wait();
    status = mr_cuda_check(ctx, d, result, "copy over the host link");
    return mr_cuda_first(ctx, status, c, d->give_host(host), "take host memory back");
}

/* A driver may load a kernel when it is first launched, and make a stream's way to the device
 * when it is first used: the memory for that is not the replay's. */
static mr_status launch_first(mr_cuda *c, mr_ctx *ctx)
{
    uint64_t cycles = 0;
    void *arguments[] = {&cycles};
    mr_job job = {0};
    const mr_span span = {
        .at = c->report, .bytes = sizeof(mr_report), .mode = MR_SPAN_READ, .stride = 1};
    MR_TRY(mr_cuda_add(c, ctx, 0, &job, &span));
    MR_TRY(mr_cuda_launch(c, ctx, 0, &job));
    for (uint32_t l = 0; l < c->lanes; l++)
        if (c->lane[l].stream) MR_TRY(mr_cuda_launch_one(c, ctx, c->spin, l, arguments));
    if (c->several) MR_TRY(copy_first(c, ctx));
    if (c->manner.compute == MR_COMPUTE_FULL) MR_TRY(measure_clock(c, ctx));
    return mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work");
}

mr_status mr_cuda_kernels_open(mr_cuda *c, mr_ctx *ctx)
{
    const mr_cuda_driver *d = &c->driver;
    if (c->manner.compute == MR_COMPUTE_NONE && !c->manner.verify) return MR_OK;
    MR_TRY(load(c, ctx));
    MR_TRY(find(c, ctx, "mr_kernel_job", &c->job));
    MR_TRY(find(c, ctx, "mr_kernel_spin", &c->spin));
    MR_TRY(find(c, ctx, "mr_kernel_clock", &c->clock));
    const mr_cuda_result result = d->take(&c->report, sizeof(mr_report));
    if (result) c->report = 0;
    MR_TRY(mr_cuda_check(ctx, d, result, "give memory for a report"));
    c->mark = MR_NEW_N(ctx, uint32_t, c->trace->storages.n);
    c->first_value = MR_NEW_N(ctx, uint32_t, c->trace->ops.n);
    MR_TRY(launch_first(c, ctx));
    MR_TRY(mr_cuda_check(ctx, d, d->set(c->report, 0, sizeof(mr_report)), "clear a report"));
    return mr_cuda_check(ctx, d, d->wait(), "finish its work"); /* no stream waits for that */
}

/* As many blocks as keep the device busy, however many spans share it. */
static unsigned blocks_for(const mr_cuda *c, const mr_job *job)
{
    enum { PER_PROCESSOR = 8, WORDS_PER_THREAD = 4 };
    uint64_t most = 0, wanted;
    for (uint32_t i = 0; i < job->n; i++)
        if (job->spans[i].bytes > most) most = job->spans[i].bytes;
    wanted = most / ((uint64_t)MR_WORD * MR_THREADS * WORDS_PER_THREAD) + 1;
    const uint64_t cap = (uint64_t)c->processors * PER_PROCESSOR / job->n + 1;
    return (unsigned)(wanted < cap ? wanted : cap);
}

mr_status mr_cuda_launch(mr_cuda *c, mr_ctx *ctx, uint32_t lane, mr_job *job)
{
    void *arguments[] = {job};
    if (!job->n) return MR_OK;
    job->report = c->report;
    const mr_cuda_result result =
        c->driver.launch(c->job, blocks_for(c, job), job->n, 1, MR_THREADS, 1, 1, 0,
                         c->lane[lane].stream, arguments, NULL);
    job->n = 0;
    return mr_cuda_check(ctx, &c->driver, result, "launch a kernel");
}

mr_status mr_cuda_add(mr_cuda *c, mr_ctx *ctx, uint32_t lane, mr_job *job, const mr_span *span)
{
    if (!span->bytes || !span->at) return MR_OK;
    if (job->n == MR_SPANS) MR_TRY(mr_cuda_launch(c, ctx, lane, job));
    job->spans[job->n++] = *span;
    return MR_OK;
}
