/* accumulation.h -- one step on its way to being done in micro-batches: what is repeated, which
 * gradients are added up.
 */
#ifndef ACCUMULATION_H
#define ACCUMULATION_H

#include "part_sizes.h"

typedef struct accumulation {
    mr_ctx *ctx;
    const mr_trace *in;
    mr_trace *out;
    mr_rewrite r;
    mr_where where;      /* of the part at hand */
    uint32_t begin, end; /* events that are done k times */
    bool keep;           /* gradients live through the whole step */
    mr_share share;
    uint32_t *dimensions; /* by tensor: the one that counts samples, MR_NONE */
    bool *inside;    /* by storage: first written in the part that is repeated */
    bool *outlives;  /* by storage: and there is still when that is over */
    uint32_t *final; /* by storage: tensor by which a gradient is seen last, MR_NONE: none is */
    uint32_t *first; /* by op: the first of the gradients that are finished by it, MR_NONE */
    uint32_t *next;  /* by storage: the next of them */
    MR_VEC(uint32_t) gradients; /* storages */
    MR_VEC(uint32_t) finished;  /* storages: gradients of this part that wait to be added */
    uint32_t *calls;            /* by op: how often its module is called in a part */
    uint32_t loss;        /* tensor from which the backward pass begins, MR_NONE if not found */
    uint32_t forward_end; /* last event of the forward pass's ops */
    uint32_t backward_begin; /* event of the op that makes the first gradient */
} accumulation;

/* The op that runs at an event, NULL for other events. */
const mr_op *accumulation_op(const accumulation *a, uint32_t event);

/* Is it the gradient of a parameter: made by the part that is repeated, read by the update? */
bool accumulation_is_gradient(const accumulation *a, uint32_t storage);

/* Finds all that stands above, for k parts; a->ctx, in, out and r are there. */
mr_status accumulation_look(accumulation *a, uint64_t k);

#endif
