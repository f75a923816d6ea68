/* dtr_flow.h -- what must be computed again after a moment, whatever is in memory then. */
#ifndef DTR_FLOW_H
#define DTR_FLOW_H

#include "dtr.h"

typedef struct dtr_moment {
    uint32_t op;        /* that runs */
    uint64_t left;      /* bytes that it leaves for what it does not need itself */
    const bool *busy;   /* by storage: the op needs it */
    const uint32_t *next; /* by storage: the next op that reads it; UINT32_MAX for what is kept,
                             0 for nobody */
} dtr_moment;

typedef struct dtr_flow {
    const dtr_program *program;
    uint64_t *came; /* by op: what came to it */
    uint64_t *used; /* by storage: what its readers sent on to its op */
} dtr_flow;

void dtr_flow_begin(mr_ctx *ctx, const dtr_program *program, dtr_flow *out);

/* ns at least that are computed again from the moment to the op `until`, as far as they can be
 * proved.  `*rate` is the price of memory in ns for a byte where the search begins, and then
 * the one that proves most. */
uint64_t dtr_flow_find(dtr_flow *flow, const dtr_moment *moment, uint32_t until, double *rate);

/* By storage: what the cheapest choice at this rate does without at the moment. */
void dtr_flow_away(dtr_flow *flow, const dtr_moment *moment, double rate, bool *away);

#endif
