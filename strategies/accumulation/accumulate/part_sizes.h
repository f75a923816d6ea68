/* part_sizes.h -- what a part of a batch needs of everything in a step:
 * bytes, shapes, operations.
 *
 * A storage that a sample takes part of (mr_storage.per_sample) shrinks by the samples that are
 * missing; tensors on it shrink with it.  A tensor whose gaps at both ends are smaller than a
 * sample lies across all samples and keeps its gaps; any other one is a stretch of the storage
 * and keeps its place in proportion.
 *
 * A part of one sample has all ops that more samples have, though PyTorch then does without
 * some copies: a transposed tensor of one sample needs none to be multiplied by batches.  A
 * remark counts them.
 */
#ifndef MR_PART_SIZES_H
#define MR_PART_SIZES_H

#include "rewrite.h"

typedef struct mr_share {
    uint64_t batch, parts, i; /* part i, from 0, of a batch that is divided in parts ... */
    uint64_t instead;         /* ... or another batch of so many samples; 0 for a part */
} mr_share;

uint64_t mr_share_bytes(const mr_share *share, const mr_storage *whole);

/* By tensor: the dimension that counts samples, MR_NONE.  Lengths tell it, and what ops read:
 * what an op makes has it where it is as long as in its input. */
uint32_t *mr_share_dimensions(mr_ctx *ctx, const mr_share *share, const mr_trace *trace);

/* The tensor on a storage that has `bytes` instead of those of `home`. */
mr_tensor mr_share_tensor(mr_ctx *ctx, const mr_share *share, const mr_tensor *whole,
                          uint32_t dimension, const mr_storage *home, uint64_t bytes);

/* Sets operations and bytes read and written by a part of an op of `trace`. */
void mr_share_op(const mr_share *share, const mr_trace *trace, const mr_op *whole, mr_op *part);

/* Remarks which copies PyTorch does without where a part has one sample. */
void mr_share_remark(mr_rewrite *r, const mr_share *share, const uint32_t *dimensions);

#endif
