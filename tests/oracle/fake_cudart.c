/* fake_cudart.c -- the part of the CUDA runtime that c10/cuda calls.
 *
 * FAKE_CUDART_MAJOR selects the calling conventions of the 12.x or the 13.x
 * runtime; a few functions changed their parameters between the two.  With
 * -DFAKE_USE_HEADERS the definitions are checked against the installed CUDA
 * headers (only meaningful when those are of the same major version).
 */
#include "fakecuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_CUDART_MAJOR
#define FAKE_CUDART_MAJOR 13
#endif

#ifdef FAKE_USE_HEADERS
#include <cuda_runtime_api.h>
#undef cudaGetDeviceProperties
#undef cudaEventElapsedTime
#undef cudaStreamGetCaptureInfo
#else
typedef int cudaError_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorNotSupported = 801
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
struct cudaDeviceProp;
typedef struct {
    char reserved[64];
} cudaIpcMemHandle_t;
struct cudaMemPoolProps;
struct cudaMemAccessDesc;
typedef void (*cudaHostFn_t)(void *);
#define cudaMemcpyKindT int
#define cudaDeviceAttrT int
#define cudaMemPoolAttrT int
#define cudaStreamCaptureModeT int
#define cudaStreamCaptureStatusT int
#define cudaDriverEntryPointQueryResultT int
#endif
#ifdef FAKE_USE_HEADERS
#define cudaMemcpyKindT enum cudaMemcpyKind
#define cudaDeviceAttrT enum cudaDeviceAttr
#define cudaMemPoolAttrT enum cudaMemPoolAttr
#define cudaStreamCaptureModeT enum cudaStreamCaptureMode
#define cudaStreamCaptureStatusT enum cudaStreamCaptureStatus
#define cudaDriverEntryPointQueryResultT enum cudaDriverEntryPointQueryResult
#endif

#define API FC_PUBLIC

/* ---- the sticky error of the runtime, per thread ----------------------------- */
static _Thread_local int last_error;
static cudaError_t ret(int e)
{
    if (e) last_error = e;
    return (cudaError_t)e;
}

API cudaError_t cudaGetLastError(void)
{
    int e = last_error;
    last_error = 0;
    return (cudaError_t)e;
}
API cudaError_t cudaPeekAtLastError(void)
{
    return (cudaError_t)last_error;
}
API const char *cudaGetErrorString(cudaError_t e)
{
    switch ((int)e) {
    case 0: return "no error";
    case 1: return "invalid argument";
    case 2: return "out of memory";
    case 101: return "invalid device ordinal";
    case 600: return "device not ready";
    case 801: return "operation not supported";
    default: return "fake runtime error";
    }
}
API const char *cudaGetErrorName(cudaError_t e)
{
    switch ((int)e) {
    case 0: return "cudaSuccess";
    case 2: return "cudaErrorMemoryAllocation";
    case 600: return "cudaErrorNotReady";
    default: return "cudaErrorFake";
    }
}

