/* plan_internal.h -- what the parts of the planner share among themselves. */
#ifndef PLAN_INTERNAL_H
#define PLAN_INTERNAL_H

#include "plan.h"

#define PLAN_LIMIT ((uint64_t)1 << 62) /* no offset and no end is larger */

uint64_t plan_round(uint64_t bytes, uint64_t to); /* up; to 0: to a power of two */
uint64_t plan_height(const plan_problem *problem, const uint64_t *offset);

/* ---- putting one buffer after the other where it fits ------------------------------------------ */

typedef enum plan_fit {
    PLAN_BEST,        /* the smallest hole that is large enough, the lowest of equal ones */
    PLAN_BEST_TFLITE, /* the same, but a hole is compared by its aligned size, then remembered by
                         its whole size */
    PLAN_FIRST,       /* the lowest hole that is large enough */
    PLAN_ABOVE,       /* no hole: above everything that is in the way */
} plan_fit;

/* Buffers with fixed offsets go first, then the others as listed in `order`. */
void plan_place_in_order(mr_ctx *ctx, const plan_problem *problem, const uint32_t *order,
                         plan_fit fit, plan_layout *out);

/* ---- orders ------------------------------------------------------------------------------------- */

/* Numbers of buffers sorted by keys, larger ones first, then by number. */
typedef struct plan_key {
    uint64_t first, second;
    uint32_t buffer;
} plan_key;

plan_key *plan_keys(mr_ctx *ctx, const plan_problem *problem); /* keys are zero yet */
const uint32_t *plan_sort(mr_ctx *ctx, plan_key *keys, uint32_t n);

/* ---- rules that are more than an order ---------------------------------------------------------- */

void plan_rule_breadth(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_ort(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_inductor(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);

/* ---- plain problems ----------------------------------------------------------------------------- */

/* One piece of a plain problem.  Bytes are counted in units that divide all of them. */
typedef struct plan_box {
    uint64_t size;
    uint32_t from, to; /* sections from <= s < to */
    uint32_t buffer;
} plan_box;

typedef struct plan_field {
    plan_box *boxes; /* by `from`, then longest first, then largest first */
    uint32_t n, sections;
    uint32_t *first; /* by section, and one more: first box that begins there or later */
    uint64_t unit;   /* bytes */
    uint64_t load;   /* in units; a layout of this height is the best */
} plan_field;

void plan_field_make(mr_ctx *ctx, const plan_problem *problem, plan_field *out);
/* By box: the largest load of the sections it covers. */
const uint64_t *plan_field_loads(mr_ctx *ctx, const plan_field *field);
/* Offsets of boxes, in units, as a layout of the problem. */
void plan_field_layout(mr_ctx *ctx, const plan_problem *problem, const plan_field *field,
                       const uint64_t *base, plan_layout *out);

/* ---- one dive ----------------------------------------------------------------------------------- */

/* Working space of a dive; one per thread, used again and again. */
typedef struct plan_diver plan_diver;
plan_diver *plan_diver_new(mr_ctx *ctx, const plan_field *field);

/* Always the lowest place first; of the boxes that fit there, the one of the lowest rank (a
 * permutation of the boxes).  Returns the height; gives up, returning UINT64_MAX, once a box ends
 * above `limit`.  O(n log n) but for boxes that are looked at and are too long. */
uint64_t plan_dive(plan_diver *diver, const uint32_t *rank, uint64_t limit, uint64_t *base);

/* Key number `k` of the portfolio as ranks; false when there are no more. */
bool plan_dive_key(mr_ctx *ctx, const plan_field *field, uint32_t k, uint32_t *rank);
const char *plan_dive_name(uint32_t k);

#endif
