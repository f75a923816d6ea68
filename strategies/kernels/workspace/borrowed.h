/* borrowed.h -- memory that ops take from the allocator beside their tensors. */
#ifndef BORROWED_H
#define BORROWED_H

#include "rewrite.h"

/* Each convolution takes so many bytes while it runs; products of matrices keep so many on each
 * stream that has some.  MR_EUNSUPPORTED when there is no such op. */
mr_status borrowed(mr_ctx *ctx, const mr_trace *in, uint64_t convolution, uint64_t products,
                   mr_trace *out);

#endif
