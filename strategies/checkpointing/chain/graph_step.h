/* graph_step.h -- a recorded training step seen as a graph of results, and rewritten so
 * that some of them are kept for the backward pass and all others are computed again when
 * they are needed.
 *
 * A node is a storage that the forward pass makes, or an op of the backward pass; nodes stand
 * in the order in which they are complete.  Parameters and what else lives before the step are
 * no nodes: they are there anyway.  What the program itself holds into the backward pass costs
 * nothing to keep.
 */
#ifndef GRAPH_STEP_H
#define GRAPH_STEP_H

#include "chain_lives.h"
#include "graph.h"

typedef struct graph_step {
    const mr_trace *trace;
    chain_lives lives;
    graph graph;
    graph_op *ops;     /* by node */
    uint32_t *storage; /* by node; MR_NONE for an op of the backward pass */
    bool *pinned;      /* by storage: held by the program, or not to be had again */
    uint32_t *changes; /* by storage: ops that change it in place, first of a list ... */
    uint32_t *next;    /* ... by op: the next one that changes the same storage */
} graph_step;

/* `fused`: ops that a compiler would join are taken for fusible.  MR_EUNSUPPORTED as
 * chain_lives_of. */
mr_status graph_step_of(mr_ctx *ctx, const mr_trace *trace, bool fused, graph_step *out);

/* Keeps what is true in `kept` (by node).  A result that is gone is computed again just before
 * the first op of the backward pass that reads it, and then stays for the others. */
mr_status graph_step_rewrite(mr_ctx *ctx, const graph_step *step, const bool *kept,
                             mr_trace *out);

#endif
