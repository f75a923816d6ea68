/* gpu_watch -- finds libnvidia-ml.so.1 and asks it about one GPU. */
#include "gpu_watch.h"

#include <dlfcn.h>
#include <unistd.h>

#include "library.h"

typedef struct gpu gpu; /* as the library has it */

typedef struct process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not told */
    unsigned instance, compute_instance;
} process;

/* field, name in the library, arguments; all answer 0 for success */
#define CALLS(X)                                                                               \
    X(init, "nvmlInit_v2", (void))                                                             \
    X(end, "nvmlShutdown", (void))                                                             \
    X(find, "nvmlDeviceGetHandleByPciBusId_v2", (const char *bus, gpu **out))

/* What a release may lack, as old ones do and as names are given up. */
#define QUESTIONS(X)                                                                           \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", (gpu *, unsigned *n, process *))   \
    X(slowed, "nvmlDeviceGetCurrentClocksEventReasons", (gpu *, unsigned long long *bits))     \
    X(throttled, "nvmlDeviceGetCurrentClocksThrottleReasons", (gpu *, unsigned long long *))   \
    X(divided, "nvmlDeviceGetMigMode", (gpu *, unsigned *now, unsigned *later))

struct mr_gpu_watch {
    gpu *gpu;
#define X(field, symbol, arguments) int(*field) arguments;
    CALLS(X)
    QUESTIONS(X)
#undef X
};

#define X(field, symbol, arguments) {symbol, offsetof(mr_gpu_watch, field)},
static const mr_call calls[] = {CALLS(X)};
static const mr_call questions[] = {QUESTIONS(X)};
#undef X

static bool find_calls(void *library, mr_gpu_watch *out)
{
    if (mr_library_find(library, calls, MR_COUNT(calls), out)) return false;
    for (size_t i = 0; i < MR_COUNT(questions); i++)
        mr_library_find(library, &questions[i], 1, out);
    if (!out->slowed) out->slowed = out->throttled; /* its name before CUDA 12.2 */
    return true;
}

mr_gpu_watch *mr_gpu_watch_open(mr_ctx *ctx, const char *bus)
{
    mr_gpu_watch *w = MR_NEW(ctx, mr_gpu_watch);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !find_calls(library, w) || w->init()) return NULL;
    if (w->find(bus, &w->gpu) == 0) return w;
    w->end();
    return NULL;
}

static void count_others(mr_gpu_watch *w, mr_disturbance *out)
{
    enum { MOST = 64 };
    process at[MOST];
    unsigned n = MOST;
    uint32_t others = 0;
    uint64_t bytes = 0;
    bool met = false; /* oneself: in a container one is known by another number */
    if (!w->processes || w->processes(w->gpu, &n, at)) return;
    for (unsigned i = 0; i < n && i < MOST; i++) met |= at[i].pid == (unsigned)getpid();
    for (unsigned i = met ? 0 : 1; i < n && i < MOST; i++) {
        if (met && at[i].pid == (unsigned)getpid()) continue;
        others++;
        if (at[i].bytes != ~0ull) bytes += at[i].bytes;
    }
    if (others > out->others) out->others = others;
    if (bytes > out->others_bytes) out->others_bytes = bytes;
}

void mr_gpu_watch_look(mr_gpu_watch *w, mr_disturbance *out)
{
    unsigned long long bits = 0;
    unsigned now = 0, later = 0;
    if (!w) return;
    count_others(w, out);
    if (w->slowed && w->slowed(w->gpu, &bits) == 0) {
#define X(bit, text) out->slowed |= bits & (bit);
        MR_SLOWED_LIST(X)
#undef X
    }
    if (w->divided && w->divided(w->gpu, &now, &later) == 0 && now) out->divided = true;
}

void mr_gpu_watch_close(mr_gpu_watch *w)
{
    if (w) w->end();
}