/* ---- devices ------------------------------------------------------------------ */
API cudaError_t cudaGetDeviceCount(int *n)
{
    *n = fc_device_count();
    return cudaSuccess;
}
API cudaError_t cudaGetDevice(int *d)
{
    *d = fc_get_device();
    return cudaSuccess;
}
API cudaError_t cudaSetDevice(int d)
{
    return ret(fc_set_device(d));
}
API cudaError_t cudaDeviceSynchronize(void)
{
    fc_device_sync(fc_get_device());
    return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int *v)
{
    *v = FAKE_CUDART_MAJOR == 13 ? 13000 : 12090;
    return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = FAKE_CUDART_MAJOR == 13 ? 13000 : 12080;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttrT a, int d)
{
    (void)d;
    *v = fc_attribute((int)a);
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    *can = a != b;
    return cudaSuccess;
}
API cudaError_t cudaDeviceEnablePeerAccess(int d, unsigned f)
{
    (void)d;
    (void)f;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetPCIBusId(char *s, int len, int d)
{
    snprintf(s, (size_t)len, "0000:%02x:00.0", d + 1);
    return cudaSuccess;
}

/* Fields of release 13 that libtorch_cuda sizes its launches and its temporaries by. */
static const struct {
    size_t offset;
    int attribute;
} launch_props[] = {
    {324, 2},   {328, 3}, {332, 4}, /* maxThreadsDim               */
    {336, 5},   {340, 6}, {344, 7}, /* maxGridSize                 */
    {588, 41},                      /* unifiedAddressing           */
    {596, 38},                      /* l2CacheSize                 */
    {604, 39},                      /* maxThreadsPerMultiProcessor */
    {624, 81},                      /* sharedMemPerMultiprocessor  */
    {632, 82},                      /* regsPerMultiprocessor       */
    {668, 95},                      /* cooperativeLaunch           */
    {672, 97},                      /* sharedMemPerBlockOptin      */
    {688, 106},                     /* maxBlocksPerMultiProcessor  */
};
/* The beginning of cudaDeviceProp is the same in 12 and 13 up to maxGridSize; of 12 only
 * fields in that common part and the two version numbers are filled. */
static void fill_props(char *p, int d, int v13)
{
    uint64_t total = fc_total(d);
    memset(p, 0, v13 ? 1008 : 400);
    snprintf(p, 256, "fake device %d", d);
    memcpy(p + 288, &total, 8); /* totalGlobalMem            */
    const uint64_t smem = (uint64_t)fc_attribute(8);
    memcpy(p + 296, &smem, 8); /* sharedMemPerBlock         */
    const int regs = fc_attribute(12), warp = fc_attribute(10), threads = fc_attribute(1);
    const int major = fc_attribute(75), minor = fc_attribute(76), sm = fc_attribute(16);
    memcpy(p + 304, &regs, 4);
    memcpy(p + 308, &warp, 4);
    memcpy(p + 320, &threads, 4);
    memcpy(p + 360, &major, 4);
    memcpy(p + 364, &minor, 4);
    memcpy(p + (v13 ? 384 : 388), &sm, 4); /* multiProcessorCount       */
    for (size_t i = 0; v13 && i < sizeof launch_props / sizeof *launch_props; i++) {
        const int value = fc_attribute(launch_props[i].attribute);
        memcpy(p + launch_props[i].offset, &value, 4);
    }
}
#ifdef FAKE_USE_HEADERS
_Static_assert(offsetof(struct cudaDeviceProp, totalGlobalMem) == 288, "");
_Static_assert(offsetof(struct cudaDeviceProp, sharedMemPerBlock) == 296, "");
_Static_assert(offsetof(struct cudaDeviceProp, regsPerBlock) == 304, "");
_Static_assert(offsetof(struct cudaDeviceProp, warpSize) == 308, "");
_Static_assert(offsetof(struct cudaDeviceProp, maxThreadsPerBlock) == 320, "");
_Static_assert(offsetof(struct cudaDeviceProp, major) == 360, "");
_Static_assert(offsetof(struct cudaDeviceProp, minor) == 364, "");
#if FAKE_CUDART_MAJOR == 13
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "");
_Static_assert(offsetof(struct cudaDeviceProp, multiProcessorCount) == 384, "");
_Static_assert(offsetof(struct cudaDeviceProp, maxThreadsDim) == 324, "");
_Static_assert(offsetof(struct cudaDeviceProp, maxGridSize) == 336, "");
_Static_assert(offsetof(struct cudaDeviceProp, unifiedAddressing) == 588, "");
_Static_assert(offsetof(struct cudaDeviceProp, l2CacheSize) == 596, "");
_Static_assert(offsetof(struct cudaDeviceProp, maxThreadsPerMultiProcessor) == 604, "");
_Static_assert(offsetof(struct cudaDeviceProp, sharedMemPerMultiprocessor) == 624, "");
_Static_assert(offsetof(struct cudaDeviceProp, regsPerMultiprocessor) == 632, "");
_Static_assert(offsetof(struct cudaDeviceProp, cooperativeLaunch) == 668, "");
_Static_assert(offsetof(struct cudaDeviceProp, sharedMemPerBlockOptin) == 672, "");
_Static_assert(offsetof(struct cudaDeviceProp, maxBlocksPerMultiProcessor) == 688, "");
#endif
#endif
API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
    if (d < 0 || d >= fc_device_count()) return ret(101);
    fill_props((char *)p, d, FAKE_CUDART_MAJOR == 13);
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int d);
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int d)
{
    if (d < 0 || d >= fc_device_count()) return ret(101);
    fill_props((char *)p, d, 0);
    return cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------- */
API cudaError_t cudaMalloc(void **p, size_t size)
{
    uint64_t a = 0;
    int e = size ? fc_malloc(fc_get_device(), size, &a) : 0;
    *p = e ? NULL : (void *)(uintptr_t)a;
    return ret(e);
}
API cudaError_t cudaFree(void *p)
{
    return ret(fc_free((uintptr_t)p));
}
API cudaError_t cudaMemGetInfo(size_t *f, size_t *t)
{
    *f = fc_free_bytes(fc_get_device());
    *t = fc_total(fc_get_device());
    return cudaSuccess;
}
#ifndef FAKE_USE_HEADERS
struct attrs {
    int type, device;
    void *dev, *host;
    long reserved[8];
};
API cudaError_t cudaPointerGetAttributes(struct attrs *a, const void *p)
{
#else
API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
#endif
    uint64_t base, size;
    int dev = 0;
    int *w = (int *)a;
    void **q = (void **)a;
    int found = fc_lookup((uintptr_t)p, &base, &size, &dev) == 0;
    w[0] = found ? 2 : 0; /* device memory or unregistered */
    w[1] = found ? dev : -2;
    q[1] = found ? (void *)(uintptr_t)p : NULL;
    q[2] = NULL;
    return cudaSuccess;
}
/* Device memory has no contents: what is read from it is zero, what is written is lost. */
API cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKindT k)
{
    uint64_t base, size;
    int dev;
    int kind = (int)k; /* 0 host to host, 1 to the device, 2 from it, 3 within, 4 find out */
    if (kind == 4 && fc_lookup((uintptr_t)d, &base, &size, &dev))
        kind = fc_lookup((uintptr_t)s, &base, &size, &dev) ? 0 : 2;
    if (kind == 0) memmove(d, s, n);
    if (kind == 2) {
        fc_log("%zu bytes read from the device", n);
        memset(d, 0, n);
    }
    return cudaSuccess;
}
API cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKindT k,
                                cudaStream_t st)
{
    (void)st;
    return cudaMemcpy(d, s, n, k);
}
API cudaError_t cudaMemcpyPeerAsync(void *d, int dd, const void *s, int sd, size_t n,
                                    cudaStream_t st)
{
    (void)d;
    (void)dd;
    (void)s;
    (void)sd;
    (void)n;
    (void)st;
    return cudaSuccess;
}
API cudaError_t cudaMemset(void *d, int v, size_t n)
{
    (void)d;
    (void)v;
    (void)n;
    return cudaSuccess;
}
API cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t st)
{
    (void)d;
    (void)v;
    (void)n;
    (void)st;
    return cudaSuccess;
}
API cudaError_t cudaMallocManaged(void **p, size_t n, unsigned f)
{
    (void)f;
    return cudaMalloc(p, n);
}
#if FAKE_CUDART_MAJOR == 13
#ifndef FAKE_USE_HEADERS
struct cudaMemLocation {
    int type, id;
};
#define cudaMemoryAdviseT int
#else
#define cudaMemoryAdviseT enum cudaMemoryAdvise
#endif
API cudaError_t cudaMemAdvise(const void *p, size_t n, cudaMemoryAdviseT a,
                              struct cudaMemLocation l)
{
    (void)p;
    (void)n;
    (void)a;
    (void)l;
    return cudaSuccess;
}
#else
#ifndef FAKE_USE_HEADERS
#define cudaMemoryAdviseT int
#else
#define cudaMemoryAdviseT enum cudaMemoryAdvise
#endif
API cudaError_t cudaMemAdvise(const void *p, size_t n, cudaMemoryAdviseT a, int d)
{
    (void)p;
    (void)n;
    (void)a;
    (void)d;
    return cudaSuccess;
}
#endif
API cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f)
{
    (void)f;
    *p = malloc(n ? n : 1);
    return ret(*p ? 0 : 2);
}
API cudaError_t cudaMallocHost(void **p, size_t n)
{
    return cudaHostAlloc(p, n, 0);
}
API cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}
API cudaError_t cudaHostRegister(void *p, size_t n, unsigned f)
{
    (void)p;
    (void)n;
    (void)f;
    return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void *p)
{
    (void)p;
    return cudaSuccess;
}
API cudaError_t cudaHostGetDevicePointer(void **d, void *h, unsigned f)
{
    (void)f;
    *d = h;
    return cudaSuccess;
}
API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *h, void *p)
{
    memset(h, 0, sizeof *h);
    memcpy(h, &p, sizeof p);
    return cudaSuccess;
}
API cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t h, unsigned f)
{
    (void)f;
    memcpy(p, &h, sizeof *p);
    return cudaSuccess;
}
API cudaError_t cudaIpcCloseMemHandle(void *p)
{
    (void)p;
    return cudaSuccess;
}

