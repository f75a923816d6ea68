/* c10_world.h -- the model of PyTorch's allocator with a device for it, for unit tests. */
#ifndef C10_WORLD_H
#define C10_WORLD_H

#include "c10.h"
#include "test.h"

/* ---- a device that hands out ascending addresses ---------------------------------------- */

typedef struct device {
    uint64_t capacity, used, next;
    uint64_t passed; /* events up to this ticket are done */
    uint64_t tickets;
    uint32_t recorded; /* stream of the last event */
} device;

static inline bool device_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    (void)stream;
    device *d = self;
    if (bytes > d->capacity - d->used) return false;
    d->used += bytes;
    *address = d->next;
    d->next += bytes;
    return true;
}

static inline void device_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)address;
    ((device *)self)->used -= bytes;
}

static inline uint64_t device_reserve(void *self, uint64_t bytes, uint64_t page,
                                      uint32_t stream)
{
    (void)page, (void)stream;
    device *d = self;
    d->next += bytes;
    return d->next - bytes;
}

static inline void device_unreserve(void *self, uint64_t address, uint64_t bytes)
{
    (void)self, (void)address, (void)bytes;
}

static inline bool device_map(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    return device_malloc(self, bytes, 0, &address);
}

static inline void device_unmap(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    device_free(self, address, bytes);
}

static inline uint64_t device_available(void *self)
{
    const device *d = self;
    return d->capacity - d->used;
}

static inline uint64_t device_record(void *self, uint32_t stream)
{
    device *d = self;
    d->recorded = stream;
    return ++d->tickets;
}

static inline bool device_done(void *self, uint32_t stream, uint64_t ticket)
{
    (void)stream;
    return ticket <= ((device *)self)->passed;
}

static inline void device_synchronize(void *self, uint32_t stream, uint64_t ticket)
{
    (void)stream;
    device *d = self;
    if (ticket != UINT64_MAX && ticket > d->passed) d->passed = ticket;
}

typedef struct world {
    mr_ctx ctx;
    device device;
    c10_allocator *allocator;
} world;

static inline void start(world *w, c10_version version, const char *conf)
{
    *w = (world){.device = {.capacity = 8 * MR_GIB, .next = 64 * MR_GIB}};
    const c10_device calls = {
        .self = &w->device,
        .total = w->device.capacity,
        .malloc = device_malloc,
        .free = device_free,
        .reserve = device_reserve,
        .unreserve = device_unreserve,
        .map = device_map,
        .unmap = device_unmap,
        .available = device_available,
        .record = device_record,
        .done = device_done,
        .synchronize = device_synchronize,
    };
    c10_options options;
    c10_options_init(&options, version);
    CHECK_EQ(c10_options_parse(&w->ctx, version, conf, &options), MR_OK);
    w->allocator = c10_new(&w->ctx, &calls, version, &options);
}

static inline void end(world *w)
{
    mr_ctx_clear(&w->ctx);
}

static inline c10_lease request(world *w, uint64_t bytes, uint32_t stream)
{
    c10_lease lease;
    CHECK(c10_malloc(w->allocator, bytes, stream, &lease));
    return lease;
}

#endif
