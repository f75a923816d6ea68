/* region.h -- which parts of the forward pass are run again in the backward pass. */
#ifndef REGION_H
#define REGION_H

#include "rewrite.h"

/* Ops of the forward pass that run one after another: events [begin, end) of the trace, the first
 * and the last being ops. */
typedef struct stretch {
    const char *name; /* for a person */
    uint32_t begin, end;
} stretch;

typedef MR_VEC(stretch) regions; /* in order, apart from each other */

/* Calls of the modules whose path matches `pattern`: "encoder.layer.*", or several in brackets,
 * "[down.*,up.*]"; a star stands for anything but a dot.  "" finds the repeated blocks: paths that
 * end in a number and have a sibling, as in layers.0, layers.1; or, where there are none, modules
 * that are called more than once.  A block has at least three ops.  MR_EUSAGE when nothing
 * matches. */
mr_status region_find_modules(mr_ctx *ctx, const mr_trace *trace, const char *pattern,
                              regions *out);

#endif
