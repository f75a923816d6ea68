/* step_budget.h -- how much memory a rewritten step may take. */
#ifndef STEP_BUDGET_H
#define STEP_BUDGET_H

#include "trace.h"

/* Largest sum of bytes live at once on the first device of the trace. */
mr_status step_peak(mr_ctx *ctx, const mr_trace *trace, uint64_t *peak);

/* Says so when a rewritten step takes no less at its peak than it did. */
mr_status step_remark_peak(mr_ctx *ctx, const char *who, const mr_trace *in, mr_trace *out);

/* "8GiB", or "60%" of the peak as it was: bytes.  MR_EUSAGE for anything else. */
mr_status step_budget(mr_ctx *ctx, uint64_t peak, const char *text, uint64_t *bytes);

#endif
