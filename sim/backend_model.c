/* backend_model -- a device as clocks: what a call and an op take, from devices.csv.
 *
 * A recording that measured its ops is believed: they take what they took, and the host,
 * whose part was measured with them, is always ahead.  Copies, casts and transfers that a
 * rewrite has added were not there to be measured.
 */
#include "backend.h"
#include "cost.h"
#include "timeline.h"

typedef struct model {
    const mr_device *device;
    const mr_trace *trace;
    mr_timeline timeline;
    const mr_op *last;
    bool pooled;                /* storages are asked of a pool of the driver, one by one */
    uint64_t memory, recompute; /* ns */
} model;

static mr_status open(mr_ctx *ctx, const mr_assignment *assignment, void **self)
{
    model *m = MR_NEW(ctx, model);
    m->device = assignment->device;
    m->trace = assignment->trace;
    m->pooled = assignment->placement && assignment->placement->pooled != MR_NOT_POOLED;
    mr_timeline_begin(ctx, &m->timeline);
    *self = m;
    return MR_OK;
}

/* ---- calls ------------------------------------------------------------------------------- */

static void call(model *m, uint64_t ns)
{
    m->memory += ns;
    mr_timeline_host(&m->timeline, ns);
}

static uint64_t mebibytes(uint64_t bytes)
{
    return bytes / MR_MIB;
}

static mr_status reserve(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    (void)ctx, (void)index;
    model *m = self;
    const mr_device *d = m->device;
    if (m->pooled)
        call(m, d->pool_grow_ns + d->pool_grow_ns_per_mib * mebibytes(segment->bytes));
    else if (!segment->expandable) /* reserving addresses alone costs next to nothing */
        call(m, d->malloc_ns + d->malloc_ns_per_mib * mebibytes(segment->bytes));
    return MR_OK;
}

/* cudaFree waits for all of the device, and a pool is trimmed when that has been waited for. */
static mr_status release(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    (void)ctx, (void)index;
    model *m = self;
    const mr_device *d = m->device;
    const uint64_t size = mebibytes(segment->bytes);
    if (segment->expandable) return MR_OK;
    mr_timeline_settle(&m->timeline);
    call(m, m->pooled ? d->pool_trim_ns + d->pool_trim_ns_per_mib * size
                      : d->free_ns + d->free_ns_per_mib * size);
    return MR_OK;
}

/* Mapping costs by the physical allocation, whatever its size. */
static uint64_t pages(const mr_segment *segment, uint64_t bytes)
{
    return segment->page ? (bytes + segment->page - 1) / segment->page : 1;
}

static mr_status map(void *self, mr_ctx *ctx, const mr_segment *segment,
                     const mr_block *stretch)
{
    (void)ctx;
    model *m = self;
    if (stretch->handle == MR_STANDING) return MR_OK;
    call(m, m->device->map_ns_per_page * pages(segment, stretch->bytes));
    return MR_OK;
}

/* The driver does not wait here, so PyTorch does: for the stream that used the segment. */
static mr_status unmap(void *self, mr_ctx *ctx, const mr_segment *segment,
                       const mr_block *stretch)
{
    (void)ctx;
    model *m = self;
    if (stretch->handle == MR_STANDING) return MR_OK;
    mr_timeline_join(&m->timeline, segment->stream);
    call(m, m->device->unmap_ns_per_page * pages(segment, stretch->bytes));
    return MR_OK;
}

/* What an allocator of the program does for a storage is in the host's time of an op; calls of
 * the driver come on top. */
static mr_status bind(void *self, mr_ctx *ctx, uint32_t storage, const mr_block *block)
{
    (void)ctx, (void)block;
    model *m = self;
    if (m->pooled && m->trace->storages.at[storage].bytes) call(m, m->device->pool_take_ns);
    return MR_OK;
}

static mr_status unbind(void *self, mr_ctx *ctx, uint32_t storage)
{
    (void)ctx;
    model *m = self;
    if (m->pooled && m->trace->storages.at[storage].bytes) call(m, m->device->pool_give_ns);
    return MR_OK;
}

/* ---- ops --------------------------------------------------------------------------------- */

static uint64_t device_ns(const model *m, const mr_op *op, const mr_work *work)
{
    const bool added = op->added || op->moves || op->engine != MR_ENGINE_compute;
    if (op->ns) return op->ns;
    return m->trace->has & MR_HAS_TIMES && !added ? 0 : mr_device_ns(m->device, work);
}

static mr_status exec(void *self, mr_ctx *ctx, uint32_t o)
{
    (void)ctx;
    model *m = self;
    const mr_op *op = &m->trace->ops.at[o];
    const mr_work work = mr_work_of(m->trace, op);
    const uint64_t ns = device_ns(m, op, &work);
    const bool measured = m->trace->has & MR_HAS_TIMES;
    const uint64_t host_ns =
        measured ? 0 : mr_host_ns(m->device, &work) + mr_call_ns(m->device, m->last, op);
    m->last = op;
    mr_timeline_run(&m->timeline, m->trace, op, host_ns, ns);
    if (op->again != MR_NONE && op->engine == MR_ENGINE_compute) m->recompute += ns;
    if (work.waits) mr_timeline_join(&m->timeline, op->stream);
    return MR_OK;
}

static mr_status times(void *self, mr_ctx *ctx, mr_times *out)
{
    (void)ctx;
    model *m = self;
    *out = (mr_times){.now = mr_timeline_now(&m->timeline),
                      .memory = m->memory,
                      .recompute = m->recompute,
                      .starved = m->timeline.starved,
                      .exposed = m->timeline.exposed};
    return MR_OK;
}

static mr_status close(void *self, mr_ctx *ctx, mr_status status)
{
    (void)self, (void)ctx;
    return status;
}

const mr_backend mr_backend_model = {
    .name = "model",
    .summary = "tells what each call and op takes on the device",
    .open = open,
    .reserve = reserve,
    .release = release,
    .map = map,
    .unmap = unmap,
    .bind = bind,
    .unbind = unbind,
    .exec = exec,
    .times = times,
    .close = close,
};
