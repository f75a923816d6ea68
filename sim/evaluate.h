/* evaluate.h -- the whole way of one cell of a table: trace, spec, device
 * -> placement, metrics. */
#ifndef MR_EVALUATE_H
#define MR_EVALUATE_H

#include "metrics.h"
#include "spec.h"

typedef struct mr_question {
    const mr_trace *trace;
    const mr_spec *spec;
    const mr_device *device;   /* costs and context; never NULL */
    const mr_backend *backend; /* NULL: the model */
    const mr_manner *manner;   /* of the backend; NULL: the usual one */
    uint64_t capacity;         /* of the process beside its context; UINT64_MAX: no limit */
    uint32_t cuda_device;      /* which device of the trace */
    uint32_t iterations;       /* at least 1 */
    mr_batches batches;        /* between two of them */
    /* Begin with the segments that the recording began with, and put new ones where it had
     * them: to compare with what really happened.  Else the allocator begins empty and the
     * storages live before the first event are its first requests. */
    bool as_recorded;
    bool go_on; /* past requests that are not served, like a program that catches the error */
} mr_question;

typedef struct mr_answer {
    mr_trace rewritten; /* after the rewrites: may be asked again */
    mr_trace trace;     /* what the schedule is of: with workspaces, begun as a program is */
    mr_schedule schedule;
    mr_placement placement;
    mr_metrics metrics;
} mr_answer;

/* Rewrites, schedules, places, lets the referees look (at each rewrite: rewrite_check.h),
 * measures.  `answer` must stay where it is: its parts point to each other. */
mr_status mr_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer);

#endif
