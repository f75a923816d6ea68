/* backend.h -- something that carries commands out: the model of a device, or a device. */
#ifndef MR_BACKEND_H
#define MR_BACKEND_H

#include "placement.h"

/* ns since open, and what they went into; all of them only grow. */
typedef struct mr_times {
    uint64_t now;
    uint64_t memory;    /* taking and giving back memory */
    uint64_t recompute; /* kernels that compute something again */
    uint64_t starved;   /* no kernel ran, for the host had issued none */
    uint64_t exposed;   /* no kernel ran, for a copy or communication had to come first */
} mr_times;

/* No decisions here: a strategy has made them, the loop over commands is in replay.c. */
typedef struct mr_backend {
    const char *name, *summary;
    mr_status (*open)(mr_ctx *ctx, const mr_device *device, const mr_trace *trace, void **self);
    mr_status (*reserve)(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
    void (*release)(void *self, const mr_segment *segment, uint32_t index);
    mr_status (*map)(void *self, mr_ctx *ctx, const mr_segment *segment,
                     const mr_block *stretch);
    void (*unmap)(void *self, const mr_segment *segment, const mr_block *stretch);
    mr_status (*exec)(void *self, mr_ctx *ctx, uint32_t op,
                      const mr_block *where); /* where[storage] */
    mr_times (*times)(void *self); /* waits for what was issued */
    void (*close)(void *self);
} mr_backend;

extern const mr_backend mr_backend_model; /* tells the time by the numbers of a device */

#endif
