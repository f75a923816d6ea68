/* gpu_watch.h -- what may spoil a measurement: others on the GPU, and a GPU that slows down.
 *
 * Asked of NVIDIA's management library, which comes with the driver and is looked up at run time;
 * where it is missing, or does not answer, nothing is known and nothing is said.
 */
#ifndef MR_GPU_WATCH_H
#define MR_GPU_WATCH_H

#include "base.h"

/* why a GPU runs slower than it could, as the library numbers them: bit, how a report says it */
#define MR_SLOWED_LIST(X)                                   \
    X(4, "its limit of power")                              \
    X(8, "a slowdown of the hardware")                      \
    X(0x20, "its temperature")                              \
    X(0x40, "its temperature, by the hardware")             \
    X(0x80, "a power brake from outside")

typedef struct mr_disturbance {
    uint32_t others;       /* most other processes that computed on the GPU at once, */
    uint64_t others_bytes; /* and what they held, as far as is told */
    uint64_t slowed;       /* bits of MR_SLOWED_LIST that were ever set */
    bool divided;          /* into instances (MIG): others may share its bandwidth */
} mr_disturbance;

typedef struct mr_gpu_watch mr_gpu_watch;

/* NULL when nothing can be asked.  `bus` is the GPU's address, as "0000:3b:00.0". */
mr_gpu_watch *mr_gpu_watch_open(mr_ctx *ctx, const char *bus);
void mr_gpu_watch_look(mr_gpu_watch *watch, mr_disturbance *out); /* adds what it sees */
void mr_gpu_watch_close(mr_gpu_watch *watch);

#endif