/* ---- streams -------------------------------------------------------------------- */
API cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    *s = (cudaStream_t)fc_stream_create(fc_get_device(), 0);
    return cudaSuccess;
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f)
{
    (void)f;
    return cudaStreamCreate(s);
}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int prio)
{
    (void)f;
    *s = (cudaStream_t)fc_stream_create(fc_get_device(), prio);
    return cudaSuccess;
}
API cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    fc_stream_destroy((fc_stream *)s);
    return cudaSuccess;
}
API cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    fc_stream_sync(s);
    return cudaSuccess;
}
API cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return ret(fc_stream_idle(s) ? 0 : 600);
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f)
{
    (void)f;
    fc_stream_wait(s, (fc_event *)e);
    return cudaSuccess;
}
API cudaError_t cudaStreamGetPriority(cudaStream_t s, int *p)
{
    *p = fc_stream_priority(s);
    return cudaSuccess;
}
API cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned *f)
{
    (void)s;
    *f = 1;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long *id)
{
    *id = fc_stream_id(s);
    return cudaSuccess;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatusT *st)
{
    *st = (cudaStreamCaptureStatusT)(fc_stream_capture(s) ? 1 : 0);
    return cudaSuccess;
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureModeT *m)
{
    static _Thread_local int mode;
    int old = mode;
    mode = (int)*m;
    *m = (cudaStreamCaptureModeT)old;
    return cudaSuccess;
}
static void capture_info(void *s, int *status, unsigned long long *id)
{
    uint64_t c = fc_stream_capture(s);
    if (status) *status = c ? 1 : 0;
    if (id) *id = c;
}
#if FAKE_CUDART_MAJOR == 13
#ifndef FAKE_USE_HEADERS
typedef void cudaGraphEdgeData;
#endif
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatusT *st,
                                         unsigned long long *id, cudaGraph_t *g,
                                         const cudaGraphNode_t **deps,
                                         const cudaGraphEdgeData **edges, size_t *n)
{
    int v;
    capture_info(s, &v, id);
    *st = (cudaStreamCaptureStatusT)v;
    if (g) *g = NULL;
    if (deps) *deps = NULL;
    if (edges) *edges = NULL;
    if (n) *n = 0;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t n, cudaGraphNode_t *deps,
                                             cudaGraphEdgeData *edges, size_t *count)
{
    (void)n;
    (void)deps;
    (void)edges;
    *count = 0;
    return cudaSuccess;
}
#else
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatusT *st,
                                         unsigned long long *id)
{
    int v;
    capture_info(s, &v, id);
    *st = (cudaStreamCaptureStatusT)v;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, cudaStreamCaptureStatusT *st,
                                            unsigned long long *id, cudaGraph_t *g,
                                            const cudaGraphNode_t **deps, size_t *n)
{
    int v;
    capture_info(s, &v, id);
    *st = (cudaStreamCaptureStatusT)v;
    if (g) *g = NULL;
    if (deps) *deps = NULL;
    if (n) *n = 0;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t n, cudaGraphNode_t *deps,
                                             size_t *count)
{
    (void)n;
    (void)deps;
    *count = 0;
    return cudaSuccess;
}
#endif
API cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    (void)s;
    fn(arg);
    return cudaSuccess;
}

