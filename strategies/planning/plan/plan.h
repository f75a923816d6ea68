/* plan.h -- planning a whole step at once: buffers with known lives get their addresses.
 *
 *     problem   buffers, each with the time from which and until which it is in use, and bytes
 *     layout    an offset for every buffer; its height is the size of the segment
 *     load      the largest sum of bytes in use at one moment: no layout is lower
 *
 * Times are cut into sections at every beginning and end.  A buffer covers whole sections: a
 * piece is a run of sections during which the same bytes of it are in use.
 */
#ifndef PLAN_H
#define PLAN_H

#include "placement.h"

#define PLAN_ANYWHERE UINT64_MAX

/* While lower <= time < upper only the bytes low <= byte < high of the buffer are in use. */
typedef struct plan_gap {
    uint64_t lower, upper, low, high;
} plan_gap;

typedef struct plan_buffer {
    const char *name;
    uint64_t lower, upper;  /* in use while lower <= time < upper */
    uint64_t bytes;         /* at least 1 */
    uint64_t align;         /* its offset is a multiple of it; at least 1 */
    uint64_t fixed;         /* the offset it must have, or PLAN_ANYWHERE */
    uint32_t gap, gaps;     /* first gap and their number, ascending and disjoint */
    uint32_t piece, pieces; /* likewise; made by plan_prepare */
} plan_buffer;

typedef struct plan_piece {
    uint32_t buffer;
    uint32_t from, to;  /* sections from <= s < to */
    uint64_t low, high; /* bytes in use, counted from the buffer's offset */
} plan_piece;

typedef struct plan_problem {
    MR_VEC(plan_buffer) buffers;
    MR_VEC(plan_gap) gaps;
    /* Of what was heard of a schedule: when its first event comes, when iterations end. */
    uint64_t begin;
    MR_VEC(uint64_t) turns;
    /* made by plan_prepare */
    MR_VEC(plan_piece) pieces;
    uint32_t sections;
    uint64_t load;
    uint64_t align; /* the alignment of all buffers, 0 when they differ */
    bool plain;     /* no gaps, no fixed offsets, one alignment: what the search needs */
} plan_problem;

typedef struct plan_layout {
    uint64_t *offset; /* by buffer */
    uint64_t height;
} plan_layout;

/* ---- problems ------------------------------------------------------------------------ */

/* Gaps belong to the buffer that was added last. */
void plan_add(mr_ctx *ctx, plan_problem *problem, const plan_buffer *buffer);
void plan_add_gap(mr_ctx *ctx, plan_problem *problem, const plan_gap *gap);
/* Cuts time into sections.  MR_EINPUT names the buffer that makes no sense. */
mr_status plan_prepare(mr_ctx *ctx, plan_problem *problem);

/* Every block that an online allocator would be asked for, in the order of the requests; ready.
 * There may be none. */
mr_status plan_listen(mr_ctx *ctx, const mr_schedule *schedule, uint64_t align,
                      plan_problem *out);

/* One iteration in place of all, where these are alike. */
typedef struct plan_fold {
    plan_problem problem; /* not ready yet */
    uint32_t *buffer;     /* by buffer of the whole: the one that has its offset */
    bool exact;           /* nothing keeps a place for longer than it must */
} plan_fold;

/* False when they are not, or there is but one. */
bool plan_fold_make(mr_ctx *ctx, const plan_problem *whole, plan_fold *out);
void plan_unfold(mr_ctx *ctx, const plan_problem *whole, const plan_fold *fold,
                 const plan_layout *once, plan_layout *out);

/* The largest sum of bytes in use at one moment, each buffer's rounded up to a multiple of
 * `round`; 0: to a power of two.  Of no layout on such blocks is the height less. */
uint64_t plan_load(mr_ctx *ctx, const plan_problem *problem, uint64_t round);

/* ---- layouts ------------------------------------------------------------------------- */

/* The referee, which shares no code with who makes layouts: no two buffers in use at the same
 * time share a byte, offsets are aligned and fixed ones kept, nothing ends above the height,
 * and the height is that of the highest end. */
mr_status plan_check(mr_ctx *ctx, const plan_problem *problem, const plan_layout *layout);

/* ---- rules of others ----------------------------------------------------------------- */

/* name, what it does, program or paper it follows (NULL: a reference of ours), whether it knows
 * nothing of gaps, fixed offsets and several alignments, most buffers it can be asked
 * for (0: any) */
