/* stretches.h -- stretches of addresses that a process holds from the device, in order. */
#ifndef MR_STRETCHES_H
#define MR_STRETCHES_H

#include "base.h"

typedef struct mr_stretch {
    uint64_t address, bytes;
    uint32_t segment;   /* what it belongs to; the meaning is the caller's */
    uint32_t event;     /* that told of it */
    bool expandable;
} mr_stretch;

/* Only the order moves when one comes or goes, not the stretches. */
typedef struct mr_stretches {
    MR_VEC(mr_stretch) pool;
    MR_VEC(uint32_t) order; /* ascending by address, without overlap */
    MR_VEC(uint32_t) spare; /* of pool */
} mr_stretches;

/* The i-th by address; valid until the next is added. */
static inline mr_stretch *mr_stretches_at(const mr_stretches *stretches, uint32_t i)
{
    return &stretches->pool.at[stretches->order.at[i]];
}

/* The range that contains the address, MR_NONE when none does. */
uint32_t mr_stretches_find(const mr_stretches *stretches, uint64_t address);

/* Adds a range; false when it overlaps one that is there. */
bool mr_stretches_add(mr_ctx *ctx, mr_stretches *stretches, mr_stretch range);

/* Adds a range and joins it with neighbours of the same segment. */
bool mr_stretches_join(mr_ctx *ctx, mr_stretches *stretches, mr_stretch range);

void mr_stretches_remove(mr_ctx *ctx, mr_stretches *stretches, uint32_t i);

/* Takes a stretch out, which may reach over several ranges; false when not all of it is there.
 * *segment is what its first part belonged to. */
bool mr_stretches_cut(mr_ctx *ctx, mr_stretches *stretches, uint64_t address, uint64_t bytes,
                   uint32_t *segment);

#endif
