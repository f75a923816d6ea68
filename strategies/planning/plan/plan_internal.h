/* plan_internal.h -- what the parts of the planner share among themselves. */
#ifndef PLAN_INTERNAL_H
#define PLAN_INTERNAL_H

#include "plan.h"

#define PLAN_LIMIT ((uint64_t)1 << 62) /* no offset and no end is larger */

uint64_t plan_round(uint64_t bytes, uint64_t to); /* up; to 0: to a power of two */
uint64_t plan_height(const plan_problem *problem, const uint64_t *offset);

/* ---- putting one buffer after the other where it fits -------------------------------- */

typedef enum plan_fit {
    PLAN_BEST,        /* the smallest hole that is large enough, the lowest of equal ones */
    PLAN_BEST_TFLITE, /* the same, but a hole is compared by its aligned size, then remembered
                       * by its whole size */
    PLAN_FIRST,       /* the lowest hole that is large enough */
    PLAN_ABOVE,       /* no hole: above everything that is in the way */
} plan_fit;

/* Buffers with fixed offsets go first, then the others as listed in `order`. */
void plan_place_in_order(mr_ctx *ctx, const plan_problem *problem, const uint32_t *order,
                         plan_fit fit, plan_layout *out);

/* ---- orders -------------------------------------------------------------------------- */

/* Numbers of buffers sorted by keys, larger ones first, then by number. */
typedef struct plan_key {
    uint64_t first, second;
    uint32_t buffer;
} plan_key;

uint64_t plan_draw(uint64_t *state); /* the next of a series of random numbers */

plan_key *plan_keys(mr_ctx *ctx, const plan_problem *problem); /* keys are zero yet */
const uint32_t *plan_sort(mr_ctx *ctx, plan_key *keys, uint32_t n);
/* The largest first, of equal ones who is in use at once with the most others. */
const uint32_t *plan_order_by_size(mr_ctx *ctx, const plan_problem *problem);

/* ---- rules that are more than an order ----------------------------------------------- */

void plan_rule_breadth(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_nnvm(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_ort(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_inductor(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);
void plan_rule_tvm_hill_climb(mr_ctx *ctx, const plan_problem *problem, plan_layout *out);

/* ---- plain problems ------------------------------------------------------------------ */

/* One piece of a plain problem.  Bytes are counted in units that divide all of them. */
typedef struct plan_box {
    uint64_t size;
    uint32_t from, to; /* sections from <= s < to */
    uint32_t buffer;
    uint32_t lasts, ends; /* how long and until when, in sections of the problem */
} plan_box;

typedef struct plan_field {
    plan_box *boxes; /* by their beginning in the problem, the longest first, then by size */
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

/* ---- one dive ------------------------------------------------------------------------ */

/* Working space of a dive; one per thread, used again and again. */
typedef struct plan_diver plan_diver;
plan_diver *plan_diver_new(mr_ctx *ctx, const plan_field *field);

/* Always the lowest place first; of the boxes that fit there, the one of the lowest rank (a
 * permutation of the boxes).  Returns the height; gives up, returning UINT64_MAX, once a box
 * ends above `limit`.  O(n log n) but for boxes that are looked at and are too long. */
uint64_t plan_dive(plan_diver *diver, const uint32_t *rank, uint64_t limit, uint64_t *base);

/* Key number `k` of the portfolio as ranks. */
#define PLAN_KEYS 12
void plan_dive_key(mr_ctx *ctx, const plan_field *field, uint32_t k, uint32_t *rank);
/* Ranks moved by up to a tenth of their number, differently for every `seed` but 0. */
void plan_disturb(mr_ctx *ctx, uint32_t *rank, uint32_t n, uint64_t seed);

/* ---- exhaustive search --------------------------------------------------------------- */

typedef enum plan_verdict { PLAN_OPEN, PLAN_FOUND, PLAN_NONE } plan_verdict;

enum { /* ways to search */
    PLAN_LOWEST = 1,    /* branch in the lowest valleys, not where there are fewest choices */
    PLAN_LOOK_AHEAD = 2 /* also at sections outside of valleys: fewer steps, but longer ones */
};

/* A search for a layout that is at most `capacity` units high.  It stops and goes
 * on as told. */
typedef struct plan_seeker plan_seeker;
plan_seeker *plan_seeker_new(mr_ctx *ctx, const plan_field *field, const uint32_t *rank,
                             uint64_t capacity, unsigned ways);
/* PLAN_FOUND: plan_seeker_bases has it.  PLAN_NONE: there is none.  PLAN_OPEN: not known after
 * so many more steps. */
plan_verdict plan_seek(plan_seeker *seeker, uint64_t steps);
const uint64_t *plan_seeker_bases(const plan_seeker *seeker);
uint64_t plan_seeker_steps(const plan_seeker *seeker);

/* ---- squeezing ----------------------------------------------------------------------- */

/* Lays everything out again and again; what stood out too high has an earlier turn next time.
 * Serves problems that are not plain too, by first fit. */
typedef struct plan_squeezer plan_squeezer;
/* `field` is NULL unless the problem is plain; chains with other numbers take other ways. */
plan_squeezer *plan_squeezer_new(mr_ctx *ctx, const plan_problem *problem,
                                 const plan_field *field, uint32_t chain);
void plan_squeeze(plan_squeezer *squeezer); /* once more */
/* The best so far: units of the field where there is one, else bytes. */
uint64_t plan_squeezer_height(const plan_squeezer *squeezer);
const uint64_t *plan_squeezer_bases(const plan_squeezer *squeezer);

/* ---- threads and time ---------------------------------------------------------------- */

/* Calls work(self, i) for every i < tasks on so many threads; returns when all are done. */
void plan_team(uint32_t threads, uint32_t tasks, void (*work)(void *self, uint32_t task),
               void *self);
double plan_now(void); /* seconds since some moment */

/* ---- one capacity, many ways --------------------------------------------------------- */

/* Searches for the same layout in several ways side by side.  Some go on from call to
 * call, others try disturbed ranks and are given up.  The verdict does not depend on the
 * number of threads. */
typedef struct plan_probe plan_probe;
plan_probe *plan_probe_new(mr_ctx *ctx, const plan_field *field, uint64_t capacity);
/* Each way goes on for so many steps; `until` as plan_now counts, 0 for no limit. */
plan_verdict plan_probe_go(plan_probe *probe, uint32_t threads, uint64_t steps, double until);
const uint64_t *plan_probe_bases(const plan_probe *probe); /* after PLAN_FOUND */
uint64_t plan_probe_steps(const plan_probe *probe);
void plan_probe_end(plan_probe *probe); /* frees what the ways took */

#endif
