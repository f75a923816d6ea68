/* region.h -- which parts of the forward pass are run again in the backward pass. */
#ifndef REGION_H
#define REGION_H

#include "rewrite.h"

/* Ops of the forward pass that run one after another: events [begin, end) of the trace, the
 * first and the last being ops. */
typedef struct stretch {
    const char *name; /* for a person */
    uint32_t begin, end;
} stretch;

typedef MR_VEC(stretch) regions; /* in order, apart from each other */

/* Groups of neighbouring regions become one: `segments` of them in each forward pass, equally
 * long, of which the last takes what is left over and is not run again; as
 * torch.utils.checkpoint_sequential does it. */
void region_group(mr_ctx *ctx, const mr_trace *trace, regions *list, uint32_t segments);

/* Neighbouring regions become one, in each forward pass: as many in each group as `sizes` says,
 * "[5,5,7]".  MR_EUSAGE when that is no such list, or not of all of them. */
mr_status region_join(mr_ctx *ctx, const mr_trace *trace, regions *list, const char *sizes);

/* The core of attention: from the product of queries and keys, with what makes them contiguous
 * for it, to the product with the values.  MR_EUNSUPPORTED when there is none. */
mr_status region_find_attention(mr_ctx *ctx, const mr_trace *trace, regions *out);

/* Calls of the modules whose path matches `pattern`: "encoder.layer.*", or several in brackets,
 * "[down.*,up.*]"; a star stands for anything but a dot.  "" finds the repeated blocks: paths
 * that end in a number and have a sibling, as in layers.0, layers.1; or, where there are
 * none, modules that are called more than once.  A block has at least three ops.  MR_EUSAGE
 * when nothing matches. */
mr_status region_find_modules(mr_ctx *ctx, const mr_trace *trace, const char *pattern,
                              regions *out);

typedef enum region_size { REGION_SQRT, REGION_EVERY, REGION_SEGMENTS } region_size;

/* The forward pass as a chain: it is cut where one tensor that needs a gradient, and no other,
 * goes from what is before to what is behind.  What lies between two cuts is a stage, but for
 * what comes last, the loss; regions are as many stages in a row as there are regions (SQRT),
 * `n` stages (EVERY), or n regions (SEGMENTS).  The last region is not among them: it would be
 * run again at once.  MR_EUNSUPPORTED when there are not two of them. */
mr_status region_find_cuts(mr_ctx *ctx, const mr_trace *trace, region_size size, uint32_t n,
                           regions *out);

#endif
