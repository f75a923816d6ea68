/* skips.h -- inputs of concatenations that are needed after these. */
#ifndef SKIPS_H
#define SKIPS_H

#include "rewrite.h"

/* MR_EUNSUPPORTED when there is none that can be made in its place; of each that cannot, a
 * remark says why. */
mr_status skips_place(mr_ctx *ctx, const mr_trace *in, mr_trace *out);

#endif
