/* host_copy.h -- copies of tensors in memory of the host, and back. */
#ifndef MR_HOST_COPY_H
#define MR_HOST_COPY_H

#include "rewrite.h"

/* Bytes that a tensor takes by itself, one number after the other. */
uint64_t mr_host_copy_bytes(const mr_tensor *tensor);

/* A new tensor like another one of `out`, alone in a storage on a device or (MR_PINNED,
 * MR_PAGEABLE) on the host. */
uint32_t mr_host_copy_new(mr_rewrite *r, uint32_t like, uint32_t device);

/* Runs the copy of tensor `from` that makes `to`, or fills what there is of it.  Name of the
 * module, phase and gradient are those of `as`. */
uint32_t mr_host_copy_out(mr_rewrite *r, uint32_t from, uint32_t to, uint32_t stream,
                          const mr_op *as);
uint32_t mr_host_copy_back(mr_rewrite *r, uint32_t from, uint32_t to, uint32_t stream,
                           bool fills, const mr_op *as);

/* Notes how much memory of the host the rewritten step needs at once. */
void mr_host_copy_remark(mr_rewrite *r, uint32_t device);

#endif
