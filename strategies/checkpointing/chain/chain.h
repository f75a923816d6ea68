/* chain.h -- plans for a chain of stages whose forward pass may be run again,
 * without any trace.
 *
 *     x(0) -> [stage 0] -> x(1) -> [stage 1] -> x(2) ... -> [stage n-1] -> x(n)
 *     y(0) <- [  B 0  ] <- y(1) <- [  B 1  ] <- y(2) ... <- [  B n-1 ] <- y(n)
 *
 * x(i) is what stage i reads, y(i) its gradient.  xbar(i+1) is all that stage i
 * keeps for its backward pass, its output x(i+1) included, its input x(i) not.  Sizes are
 * bytes, times nanoseconds; both only add up, so any other unit does as well.  The last stage
 * is best one of no size (a loss): y(n) is held from the beginning.
 *
 * Beaumont et al., "Optimal Re-Materialization Strategies for Heterogeneous Chains: How
 * to Train Deep Neural Networks with Limited Memory", 2019 (rotor); Zhao et al.,
 * "Rockmate: an Efficient, Fast, Automatic and Generic Tool for Re-materialization in
 * PyTorch", 2023 (several options).
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "base.h"

/* ---- the problem ------------------------------------------------------------------------- */

#define CHAIN_NEVER (UINT64_MAX / 8) /* the time of a plan that does not exist */

/* A way to run a stage so that its backward pass can follow. */
typedef struct chain_option {
    uint64_t saved;        /* xbar */
    uint64_t forward_tmp;  /* on top of x, y and xbar while the forward pass runs */
    uint64_t backward_tmp; /* likewise for the backward pass; y(i), which it makes, is in it */
    uint64_t forward_time, backward_time;
} chain_option;

typedef struct chain_stage {
    uint64_t out;  /* x(i+1) */
    uint64_t time; /* of the forward pass that saves nothing, with its ... */
    uint64_t tmp;  /* ... bytes on top of x(i) and x(i+1) */
    const chain_option *options; /* at least one */
    uint32_t n;
    /* No backward pass reads x(i), only the stage itself: xbar(i) is without it, forward_tmp of
     * the stage before has it, and saving the stage lets go of it.  Never true of stage 0. */
    bool passing;
} chain_stage;

typedef struct chain_problem {
    uint64_t in; /* x(0) */
    const chain_stage *stages;
    uint32_t n;
    /* n + 1 sizes: y(i), and what else stages i ... n-1 leave behind when they have run
     * backward, such as gradients of parameters.  NULL: y(i) alone, as large as x(i). */
    const uint64_t *back;
} chain_problem;

uint64_t chain_size(const chain_problem *chain, uint32_t i); /* x(i) */
uint64_t chain_back(const chain_problem *chain, uint32_t i); /* y(i) */
/* Time of one step that keeps everything: each stage saves, each runs backward. */
uint64_t chain_base_time(const chain_problem *chain);

/* ---- the plan ---------------------------------------------------------------------------- */

typedef enum chain_kind {
    CHAIN_FORWARD,  /* run the stage, save nothing, let go of its input ("F_null") */
    CHAIN_KEEP,     /* run the stage, save nothing, keep its input ("F_ck") */
    CHAIN_SAVE,     /* run the stage by an option, keep xbar and its input ("F_all") */
    CHAIN_BACKWARD, /* run its backward pass: y(i) for xbar, input and y(i+1) */
} chain_kind;

typedef struct chain_action {
    chain_kind kind;
    uint32_t stage;
    uint32_t option; /* of SAVE and BACKWARD */
} chain_action;

typedef MR_VEC(chain_action) chain_actions;

typedef struct chain_outcome {
    uint64_t peak; /* largest sum of bytes at once, x(0) included */
    uint64_t called; /* the same where what runs again are calls, which hold what they are given */
    uint64_t time;
    uint32_t wrong_at; /* the first action that cannot be carried out; MR_NONE when all can */
    const char *wrong; /* why */
} chain_outcome;

/* By stage: where the longest call ends that begins with it, 0 when none does.  A call is a
 * CHAIN_KEEP and what is run from there unsaved, up to where the next one begins or a stage
 * saves; so calls are nested.  One that runs within another holds its x(i) until it ends. */
uint32_t *chain_calls(mr_ctx *ctx, uint32_t n, const chain_actions *plan);

/* Carries a plan out action by action.  It knows nothing of how plans are made, so it is their
 * referee.  A plan is complete when every stage has run backward once, last first. */
chain_outcome chain_replay(mr_ctx *ctx, const chain_problem *chain, const chain_actions *plan);