#define PLAN_RULE_LIST(X)                                                                      \
    X(tflite, "largest first, into the smallest hole",                                         \
      "TensorFlow Lite, arena_planner.cc and simple_memory_arena.cc", false, 0)                \
    X(breadth, "busiest moments first, into objects that are shared and may grow",             \
      "TensorFlow Lite GPU, greedy_by_breadth_assignment.cc; Pisarchyk and Lee, 2020",         \
      true, 0)                                                                                 \
    X(xla_spatial, "largest first, longest life among equals, into the smallest hole",         \
      "XLA, heap_simulator.cc, GlobalDecreasingSizeBestFitHeap", false, 0)                     \
    X(xla_temporal, "longest life first, largest among equals, into the smallest hole",        \
      "XLA, heap_simulator.cc, GlobalDecreasingSizeBestFitHeap", false, 0)                     \
    X(tvm_size, "largest first, above all that is in the way", "TVM, usmp/algo/greedy.cc",     \
      false, 0)                                                                                \
    X(tvm_conflicts, "most conflicts first, above all that is in the way",                     \
      "TVM, usmp/algo/greedy.cc", false, 0)                                                    \
    X(tvm_hill_climb, "largest first, into the lowest hole, then 500 swaps in the order",      \
      "TVM, usmp/algo/hill_climb.cc", true, PLAN_CLIMB)                                        \
    X(ort, "as they come, into the smallest hole of the moment",                               \
      "ONNX Runtime, framework/mem_pattern_planner.h", true, 0)                                \
    X(nnvm, "as they come, into a free object of about that size, which may grow",             \
      "NNVM and MXNet, plan_memory.cc", true, 0)                                               \
    X(inductor, "largest first, into a tree of splits in space and in time",                   \
      "PyTorch Inductor, codegen/memory_planning.py", true, PLAN_DEEPEST)                      \
    X(first_fit, "as they come, into the lowest hole", NULL, false, 0)                         \
    X(size_first_fit, "largest first, into the lowest hole", NULL, false, 0)

#define PLAN_CLIMB 2500    /* buffers, of which 500 layouts take some seconds */
#define PLAN_DEEPEST 30000 /* buffers whose tree of splits a stack of 8 MiB can walk */

typedef struct plan_rule {
    const char *name, *summary, *source;
    bool plain_only;
    uint32_t most;
    void (*run)(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
} plan_rule;

extern const plan_rule plan_rules[]; /* ends with {0} */

/* Can the rule be asked to solve this problem? */
bool plan_rule_knows(const plan_rule *rule, const plan_problem *problem);

/* ---- our own ------------------------------------------------------------------------- */

typedef struct plan_effort {
    double seconds;    /* stop after so long; 0: stop after a fixed amount of work, so that the
                          same question has the same answer on every machine */
    uint32_t threads;  /* at least 1; the answer does not depend on it unless time ran out */
    uint64_t capacity; /* stop once a layout is no higher; 0: go on */
    bool minimize;     /* go on until the height is proven to be the least */
} plan_effort;

typedef struct plan_answer {
    plan_layout layout;
    uint64_t bound;       /* no layout is lower */
    const char *bound_by; /* load, padding (the load once sizes are multiples of the alignment),
                             fixed offset, or search: an exhaustive one found nothing lower */
    bool in_time; /* the work was not cut off by the clock */
    const char *found_by;
    uint64_t nodes; /* steps of all searches together */
} plan_answer;

void plan_solve(mr_ctx *ctx, const plan_problem *problem, const plan_effort *effort,
                plan_answer *out);

/* ---- all iterations ------------------------------------------------------------------ */

/* A problem of several iterations: those that are alike are planned once. */
typedef struct plan_turns {
    const plan_problem *whole;
    bool folded;
    plan_fold fold;
} plan_turns;

mr_status plan_turns_make(mr_ctx *ctx, const plan_problem *whole, plan_turns *out);
/* Can the rule be asked?  NULL, here and below, is our search. */
bool plan_turns_knows(const plan_turns *turns, const plan_rule *rule);
/* Of rules only the layout is set. */
void plan_turns_solve(mr_ctx *ctx, const plan_turns *turns, const plan_rule *rule,
                      const plan_effort *effort, plan_answer *out);

#endif
