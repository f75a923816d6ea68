/* rewrite_check_holders.h -- a part of the referee: whoever reads a value must hold it. */
#ifndef MR_REWRITE_CHECK_HOLDERS_H
#define MR_REWRITE_CHECK_HOLDERS_H

#include "trace.h"

/* MR_EINVARIANT when an op reads a storage of which the program has dropped all it had and that
 * autograd does not keep for an op yet to come.  Says nothing of traces that do not know `of`,
 * and nothing where the trace before does not know either: a recorder cannot see what
 * torch.utils.checkpoint saves when it runs ops again. */
mr_status mr_rewrite_check_holders(mr_ctx *ctx, const mr_trace *before, const mr_trace *after);

#endif
