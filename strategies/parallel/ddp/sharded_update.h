/* sharded_update.h -- an update of which each device does its part: of states, of temporaries,
 * of parameters too where these are divided.
 */
#ifndef SHARDED_UPDATE_H
#define SHARDED_UPDATE_H

#include "rewrite.h"

typedef struct sharded_update {
    mr_rewrite *r;
    uint64_t ranks;     /* among which it is divided; 1 for an update that everybody does */
    uint32_t *gradient; /* by storage of `in`: tensor of `out` that has its gradient, MR_NONE
                         * where that is where it was */
    bool *sliced;       /* by storage of `in`: only a part of it is here */
    bool rows;          /* tensors are divided by their first dimension */
    uint64_t wide;      /* what is divided has so many times the bytes of a number, in float32 */
} sharded_update;

void sharded_begin(sharded_update *u, mr_rewrite *r, uint64_t ranks);

uint64_t sharded_part(const sharded_update *u, uint64_t bytes);

/* Of a tensor of `in`: as many rows as the first device has, or bytes. */
uint64_t sharded_tensor(const sharded_update *u, uint32_t tensor);

/* Of states and what the update makes, or of parameters and old gradients as well, a part. */
void sharded_slice(sharded_update *u, bool parameters);

/* The part of an op of the update. */
void sharded_run(sharded_update *u, uint32_t op);

#endif
