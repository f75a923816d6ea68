/* cuda_driver.h -- the functions of the CUDA driver that are used, looked up when asked for.
 *
 * The declarations are our own, so that no CUDA Toolkit is needed to build; tests/cuda compares
 * them with those of a toolkit where there is one.  Names of functions carry the version whose
 * signature stands here, which a driver keeps for ever.
 */
#ifndef MR_CUDA_DRIVER_H
#define MR_CUDA_DRIVER_H

#include "base.h"

typedef int mr_cuda_result; /* 0: success */
typedef uint64_t mr_cuda_pointer;
typedef uint64_t mr_cuda_handle; /* of physical memory */
typedef struct mr_cuda_stream mr_cuda_stream;
typedef struct mr_cuda_event mr_cuda_event;
typedef struct mr_cuda_context mr_cuda_context;
typedef struct mr_cuda_pool mr_cuda_pool;
typedef struct mr_cuda_module mr_cuda_module;
typedef struct mr_cuda_function mr_cuda_function;

enum { /* results that have a sentence of their own, or are expected */
    MR_CUDA_INVALID = 1,
    MR_CUDA_NO_MEMORY = 2,
    MR_CUDA_STUB = 34,
    MR_CUDA_UNAVAILABLE = 46,
    MR_CUDA_NO_DEVICE = 100,
    MR_CUDA_BAD_IMAGE = 200,
    MR_CUDA_NO_IMAGE = 209,
    MR_CUDA_BAD_PTX = 218,
    MR_CUDA_NO_COMPILER = 221,
    MR_CUDA_PTX_TOO_NEW = 222,
    MR_CUDA_NOT_ALLOWED = 304,
    MR_CUDA_NOT_READY = 802,
    MR_CUDA_MISMATCH = 803,
    MR_CUDA_NOT_COMPATIBLE = 804,
    MR_CUDA_UNKNOWN = 999,
};

enum { /* attributes of a device */
    MR_CUDA_PROCESSORS = 16,
    MR_CUDA_MODE = 20, /* 0 shared, 2 prohibited, 3 for one process */
    MR_CUDA_HAS_MAPPING = 102,
    MR_CUDA_HAS_POOLS = 115,
};

enum { /* attributes of a pool of memory: int, uint64_t, uint64_t */
    MR_CUDA_POOL_WAITS = 3, /* streams may be made to wait for memory that others have freed */
    MR_CUDA_POOL_KEEPS = 4, /* bytes that it does not give back of its own accord */
    MR_CUDA_POOL_PEAK = 6,  /* most bytes that it ever held */
};

enum { MR_CUDA_PINNED = 1, MR_CUDA_ON_DEVICE = 1, MR_CUDA_READ_WRITE = 3 };
enum { MR_CUDA_OF_ITS_OWN = 1, MR_CUDA_UNTIMED = 2 }; /* streams, events */

typedef struct mr_cuda_location {
    int type, id;
} mr_cuda_location;

typedef struct mr_cuda_property {
    int type, handles;
    mr_cuda_location location;
    void *unused;
    unsigned char flags[8];
} mr_cuda_property;

typedef struct mr_cuda_pool_property {
    int type, handles;
    mr_cuda_location location;
    void *unused;
    unsigned char flags[64];
} mr_cuda_pool_property;

typedef struct mr_cuda_access {
    mr_cuda_location location;
    int flags;
} mr_cuda_access;