/* ---- events --------------------------------------------------------------------- */
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f)
{
    (void)f;
    *e = (cudaEvent_t)fc_event_create();
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}
API cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    fc_event_destroy((fc_event *)e);
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    fc_event_record((fc_event *)e, s);
    return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f)
{
    (void)f;
    return cudaEventRecord(e, s);
}
API cudaError_t cudaEventQuery(cudaEvent_t e)
{
    return ret(fc_event_done((fc_event *)e) ? 0 : 600);
}
API cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    fc_event_sync((fc_event *)e);
    return cudaSuccess;
}
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    (void)a;
    (void)b;
    *ms = 0;
    return cudaSuccess;
}
API cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t a, cudaEvent_t b);
cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    return cudaEventElapsedTime(ms, a, b);
}

/* ---- stream-ordered pools: present so that the backend can start.  The real
 * reuse rules live in the driver; this is no model of them. ---------------------- */
static struct pool {
    uint64_t reserved, reserved_hi, used, used_hi, threshold;
    int follow, opportunistic, internal;
} default_pool[16];
#define POOL_STEP ((uint64_t)32 << 20)

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *p, int d)
{
    *p = (cudaMemPool_t)&default_pool[d];
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *p, int d)
{
    return cudaDeviceGetDefaultMemPool(p, d);
}
API cudaError_t cudaDeviceSetMemPool(int d, cudaMemPool_t p)
{
    (void)d;
    (void)p;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolCreate(cudaMemPool_t *p, const struct cudaMemPoolProps *props)
{
    (void)props;
    *p = calloc(1, sizeof(struct pool));
    return cudaSuccess;
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t p)
{
    (void)p;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t mp, cudaMemPoolAttrT a, void *v)
{
    struct pool *p = (struct pool *)mp;
    switch ((int)a) {
    case 1: p->follow = *(int *)v; break;
    case 2: p->opportunistic = *(int *)v; break;
    case 3: p->internal = *(int *)v; break;
    case 4: p->threshold = *(uint64_t *)v; break;
    case 6: p->reserved_hi = p->reserved; break;
    case 8: p->used_hi = p->used; break;
    default: return ret(1);
    }
    return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t mp, cudaMemPoolAttrT a, void *v)
{
    struct pool *p = (struct pool *)mp;
    switch ((int)a) {
    case 1: *(int *)v = p->follow; break;
    case 2: *(int *)v = p->opportunistic; break;
    case 3: *(int *)v = p->internal; break;
    case 4: *(uint64_t *)v = p->threshold; break;
    case 5: *(uint64_t *)v = p->reserved; break;
    case 6: *(uint64_t *)v = p->reserved_hi; break;
    case 7: *(uint64_t *)v = p->used; break;
    case 8: *(uint64_t *)v = p->used_hi; break;
    default: return ret(1);
    }
    return cudaSuccess;
}
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t p, const struct cudaMemAccessDesc *d,
                                     size_t n)
{
    (void)p;
    (void)d;
    (void)n;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t mp, size_t keep)
{
    struct pool *p = (struct pool *)mp;
    uint64_t low = (p->used + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
    uint64_t want = keep > low ? keep : low;
    if (p->reserved > want) p->reserved = want;
    return cudaSuccess;
}
API cudaError_t cudaMallocAsync(void **out, size_t n, cudaStream_t s)
{
    (void)s;
    struct pool *p = &default_pool[fc_get_device()];
    uint64_t a = 0;
    int e = fc_malloc(fc_get_device(), n, &a);
    if (e) return ret(e);
    p->used += (n + 511) / 512 * 512;
    if (p->used > p->used_hi) p->used_hi = p->used;
    if (p->used > p->reserved) p->reserved = (p->used + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
    if (p->reserved > p->reserved_hi) p->reserved_hi = p->reserved;
    *out = (void *)(uintptr_t)a;
    return cudaSuccess;
}
API cudaError_t cudaFreeAsync(void *q, cudaStream_t s)
{
    (void)s;
    uint64_t base, size;
    int dev;
    if (fc_lookup((uintptr_t)q, &base, &size, &dev)) return ret(1);
    default_pool[dev].used -= (size + 511) / 512 * 512;
    return ret(fc_free(base));
}

/* Memory that captured graphs hold: none here. */
#ifndef FAKE_USE_HEADERS
#define cudaGraphMemAttributeT int
#else
#define cudaGraphMemAttributeT enum cudaGraphMemAttributeType
#endif
API cudaError_t cudaDeviceGetGraphMemAttribute(int d, cudaGraphMemAttributeT a, void *v)
{
    (void)d;
    (void)a;
    *(uint64_t *)v = 0;
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetGraphMemAttribute(int d, cudaGraphMemAttributeT a, void *v)
{
    (void)d;
    (void)a;
    (void)v;
    return cudaSuccess;
}

/* ---- driver entry points --------------------------------------------------------- */
FC_PUBLIC void *fakecuda_driver_symbol(const char *name); /* in libcuda.so.1 */
__attribute__((weak)) void *fakecuda_driver_symbol(const char *name);
static cudaError_t entry(const char *name, void **fn, int *res)
{
    *fn = fakecuda_driver_symbol ? fakecuda_driver_symbol(name) : NULL;
    if (res) *res = *fn ? 0 : 1; /* success or symbol not found */
    fc_log("entry point %s -> %s", name, *fn ? "found" : "absent");
    return cudaSuccess;
}
API cudaError_t cudaGetDriverEntryPoint(const char *name, void **fn, unsigned long long flags,
                                        cudaDriverEntryPointQueryResultT *r)
{
    (void)flags;
    int v;
    cudaError_t e = entry(name, fn, &v);
    if (r) *r = (cudaDriverEntryPointQueryResultT)v;
    return e;
}
API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **fn, unsigned version,
                                                 unsigned long long flags,
                                                 cudaDriverEntryPointQueryResultT *r)
{
    (void)version;
    return cudaGetDriverEntryPoint(name, fn, flags, r);
}

/* ---- module registration: enough for a library that carries kernels to load ------ */
API void **__cudaRegisterFatBinary(void *b);
void **__cudaRegisterFatBinary(void *b)
{
    static void *slot[1];
    slot[0] = b;
    return slot;
}
API void __cudaRegisterFatBinaryEnd(void **h);
void __cudaRegisterFatBinaryEnd(void **h)
{
    (void)h;
}
API void __cudaUnregisterFatBinary(void **h);
void __cudaUnregisterFatBinary(void **h)
{
    (void)h;
}
API void __cudaRegisterFunction(void **h, const char *f, char *df, const char *name, int lim,
                                void *a, void *b, void *c, void *d, int *w);
void __cudaRegisterFunction(void **h, const char *f, char *df, const char *name, int lim,
                            void *a, void *b, void *c, void *d, int *w)
{
    (void)h;
    (void)f;
    (void)df;
    (void)name;
    (void)lim;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)w;
}
API void __cudaRegisterVar(void **h, char *v, char *da, const char *name, int ext, size_t size,
                           int cst, int global);
void __cudaRegisterVar(void **h, char *v, char *da, const char *name, int ext, size_t size,
                       int cst, int global)
{
    (void)h;
    (void)v;
    (void)da;
    (void)name;
    (void)ext;
    (void)size;
    (void)cst;
    (void)global;
}
