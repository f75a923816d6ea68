/* timeline.h -- the clocks of a host, of the streams of one device and of its links.
 *
 * The host issues ops one after the other and does not wait for them.  An op begins when it
 * has been issued, its stream is free, what it reads has been written and what it overwrites
 * has been read, on whatever stream; a transfer also waits for its link, and a `wait` is
 * nothing but that.  Kernels on
 * different streams run beside each other as if each were alone.
 *
 *     host    |a|b|c|  |..cudaFree..|d|
 *     stream  . [--a--][b][---c---]    [d]
 *                                      ^ cudaFree has waited for c
 */
#ifndef MR_TIMELINE_H
#define MR_TIMELINE_H

#include "trace.h"

typedef struct mr_timeline {
    mr_ctx *ctx;
    uint64_t host;
    MR_VEC(uint64_t) streams;      /* when each is free again */
    uint64_t links[MR_ENGINE_N];   /* likewise; collectives share one */
    uint64_t *written, *touched;   /* by storage: when its last writer, its last op ends */
    uint64_t busy;                 /* until when some kernel runs or is accounted for */
    uint64_t starved; /* of the time up to then: no kernel ran, for the host had issued none */
    uint64_t exposed; /* no kernel ran, for a transfer had to come first */
} mr_timeline;

void mr_timeline_begin(mr_ctx *ctx, mr_timeline *timeline);

/* The host does something that the device has no part in. */
void mr_timeline_host(mr_timeline *timeline, uint64_t ns);
/* The host issues an op, which took it host_ns, and the device then needs device_ns for it. */
void mr_timeline_run(mr_timeline *timeline, const mr_trace *trace, const mr_op *op,
                     uint64_t host_ns, uint64_t device_ns);
/* The host waits for one stream, for all of the device. */
void mr_timeline_join(mr_timeline *timeline, uint32_t stream);
void mr_timeline_settle(mr_timeline *timeline);
/* Waits for all and returns the time. */
uint64_t mr_timeline_now(mr_timeline *timeline);

#endif