/* field, name in the library, arguments; in the order of their first use */
#define MR_CUDA_CALLS(X)                                                                       \
    X(init, "cuInit", (unsigned flags))                                                        \
    X(version, "cuDriverGetVersion", (int *version))                                           \
    X(error_text, "cuGetErrorString", (mr_cuda_result result, const char **text))              \
    X(count, "cuDeviceGetCount", (int *n))                                                     \
    X(device, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(name, "cuDeviceGetName", (char *name, int n, int device))                                \
    X(bus, "cuDeviceGetPCIBusId", (char *bus, int n, int device))                              \
    X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))              \
    X(retain, "cuDevicePrimaryCtxRetain", (mr_cuda_context **context, int device))             \
    X(let_go, "cuDevicePrimaryCtxRelease_v2", (int device))                                    \
    X(use, "cuCtxSetCurrent", (mr_cuda_context *context))                                      \
    X(wait, "cuCtxSynchronize", (void))                                                        \
    X(info, "cuMemGetInfo_v2", (size_t *free, size_t *total))                                  \
    X(load, "cuModuleLoadData", (mr_cuda_module **module, const void *image))                  \
    X(unload, "cuModuleUnload", (mr_cuda_module *module))                                      \
    X(function, "cuModuleGetFunction",                                                         \
      (mr_cuda_function **function, mr_cuda_module *module, const char *name))                 \
    X(launch, "cuLaunchKernel",                                                                \
      (mr_cuda_function *function, unsigned x, unsigned y, unsigned z, unsigned threads_x,     \
       unsigned threads_y, unsigned threads_z, unsigned shared, mr_cuda_stream *stream,        \
       void **arguments, void **extra))                                                        \
    X(stream, "cuStreamCreate", (mr_cuda_stream **stream, unsigned flags))                     \
    X(end_stream, "cuStreamDestroy_v2", (mr_cuda_stream *stream))                              \
    X(stream_waits, "cuStreamWaitEvent",                                                       \
      (mr_cuda_stream *stream, mr_cuda_event *event, unsigned flags))                          \
    X(event, "cuEventCreate", (mr_cuda_event **event, unsigned flags))                         \
    X(end_event, "cuEventDestroy_v2", (mr_cuda_event *event))                                  \
    X(record, "cuEventRecord", (mr_cuda_event *event, mr_cuda_stream *stream))                 \
    X(elapsed, "cuEventElapsedTime", (float *ms, mr_cuda_event *from, mr_cuda_event *to))      \
    X(take, "cuMemAlloc_v2", (mr_cuda_pointer *at, size_t bytes))                              \
    X(give, "cuMemFree_v2", (mr_cuda_pointer at))                                              \
    X(take_host, "cuMemHostAlloc", (void **at, size_t bytes, unsigned flags))                  \
    X(give_host, "cuMemFreeHost", (void *at))                                                  \
    X(set, "cuMemsetD8_v2", (mr_cuda_pointer at, unsigned char byte, size_t n))                \
    X(fetch, "cuMemcpyDtoH_v2", (void *to, mr_cuda_pointer from, size_t bytes))                \
    X(copy_out, "cuMemcpyDtoHAsync_v2",                                                        \
      (void *to, mr_cuda_pointer from, size_t bytes, mr_cuda_stream *stream))                  \
    X(copy_in, "cuMemcpyHtoDAsync_v2",                                                         \
      (mr_cuda_pointer to, const void *from, size_t bytes, mr_cuda_stream *stream))            \
    X(granularity, "cuMemGetAllocationGranularity",                                            \
      (size_t *bytes, const mr_cuda_property *property, int recommended))                      \
    X(range, "cuMemAddressReserve",                                                            \
      (mr_cuda_pointer *at, size_t bytes, size_t align, mr_cuda_pointer near,                  \
       unsigned long long flags))                                                              \
    X(end_range, "cuMemAddressFree", (mr_cuda_pointer at, size_t bytes))                       \
    X(create, "cuMemCreate",                                                                   \
      (mr_cuda_handle *handle, size_t bytes, const mr_cuda_property *property,                 \
       unsigned long long flags))                                                              \
    X(end, "cuMemRelease", (mr_cuda_handle handle))                                            \
    X(map, "cuMemMap",                                                                         \
      (mr_cuda_pointer at, size_t bytes, size_t offset, mr_cuda_handle handle,                 \
       unsigned long long flags))                                                              \
    X(unmap, "cuMemUnmap", (mr_cuda_pointer at, size_t bytes))                                 \
    X(access, "cuMemSetAccess",                                                                \
      (mr_cuda_pointer at, size_t bytes, const mr_cuda_access *access, size_t n))              \
    X(pool, "cuMemPoolCreate", (mr_cuda_pool **pool, const mr_cuda_pool_property *property))   \
    X(end_pool, "cuMemPoolDestroy", (mr_cuda_pool *pool))                                      \
    X(set_pool, "cuMemPoolSetAttribute", (mr_cuda_pool *pool, int attribute, void *value))     \
    X(ask_pool, "cuMemPoolGetAttribute", (mr_cuda_pool *pool, int attribute, void *value))     \
    X(trim, "cuMemPoolTrimTo", (mr_cuda_pool *pool, size_t keep))                              \
    X(take_pooled, "cuMemAllocFromPoolAsync",                                                  \
      (mr_cuda_pointer *at, size_t bytes, mr_cuda_pool *pool, mr_cuda_stream *stream))         \
    X(give_pooled, "cuMemFreeAsync", (mr_cuda_pointer at, mr_cuda_stream *stream))

typedef struct mr_cuda_driver {
    void *library;
#define X(field, symbol, arguments) mr_cuda_result(*field) arguments;
    MR_CUDA_CALLS(X)
#undef X
} mr_cuda_driver;

/* Finds the driver and starts it.  MR_EDEVICE when there is none, or none that can be used. */
mr_status mr_cuda_driver_open(mr_ctx *ctx, mr_cuda_driver *driver);

/* MR_EDEVICE: "the device would not WHAT: out of memory (CUDA error 2)"; MR_OK for success. */
mr_status mr_cuda_check(mr_ctx *ctx, const mr_cuda_driver *driver, mr_cuda_result result,
                        const char *what);

#endif
