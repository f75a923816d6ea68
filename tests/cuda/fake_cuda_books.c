/* books -- settings, the count of calls, what was wrong, devices and contexts. */
#include "fake_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool read, started;
    fake_settings settings;
    uint64_t calls;
    int held;
    uint32_t contexts;
    bool current;
    char violation[512];
} books;

struct mr_cuda_context {
    int device;
};

static struct mr_cuda_context primary;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void tell_at_the_end(void)
{
    if (!books.held && !*books.violation) return;
    if (books.held) fprintf(stderr, "fake driver: %d not given back\n", books.held);
    if (*books.violation) fprintf(stderr, "fake driver: %s\n", books.violation);
    fflush(NULL);
    _exit(FAKE_CUDA_WRONG);
}

fake_settings *fake_cuda_settings(void)
{
    if (books.read) return &books.settings;
    books.read = true;
    books.settings = (fake_settings){
        .memory = setting("FAKE_CUDA_MEMORY", 80 * MR_GIB),
        .context = setting("FAKE_CUDA_CONTEXT", 400 * MR_MIB),
        .devices = setting("FAKE_CUDA_DEVICES", 1),
        .version = setting("FAKE_CUDA_VERSION", 13000),
        .fail = setting("FAKE_CUDA_FAIL", 0),
        .error = setting("FAKE_CUDA_ERROR", MR_CUDA_NO_MEMORY),
        .start = setting("FAKE_CUDA_START", 0),
        .order = setting("FAKE_CUDA_ORDER", 0),
        .corrupt = setting("FAKE_CUDA_CORRUPT", 0),
        .idle = setting("FAKE_CUDA_IDLE", 0),
    };
    atexit(tell_at_the_end);
    return &books.settings;
}

mr_cuda_result fake_begin(const char *name)
{
    const fake_settings *s = fake_cuda_settings();
    books.calls++;
    if (!books.started && strcmp(name, "cuInit") != 0)
        return fake_wrong("%s before cuInit", name);
    if (s->fail && books.calls == s->fail) return (mr_cuda_result)s->error;
    return 0;
}

mr_cuda_result fake_wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!*books.violation)
        vsnprintf(books.violation, sizeof books.violation, format, arguments);
    va_end(arguments);
    return MR_CUDA_INVALID;
}

void fake_hold(int n)
{
    books.held += n;
}

uint64_t fake_cuda_calls(void)
{
    return books.calls;
}

uint32_t fake_cuda_leaks(void)
{
    return (uint32_t)books.held;
}

const char *fake_cuda_violation(void)
{
    return books.violation;
}

void fake_cuda_reset(void)
{
    fake_cuda_settings();
    fake_streams_forget();
    fake_memory_forget();
    books.calls = 0;
    books.held = 0;
    books.contexts = 0;
    books.current = books.started = false;
    *books.violation = '\0';
}

/* ---- the driver and its devices ---------------------------------------------------------- */

mr_cuda_result cuInit(unsigned flags);
mr_cuda_result cuInit(unsigned flags)
{
    const mr_cuda_result failed = fake_begin("cuInit");
    if (failed) return failed;
    if (flags) return fake_wrong("cuInit with flags %u", flags);
    books.started = !fake_cuda_settings()->start;
    if (!fake_cuda_settings()->devices) return MR_CUDA_NO_DEVICE;
    return (mr_cuda_result)fake_cuda_settings()->start;
}

mr_cuda_result cuDriverGetVersion(int *version);
mr_cuda_result cuDriverGetVersion(int *version)
{
    *version = (int)fake_cuda_settings()->version;
    return fake_begin(__func__);
}

mr_cuda_result cuGetErrorName(mr_cuda_result result, const char **text);
mr_cuda_result cuGetErrorName(mr_cuda_result result, const char **text)
{
    (void)result;
    *text = "CUDA_ERROR";
    return 0;
}

