/* rewrite_check_streams.h -- a part of the referee: memory changes hands on its own stream. */
#ifndef REWRITE_CHECK_STREAMS_H
#define REWRITE_CHECK_STREAMS_H

#include "trace.h"

/* MR_EINVARIANT when a copy over the host link that runs on a stream of its own is the first or
 * the last to have to do with memory of another stream: whoever has that before or after it
 * would not wait. */
mr_status mr_rewrite_check_streams(mr_ctx *ctx, const mr_trace *trace);

#endif
