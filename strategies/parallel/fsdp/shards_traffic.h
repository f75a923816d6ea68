/* shards_traffic.h -- what goes between devices: parameters on their way in, gradients out. */
#ifndef SHARDS_TRAFFIC_H
#define SHARDS_TRAFFIC_H

#include "shards.h"
#include "sharded_update.h"

typedef struct shards_gathered { /* of a unit */
    uint32_t *whole; /* tensors of its parameters, NULL while they are not here */
    uint32_t flat;   /* tensor of what was received for it and is not copied yet; MR_NONE */
    uint32_t open, waiting; /* visits at hand; those whose backward pass is to come */
} shards_gathered;

typedef struct shards_traffic {
    shards s;
    mr_rewrite r;
    mr_where where;
    sharded_update update;
    uint32_t gather_stream, reduce_stream;
    shards_gathered *units;
    uint32_t received; /* tensor: what was received last in the forward pass; MR_NONE */
    uint32_t sent;     /* tensor: what was sent last; MR_NONE */
} shards_traffic;

/* All devices send their parts of a unit; nothing happens when these are on their way. */
void shards_gather(shards_traffic *t, uint32_t unit, const mr_op *as);

/* Parameters are taken from what was received. */
void shards_take(shards_traffic *t, uint32_t unit, const mr_op *as);
void shards_let_go(shards_traffic *t, uint32_t unit);

void shards_drop(shards_traffic *t, uint32_t *tensor); /* MR_NONE after that */

/* Tensors for the parts of gradients that stay. */
void shards_make(shards_traffic *t);
void shards_reduce(shards_traffic *t, uint32_t unit, const mr_op *as);

#endif