mr_cuda_result cuGetErrorString(mr_cuda_result result, const char **text);
mr_cuda_result cuGetErrorString(mr_cuda_result result, const char **text)
{
    *text = result == MR_CUDA_NO_MEMORY   ? "out of memory"
            : result == MR_CUDA_INVALID   ? "invalid argument"
            : result == FAKE_CUDA_ILLEGAL ? "an illegal memory access was encountered"
            : result == MR_CUDA_UNAVAILABLE
                ? "CUDA-capable device(s) is/are busy or unavailable"
                : "unknown error";
    return 0;
}

mr_cuda_result cuDeviceGetCount(int *n);
mr_cuda_result cuDeviceGetCount(int *n)
{
    *n = (int)fake_cuda_settings()->devices;
    return fake_begin(__func__);
}

mr_cuda_result cuDeviceGet(int *device, int ordinal);
mr_cuda_result cuDeviceGet(int *device, int ordinal)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (ordinal < 0 || (uint64_t)ordinal >= fake_cuda_settings()->devices) return 101;
    *device = ordinal;
    return 0;
}

mr_cuda_result cuDeviceGetName(char *name, int n, int device);
mr_cuda_result cuDeviceGetName(char *name, int n, int device)
{
    snprintf(name, (size_t)n, "fake device %d", device);
    return fake_begin(__func__);
}

mr_cuda_result cuDeviceGetPCIBusId(char *bus, int n, int device);
mr_cuda_result cuDeviceGetPCIBusId(char *bus, int n, int device)
{
    const mr_cuda_result failed = fake_begin(__func__);
    snprintf(bus, (size_t)n, "0000:%02x:00.0", device + 1);
    return failed;
}

mr_cuda_result cuDeviceTotalMem_v2(size_t *bytes, int device);
mr_cuda_result cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = fake_cuda_settings()->memory;
    return fake_begin(__func__);
}

mr_cuda_result cuDeviceGetAttribute(int *value, int attribute, int device);
mr_cuda_result cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, value;
    } known[] = {{MR_CUDA_CLOCK, 1000000}, {MR_CUDA_PROCESSORS, 4}, {MR_CUDA_MODE, 0},
                 {MR_CUDA_MAJOR, 9},       {MR_CUDA_MINOR, 0},      {MR_CUDA_HAS_MAPPING, 1}};
    (void)device;
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    for (size_t i = 0; i < MR_COUNT(known); i++) {
        if (known[i].attribute != attribute) continue;
        *value = known[i].value;
        return 0;
    }
    return fake_wrong("attribute %d is not one of those known here", attribute);
}

/* ---- contexts ---------------------------------------------------------------------------- */

mr_cuda_result cuDevicePrimaryCtxRetain(mr_cuda_context **context, int device);
mr_cuda_result cuDevicePrimaryCtxRetain(mr_cuda_context **context, int device)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (!books.contexts && !fake_charge(fake_cuda_settings()->context))
        return MR_CUDA_NO_MEMORY;
    books.contexts++;
    fake_hold(1);
    primary.device = device;
    *context = &primary;
    return 0;
}

mr_cuda_result cuDevicePrimaryCtxRelease_v2(int device);
mr_cuda_result cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    const mr_cuda_result failed = fake_begin(__func__);
    if (!books.contexts) return fake_wrong("a context was let go that nobody had");
    books.contexts--;
    fake_hold(-1);
    if (!books.contexts) fake_discharge(fake_cuda_settings()->context);
    return failed;
}

mr_cuda_result cuCtxSetCurrent(mr_cuda_context *context);
mr_cuda_result cuCtxSetCurrent(mr_cuda_context *context)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (context && (context != &primary || !books.contexts))
        return fake_wrong("a context was made current that nobody has");
    books.current = context != NULL;
    return 0;
}

mr_cuda_result cuMemGetInfo_v2(size_t *free, size_t *total);
mr_cuda_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (!books.current) return fake_wrong("cuMemGetInfo without a context");
    *total = fake_cuda_settings()->memory;
    *free = *total - fake_used();
    return 0;
}
