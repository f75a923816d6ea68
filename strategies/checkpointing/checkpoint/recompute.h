/* recompute.h -- regions of the forward pass lose what they saved and are run again. */
#ifndef RECOMPUTE_H
#define RECOMPUTE_H

#include "region.h"

typedef struct recompute_how {
    bool reentrant; /* as torch.utils.checkpoint does it with use_reentrant=True */
    /* Names of ops whose results are kept from the forward pass, as "mm" or "[mm,addmm,bmm]": a
     * selective checkpoint. */
    const char *keep;
} recompute_how;

/* The rewritten trace.  A region that cannot be run again is left as it is, and a remark says
 * why; MR_EUNSUPPORTED when that is so for all of them. */
mr_status recompute(mr_ctx *ctx, const mr_trace *in, const regions *list,
                    const recompute_how *how, mr_trace *out);

/* When a gradient has not the shape of its tensor, which was broadcast, the engine sums it up
 * after the gradient's own ops, which hold what they unpacked no longer.  Is the op of such a
 * sum?  `follows`: the one before of the same gradient is. */
bool recompute_is_sum_of_engine(const mr_op *op, bool follows);

#endif
