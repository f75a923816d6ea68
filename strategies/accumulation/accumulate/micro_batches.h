/* micro_batches.h -- forward and backward pass k times on a k-th of the batch, one update. */
#ifndef MICRO_BATCHES_H
#define MICRO_BATCHES_H

#include "rewrite.h"

/* MR_EUNSUPPORTED when the trace is not one step in one batch of known size, or does not know
 * bytes per sample. */
mr_status micro_batches(mr_ctx *ctx, const mr_trace *in, uint64_t k, bool set_to_none,
                        mr_trace *out);

#endif
