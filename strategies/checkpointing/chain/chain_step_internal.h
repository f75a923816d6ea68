/* chain_step_internal.h -- between the parts of chain_step. */
#ifndef CHAIN_STEP_INTERNAL_H
#define CHAIN_STEP_INTERNAL_H

#include "chain_lives.h"
#include "chain_step.h"
#include "rewrite.h"

/* Sizes and times of all stages; needs everything else in `step`. */
void chain_step_measure(mr_ctx *ctx, const chain_lives *lives, chain_step *step);

/* What the ops of stages are run for. */
typedef struct chain_needs {
    const chain_step *step;
    const uint32_t **ops; /* by stage: its ops in order */
    uint32_t *ops_n;
    bool *read_later;     /* by tensor: read by an op of the backward pass */
    uint32_t *reader;     /* by storage: least stage whose backward pass reads it; MR_NONE */
    bool *tensor, *storage; /* needed now: false between calls */
} chain_needs;

chain_needs chain_needs_of(mr_ctx *ctx, const chain_step *step);

enum {
    CHAIN_FOR_NEXT = 1,    /* x(i+1) */
    CHAIN_FOR_SAVING = 2,  /* what the option saves */
    CHAIN_FOR_MISSING = 4, /* what it does not; what it does is there */
    CHAIN_REASONS = 8,
};

/* Ops of a stage that have to run again, last first. */
mr_ids chain_needs_ops(mr_ctx *ctx, const chain_needs *needs, uint32_t stage, unsigned reasons,
                       uint32_t option);

/* Is the storage there, whichever of the stage's ops run again? */
bool chain_needs_there(const chain_needs *needs, uint32_t stage, uint32_t storage,
                       unsigned reasons, uint32_t option);

/* Is it made by the stage, and not held whatever the plan? */
bool chain_step_makes(const chain_step *step, uint32_t stage, uint32_t storage);

/* Does the backward pass need it of its stage, other than as x(i+1)? */
bool chain_needs_saving(const chain_needs *needs, uint32_t stage, uint32_t storage);

/* ---- a step that is written anew --------------------------------------------------------- */

typedef MR_VEC(uint32_t) chain_tensors;

typedef struct chain_writer {
    const chain_step *step;
    const chain_actions *plan;
    chain_needs needs;
    mr_rewrite r;
    mr_where where;
    uint32_t at;      /* next action of the plan */
    uint32_t stage;   /* that runs backward now; the number of stages before the first */
    uint32_t options; /* most that a stage has */
    bool *held;       /* by storage: dropped later than the program did */
    uint32_t *reader; /* by storage: the first stage that reads it; MR_NONE for none */
    chain_tensors *drops; /* by stage: to be dropped when the plan lets go of its x(i) */
    chain_tensors *late;  /* by stage: to be dropped when it has run backward */
    uint32_t *update; /* by storage: op of the backward pass that has changed it; MR_NONE */
    bool *asks;   /* by op: its gradient has asked for what it saved */
    bool *summed; /* by op: its gradient is summed up by the engine */
    uint32_t lost;    /* op that cannot run again, since what it read is changed; MR_NONE */
    /* For chain_step_again: */
    mr_ids *again;     /* by stage, option and reasons: ops; at is NULL when not yet known */
    uint32_t *turns;   /* by op: `at` when it ran again last */
    uint32_t *copy;    /* by op: the one that ran it again whole, last; MR_NONE */
    uint32_t *first;   /* by stage: event behind the last op of the one before */
    uint32_t *call_end; /* by stage: end of the longest call that begins with it; 0 for none */
    chain_tensors *calls; /* by such an end: first stages of calls */
    uint32_t *lead;    /* by storage: stage whose x(i) it is; MR_NONE */
    uint32_t *input;   /* by stage: tensor that is x(i); MR_NONE */
    uint32_t *dropped; /* by tensor: event of the forward pass; 0 for none */
    bool *unsaved;     /* by storage: the backward pass reads it, and no op has saved it */
    uint32_t runs;     /* of functions again, so far */
    uint32_t *run;     /* by storage: the one that has made it last */
    uint32_t *asked;   /* by storage: the one that stopped before an op that saves it */
    uint32_t *kept;    /* by stage: the one that has kept its x(i) */
} chain_writer;

/* Does the option not save it? */
bool chain_leaves_out(const chain_writer *w, uint32_t stage, uint32_t option, uint32_t s);

void chain_again_begin(mr_ctx *ctx, chain_writer *w);
/* Carries the plan out to its next backward pass. */
void chain_again_run(chain_writer *w);
/* Runs what the option of a stage that runs backward does not save. */
void chain_again_missing(chain_writer *w, const chain_action *a);

/* Is it what a call holds while `stage` runs in it? */
bool chain_again_holds(const chain_writer *w, uint32_t s, uint32_t stage);
/* Calls that end with the stage let go of what they were given.  `where` is NULL in the first
 * pass. */
void chain_again_return(chain_writer *w, mr_where *where, uint32_t stage);

#endif
