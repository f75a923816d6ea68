/* chain_step_internal.h -- between the parts of chain_step. */
#ifndef CHAIN_STEP_INTERNAL_H
#define CHAIN_STEP_INTERNAL_H

#include "chain_lives.h"
#include "chain_step.h"

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

#endif
