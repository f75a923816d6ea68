/* half_model.h -- a model in 16 bits, with or without masters in 32.
 *
 *     forward, backward      parameters p, activations, gradients g: 16 bits
 *     update                 g ──► copies in 32 bits ──► masters, states: 32 bits ──► p
 */
#ifndef HALF_MODEL_H
#define HALF_MODEL_H

#include "rewrite.h"

typedef enum half_scale { HALF_UNSCALED, HALF_STATIC, HALF_DYNAMIC } half_scale;

typedef struct half_model {
    mr_rewrite r;
    mr_where where; /* parameters in 16 bits, and in the update gradients in 32 */
    const char *dtype;
    bool masters;
    half_scale scale;
    bool *low;       /* by storage of `in`: loses half of its bytes */
    uint32_t *model; /* by storage of `in`, a master: the parameter in 16 bits, MR_NONE */
    uint32_t update, last_update; /* events of the update's first and last op, MR_NONE */
    MR_VEC(uint32_t) changed;     /* tensors of parameters that the update writes, in order */
    MR_VEC(uint32_t) gradients;   /* tensors of gradients that it reads */
    struct {
        uint32_t scale, tracker, found; /* tensors of a dynamic scale */
    } scaler;
} half_model;

bool half_is_full(const mr_tensor *t);

/* MR_EUNSUPPORTED when masters are asked for and the update does not follow the passes. */
mr_status half_look(half_model *h);

/* All events, with masters. */
void half_write(half_model *h);

/* After all: sizes and types of what has 16 bits, bytes that ops read and write. */
void half_sizes(half_model *h);

/* ---- the scale of the loss --------------------------------------------------------------- */

void half_scale_begin(half_model *h);

/* After an op of the passes: the loss and the first gradient made of it. */
void half_scale_after(half_model *h, uint32_t event);

/* Once there are copies of all gradients. */
void half_unscale(half_model *h);

void half_scale_end(half_model *h); /* after the last op of the update */

#endif
