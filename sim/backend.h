/* backend.h -- something that carries commands out: the model of a device, or a device. */
#ifndef MR_BACKEND_H
#define MR_BACKEND_H

#include "gpu_watch.h"
#include "placement.h"

/* What a device does in place of an op: name, how a report says it. */
#define MR_ACT_LIST(X)                                                     \
    X(product, "matrix products by cuBLAS")                                \
    X(convolution, "convolutions as equal matrix products by cuBLAS")      \
    X(touch, "tensors read and written")                                   \
    X(recorded, "time let pass as recorded")                               \
    X(modelled, "time let pass as modelled")                               \
    X(copy, "copies over the host's link")

typedef enum mr_act {
#define X(name, text) MR_ACT_##name,
    MR_ACT_LIST(X)
#undef X
        MR_ACT_N
} mr_act;

/* ns since open, and what they went into; all of them only grow. */
typedef struct mr_times {
    uint64_t now;
    uint64_t memory;    /* taking and giving back memory */
    uint64_t recompute; /* kernels that compute something again */
    uint64_t starved;   /* no kernel ran, for the host had issued none */
    uint64_t exposed;   /* no kernel ran, for a copy or communication had to come first */
    uint64_t held;      /* most bytes that the device itself said were taken; 0: nobody asked */
    mr_disturbance disturbance; /* of a device */
    uint64_t acts[MR_ACT_N]; /* by a device: what its ops are thought to take, by what it did */
} mr_times;

typedef enum mr_compute {
    MR_COMPUTE_NONE,  /* ops are not run */
    MR_COMPUTE_TOUCH, /* each reads and writes its tensors once */
    MR_COMPUTE_FULL,  /* and takes the time that it took, or is thought to take */
} mr_compute;

/* Somebody who is told what is being issued: ranges, one inside the other. */
typedef struct mr_listener {
    void (*begin)(const char *name);
    void (*end)(void);
} mr_listener;

/* How a device is to carry a placement out; the model needs none of it. */
typedef struct mr_manner {
    mr_compute compute;
    bool verify;     /* what is read is what was written, byte by byte */
    uint32_t stride; /* look at one word of 16 bytes in so many; 0: at all */
    uint64_t limit;  /* bytes that are left of the device, by a filler; 0: all */
    uint32_t gpu;    /* which device of the machine */
    const void *kernels; /* image of them; NULL: the one built in */
    void (*meet)(void *company); /* when the device is open, before the first command */
    bool (*stop)(void *company); /* asked between two commands; either may be NULL */
    void *company;               /* given to both */
    const mr_listener *listener; /* NULL: nobody wants to know */
} mr_manner;

/* What a backend is opened for. */
typedef struct mr_assignment {
    const mr_device *device;
    const mr_trace *trace;
    mr_manner manner;
    const mr_placement *placement; /* that will be carried out; NULL: none, only calls */
} mr_assignment;

/* No decisions here: a strategy has made them, the loop over commands is in replay.c.
 * Closing gives everything back and tells what went wrong first. */
typedef struct mr_backend {
    const char *name, *summary;
    bool real; /* really takes memory: what is only a bound cannot be carried out */
    mr_status (*open)(mr_ctx *ctx, const mr_assignment *assignment, void **self);
    mr_status (*reserve)(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
    mr_status (*release)(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
    mr_status (*map)(void *self, mr_ctx *ctx, const mr_segment *segment,
                     const mr_block *stretch);
    mr_status (*unmap)(void *self, mr_ctx *ctx, const mr_segment *segment,
                       const mr_block *stretch);
    mr_status (*bind)(void *self, mr_ctx *ctx, uint32_t storage,
                      const mr_block *block); /* may be NULL, like unbind */
    mr_status (*unbind)(void *self, mr_ctx *ctx, uint32_t storage);
    mr_status (*exec)(void *self, mr_ctx *ctx, uint32_t op);
    mr_status (*times)(void *self, mr_ctx *ctx, mr_times *out); /* waits for what was issued */
    mr_status (*close)(void *self, mr_ctx *ctx, mr_status status); /* how it went so far */
} mr_backend;

extern const mr_backend mr_backend_model; /* tells the time by the numbers of a device */
extern const mr_backend mr_backend_cuda;  /* a device, if there is one */

/* Measures a device: costs of calls, speeds, sizes.  What is not measured stays as it is. */
mr_status mr_cuda_calibrate(mr_ctx *ctx, const mr_manner *manner, mr_device *out);

#endif
