/* fake_management -- a management library of one GPU that says what the environment tells it:
 *     FAKE_NVML_OTHERS  so many other processes, of 1 GiB each; FAKE_NVML_SLOWED bits;
 *     FAKE_NVML_MIG     1: divided; FAKE_NVML_HIDDEN 1: this process has another number
 */
#include <stdbool.h>
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

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
    static int only;
    *out = &only;
    return strcmp(bus, "0000:01:00.0") != 0;
}

/* This process is among them, as on a real machine, under another number in a container. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *n, process *at)
{
    (void)gpu;
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
    *bits = setting("FAKE_NVML_SLOWED") | 1; /* idle is no reason to complain */
    return 0;
}

int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *later)
{
    (void)gpu;
    *now = *later = (unsigned)setting("FAKE_NVML_MIG");
    return 0;
}
