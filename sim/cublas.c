/* cublas -- finds libcublas, of the newest release that there is. */
#include "cublas.h"

#include <dlfcn.h>

#include "library.h"

static bool find_calls(mr_cublas *c)
{
    static const mr_call calls[] = {
#define X(field, symbol, arguments) {symbol, offsetof(mr_cublas, field)},
        MR_CUBLAS_CALLS(X)
#undef X
    };
    return !mr_library_find(c->library, calls, MR_COUNT(calls), c);
}

/* Never unloaded, like the driver. */
bool mr_cublas_open(mr_cublas *out)
{
    static const char *const releases[] = {"libcublas.so.13", "libcublas.so.12",
                                           "libcublas.so.11"};
    *out = (mr_cublas){0};
    for (size_t i = 0; i < MR_COUNT(releases) && !out->library; i++)
        out->library = dlopen(releases[i], RTLD_NOW | RTLD_LOCAL);
    if (!out->library) return false;
    if (find_calls(out)) return true;
    *out = (mr_cublas){0};
    return false;
}

mr_status mr_cublas_check(mr_ctx *ctx, mr_cublas_result result, const char *what)
{
    if (!result) return MR_OK;
    return mr_fail(ctx, MR_EDEVICE, "cuBLAS would not %s (error %d)", what, result);
}
