/* attention.h -- attention by its formula, found in a trace and replaced by a fused kernel.
 *
 *     q ─ copy ──────────────┐
 *     k ─ transpose, copy ── bmm ─ scale, mask ─ softmax ─ dropout ─ bmm ─ out
 *     v ─ copy ────────────────────────────────────────────────┘
 *
 * Nothing in between may be read by anybody else.  Ops of the backward pass belong to it that
 * are `of` one of these.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "rewrite.h"

typedef enum attention_kernel {
    ATTENTION_AUTO,
    ATTENTION_FLASH,
    ATTENTION_EFFICIENT,
} attention_kernel;

typedef enum attention_side {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_SIDES
} attention_side;

typedef struct attention {
    const char *refused;            /* why it stays as it is; NULL when it does not */
    uint32_t scores, softmax, core; /* ops: q k^T, ..., times v */
    uint32_t last, back; /* events: of its last op forward, of its first one backward */
    uint32_t qkv[ATTENTION_SIDES]; /* tensors */
    uint32_t mask, out;            /* tensors; MR_NONE without a mask */
    bool drops;                    /* the mask is left out, the kernel knows it by itself */
    uint32_t gradient;             /* of out */
    uint32_t gradients[ATTENTION_SIDES]; /* MR_NONE where nobody reads it */
    MR_VEC(uint32_t) forward, backward;  /* ops */
} attention;

typedef struct attentions {
    const mr_trace *in;
    MR_VEC(attention) all;
    uint32_t *owner; /* by op: index into all, MR_NONE for the others */
    bool *unneeded;  /* by op: makes nothing but masks that are left out */
    uint32_t *maker; /* by tensor: the op that made it first, MR_NONE */
} attentions;

/* Finds them, those that must stay with the reason. */
void attention_find(mr_ctx *ctx, const mr_trace *in, bool without_mask, attentions *out);

bool attention_is_flash(const mr_trace *in, const attention *a, attention_kernel kernel);

/* Bytes of these tensors of the rewritten trace, element by element. */
uint64_t attention_bytes(const mr_rewrite *r, const attention *a, const uint32_t *tensors,
                         uint32_t n);

/* Makes what a kernel puts out beside its result: log of the sums, state of random numbers, and
 * what flash has for debugging.  Returns how many. */
uint32_t attention_extra(mr_rewrite *r, const attention *a, bool flash, uint32_t *out);

/* The rewrite.  MR_EUNSUPPORTED when there is nothing to fuse. */
mr_status attention_fuse(mr_ctx *ctx, const mr_trace *in, attention_kernel kernel,
                         bool without_mask, mr_trace *out);

#endif
