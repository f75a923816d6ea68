/* autocast.h -- a training step under torch.autocast, with a GradScaler for float16.
 *
 * A *unit* is a call that autocast casts the arguments of: an op and what brings its arguments
 * into shape.  Casts are what it saves; where they come from gets its gradient cast back.
 */
#ifndef AUTOCAST_H
#define AUTOCAST_H

#include "autocast_lists.h"
#include "rewrite.h"

typedef struct autocast_leaf {
    uint32_t tensor; /* of `in`: what was cast */
    uint32_t cast;   /* of `out` */
} autocast_leaf;

typedef struct autocast_unit {
    uint32_t first, last; /* events of its ops */
    uint32_t op;
    bool low;
    uint32_t back; /* event of the last op of the backward pass that is of it; MR_NONE */
    MR_VEC(autocast_leaf) leaves; /* in the order of the casts */
    MR_VEC(uint32_t) gradients;   /* storages first written by its backward pass */
} autocast_unit;

typedef struct autocast {
    mr_rewrite r;
    const char *dtype;
    bool half;         /* float16, hence with a GradScaler */
    MR_VEC(autocast_unit) units;
    uint32_t *unit_of; /* by op of `in`: its unit, also of the forward op; MR_NONE */
    uint32_t open;     /* unit whose call has not returned, MR_NONE */
    bool *low;         /* by storage of `in`: has 16 bits */
    uint32_t *cached;  /* by storage: cast of a parameter, MR_NONE */
    uint32_t *moved;   /* by storage of `in`: gradient in the precision of its tensor; itself */
    uint32_t *viewed;  /* by tensor of `in`: storage of the cast that it views, MR_NONE */
    uint32_t *placed;  /* by tensor of `in`: view made by a unit last, MR_NONE */
    uint32_t *reader;  /* by storage: the op that reads it last, MR_NONE */
    uint32_t *last;    /* by storage: tensor by which a gradient was written last */
    uint32_t *ends;    /* by storage of a parameter whose cast several units read: event with
                        * which the last of its gradients is there; MR_NONE for others */
    uint32_t *sum;     /* by storage: the one with the sum to which the engine has added it */
    MR_VEC(autocast_leaf) later; /* gradients to cast when sums are done: tensor, new storage */
    const mr_op *later_of;
} autocast;

/* MR_EUNSUPPORTED when there is no forward pass in 32 bits. */
mr_status autocast_rewrite(mr_ctx *ctx, const mr_trace *in, const char *dtype, bool half,
                           mr_trace *out);

/* ---- units ------------------------------------------------------------------------------- */

void autocast_find_units(autocast *a);

/* cross_entropy() asks log_softmax for the precision of its argument. */
bool autocast_is_of_cross_entropy(const autocast *a, uint32_t event);

/* ---- tensors ----------------------------------------------------------------------------- */

bool autocast_is_full(const autocast *a, uint32_t tensor); /* 32-bit in the recording */
bool autocast_is_low(const autocast *a, uint32_t tensor);  /* and 16-bit now */

/* A tensor of the same shape in a storage of its own, with 16 or 32 bits. */
uint32_t autocast_new(autocast *a, uint32_t tensor, bool low, mr_role role);

/* Where a tensor of `in` is now, outside of units: its storage, the tensor. */
uint32_t autocast_home(const autocast *a, uint32_t tensor);
uint32_t autocast_place(autocast *a, uint32_t tensor);

void autocast_cast(autocast *a, uint32_t from, uint32_t to, const mr_op *as, uint32_t of);

/* Runs an op, its lists being placed; `of` a unit or NULL. */
void autocast_run(autocast *a, uint32_t o, const autocast_unit *unit);

/* ---- passes ------------------------------------------------------------------------------ */

void autocast_forward(autocast *a, uint32_t event);
void autocast_backward(autocast *a, uint32_t event);
void autocast_flush(autocast *a); /* casts of gradients that wait */

#endif
