/* inplace_abn.h -- in-place activated batch normalization: norm and activation as one op.
 *
 *     x ──► norm ──► y ──► leaky_relu ──► z        saved: x, and y or z
 *     x ──► inplace_abn ──► z, in the memory of x  saved: z, from which y and x are recovered
 *
 * That needs an activation with an inverse.  Rota Bulo et al., "In-Place Activated BatchNorm
 * for Memory-Optimized Training of DNNs", 2018, put leaky_relu in place of relu.
 */
#ifndef INPLACE_ABN_H
#define INPLACE_ABN_H

#include "inplace_legal.h"

typedef struct inplace_abn {
    mr_rewrite *r;
    const inplace_facts *facts;
    uint32_t *home;       /* by storage: the one whose memory it has come to use; itself */
    bool relu;            /* relu becomes leaky_relu */
    uint32_t *activation; /* by op: of a norm that is fused, its activation; MR_NONE */
    uint32_t *norm;       /* by op: of the gradient of a norm that is fused, that; MR_NONE */
    uint32_t *gradient;   /* by op: the only op of its gradient; MR_NONE for none or several */
    uint32_t *fused;      /* by op: of a norm, the op in its place; MR_NONE */
    bool *skipped;        /* by op: another one does its work */
    bool *gone;           /* by tensor: nobody makes it any more */
    uint32_t pairs, replaced; /* pairs; of them those with relu */
} inplace_abn;

/* Finds the pairs; a remark says of others why they stay. */
void inplace_abn_begin(inplace_abn *a, const char *module);

/* Is this op's work done in a pair?  Then it has been seen to. */
bool inplace_abn_run(inplace_abn *a, uint32_t op);

#endif
