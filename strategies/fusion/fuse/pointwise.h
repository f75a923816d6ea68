/* pointwise.h -- chains of ops that work number by number, found and made one kernel each.
 *
 *     mul ─► _to_copy ─► mul            becomes one op; what is between is nowhere in memory,
 *      └───────────────────► (saved)    unless the backward pass or somebody else needs it
 */
#ifndef POINTWISE_H
#define POINTWISE_H

#include "rewrite.h"

/* The rewritten trace.  MR_EUNSUPPORTED when there is no chain of two ops. */
mr_status pointwise_fuse(mr_ctx *ctx, const mr_trace *in, mr_trace *out);

#endif
