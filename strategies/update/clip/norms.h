/* norms.h -- the length of all gradients of a step, and what becomes of them.
 *
 *     gradients ──► a length each ──► stack ──► one length ──► factor ──► gradients times that
 */
#ifndef NORMS_H
#define NORMS_H

#include "rewrite.h"

typedef struct norms_choice {
    uint64_t form; /* 0 foreach, 1 for-loop */
    bool error_if_nonfinite;
} norms_choice;

typedef struct norms {
    mr_rewrite *r;
    uint32_t begin;             /* event of the update's first op, which is not one that only
                                 * brings gradients into shape, such as unscaling them */
    MR_VEC(uint32_t) gradients; /* tensors that the update reads from there on */
    bool *is_gradient;          /* by storage */
} norms;

/* MR_EUNSUPPORTED when not all gradients are there before one of them is used. */
mr_status norms_look(mr_rewrite *r, norms *out);

void norms_write(norms *n, const norms_choice *choice);

#endif
