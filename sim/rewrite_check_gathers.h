/* rewrite_check_gathers.h -- what parameters that devices divide are made whole from, and where
 * gradients go. */
#ifndef MR_REWRITE_CHECK_GATHERS_H
#define MR_REWRITE_CHECK_GATHERS_H

#include "trace.h"

/* MR_EINVARIANT names the op that makes a parameter whole of what an all-gather has not brought,
 * or a buffer of gradients that is not sent. */
mr_status mr_rewrite_check_gathers(mr_ctx *ctx, const mr_trace *before, const mr_trace *after);

#endif
