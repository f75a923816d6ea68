/* backend_cuda -- a device of the machine carries a placement out.
 *
 * The driver is looked up at run time, so one build serves machines with and without it.  On
 * every way out everything is given back, and what went wrong first is told.
 */
#include "backend_cuda.h"

#include <time.h>

uint64_t mr_cuda_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the device -------------------------------------------------------------------------- */

static mr_status attribute(mr_cuda *c, mr_ctx *ctx, int which, int *out)
{
    return mr_cuda_check(ctx, &c->driver, c->driver.attribute(out, which, c->gpu),
                         "describe itself");
}

static mr_status choose_device(mr_cuda *c, mr_ctx *ctx)
{
    int n = 0;
    const mr_cuda_driver *d = &c->driver;
    MR_TRY(mr_cuda_check(ctx, d, d->count(&n), "count devices"));
    if (c->manner.gpu >= (uint32_t)n)
        return mr_fail(ctx, MR_EDEVICE, "there is no CUDA device %u, the driver sees %d",
                       c->manner.gpu, n);
    MR_TRY(mr_cuda_check(ctx, d, d->device(&c->gpu, (int)c->manner.gpu), "open the device"));
    MR_TRY(mr_cuda_check(ctx, d, d->name(c->name, sizeof c->name, c->gpu), "tell its name"));
    return attribute(c, ctx, MR_CUDA_PROCESSORS, &c->processors);
}

static mr_status check_device(mr_cuda *c, mr_ctx *ctx)
{
    enum { PROHIBITED = 2 };
    int mode = 0, mapping = 0;
    MR_TRY(attribute(c, ctx, MR_CUDA_MODE, &mode));
    MR_TRY(attribute(c, ctx, MR_CUDA_HAS_MAPPING, &mapping));
    if (mode == PROHIBITED)
        return mr_fail(ctx, MR_EDEVICE,
                       "%s takes no compute work (nvidia-smi -c DEFAULT changes that)",
                       c->name);
    if (mapping) return MR_OK;
    return mr_fail(ctx, MR_EDEVICE,
                   "%s cannot map memory at chosen addresses, which expandable segments need",
                   c->name);
}

static mr_status open_context(mr_cuda *c, mr_ctx *ctx)
{
    const mr_cuda_property property = {.type = MR_CUDA_PINNED,
                                       .location = {MR_CUDA_ON_DEVICE, c->gpu}};
    const mr_cuda_driver *d = &c->driver;
    size_t granularity = 0;
    const mr_cuda_result result = d->retain(&c->context, c->gpu);
    if (result) c->context = NULL;
    if (result == MR_CUDA_UNAVAILABLE)
        return mr_fail(ctx, MR_EDEVICE,
                       "%s is busy: another process has it for itself, or it is in exclusive"
                       " mode (nvidia-smi shows who; nvidia-smi -c DEFAULT ends the mode)",
                       c->name);
    if (result == MR_CUDA_NO_MEMORY)
        return mr_fail(ctx, MR_EDEVICE, "%s has not even memory for a context: others fill it",
                       c->name);
    MR_TRY(mr_cuda_check(ctx, d, result, "make a context"));
    MR_TRY(mr_cuda_check(ctx, d, d->use(c->context), "use its context"));
    c->inside = true;
    MR_TRY(mr_cuda_check(ctx, d, d->granularity(&granularity, &property, 0),
                         "tell the size of its pages"));
    c->granularity = granularity;
    return MR_OK;
}

/* ---- beginning and end ------------------------------------------------------------------- */

static mr_status watch(mr_cuda *c, mr_ctx *ctx)
{
    char bus[32];
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.bus(bus, sizeof bus, c->gpu),
                         "tell its place"));
    c->watch = mr_gpu_watch_open(ctx, bus);
    return MR_OK;
}

