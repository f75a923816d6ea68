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
    X(pool_take_ns)       /* an allocation that a pool of the driver serves */        \
    X(pool_give_ns)       /* and what goes back to it */                              \
    X(pool_grow_ns)       /* it takes memory from the device, beyond that */          \
    X(pool_grow_ns_per_mib)                                                           \
    X(pool_trim_ns)       /* and gives it back */                                     \
    X(pool_trim_ns_per_mib)                                                           \
    X(processors)         /* streaming multiprocessors */                             \
    X(launch_ns)          /* host: the driver's share of launching a kernel */        \
    X(host_ns)            /* host: the framework's share of an op with a kernel */    \
    X(view_ns)            /* host: an op without a kernel, such as a view */          \
    X(module_ns)          /* host: a call of a module, in Python */                   \
    X(kernel_ns)          /* device: what the smallest kernel takes */                \
    X(link_ns)            /* what the smallest copy over the host link takes */       \
    X(interconnect)       /* bytes per second to other devices, one way; else the link */ \
    X(interconnect_ns)    /* one step of a ring of devices */                         \
    /* how much of a peak is reached, in thousandths */                               \
    X(eff_bandwidth)                                                                  \
    X(eff_matmul_fp32) X(eff_matmul_tf32) X(eff_matmul_half)                          \
    X(eff_conv_fp32) X(eff_conv_tf32) X(eff_conv_half)                                \
    X(eff_attention)      /* fused attention */                                       \
    X(eff_link) X(eff_interconnect)

/* Which fp32 work is done in TF32 where the device can.  PyTorch:
 * torch.backends.cudnn.allow_tf32 is set from the beginning,
 * torch.backends.cuda.matmul.allow_tf32 is not. */
typedef enum mr_tf32 { MR_TF32_CONV, MR_TF32_ALL, MR_TF32_OFF } mr_tf32;

typedef struct mr_device {
    const char *name, *description, *source;
    mr_tf32 use_tf32;
#define X(field) uint64_t field;
    MR_DEVICE_FIELDS(X)
#undef X
} mr_device;

/* Bytes a process can have beside its context. */
uint64_t mr_device_capacity(const mr_device *device);

#endif
