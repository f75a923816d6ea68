/* books -- settings, the count of calls, what was wrong, devices and contexts. */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAMES = 96 };

struct mr_cuda_context {
    uint32_t retained;
};

static struct {
    bool read, started;
    fake_settings settings;
    uint64_t calls;
    struct {
        const char *name;
        uint64_t n;
    } by_name[MOST_NAMES];
    int held;
    struct mr_cuda_context contexts[FAKE_CUDA_DEVICES]; /* the primary ones */
    char violation[512];
} books;

static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current; /* device whose context is, and one; 0: none */

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
        .on = setting("FAKE_CUDA_ON", FAKE_CUDA_DEVICES),
        .error = setting("FAKE_CUDA_ERROR", MR_CUDA_NO_MEMORY),
        .start = setting("FAKE_CUDA_START", 0),
        .order = setting("FAKE_CUDA_ORDER", 0),
        .corrupt = setting("FAKE_CUDA_CORRUPT", 0),
        .idle = setting("FAKE_CUDA_IDLE", 0),
        .pools = setting("FAKE_CUDA_POOLS", 1),
        .mapping = setting("FAKE_CUDA_MAPPING", 1),
        .mode = setting("FAKE_CUDA_MODE", 0),
        .arch = setting("FAKE_CUDA_ARCH", 90),
        .stride = setting("FAKE_CUDA_STRIDE", 1),
        .only = getenv("FAKE_CUDA_ONLY"),
    };
    if (books.settings.devices > FAKE_CUDA_DEVICES) books.settings.devices = FAKE_CUDA_DEVICES;
    atexit(tell_at_the_end);
    return &books.settings;
}

static uint64_t count_by_name(const char *name)
{
    size_t i = 0;
    while (i + 1 < MOST_NAMES && books.by_name[i].name
           && strcmp(books.by_name[i].name, name) != 0)
        i++;
    books.by_name[i].name = name;
    return ++books.by_name[i].n;
}

/* Calls that need no context, or make one. */
static bool needs_context(const char *name)
{
    static const char *const others[] = {"cuInit",
                                         "cuDriverGetVersion",
                                         "cuDeviceGet", /* and what begins so */
                                         "cuDevicePrimaryCtx",
                                         "cuCtxSetCurrent",
                                         "cuMemGetAllocationGranularity"};
    for (size_t i = 0; i < MR_COUNT(others); i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0) return false;
    return true;
}

mr_cuda_result fake_begin(const char *name)
{
    pthread_mutex_lock(&serving);
    const fake_settings *s = fake_cuda_settings();
    const bool here = s->on >= FAKE_CUDA_DEVICES || fake_device() == (int)s->on;
    const uint64_t of_name = here ? count_by_name(name) : 0;
    books.calls += here;
    if (!books.started && strcmp(name, "cuInit") != 0)
        return fake_wrong("%s before cuInit", name);
    if (needs_context(name) && fake_device() < 0)
        return fake_wrong("%s without a context that is current in this thread", name);
    const bool counted = here && (!s->only || strcmp(s->only, name) == 0);
    if (s->fail && counted && (s->only ? of_name : books.calls) == s->fail)
        return (mr_cuda_result)s->error;
    return 0;
}

void fake_end(const mr_cuda_result *failed)
{
    (void)failed;
    pthread_mutex_unlock(&serving);
}

