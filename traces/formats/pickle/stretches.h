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

typedef struct mr_stretches {
    MR_VEC(mr_stretch) all; /* ascending, without overlap */
} mr_stretches;

/* The range that contains the address, MR_NONE when none does. */
uint32_t mr_stretches_find(const mr_stretches *ranges, uint64_t address);

/* Adds a range; false when it overlaps one that is there. */
bool mr_stretches_add(mr_ctx *ctx, mr_stretches *ranges, mr_stretch range);

/* Adds a range and joins it with neighbours of the same segment. */
bool mr_stretches_join(mr_ctx *ctx, mr_stretches *ranges, mr_stretch range);

void mr_stretches_remove(mr_stretches *ranges, uint32_t i);

/* Takes a stretch out, which may reach over several ranges; false when not all of it is there.
 * *segment is what its first part belonged to. */
bool mr_stretches_cut(mr_ctx *ctx, mr_stretches *ranges, uint64_t address, uint64_t bytes,
                   uint32_t *segment);

uint64_t mr_stretches_bytes(const mr_stretches *ranges);

#endif
