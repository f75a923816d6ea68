/* last_uses.h -- where variables of the program could end that it drops later. */
#ifndef LAST_USES_H
#define LAST_USES_H

#include "trace.h"

typedef struct last_uses {
    uint32_t *first; /* by op: the first tensor that could end with it, MR_NONE */
    uint32_t *next;  /* by tensor: the next one */
    bool *moved;     /* by tensor: it is in one of these lists */
} last_uses;

last_uses last_uses_find(mr_ctx *ctx, const mr_trace *in);

#endif
