/* chain_lives.h -- when storages of a recorded step are made, read and let go of. */
#ifndef CHAIN_LIVES_H
#define CHAIN_LIVES_H

#include "trace.h"

typedef struct chain_life {
    uint32_t birth; /* event that makes it; MR_NONE: there before the step, or never there */
    uint32_t read;  /* last event of the forward pass at which an op reads or changes it */
    uint32_t changed; /* last event at which an op changes it, birth included */
    uint32_t settled; /* the same within the forward pass */
    uint32_t first_read; /* first event at which an op only reads it */
    uint32_t drop;  /* last drop; 0 for none */
    uint32_t death; /* last event at which it is there; MR_NONE: nothing ever used it */
    uint32_t bare;  /* the same if nothing were saved for the backward pass */
} chain_life;

typedef struct chain_lives {
    uint32_t begin, turn, end; /* events: first op forward, first backward, behind the last */
    chain_life *at;            /* by storage */
} chain_lives;

/* MR_EUNSUPPORTED when the step is not one forward and one backward pass. */
mr_status chain_lives_of(mr_ctx *ctx, const mr_trace *trace, chain_lives *out);

/* Storages by the event at which they end: first of an event, next of a storage. */
typedef struct chain_ends {
    uint32_t *first, *next;
} chain_ends;

chain_ends chain_ends_of(mr_ctx *ctx, const mr_trace *trace, const chain_lives *lives,
                         bool bare);

#endif
