/* fake_modules.c -- driver functions that libcaffe2_nvrtc names when it is loaded.
 *
 * PyTorch asks it whether a device has a context. Kernels compiled at run time are launched as
 * all the others are: not at all.
 */
#include "../fakecuda.h"

enum { OK = 0, NOT_SUPPORTED = 801 };

#define ANSWER(name, code)                                                                     \
    FC_PUBLIC int name(void);                                                                  \
    int name(void)                                                                             \
    {                                                                                          \
        return code;                                                                           \
    }

ANSWER(cuCtxSetCurrent, OK)
ANSWER(cuFuncSetAttribute, OK)
ANSWER(cuFuncSetCacheConfig, OK)
ANSWER(cuLaunchKernel, OK)
ANSWER(cuLaunchCooperativeKernel, OK)
ANSWER(cuTensorMapEncodeTiled, OK)
ANSWER(cuModuleUnload, OK)
ANSWER(cuFuncGetAttribute, NOT_SUPPORTED)
ANSWER(cuLinkAddData_v2, NOT_SUPPORTED)
ANSWER(cuLinkComplete, NOT_SUPPORTED)
ANSWER(cuLinkCreate_v2, NOT_SUPPORTED)
ANSWER(cuModuleLoad, NOT_SUPPORTED)
ANSWER(cuPointerGetAttribute, NOT_SUPPORTED)

/* A handle only has to differ from null. */
static int handle(const void **out)
{
    *out = (const void *)1;
    return OK;
}
FC_PUBLIC int cuCtxGetCurrent(const void **context);
int cuCtxGetCurrent(const void **context)
{
    return handle(context);
}
FC_PUBLIC int cuDevicePrimaryCtxRetain(const void **context, int device);
int cuDevicePrimaryCtxRetain(const void **context, int device)
{
    (void)device;
    return handle(context);
}
FC_PUBLIC int cuModuleLoadData(const void **module, const void *image);
int cuModuleLoadData(const void **module, const void *image)
{
    (void)image;
    return handle(module);
}
FC_PUBLIC int cuModuleLoadDataEx(const void **module, const void *image);
int cuModuleLoadDataEx(const void **module, const void *image)
{
    return cuModuleLoadData(module, image);
}
FC_PUBLIC int cuModuleGetFunction(const void **function, const void *module, const char *name);
int cuModuleGetFunction(const void **function, const void *module, const char *name)
{
    (void)module;
    (void)name;
    return handle(function);
}
FC_PUBLIC int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                size_t shared)
{
    (void)function;
    (void)shared;
    *blocks = threads > 0 && threads <= 1024 ? 2048 / threads : 1;
    return OK;
}
