/* chain_time.h -- how long an op takes, for plans made before anybody knows the device. */
#ifndef CHAIN_TIME_H
#define CHAIN_TIME_H

#include "trace.h"

/* As measured; where nothing was, the larger of what its flops and its bytes take on an A100.  Only
 * ratios matter for a plan. */
uint64_t chain_time(const mr_op *op);

#endif
