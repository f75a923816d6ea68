/* device.h -- a GPU as numbers.  Rows of bench/devices.csv; sources are in bench/devices.md. */
#ifndef MR_DEVICE_H
#define MR_DEVICE_H

#include "base.h"

/* field of mr_device, column of devices.csv and kind of number are one list; 0 means unknown */
#define MR_DEVICE_FIELDS(X)                                                           \
    X(memory)             /* bytes that cudaMemGetInfo reports as total */            \
    X(context)            /* bytes a CUDA context takes */                            \
    X(granularity)        /* bytes of the smallest physical allocation */             \
    X(bandwidth)          /* bytes per second */                                      \
    X(fp32)               /* FLOP per second, dense */                                \
    X(tf32) X(fp16) X(bf16) X(fp8)                                                    \
    X(link)               /* bytes per second to the host, one way */                 \
    X(malloc_ns)          /* cost of a cudaMalloc */                                  \
    X(malloc_ns_per_mib)                                                              \
    X(free_ns)            /* cost of a cudaFree */                                    \
    X(free_ns_per_mib)                                                                \
    X(map_ns_per_page)    /* creating, mapping and opening 2 MiB of memory */         \
    X(unmap_ns_per_page)                                                              \
    X(launch_ns)          /* cost of launching a kernel */

typedef struct mr_device {
    const char *name, *description, *source;
#define X(field) uint64_t field;
    MR_DEVICE_FIELDS(X)
#undef X
} mr_device;

/* Bytes a process can have beside its context. */
uint64_t mr_device_capacity(const mr_device *device);

#endif
