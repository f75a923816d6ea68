/* stalloc.h -- what an earlier run tells of the next: a plan for what recurs.
 *
 *     turn      an iteration of the schedule, or a step of a recording that has several
 *     static    a request that comes in every turn, in the same order and of the same size; or
 *               one of the first turn that is never given back
 *     dynamic   any other
 *
 * Requests are numbered as they come, iteration after iteration.
 */
#ifndef STALLOC_H
#define STALLOC_H

#include "placement.h"

enum { STALLOC_UNIT = 512 }; /* offsets and sizes are multiples of it */

typedef struct stalloc_request {
    uint64_t bytes; /* rounded up */
    uint32_t stream, pool;
    uint32_t turn, freed_in;     /* MR_NONE: never freed */
    uint32_t freed_at;           /* how many requests had come by then */
    uint32_t item;               /* of the plan; MR_NONE for a dynamic one */
} stalloc_request;

/* In use from its turn among the static ones until that of another.  `to` no larger than
 * `from`: until then it is the one that the turn before has left. */
typedef struct stalloc_item {
    uint64_t bytes, offset;
    uint32_t from, to;
} stalloc_item;

typedef struct stalloc_plan {
    MR_VEC(stalloc_request) requests;
    uint32_t before; /* so many come before the first event */
    MR_VEC(stalloc_item) items;
    uint32_t turns;
    uint32_t last;   /* items of a turn: no `to` is larger */
    uint64_t height; /* of the pool */
} stalloc_plan;

/* Listens to the schedule as an allocator that serves everything. */
mr_status stalloc_trace(mr_ctx *ctx, const mr_schedule *schedule, stalloc_plan *out);

/* Finds what recurs; offsets are not chosen yet. */
void stalloc_find(mr_ctx *ctx, stalloc_plan *plan);

/* Chooses offsets: what is always there end to end, the rest in layers of one size. */
void stalloc_pack(mr_ctx *ctx, stalloc_plan *plan);

typedef struct stalloc_guest {
    uint64_t offset, bytes;
} stalloc_guest;

typedef struct stalloc_guests { /* dynamic requests in the pool */
    mr_ctx *ctx;
    const stalloc_plan *plan;
    uint32_t *order; /* items by offset */
    bool *used;      /* by item: is it there?  Kept by whoever places it */
    uint32_t *met;   /* by item: the last request that it comes in the life of */
    MR_VEC(stalloc_guest) guests; /* by offset */
} stalloc_guests;

stalloc_guests stalloc_guests_make(mr_ctx *ctx, const stalloc_plan *plan);
/* An idle part for as long as the request stays; false for none. */
bool stalloc_guests_find(stalloc_guests *g, uint32_t request, uint64_t *offset);
void stalloc_guests_add(stalloc_guests *g, uint64_t offset, uint64_t bytes);
void stalloc_guests_remove(stalloc_guests *g, uint64_t offset);

#endif
