/* cuda_driver -- finds libcuda.so.1 and says in a sentence why it cannot be used. */
#include "cuda_driver.h"

#include <dlfcn.h>

#include "library.h"

/* A library of a machine that has a driver; its number never changed. */
#define LIBRARY "libcuda.so.1"
#define OLDEST 11040 /* the first whose pools of memory tell what they hold */

static mr_status find_calls(mr_ctx *ctx, mr_cuda_driver *driver)
{
    static const mr_call calls[] = {
#define X(field, symbol, arguments) {symbol, offsetof(mr_cuda_driver, field)},
        MR_CUDA_CALLS(X)
#undef X
    };
    const char *lacks = mr_library_find(driver->library, calls, MR_COUNT(calls), driver);
    if (!lacks) return MR_OK;
    return mr_fail(ctx, MR_EDEVICE,
                   "the CUDA driver is too old: it lacks '%s' (expected the one of"
                   " CUDA 11.4 or later)",
                   lacks);
}

/* What is usually wrong with a machine, in place of what the driver calls it. */
static const char *meaning(mr_cuda_result result)
{
    switch (result) {
    case MR_CUDA_STUB:
        return LIBRARY " is the stub of a CUDA Toolkit, not a driver: take its folder out of"
                       " LD_LIBRARY_PATH";
    case MR_CUDA_NO_DEVICE: return "the CUDA driver finds no device it may use";
    case MR_CUDA_NOT_READY:
        return "the machine's devices are not ready yet: its fabric manager has not started";
    case MR_CUDA_MISMATCH:
        return "the CUDA driver and the kernel's module are of different versions: the module"
               " has to be loaded again, or the machine restarted";
    case MR_CUDA_NOT_COMPATIBLE:
        return LIBRARY " is one for other devices than this machine's (cuda-compat): take its"
                       " folder out of LD_LIBRARY_PATH";
    case MR_CUDA_NOT_ALLOWED:
    case MR_CUDA_UNKNOWN:
        return "the CUDA driver cannot reach its devices: the kernel's module nvidia_uvm is not"
               " loaded, or this container lacks /dev/nvidia-uvm";
    default: return NULL;
    }
}

static mr_status start(mr_ctx *ctx, mr_cuda_driver *driver)
{
    int version = 0;
    const mr_cuda_result result = driver->init(0);
    if (meaning(result)) return mr_fail(ctx, MR_EDEVICE, "%s", meaning(result));
    MR_TRY(mr_cuda_check(ctx, driver, result, "start"));
    MR_TRY(mr_cuda_check(ctx, driver, driver->version(&version), "tell its version"));
    if (version < OLDEST)
        return mr_fail(ctx, MR_EDEVICE,
                       "the CUDA driver is too old: it is for CUDA %d.%d, expected 11.4 or"
                       " later",
                       version / 1000, version % 1000 / 10);
    return MR_OK;
}

/* It is never unloaded: a driver has threads of its own, and is the same for all
 * who open it. */
mr_status mr_cuda_driver_open(mr_ctx *ctx, mr_cuda_driver *driver)
{
    *driver = (mr_cuda_driver){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!driver->library)
        return mr_fail(ctx, MR_EDEVICE,
                       "there is no CUDA driver on this machine: %s (the model needs none)",
                       dlerror());
    MR_TRY(find_calls(ctx, driver));
    return start(ctx, driver);
}

mr_status mr_cuda_check(mr_ctx *ctx, const mr_cuda_driver *driver, mr_cuda_result result,
                        const char *what)
{
    const char *text = NULL;
    if (!result) return MR_OK;
    if (driver->error_text(result, &text) || !text) text = "an error without a name";
    return mr_fail(ctx, MR_EDEVICE, "the CUDA driver would not %s: %s (CUDA error %d)", what,
                   text, result);
}
