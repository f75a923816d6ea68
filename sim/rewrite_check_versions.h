/* rewrite_check_versions.h -- a part of the referee: what was saved is still what it was. */
#ifndef MR_REWRITE_CHECK_VERSIONS_H
#define MR_REWRITE_CHECK_VERSIONS_H

#include "trace.h"

/* MR_EINVARIANT when an op runs for the gradient of another one that has saved a tensor whose
 * memory was written since, as autograd's version counters would find, and was not before. */
mr_status mr_rewrite_check_versions(mr_ctx *ctx, const mr_trace *before, const mr_trace *after);

#endif
