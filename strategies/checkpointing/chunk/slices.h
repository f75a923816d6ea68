/* slices.h -- stretches of a step that are done in slices: of tokens, of queries.
 *
 *     x ─ split ─┬─► [ a b c ] ─┐
 *                ├─► [ a b c ] ─┼─ cat ─► y          and back, the last slice first
 *                └─► [ a b c ] ─┘
 *
 * Every op of a stretch, forward and backward, runs once for each slice.  To a slice a tensor
 * is one of three things: the same to all (a weight, the keys); its rows of the whole (some of
 * one dimension); or its summand of the whole (the gradient of a weight).  Which one follows
 * from the shapes, op by op, beginning with the tensor that is cut (slices_rules.c).
 */
#ifndef SLICES_H
#define SLICES_H

#include "recompute.h"

typedef enum slice_kind { SLICE_WHOLE, SLICE_ROWS, SLICE_SUMMAND } slice_kind;

/* Rows are in dimension `dim`, which counts outer * length of them or a multiple of that:
 * 8 sentences of 1024 tokens are 8192 with outer = 8. */
typedef struct slice_cut {
    slice_kind kind;
    uint32_t dim; /* MR_NONE: one number in all, of which each slice has its own */
    uint64_t outer;
} slice_cut;

typedef struct slice_tensor {
    uint32_t tensor;
    slice_cut cut;
} slice_tensor;

typedef struct slice_home { /* a storage that ops of the stretch write first */
    uint32_t storage;
    uint32_t shown; /* tensor by which it was seen last, MR_NONE */
    bool rows;
} slice_home;

typedef struct slice_result { /* of the backward pass, used by others */
    uint32_t tensor;
    uint32_t last; /* op of the stretch that finishes it */
    bool viewed;   /* it is a view of what an op has made, so nothing is added to it in place */
} slice_result;

typedef struct slice_region {
    const char *name;
    const char *refused;     /* why it stays whole; NULL when it does not */
    uint32_t begin, end;     /* events of the forward pass */
    uint32_t back, back_end; /* of the backward pass, MR_NONE without one */
    uint32_t rows, dim;      /* tensor from outside that is cut, and where */
    uint64_t length, each;   /* of that dimension: all of it, a slice but the last */
    uint32_t parts;
    uint32_t result; /* tensor: what the forward pass makes for others */
    MR_VEC(slice_tensor) tensors;
    MR_VEC(slice_home) homes;
    MR_VEC(uint32_t) ops;
    MR_VEC(uint32_t)
    sliced, gradients; /* from outside: cut before the forward, backward pass */
    MR_VEC(slice_result) results;
} slice_region;

typedef struct slices {
    mr_ctx *ctx;
    const mr_trace *in;
    mr_rewrite r;
    MR_VEC(slice_region) all;
    uint32_t *owner;   /* by op: index into all, MR_NONE */
    bool *shared;      /* by op: casts a parameter for autocast, so that all slices have it */
    uint32_t *place;   /* by op: index into the ops of its region */
    uint32_t *when;    /* by op: event, MR_NONE */
    uint32_t *maker;   /* by tensor: op that makes it first, MR_NONE */
    uint32_t *dropped; /* by tensor: event, MR_NONE */
    uint32_t *home;    /* by storage: index into the homes of its region, MR_NONE */
    uint32_t *number;  /* by tensor: index into the tensors of the region at hand, if ... */
    uint32_t *known;   /* ... this is that region's index */
} slices;

/* ---- finding them ------------------------------------------------------------------------ */

/* Begins a list; `s->r` has begun. */
void slices_begin(slices *s);

/* The core of attention, by queries; losses of tokens with the product before them; blocks of
 * two products with an activation between, by tokens.  Each in `parts` slices. */
void slices_find_attention(slices *s, uint32_t parts);
void slices_find_losses(slices *s, uint32_t parts);
void slices_find_blocks(slices *s, uint32_t parts);

/* Adds a stretch that cuts dimension `dim` of tensor `rows`. */
void slices_add(slices *s, const char *name, uint32_t begin, uint32_t end, uint32_t rows,
                uint32_t dim, uint32_t parts);

/* Does the name stand in `words`, between spaces? */
bool slices_is(const mr_op *op, const char *words);

/* ---- what tensors are to a slice --------------------------------------------------------- */

/* Fills the rest of every region, or says why it is refused. */
void slices_look(slices *s);

/* Makes the region's tensors those at hand; slices_cut is about them. */
void slices_take_up(slices *s, uint32_t region);
slice_cut slices_cut(const slices *s, uint32_t region, uint32_t tensor);

/* Notes what the tensor is; slices_touch only that it occurs. */
void slices_set(slices *s, uint32_t region, uint32_t tensor, slice_cut cut);
void slices_touch(slices *s, uint32_t region, uint32_t tensor);

/* Follows one op of the region: false, with the reason in the region, if it cannot. */
bool slices_follow(slices *s, uint32_t region, uint32_t op);

/* The same rows in another shape with equally many numbers; false when they are not together.
 */
bool slices_reshape(const slice_region *region, const mr_tensor *from, slice_cut cut,
                    const mr_tensor *to, slice_cut *out);

/* ---- writing ----------------------------------------------------------------------------- */

/* Writes the step in slices into s->r.out.  Each slice of a forward pass is appended to
 * `pieces`. */
void slices_write(slices *s, regions *pieces);

#endif
