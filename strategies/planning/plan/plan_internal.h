/* plan_internal.h -- what the parts of the planner share among themselves. */
#ifndef PLAN_INTERNAL_H
#define PLAN_INTERNAL_H

#include "plan.h"

#define PLAN_LIMIT ((uint64_t)1 << 62) /* no offset and no end is larger */

uint64_t plan_round(uint64_t bytes, uint64_t to); /* up; to 0: to a power of two */
uint64_t plan_height(const plan_problem *problem, const uint64_t *offset);

/* ---- lives that meet -------------------------------------------------------------------- */

typedef struct plan_life { /* sections from <= s < to */
    uint32_t from, to;
} plan_life;

/* Lives known beforehand, entered one after the other.  It keeps `lives`. */
typedef struct plan_lives plan_lives;
plan_lives *plan_lives_new(mr_ctx *ctx, const plan_life *lives, uint32_t n, uint32_t sections);
void plan_lives_enter(plan_lives *lives, uint32_t life);
/* How many of those entered meet [from, to), and which; `out` has room for them. */
uint32_t plan_lives_count(const plan_lives *lives, uint32_t from, uint32_t to);
uint32_t plan_lives_meet(const plan_lives *lives, uint32_t from, uint32_t to, uint32_t *out);

/* ---- what has its place --------------------------------------------------------------- */

typedef struct plan_board plan_board;
typedef struct plan_shelf plan_shelf;

typedef struct plan_walk { /* one at a time; putting something ends it */
    plan_shelf *shelf;
    plan_board *board;
    uint32_t from, to, next, at, n;
    bool marked;
    uint8_t list[128]; /* pieces of the board that are in the way */
} plan_walk;

/* For pieces of these lives, which it keeps.  O(log n + pieces in the way) for a walk, and
 * O(log n) for a piece that is put, but for the row of boards, n / 64 of them at the most, that
 * is moved once in 64 times. */
plan_shelf *plan_shelf_new(mr_ctx *ctx, const plan_life *lives, uint32_t n, uint32_t sections);
void plan_shelf_put(plan_shelf *shelf, uint32_t piece, uint64_t low, uint64_t high);
/* Visits what is there during [from, to) in the order of `low`. */
plan_walk plan_shelf_walk(plan_shelf *shelf, uint32_t from, uint32_t to);
bool plan_shelf_next(plan_walk *walk, uint64_t *low, uint64_t *high);

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

/* Only those sections count of the boxes' that hold more than their neighbours. */
void plan_field_of_boxes(mr_ctx *ctx, plan_box *boxes, uint32_t n, uint32_t sections,
                         plan_field *out);
void plan_field_make(mr_ctx *ctx, const plan_problem *problem, plan_field *out);
/* By box: the largest load of the sections it covers. */
const uint64_t *plan_field_loads(mr_ctx *ctx, const plan_field *field);
/* Offsets of boxes, in units, as a layout of the problem. */
void plan_field_layout(mr_ctx *ctx, const plan_problem *problem, const plan_field *field,
                       const uint64_t *base, plan_layout *out);

/* The lowest place for a box among what is on the shelf. */
uint64_t plan_first_fit(plan_shelf *shelf, const plan_box *box);
plan_life *plan_field_lives(mr_ctx *ctx, const plan_field *field);

/* ---- the core of a problem -------------------------------------------------------------- */

typedef struct plan_part { /* boxes that share no moment with those of other parts */
    plan_field field;      /* `buffer` of a box is its number in the whole field */
    uint64_t floor;        /* all of them lie above it */
} plan_part;

typedef struct plan_core {
    MR_VEC(plan_part) parts;
    MR_VEC(uint32_t) aside; /* find a place whatever the parts do; the last one first */
    uint64_t *base;         /* by box of the whole field: of those below the floors */
} plan_core;

/* Layouts of the parts none of which ends above some height, at least `height`, make a layout
 * of all that does not either. */
void plan_core_make(mr_ctx *ctx, const plan_field *whole, uint64_t height, plan_core *out);
/* core->base has the bases of the parts' boxes, floors included; those of `aside` follow. */
void plan_core_finish(mr_ctx *ctx, const plan_field *whole, plan_core *core);

/* ---- what sections need -------------------------------------------------------------------- */

/* By section: all that lies there, and what was lost; begins anew with each dive. */
typedef struct plan_need plan_need;
plan_need *plan_need_new(mr_ctx *ctx, const plan_field *field);
void plan_need_begin(plan_need *need);
void plan_need_lose(plan_need *need, uint32_t from, uint32_t to, uint64_t lost);
/* The first section from <= s < to of the greatest need, where this is above `most`, which it
 * becomes; else MR_NONE. */
