/* plan_seeker.h -- the state of a search: skyline, boxes that are not
 * placed, parts, choices. */
#ifndef PLAN_SEEKER_H
#define PLAN_SEEKER_H

#include "plan_internal.h"

typedef struct seeker_part { /* sections lo <= s < hi, independent of all others */
    uint32_t lo, hi;
    uint32_t next;  /* part to be solved after this one, MR_NONE */
    uint32_t owner; /* frame to go back to when it fails, MR_NONE */
} seeker_part;

typedef struct seeker_change { /* of the skyline, and perhaps of what is placed */
    uint64_t height;           /* before */
    uint32_t from, to;
    uint32_t box; /* MR_NONE: ground was lost */
} seeker_change;

typedef struct seeker_frame {
    seeker_part now;
    uint32_t section;      /* branched on */
    uint32_t option, end;  /* next choice and their end, on the stack of choices */
    uint32_t trail, parts; /* lengths to go back to */
    bool loss;             /* losing ground is the last choice, not yet tried */
    uint64_t hash[2];
} seeker_frame;

typedef struct seeker_key {
    uint64_t at[2];
} seeker_key;

/* A section of a valley and what can become of its ground. */
typedef struct seeker_branch {
    uint32_t section, count; /* number of boxes that can stand there */
    bool loss;               /* or it can be lost */
    uint64_t height, slack;
} seeker_branch;

struct plan_seeker {
    mr_ctx *ctx;
    const plan_field *field;
    const uint32_t *rank;
    uint64_t capacity, steps;
    unsigned ways;
    plan_verdict verdict;
    uint64_t *base; /* by box */
    /* by section */
    uint64_t *top, *rest; /* the skyline; sizes of boxes that are not placed */
    uint32_t *bridges;    /* of those, how many cover the border to the section before */
    uint32_t *run_end;    /* of a valley; 0 outside of valleys */
    uint32_t *fits;       /* difference to the section before of boxes that can stand there */
    uint64_t *shore, *grain; /* at the last section of a valley: lower shore, smallest box */
    uint64_t *floor;         /* lowest base of a box that is not placed */
    /* boxes that are not placed: a ring through number n */
    uint32_t *left, *right;
    uint32_t *twin; /* box before it that is just the same, MR_NONE */
    bool *placed;
    uint64_t (*name)[2]; /* random numbers */
    seeker_key *failed;  /* states, by hash */
    uint32_t failed_n;
    /* stacks */
    seeker_part now;
    MR_VEC(seeker_frame) frames;
    MR_VEC(seeker_change) trail;
    MR_VEC(uint32_t) choices;
    MR_VEC(seeker_part) parts;
};

void plan_seeker_place(plan_seeker *k, uint32_t box);
void plan_seeker_lose(plan_seeker *k, uint32_t from, uint32_t to, uint64_t height);
void plan_seeker_undo(plan_seeker *k, uint32_t trail);

/* Cuts [lo, hi) where nothing bridges it; the pieces go before `next`.  Returns
 * the first part. */
uint32_t plan_seeker_split(plan_seeker *k, uint32_t lo, uint32_t hi, uint32_t next);

/* Looks for valleys of the part `now` and counts what can stand in them. */
void plan_seeker_look(plan_seeker *k);
/* The first box of the part that is not placed; the others follow by `right`. */
uint32_t plan_seeker_first(const plan_seeker *k);
/* Height of a section's ground once it was lost; whether that is allowed. */
uint64_t plan_seeker_after_loss(const plan_seeker *k, uint32_t section);
bool plan_seeker_may_lose(const plan_seeker *k, uint32_t section);
/* Sections where no box can stand lose their ground. */
void plan_seeker_lose_all(plan_seeker *k);
/* Boxes that can stand over the section, by rank, onto the stack of choices from `at` on. */
void plan_seeker_choices(plan_seeker *k, uint32_t section, uint32_t at);
/* Some section cannot take what has yet to lie above it, wherever the lowest of that begins. */
bool plan_seeker_is_hopeless(plan_seeker *k);

#endif
