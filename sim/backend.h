/* backend.h -- something that carries commands out: the model of a device, or a device. */
#ifndef MR_BACKEND_H
#define MR_BACKEND_H

#include "placement.h"

/* No decisions here: a strategy has made them, the loop over commands is in replay.c. */
typedef struct mr_backend {
    const char *name, *summary;
    mr_status (*open)(mr_ctx *ctx, const mr_device *device, void **self);
    mr_status (*reserve)(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
    void (*release)(void *self, const mr_segment *segment, uint32_t index);
    mr_status (*map)(void *self, mr_ctx *ctx, const mr_segment *segment,
                     const mr_block *stretch);
    void (*unmap)(void *self, const mr_segment *segment, const mr_block *stretch);
    mr_status (*exec)(void *self, mr_ctx *ctx, const mr_trace *trace, uint32_t op,
                      const mr_block *where); /* where[storage] */
    uint64_t (*now)(void *self); /* ns; waits for what was issued */
    uint64_t (*memory_time)(void *self); /* part of it spent taking and giving back memory */
    void (*close)(void *self);
} mr_backend;

extern const mr_backend mr_backend_model; /* adds up the device's costs */

#endif