uint32_t plan_need_most(const plan_need *need, uint32_t from, uint32_t to, uint64_t *most);

/* ---- one dive ------------------------------------------------------------------------ */

/* Working space of a dive; one per thread, used again and again. */
typedef struct plan_diver plan_diver;
/* A sparing dive goes by ranks only among boxes that spare the sections of greatest need. */
plan_diver *plan_diver_new(mr_ctx *ctx, const plan_field *field, bool sparing);

/* Always the lowest place first; of the boxes that fit there, the one of the lowest rank (a
 * permutation of the boxes).  Returns the height; gives up, returning UINT64_MAX, once a box
 * ends above `limit`.  O(n log n) but for boxes that are looked at and are too long. */
uint64_t plan_dive(plan_diver *diver, const uint32_t *rank, uint64_t limit, uint64_t *base);

/* Key number `k` of the portfolio as ranks. */
#define PLAN_KEYS 12
void plan_dive_key(mr_ctx *ctx, const plan_field *field, uint32_t k, uint32_t *rank);
/* Ranks moved by up to a tenth of their number, differently for every `seed` but 0. */
void plan_disturb(mr_ctx *ctx, uint32_t *rank, uint32_t n, uint64_t seed);

/* ---- a dive, then first fit ------------------------------------------------------------ */

/* Working space, likewise.  `share` twentieths of the boxes are large.  Fills the ranks: those
 * by the key, then the rest by size. */
typedef struct plan_large plan_large;
plan_large *plan_large_new(mr_ctx *ctx, const plan_field *field, uint32_t share, uint32_t key,
                           uint32_t *rank);
uint64_t plan_large_lay(plan_large *large, const uint32_t *rank, uint64_t *base); /* height */

/* ---- exhaustive search --------------------------------------------------------------- */

typedef enum plan_verdict { PLAN_OPEN, PLAN_FOUND, PLAN_NONE } plan_verdict;

enum { /* ways to search */
    PLAN_LOWEST = 1,    /* branch in the lowest valleys, not where there are fewest choices */
    PLAN_LOOK_AHEAD = 2, /* also at sections outside of valleys: fewer steps, but longer ones */
    PLAN_SNUG = 4       /* boxes that fill a valley from edge to edge go before others */
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
#define PLAN_DIVES (PLAN_KEYS + 1) /* the last is a sparing one */
#define PLAN_MIXED 6
/* `field` is NULL unless the problem is plain.  Chains with other numbers take other ways: the
 * PLAN_KEYS keys of the portfolio, a sparing dive, then PLAN_MIXED mixtures of dives and first
 * fit. */
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

typedef struct plan_clock {
    uint32_t threads;
    double until; /* as plan_now counts, 0 for no limit */
    bool quiet;   /* somebody else says how far the work is */
} plan_clock;

bool plan_is_over(const plan_clock *clock);

/* ---- one capacity, many ways --------------------------------------------------------- */

/* Searches for the same layout in several ways side by side.  Some go on from call to
 * call, others try disturbed ranks and are given up.  The verdict does not depend on the
 * number of threads. */
typedef struct plan_probe plan_probe;
plan_probe *plan_probe_new(mr_ctx *ctx, const plan_field *field, uint64_t capacity);
/* Each way goes on for so many steps. */
plan_verdict plan_probe_go(plan_probe *probe, const plan_clock *clock, uint64_t steps);
const uint64_t *plan_probe_bases(const plan_probe *probe); /* after PLAN_FOUND */
uint64_t plan_probe_steps(const plan_probe *probe);
void plan_probe_end(plan_probe *probe); /* frees what the ways took */

/* ---- one field ----------------------------------------------------------------------- */

/* Ever lower layouts of a field, or, where it is NULL, of a problem that is not plain. */
typedef struct plan_quest plan_quest;
/* Has a layout at once, whatever time it takes: by dives, of which one is sparing or none. */
plan_quest *plan_quest_new(mr_ctx *ctx, const plan_problem *problem, const plan_field *field,
                           const plan_clock *clock, bool sparing);
/* One round: so much work of each chain and each way of searching; done once a layout is no
 * higher than `enough`.  Only of that height are layouts searched for where `to_fit`. */
void plan_quest_go(plan_quest *quest, uint64_t enough, uint64_t work, uint32_t round,
                   bool to_fit);
void plan_quest_end(plan_quest *quest); /* frees what chains and searches took */
/* No layout is lower than `low`, one of `high` has these bases. */
uint64_t plan_quest_low(const plan_quest *quest);
uint64_t plan_quest_high(const plan_quest *quest);
const uint64_t *plan_quest_bases(const plan_quest *quest);
const char *plan_quest_found_by(const plan_quest *quest);
uint64_t plan_quest_nodes(const plan_quest *quest);

#endif