/* One that has ended is no longer there, although nobody has left it. */
int fake_device(void)
{
    return current && books.contexts[current - 1].retained ? current - 1 : -1;
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

uint64_t fake_cuda_calls_of(const char *name)
{
    for (size_t i = 0; i < MOST_NAMES && books.by_name[i].name; i++)
        if (strcmp(books.by_name[i].name, name) == 0) return books.by_name[i].n;
    return 0;
}

const char *fake_cuda_name(uint32_t i)
{
    return i < MOST_NAMES ? books.by_name[i].name : NULL;
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
    fake_modules_forget();
    fake_host_forget();
    fake_pools_forget();
    fake_memory_forget();
    memset(books.by_name, 0, sizeof books.by_name);
    memset(books.contexts, 0, sizeof books.contexts);
    books.calls = 0;
    books.held = current = 0;
    books.started = false;
    *books.violation = '\0';
}

bool fake_is_device(int device)
{
    return device >= 0 && (uint64_t)device < fake_cuda_settings()->devices;
}

/* ---- the driver and its devices ---------------------------------------------------------- */

mr_cuda_result cuInit(unsigned flags);
mr_cuda_result cuInit(unsigned flags)
{
    FAKE_CALL failed = fake_begin("cuInit");
    if (failed) return failed;
    if (flags) return fake_wrong("cuInit with flags %u", flags);
    books.started = !fake_cuda_settings()->start;
    if (!fake_cuda_settings()->devices) return MR_CUDA_NO_DEVICE;
    return (mr_cuda_result)fake_cuda_settings()->start;
}

mr_cuda_result cuDriverGetVersion(int *version);
mr_cuda_result cuDriverGetVersion(int *version)
{
    FAKE_CALL failed = fake_begin(__func__);
    *version = (int)fake_cuda_settings()->version;
    return failed;
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
    FAKE_CALL failed = fake_begin(__func__);
    *n = (int)fake_cuda_settings()->devices;
    return failed;
}

mr_cuda_result cuDeviceGet(int *device, int ordinal);
mr_cuda_result cuDeviceGet(int *device, int ordinal)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!fake_is_device(ordinal)) return 101;
    *device = ordinal;
    return 0;
}

mr_cuda_result cuDeviceGetName(char *name, int n, int device);
mr_cuda_result cuDeviceGetName(char *name, int n, int device)
{
    FAKE_CALL failed = fake_begin(__func__);
    snprintf(name, (size_t)n, "fake device %d", device);
    return failed;
}

mr_cuda_result cuDeviceGetPCIBusId(char *bus, int n, int device);
mr_cuda_result cuDeviceGetPCIBusId(char *bus, int n, int device)
{
    FAKE_CALL failed = fake_begin(__func__);
    snprintf(bus, (size_t)n, "0000:%02x:00.0", device + 1);
    return failed;
}

mr_cuda_result cuDeviceGetAttribute(int *value, int attribute, int device);
mr_cuda_result cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct {
        int attribute, value;
    } known[] = {{MR_CUDA_PROCESSORS, 4},
                 {MR_CUDA_MODE, (int)fake_cuda_settings()->mode},
                 {MR_CUDA_HAS_MAPPING, fake_cuda_settings()->mapping != 0},
                 {MR_CUDA_HAS_POOLS, fake_cuda_settings()->pools != 0}};
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!fake_is_device(device)) return fake_wrong("an attribute of device %d", device);
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
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!fake_is_device(device)) return fake_wrong("a context of device %d", device);
    struct mr_cuda_context *own = &books.contexts[device];
    if (!own->retained && !fake_charge(device, fake_cuda_settings()->context))
        return MR_CUDA_NO_MEMORY;
    own->retained++;
    fake_hold(1);
    *context = own;
    return 0;
}

mr_cuda_result cuDevicePrimaryCtxRelease_v2(int device);
mr_cuda_result cuDevicePrimaryCtxRelease_v2(int device)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (!fake_is_device(device) || !books.contexts[device].retained)
        return fake_wrong("a context was let go that nobody had");
    fake_hold(-1);
    if (--books.contexts[device].retained) return failed;
    fake_discharge(device, fake_cuda_settings()->context);
    fake_heal(device);
    return failed;
}

mr_cuda_result cuCtxSetCurrent(mr_cuda_context *context);
mr_cuda_result cuCtxSetCurrent(mr_cuda_context *context)
{
    FAKE_CALL failed = fake_begin(__func__); /* perhaps of what went wrong before */
    int device = 0;
    while (device < FAKE_CUDA_DEVICES && context != &books.contexts[device]) device++;
    if (context && (device == FAKE_CUDA_DEVICES || !context->retained))
        return fake_wrong("a context was made current that nobody has");
    current = context ? device + 1 : 0;
    return failed;
}

mr_cuda_result cuMemGetInfo_v2(size_t *free, size_t *total);
mr_cuda_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    *total = fake_cuda_settings()->memory;
    *free = *total - fake_used(fake_device());
    return 0;
}
