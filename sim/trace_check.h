/* trace_check.h -- the two halves of the referee of traces (see mr_trace_check in trace.h). */
#ifndef MR_TRACE_CHECK_H
#define MR_TRACE_CHECK_H

#include "trace.h"

/* Pieces tile, commands are possible, live blocks do not overlap, the end is what
 * they lead to. */
mr_status mr_trace_check_histories(mr_ctx *ctx, const mr_trace *trace);

#endif
