/* cublas -- finds libcublas, of the newest release that the driver can run. */
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

static mr_cublas_result start(const char *release, mr_cublas *out, mr_cublas_handle **first)
{
    *out = (mr_cublas){.library = dlopen(release, RTLD_NOW | RTLD_LOCAL)};
    if (!out->library || !find_calls(out)) return MR_CUBLAS_NOT_STARTED;
    return out->create(first);
}

/* Never unloaded, like the driver. */
mr_status mr_cublas_open(mr_ctx *ctx, mr_cublas *out, mr_cublas_handle **first)
{
    static const char *const releases[] = {"libcublas.so.13", "libcublas.so.12",
                                           "libcublas.so.11"};
    mr_cublas_result result = MR_CUBLAS_NOT_STARTED;
    for (size_t i = 0; i < MR_COUNT(releases) && result == MR_CUBLAS_NOT_STARTED; i++)
        result = start(releases[i], out, first);
    if (!result) return MR_OK;
    *first = NULL;
    if (result != MR_CUBLAS_NOT_STARTED) return mr_cublas_check(ctx, result, "start");
    *out = (mr_cublas){0};
    return MR_OK;
}

bool mr_cublas_refuses(mr_cublas_result result)
{
    return result == MR_CUBLAS_CANNOT || result == MR_CUBLAS_NOT_HERE;
}

mr_status mr_cublas_check(mr_ctx *ctx, mr_cublas_result result, const char *what)
{
    if (!result) return MR_OK;
    return mr_fail(ctx, MR_EDEVICE, "cuBLAS would not %s (error %d)", what, result);
}
