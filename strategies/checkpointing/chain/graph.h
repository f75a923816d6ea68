/* graph.h -- recomputation on a graph of ops: which results to keep, and what that costs.
 *
 * Nodes are numbered in the order they run; an edge leads from a result to an op that reads it,
 * so from a smaller to a larger number.  No trace is known here.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include "base.h"

typedef struct graph_edge {
    uint32_t from, to;
} graph_edge;

typedef struct graph {
    uint32_t n;
    const uint32_t *out_first, *out; /* readers: out[out_first[i]] to out[out_first[i+1]-1] */
    const uint32_t *in_first, *in;   /* what i reads, likewise */
} graph;

graph graph_make(mr_ctx *ctx, uint32_t n, const graph_edge *edges, uint32_t m);

/* ---- where a graph can be cut in two ----------------------------------------------------- */

/* Nodes without which the graph, directions forgotten, falls apart.
 * O(n + edges), no recursion.
 *
 * Tarjan, "Depth-first search and linear graph algorithms", 1972. */
bool *graph_points(mr_ctx *ctx, const graph *g);

/* ---- a schedule in stages, as Checkmate has it ------------------------------------------- */

/* S[t n + i]: result i is there when stage t begins; R[t n + i]: op i runs in stage t.
 * Stage t runs op t for the first time.
 *
 * Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor
 * Rematerialization", 2020. */
typedef struct graph_stages {
    bool *S, *R;
} graph_stages;

/* S that follows from kept nodes of a graph made of `forward` ops, a loss and as many backward
 * ops, op 2 forward - i being the backward pass of op i: kept results stay; a segment between
 * them is there during its own stages, forward and backward; so are its gradients, as in the
 * published experiments (the program let go of them earlier later on). */
bool *graph_stages_of_cuts(mr_ctx *ctx, const graph *g, uint32_t forward, const bool *kept);

/* The least R with which S can be had: O(n edges). */
bool *graph_closure(mr_ctx *ctx, const graph *g, const bool *S);

typedef struct graph_run {
    uint64_t peak, time;
    uint32_t missing; /* an op that ran without what it reads; MR_NONE */
} graph_run;

/* Runs the stages: what is not read again and not kept for the next stage is let go
 * of at once. */
graph_run graph_execute(mr_ctx *ctx, const graph *g, const uint64_t *bytes,
                        const uint64_t *times, const graph_stages *stages);

/* ---- flows ------------------------------------------------------------------------------- */

#define GRAPH_ENDLESS (UINT64_MAX / 4) /* capacity of an edge that no cut may cross */

typedef struct graph_net graph_net;
graph_net *graph_net_new(mr_ctx *ctx, uint32_t n);
void graph_net_add(graph_net *net, uint32_t from, uint32_t to, uint64_t capacity);

/* The largest flow, which is the smallest cut; GRAPH_ENDLESS when none is finite.  Nodes on the
 * side of the sink, as near to it as a smallest cut can be, are true in `sink_side`.
 *
 * Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
 * estimation", 1970. */
uint64_t graph_min_cut(graph_net *net, uint32_t source, uint32_t sink, bool *sink_side);

/* ---- what to save between forward and backward pass -------------------------------------- */

/* As PyTorch's partitioner of joint graphs decides it
 * (torch/_functorch/partitioners.py, 2.x). */
typedef struct graph_op {
    uint64_t bytes; /* of the result */
    uint64_t time;  /* of running it again */
    bool backward;  /* belongs to the backward pass; or an input that only it reads */
    bool input;     /* of the whole graph: nothing could recompute it */
    bool free;      /* is held anyway, such as a parameter: saving it costs nothing */
    bool view;      /* never saved, always made again */
    bool random;
    bool heavy;     /* matrix product, convolution, attention ... */
    bool allowed;   /* in the list of ops that may be run again */
    bool fusible;   /* a compiler joins it with fusible neighbours */
    bool must_save, must_recompute;
} graph_op;

typedef struct graph_bans {
    bool not_allowed; /* everything outside of the list; else only what is random or heavy */
    bool materialised; /* what an unfusible op of the backward pass reads */
    bool reductions;   /* results less than a quarter of what was read */
    bool far_apart;    /* what is read by a fusible op behind an unfusible one */
    bool long_chains;  /* fusible chains of more than a hundred ops */
} graph_bans;

typedef struct graph_saving {
    bool *saved;     /* per op; views and what is free are not counted in ... */
    uint64_t bytes;  /* of what is saved */
    uint64_t time;   /* of what runs again */
    bool *banned;    /* per op: might not be run again */
} graph_saving;

extern const graph_bans graph_bans_default; /* all of them */

/* Saves what a smallest cut says, results near the backward pass and such that exist anyway
 * being cheaper.  `unban` (may be NULL): ops excepted from the bans.  O(flow). */
graph_saving graph_partition(mr_ctx *ctx, const graph *g, const graph_op *ops,
                             const graph_bans *bans, const bool *unban);

/* Saves what fits into thousandths of the way from saving inputs alone (0) to a partition with
 * the full bans (1000): with fewer bans if that is enough, else a knapsack decides which bans
 * are lifted.  As there, the bytes saved can be more than that in the end. */
graph_saving graph_partition_within(mr_ctx *ctx, const graph *g, const graph_op *ops,
                                    const graph_bans *full, uint32_t budget);

#endif
