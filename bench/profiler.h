/* profiler.h -- how a profiler gets the names of what runs: NVIDIA's NVTX, version 3.
 *
 * A profiler (Nsight Systems) names a library of its own in the environment.  It is opened and
 * told where pointers to functions are kept; into these it writes its own.  The numbers are
 * those of NVTX's headers, with which tests/cuda compares them.
 */
#ifndef MR_PROFILER_H
#define MR_PROFILER_H

#include "backend.h"

#define MR_NVTX_LIBRARY "NVTX_INJECTION64_PATH" /* in the environment */
#define MR_NVTX_START "InitializeInjectionNvtx2" /* in the library */

enum { MR_NVTX_CALLBACKS = 1, MR_NVTX_VERSIONS = 3, MR_NVTX_VERSION = 3 }; /* tables, version */
enum { MR_NVTX_CORE = 1, MR_NVTX_MODULES = 7 };
enum { MR_NVTX_PUSH = 9, MR_NVTX_POP = 11, MR_NVTX_CORE_SIZE = 16 };

typedef void (*mr_nvtx_function)(void); /* to be cast to what it is */

typedef struct mr_nvtx_callbacks {
    size_t size;
    int (*table_of)(int module, mr_nvtx_function ***out, unsigned *n); /* 1: there is one */
} mr_nvtx_callbacks;

typedef struct mr_nvtx_versions {
    size_t size;
    uint32_t version, unused;
    void (*tell)(uint32_t version);
} mr_nvtx_versions;

typedef const void *mr_nvtx_tables(uint32_t id); /* one of the two, or NULL */
typedef int mr_nvtx_start(mr_nvtx_tables *tables); /* 0: does not want to */

/* Who wants to know the names of what runs; NULL when nobody does. */
const mr_listener *mr_profiler(void);

#endif
