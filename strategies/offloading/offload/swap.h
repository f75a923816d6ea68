/* swap.h -- memory that the forward pass leaves for the backward pass, away in between. */
#ifndef SWAP_H
#define SWAP_H

#include "rewrite.h"

typedef enum swap_policy { SWAP_ALL, SWAP_CONV, SWAP_INTERVAL } swap_policy;

typedef struct swap_choice {
    swap_policy policy;
    uint64_t least;     /* bytes; smaller ones stay */
    uint64_t keep_last; /* so many of the last ones stay */
    uint64_t stash;     /* so many may be on their way to the host */
    uint64_t prefetch;  /* so many uses before its own one comes back */
    uint64_t link;      /* bytes per second, by which SWAP_INTERVAL plans */
} swap_choice;

/* A storage that may go.  Events are those of the input; `before` one means right before. */
typedef struct swap_item {
    uint32_t storage;
    uint32_t last; /* event of the op of the forward pass that needs it last: it goes then */
    uint32_t wait; /* before this one its memory is given back, and computing waits for that */
    uint32_t back; /* before this one it begins to come back */
    uint32_t use;  /* event of the op of the backward pass that needs it first */
    uint32_t end;  /* and last */
    bool read;     /* by an op of the backward pass, not only held by a node */
    bool goes;
} swap_item;

typedef struct swap_items {
    MR_VEC(swap_item) all;  /* in the order in which they go */
    uint32_t backward;      /* event of the first op of the backward pass */
} swap_items;

/* Whatever ops of the forward pass save, or checkpoints, and the program drops. */
void swap_look(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice, swap_items *out);

/* Who goes, and when it comes back. */
void swap_plan(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice, swap_items *items);

/* MR_EUNSUPPORTED when nothing can go. */
mr_status swap_rewrite(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice,
                       mr_trace *out);

#endif
