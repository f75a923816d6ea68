/* fake_profiler -- listens as Nsight Systems does, and appends what it hears to the file that
 * FAKE_PROFILER names: a line per range, indented by how many are open, or "lost" for an end
 * without a beginning. */
#include <stdio.h>
#include <stdlib.h>

#include "profiler.h"

static _Thread_local int depth;

static void write_down(int indent, const char *text)
{
    FILE *file = fopen(getenv("FAKE_PROFILER"), "a");
    if (!file) return;
    fprintf(file, "%*s%s\n", 2 * indent, "", text);
    fclose(file);
}

static int push(const char *name)
{
    write_down(depth, name);
    return depth++;
}

static int pop(void)
{
    if (depth == 0) write_down(0, "lost");
    else depth--;
    return depth;
}

__attribute__((destructor)) static void tell_what_is_open(void)
{
    if (depth) write_down(0, "left open");
}

mr_nvtx_start InitializeInjectionNvtx2;
int InitializeInjectionNvtx2(mr_nvtx_tables *tables)
{
    const mr_nvtx_callbacks *callbacks = tables(MR_NVTX_CALLBACKS);
    const mr_nvtx_versions *versions = tables(MR_NVTX_VERSIONS);
    mr_nvtx_function **core;
    unsigned n;
    if (!callbacks || !versions || tables(0) || versions->version != MR_NVTX_VERSION) return 0;
    versions->tell(MR_NVTX_VERSION);
    if (callbacks->size < sizeof *callbacks || callbacks->table_of(0, &core, &n)
        || !callbacks->table_of(MR_NVTX_CORE, &core, &n) || n != MR_NVTX_CORE_SIZE)
        return 0;
    *core[MR_NVTX_PUSH] = (mr_nvtx_function)push;
    *core[MR_NVTX_POP] = (mr_nvtx_function)pop;
    return getenv("FAKE_PROFILER") != NULL;
}
