/* evaluate.h -- the whole way of one cell of a table: trace, spec, device -> placement, metrics. */
#ifndef MR_EVALUATE_H
#define MR_EVALUATE_H

#include "metrics.h"
#include "spec.h"

typedef struct mr_question {
    const mr_trace *trace;
    const mr_spec *spec;
    const mr_device *device;   /* costs and context; never NULL */
    uint64_t capacity;         /* bytes to be had for the process beside its context */
    uint32_t cuda_device;      /* which device of the trace */
    uint32_t iterations;       /* at least 1 */
    bool recorded_addresses;   /* new segments lie where the recording had them */
} mr_question;

typedef struct mr_answer {
    mr_schedule schedule;
    mr_placement placement;
    mr_metrics metrics;
} mr_answer;

/* Rewrites, schedules, places, lets both referees look, measures.  `answer` must stay where it is:
 * its parts point to each other. */
mr_status mr_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer);

#endif
