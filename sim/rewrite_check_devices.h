/* rewrite_check_devices.h -- a part of the referee: several devices train one model. */
#ifndef MR_REWRITE_CHECK_DEVICES_H
#define MR_REWRITE_CHECK_DEVICES_H

#include "trace.h"

/* MR_EINVARIANT when a step of several devices updates by a gradient that only this one has
 * made, or ends with a parameter of which this one has updated a part and got no others. */
mr_status mr_rewrite_check_devices(mr_ctx *ctx, const mr_trace *before, const mr_trace *after);

#endif
