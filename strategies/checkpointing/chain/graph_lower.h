/* graph_lower.h -- recomputation on any graph by a chain of lower sets (see graph_lower.c). */
#ifndef GRAPH_LOWER_H
#define GRAPH_LOWER_H

#include "graph.h"

typedef struct graph_lower_plan {
    bool found;
    uint64_t time;  /* of what runs again */
    uint64_t peak;  /* bytes, results and gradients, by the paper's count */
    uint32_t steps; /* how many sets there are in the chain */
    uint32_t *step; /* by node: the first of them that it is in, counted from 0 */
    bool *kept;     /* by node: in the boundary of one, kept for the backward pass */
} graph_lower_plan;

/* The chain of ancestor sets with the least time within the budget; times are rounded up to
 * `levels` parts of all time, 0 for not at all.  The graph is the forward pass.  O(n^3) bits,
 * and O(n^2 (n + levels)) steps. */
graph_lower_plan graph_lower(mr_ctx *ctx, const graph *g, const uint64_t *bytes,
                             const uint64_t *times, uint64_t budget, uint32_t levels);

#endif
