/* chain_step_internal.h -- between the parts of chain_step. */
#ifndef CHAIN_STEP_INTERNAL_H
#define CHAIN_STEP_INTERNAL_H

#include "chain_lives.h"
#include "chain_step.h"

/* Sizes and times of all stages; needs everything else in `step`. */
void chain_step_measure(mr_ctx *ctx, const chain_lives *lives, chain_step *step);

#endif
