/* fake_launch.c -- the part of the CUDA runtime that libtorch_cuda calls beyond the allocator.
 *
 * Kernels are not run: a launch is answered with success. What sets up a launch gets numbers of
 * a plausible GPU, because grids and temporary buffers are computed from them. Whatever a
 * training step does not need (graphs, libraries of kernels, sharing between processes) says
 * "not supported", so that it fails where it is called and not later. No CUDA header is
 * included: most of these ignore all of their arguments.
 */
#include "../fakecuda.h"

#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 801 };
enum { SM_THREADS = 2048, BLOCK_THREADS = 1024, DYNAMIC_SHARED = 227 * 1024 };

#define ANSWER(name, code)                                                                     \
    FC_PUBLIC int name(void);                                                                  \
    int name(void)                                                                             \
    {                                                                                          \
        return code;                                                                           \
    }

/* ---- launches ----------------------------------------------------------------- */
ANSWER(cudaLaunchKernel, SUCCESS)
ANSWER(cudaLaunchKernelExC, SUCCESS)
ANSWER(cudaLaunchCooperativeKernel, SUCCESS)
ANSWER(__cudaLaunchKernel, SUCCESS)
ANSWER(cudaFuncSetAttribute, SUCCESS)
ANSWER(cudaKernelSetAttributeForDevice, SUCCESS)
ANSWER(cudaMemcpyToSymbol, SUCCESS)
ANSWER(cudaProfilerStart, SUCCESS)
ANSWER(cudaProfilerStop, SUCCESS)

typedef struct dim3 {
    unsigned x, y, z;
} dim3;

/* The <<<...>>> of a launch is pushed, and popped by the function it calls. */
static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} pushed;

FC_PUBLIC unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                               void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return SUCCESS;
}
FC_PUBLIC int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                         void **stream);
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *stream = pushed.stream;
    return SUCCESS;
}
FC_PUBLIC int __cudaGetKernel(const void **kernel, const void *function);
int __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return SUCCESS;
}

/* ---- what a kernel may use ------------------------------------------------------ */
/* struct cudaFuncAttributes is the same in 12 and 13. */
FC_PUBLIC int cudaFuncGetAttributes(char *attributes, const void *function);
int cudaFuncGetAttributes(char *attributes, const void *function)
{
    const int threads = BLOCK_THREADS, registers = 32, version = 90, shared = DYNAMIC_SHARED;
    (void)function;
    memset(attributes, 0, 144);
    memcpy(attributes + 24, &threads, 4);   /* maxThreadsPerBlock        */
    memcpy(attributes + 28, &registers, 4); /* numRegs                   */
    memcpy(attributes + 32, &version, 4);   /* ptxVersion                */
    memcpy(attributes + 36, &version, 4);   /* binaryVersion             */
    memcpy(attributes + 44, &shared, 4);    /* maxDynamicSharedSizeBytes */
    return SUCCESS;
}
/* As if threads were the only limit: the real number also depends on registers and on shared
 * memory. Ops size grids by it; buffers sized by it can be larger than on a real device. */
FC_PUBLIC int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                            int threads, size_t shared);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                  int threads, size_t shared)
{
    (void)function;
    (void)shared;
    *blocks = threads > 0 && threads <= BLOCK_THREADS ? SM_THREADS / threads : 1;
    return SUCCESS;
}
FC_PUBLIC int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                     const void *function,
                                                                     int threads, size_t shared,
                                                                     unsigned flags);
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                           int threads, size_t shared,
                                                           unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* ---- rows of a copy --------------------------------------------------------------- */
FC_PUBLIC int cudaMemcpy(void *to, const void *from, size_t size, int kind);
FC_PUBLIC int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                                size_t width, size_t height, int kind, void *stream);
int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                      size_t width, size_t height, int kind, void *stream)
{
    (void)stream;
    for (size_t row = 0; row < height; row++)
        cudaMemcpy(to + row * to_pitch, from + row * from_pitch, width, kind);
    return SUCCESS;
}

/* ---- not here ------------------------------------------------------------------- */
ANSWER(cudaGetSymbolAddress, NOT_SUPPORTED)
ANSWER(cudaGraphAddNode, NOT_SUPPORTED)
ANSWER(cudaGraphConditionalHandleCreate, NOT_SUPPORTED)
ANSWER(cudaGraphDestroy, NOT_SUPPORTED)
ANSWER(cudaGraphExecDestroy, NOT_SUPPORTED)
ANSWER(cudaGraphGetNodes, NOT_SUPPORTED)
ANSWER(cudaGraphInstantiate, NOT_SUPPORTED)
ANSWER(cudaGraphInstantiateWithFlags, NOT_SUPPORTED)
ANSWER(cudaGraphLaunch, NOT_SUPPORTED)
ANSWER(cudaGraphRetainUserObject, NOT_SUPPORTED)
ANSWER(cudaIpcGetEventHandle, NOT_SUPPORTED)
ANSWER(cudaIpcOpenEventHandle, NOT_SUPPORTED)
ANSWER(cudaLibraryGetGlobal, NOT_SUPPORTED)
ANSWER(cudaLibraryGetKernel, NOT_SUPPORTED)
ANSWER(cudaLibraryGetKernelCount, NOT_SUPPORTED)
ANSWER(cudaLibraryGetManaged, NOT_SUPPORTED)
ANSWER(cudaLibraryGetUnifiedFunction, NOT_SUPPORTED)
ANSWER(cudaLibraryLoadData, NOT_SUPPORTED)
ANSWER(cudaLibraryLoadFromFile, NOT_SUPPORTED)
ANSWER(cudaLibraryUnload, NOT_SUPPORTED)
ANSWER(cudaStreamAddCallback, NOT_SUPPORTED)
ANSWER(cudaStreamBeginCapture, NOT_SUPPORTED)
ANSWER(cudaStreamBeginCaptureToGraph, NOT_SUPPORTED)
ANSWER(cudaStreamEndCapture, NOT_SUPPORTED)
ANSWER(cudaStreamUpdateCaptureDependencies, NOT_SUPPORTED)
ANSWER(cudaUserObjectCreate, NOT_SUPPORTED)
ANSWER(cudaUserObjectRelease, NOT_SUPPORTED)
