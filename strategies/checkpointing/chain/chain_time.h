/* chain_time.h -- how long an op takes, for plans made before anybody knows the device. */
#ifndef CHAIN_TIME_H
#define CHAIN_TIME_H

#include "trace.h"

/* Was every op measured that computes or moves anything? */
bool chain_measured(const mr_trace *trace);

/* As measured, or else the larger of what its flops and its bytes take on an A100, whatever
 * device the plan is for.  Only ratios matter for a plan, so measured times count when the
 * trace has all of them, and none does otherwise. */
uint64_t chain_time(const mr_op *op, bool measured);

#endif