/* One letter and stage per action, such as "k0 f1 s2 b2 s0 b0": for tests and reports. */
const char *chain_print(mr_ctx *ctx, const chain_actions *plan);

/* ---- plans from a set of kept inputs ----------------------------------------------------- */

/* kept[i] says that x(i) is kept from the first pass on.  Each segment between kept inputs is
 * run again once, just before its backward pass; the last is saved at once. */
void chain_segments(mr_ctx *ctx, const chain_problem *chain, const bool *kept,
                    chain_actions *plan);
/* Every stage saves: the step without any recomputation. */
void chain_all(mr_ctx *ctx, const chain_problem *chain, chain_actions *plan);

/* ---- revolve ----------------------------------------------------------------------------- */

/* Least number of stages that must be run forward, beyond the one that each backward step runs
 * for itself, to reverse l equal stages with room for c inputs (x(0) is one of them): t(l,c) =
 * r l - C(c+r, c+1) for the least r with C(c+r, c) >= l.  CHAIN_NEVER when c is 0 and l is not.
 * l at most 2^31.
 *
 * Griewank and Walther, "Algorithm 799: Revolve", 2000. */
uint64_t chain_revolve_cost(uint32_t l, uint32_t c);

/* A plan of that cost for stages 0 ... l-1: O(1) per decision.  c is at least 1. */
void chain_revolve(mr_ctx *ctx, uint32_t l, uint32_t c, chain_actions *plan);

/* ---- rotor ------------------------------------------------------------------------------- */

/* The least time for every budget up to the one given.  Sizes are rounded up to slots of
 * ceil(budget / slots) bytes: plans fit, and may be a slot per held value too careful. */
typedef struct chain_table chain_table;

/* O(slots n^2 (n + options)) steps and slots n^2 / 2 numbers. */
const chain_table *chain_rotor(mr_ctx *ctx, const chain_problem *chain, uint64_t budget,
                               uint32_t slots);
/* Least time within `budget` bytes, which is at most the table's; CHAIN_NEVER when none fits.
 * Optimal among plans that let go of nothing before the backward pass it was kept for. */
uint64_t chain_rotor_time(const chain_table *table, uint64_t budget);
/* The smallest budget for which there is a plan, UINT64_MAX when there is none. */
uint64_t chain_rotor_least(const chain_table *table);
/* False when none fits. */
bool chain_rotor_plan(mr_ctx *ctx, const chain_table *table, uint64_t budget,
                      chain_actions *plan);

/* ---- Chen -------------------------------------------------------------------------------- */

/* Nodes in the order of the forward pass.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. */
typedef struct chain_node {
    uint64_t bytes; /* what its segment holds for it while the segment is run backward */
    uint64_t out;   /* what is held for it when a segment ends behind it */
    bool cut;       /* may a segment end behind it? */
} chain_node;

typedef struct chain_cuts {
    bool *at;         /* per node: a segment ends behind it */
    uint64_t kept;    /* sum of their `out` */
    uint64_t largest; /* bytes of the largest segment */
} chain_cuts;

/* Every k-th node that may be cut, k = floor(sqrt of their number). */
chain_cuts chain_chen_sqrt(mr_ctx *ctx, const chain_node *nodes, uint32_t n);
/* One pass of algorithm 3: cuts at the first place where a segment has more than `bytes`. */
chain_cuts chain_chen_pass(mr_ctx *ctx, const chain_node *nodes, uint32_t n, uint64_t bytes);

/* Values for chain_chen_pass: the paper's six from b/sqrt(2) to sqrt(2) b, evenly spaced, for
 * b = sqrt(kept * largest) of a pass with 0; and the sixty of Checkmate's experiments,
 * `unit` * 0.00, 0.05 ... 2.95. */
enum { CHAIN_CHEN_GRID = 6, CHAIN_CHECKMATE_GRID = 60 };
void chain_chen_grid(mr_ctx *ctx, const chain_node *nodes, uint32_t n,
                     uint64_t grid[CHAIN_CHEN_GRID]);
void chain_checkmate_grid(uint64_t unit, uint64_t grid[CHAIN_CHECKMATE_GRID]);

/* The fastest of the plans that the values of both grids give within the budget, the one of
 * least peak among equals.  False when none fits; the plan is then the one of least peak.
 * Stages are saved by their first option. */
bool chain_chen_greedy(mr_ctx *ctx, const chain_problem *chain, uint64_t budget,
                       chain_actions *plan);
/* g(n) = k + g(n / (k+1)): k inputs are kept, and each of the k+1 parts does the same again. */
void chain_chen_recursive(mr_ctx *ctx, const chain_problem *chain, uint32_t k,
                          chain_actions *plan);

#endif
