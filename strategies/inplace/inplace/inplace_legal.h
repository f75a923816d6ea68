/* inplace_legal.h -- may an op write its result over what it reads?  If not, who is in the way?
 *
 * It may when nobody reads that memory any more, in the backward pass neither: not the op's own
 * gradient, and no op that has saved it.  PyTorch finds the latter out when it is too late, by
 * counting versions ("one of the variables needed for gradient computation has been modified by
 * an inplace operation"); here the answer says who saved it and who would have read it.
 */
#ifndef INPLACE_LEGAL_H
#define INPLACE_LEGAL_H

#include "inplace_kinds.h"
#include "rewrite.h"

typedef struct inplace_use { /* an op reads a storage, or saves a tensor of it */
    uint32_t op, event, next;
} inplace_use;

typedef struct inplace_facts {
    mr_ctx *ctx;
    const mr_trace *trace;
    MR_VEC(inplace_use) uses;
    uint32_t *readers, *savers; /* by storage: first of its uses, in order; MR_NONE */
    uint32_t *let_go;           /* by op: last event of its gradient, 0 for none */
    uint32_t *maker;            /* by tensor: op that put it out; MR_NONE */
    bool *runs_again;           /* by op: another one recomputes it */
    bool *dropped;              /* by storage: at some time the program drops a tensor in it */
} inplace_facts;

void inplace_look(mr_ctx *ctx, const mr_trace *trace, inplace_facts *out);

/* NULL when op `o`, which runs at `event`, may write its first result over its input i; else
 * why not, as the end of a sentence that begins with "because". */
const char *inplace_refusal(const inplace_facts *f, const inplace_kind *kind, uint32_t o,
                            uint32_t event, uint32_t i);

/* The part of that question which is about the memory itself: whose it is, its size. */
const char *inplace_refuse_memory(const inplace_facts *f, const mr_op *op, uint32_t input);

#endif
