/* backend_model -- a device as a sum of costs: what each call takes, from devices.csv. */
#include "backend.h"

typedef struct model {
    const mr_device *device;
    uint64_t memory, compute; /* ns */
} model;

static mr_status open(mr_ctx *ctx, const mr_device *device, void **self)
{
    model *m = MR_NEW(ctx, model);
    m->device = device;
    *self = m;
    return MR_OK;
}

static uint64_t mebibytes(uint64_t bytes)
{
    return bytes / MR_MIB;
}

static mr_status reserve(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    (void)ctx, (void)index;
    model *m = self;
    if (!segment->expandable) /* reserving addresses alone costs next to nothing */
        m->memory += m->device->malloc_ns
                     + m->device->malloc_ns_per_mib * mebibytes(segment->bytes);
    return MR_OK;
}

static void release(void *self, const mr_segment *segment, uint32_t index)
{
    (void)index;
    model *m = self;
    if (!segment->expandable)
        m->memory += m->device->free_ns
                     + m->device->free_ns_per_mib * mebibytes(segment->bytes);
}

/* Mapping costs by the physical allocation, whatever its size. */
static uint64_t pages(const mr_segment *segment, uint64_t bytes)
{
    return segment->page ? (bytes + segment->page - 1) / segment->page : 1;
}

static mr_status map(void *self, mr_ctx *ctx, const mr_segment *segment, const mr_block *stretch)
{
    (void)ctx;
    model *m = self;
    m->memory += m->device->map_ns_per_page * pages(segment, stretch->bytes);
    return MR_OK;
}

static void unmap(void *self, const mr_segment *segment, const mr_block *stretch)
{
    model *m = self;
    m->memory += m->device->unmap_ns_per_page * pages(segment, stretch->bytes);
}

static mr_status exec(void *self, mr_ctx *ctx, const mr_trace *trace, uint32_t op,
                      const mr_block *where)
{
    (void)ctx, (void)where;
    model *m = self;
    m->compute += trace->ops.at[op].ns;
    return MR_OK;
}

static uint64_t now(void *self)
{
    const model *m = self;
    return m->memory + m->compute;
}

static uint64_t memory_time(void *self)
{
    const model *m = self;
    return m->memory;
}

static void close(void *self)
{
    (void)self;
}

const mr_backend mr_backend_model = {
    .name = "model",
    .summary = "adds up what each call costs on the device",
    .open = open,
    .reserve = reserve,
    .release = release,
    .map = map,
    .unmap = unmap,
    .exec = exec,
    .now = now,
    .memory_time = memory_time,
    .close = close,
};