static mr_status begin(mr_cuda *c, mr_ctx *ctx, const mr_placement *placement)
{
    MR_TRY(choose_device(c, ctx));
    MR_TRY(watch(c, ctx));
    MR_TRY(check_device(c, ctx));
    MR_TRY(open_context(c, ctx));
    MR_TRY(mr_cuda_lanes_open(c, ctx));
    MR_TRY(mr_cuda_kernels_open(c, ctx));
    MR_TRY(mr_cuda_products_open(c, ctx));
    MR_TRY(mr_cuda_pool_open(c, ctx, placement));
    MR_TRY(mr_cuda_fill(c, ctx));
    c->began = mr_cuda_clock();
    return MR_OK;
}

/* Everything is tried, whatever fails before it. */
static mr_status give_back(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work");
    const mr_status ended = mr_cuda_products_close(c, ctx);
    if (!status) status = ended;
    const mr_status given = mr_cuda_give_all(c, ctx);
    if (!status) status = given;
    const mr_status closed = mr_cuda_lanes_close(c, ctx);
    if (!status) status = closed;
    if (c->module)
        status = mr_cuda_first(ctx, status, c, c->driver.unload(c->module),
                               "let the kernels go");
    return mr_cuda_first(ctx, status, c, c->driver.use(NULL), "leave its context");
}

static mr_status leave(mr_cuda *c, mr_ctx *ctx)
{
    mr_cuda_end_iteration(c);
    mr_gpu_watch_close(c->watch);
    const mr_status status = c->inside ? give_back(c, ctx) : MR_OK;
    if (!c->context) return status;
    return mr_cuda_first(ctx, status, c, c->driver.let_go(c->gpu), "let its context go");
}

static mr_status open(mr_ctx *ctx, const mr_assignment *assignment, void **self)
{
    mr_cuda *c = MR_NEW(ctx, mr_cuda);
    c->model = assignment->device;
    c->trace = assignment->trace;
    c->manner = assignment->manner;
    c->passed.block.segment = c->lifted.segment = MR_NONE;
    c->phase = MR_NONE;
    *self = c;
    MR_TRY(mr_cuda_driver_open(ctx, &c->driver));
    const mr_status status = begin(c, ctx, assignment->placement);
    if (!status) return MR_OK;
    const mr_failure first = ctx->failure;
    leave(c, ctx);
    ctx->failure = first;
    return status;
}

static mr_status times(void *self, mr_ctx *ctx, mr_times *out)
{
    mr_cuda *c = self;
    mr_cuda_end_iteration(c);
    mr_gpu_watch_look(c->watch, &c->times.disturbance); /* while it is busy */
    MR_TRY(mr_cuda_pool_give(c, ctx));
    MR_TRY(mr_cuda_look(c, ctx));
    MR_TRY(mr_cuda_pool_peak(c, ctx));
    *out = c->times;
    out->now = mr_cuda_clock() - c->began;
    out->held = c->seen_peak;
    return MR_OK;
}

static mr_status close(void *self, mr_ctx *ctx, mr_status status)
{
    mr_cuda *c = self;
    const mr_cuda_result used = c->driver.use(c->context); /* others may have left it */
    status = mr_cuda_first(ctx, status, c, used, "use its context");
    if (!status) status = mr_cuda_verify_all(c, ctx);
    const mr_failure first = ctx->failure;
    const mr_status given = leave(c, ctx);
    if (!status) return given;
    ctx->failure = first;
    return status;
}

const mr_backend mr_backend_cuda = {
    .name = "cuda",
    .summary = "carries everything out on a device of this machine and measures",
    .real = true,
    .open = open,
    .reserve = mr_cuda_reserve,
    .release = mr_cuda_release,
    .map = mr_cuda_map,
    .unmap = mr_cuda_unmap,
    .bind = mr_cuda_bind,
    .unbind = mr_cuda_unbind,
    .exec = mr_cuda_exec,
    .times = times,
    .close = close,
};
