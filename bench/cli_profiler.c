/* profiler -- opens the library of a profiler, once. */
#include "profiler.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "library.h"

enum { SIZES = 17 }; /* of the largest table, with its end */

/* Whoever listens writes into these, so they cannot be arguments: there is one such program. */
static mr_nvtx_function function[MR_NVTX_MODULES][SIZES];
static mr_nvtx_function *table[MR_NVTX_MODULES][SIZES];

/* How many functions each module has, as NVTX numbers them. */
static const unsigned sizes[MR_NVTX_MODULES] = {0, MR_NVTX_CORE_SIZE, 9, 15, 7, 16, 7};

static int table_of(int module, mr_nvtx_function ***out, unsigned *n)
{
    if (module <= 0 || module >= MR_NVTX_MODULES) return 0;
    for (unsigned i = 1; i < sizes[module]; i++) table[module][i] = &function[module][i];
    if (out) *out = table[module];
    if (n) *n = sizes[module];
    return 1;
}

static void hear_version(uint32_t version)
{
    (void)version;
}

static const void *tables(uint32_t id)
{
    static const mr_nvtx_callbacks callbacks = {sizeof callbacks, table_of};
    static const mr_nvtx_versions versions = {sizeof versions, MR_NVTX_VERSION, 0,
                                              hear_version};
    if (id == MR_NVTX_CALLBACKS) return &callbacks;
    return id == MR_NVTX_VERSIONS ? &versions : NULL;
}

static void begin(const char *name)
{
    typedef int push(const char *);
    ((push *)function[MR_NVTX_CORE][MR_NVTX_PUSH])(name);
}

static void end(void)
{
    typedef int pop(void);
    ((pop *)function[MR_NVTX_CORE][MR_NVTX_POP])();
}

static bool listens(void)
{
    struct {
        mr_nvtx_start *start;
    } found;
    const mr_call call = {MR_NVTX_START, 0};
    const char *name = getenv(MR_NVTX_LIBRARY);
    void *library = name && *name ? dlopen(name, RTLD_LAZY) : NULL;
    if (!library || mr_library_find(library, &call, 1, &found)) return false;
    return found.start(tables) && function[MR_NVTX_CORE][MR_NVTX_PUSH]
           && function[MR_NVTX_CORE][MR_NVTX_POP];
}

const mr_listener *mr_profiler(void)
{
    static const mr_listener listener = {begin, end};
    static enum { NOT_ASKED, NOBODY, SOMEBODY } answer;
    if (answer == NOT_ASKED) answer = listens() ? SOMEBODY : NOBODY;
    return answer == SOMEBODY ? &listener : NULL;
}
