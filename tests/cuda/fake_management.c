/* fake_management -- a management library of one GPU that says what the environment tells it:
 *     FAKE_NVML_OTHERS  so many other processes, of 1 GiB each; FAKE_NVML_SLOWED bits;
 *     FAKE_NVML_MIG     1: divided; FAKE_NVML_HIDDEN 1: this process has another number
 *     FAKE_NVML_FAIL    the number of the call that fails
 * At the end of the program, what was not ended is told and the exit code is 86.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned instance, compute_instance;
} process;

static unsigned long long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : 0;
}

static _Atomic int calls, begun; /* several threads ask */

static bool fails(void)
{
    return (unsigned long long)++calls == setting("FAKE_NVML_FAIL");
}

static void tell_at_the_end(void)
{
    if (!begun) return;
    fprintf(stderr, "fake management: begun %d times more than ended\n", begun);
    fflush(NULL);
    _exit(86);
}

int nvmlInit_v2(void)
{
    if (fails()) return 1;
    if (!begun++) atexit(tell_at_the_end);
    return 0;
}

int nvmlShutdown(void)
{
    begun--;
    return fails();
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
    static int only;
    *out = &only;
    if (fails()) return 1;
    return strcmp(bus, "0000:01:00.0") != 0;
}

/* This process is among them, as on a real machine, under another number in a container. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *n, process *at)
{
    (void)gpu;
    if (fails()) return 1;
    const unsigned others = (unsigned)setting("FAKE_NVML_OTHERS");
    const bool hidden = setting("FAKE_NVML_HIDDEN") != 0;
    for (unsigned i = 0; i <= others && i < *n; i++)
        at[i] = (process){.pid = i ? 1 : hidden ? 7 : (unsigned)getpid(), .bytes = 1ull << 30};
    *n = others + 1;
    return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, unsigned long long *bits)
{
    (void)gpu;
    if (fails()) return 1;
    *bits = setting("FAKE_NVML_SLOWED") | 1; /* idle is no reason to complain */
    return 0;
}

int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *later)
{
    (void)gpu;
    if (fails()) return 1;
    *now = *later = (unsigned)setting("FAKE_NVML_MIG");
    return 0;
}
