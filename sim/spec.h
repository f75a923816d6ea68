/* spec.h -- "inplace+checkpoint:sqrt/pytorch:expandable_segments=1"  <->  a pipeline.
 *
 *     spec = [ item { "+" item } "/" ] item
 *     item = name [ ":" arg { "," arg } ]
 *     arg  = value | name "=" value       a bare value sets the first parameter
 *
 * Commas, slashes and plus signs inside [ ] belong to the value.
 */
#ifndef MR_SPEC_H
#define MR_SPEC_H

#include "strategy.h"

typedef struct mr_stage {
    const mr_strategy *strategy;
    void *params;
} mr_stage;

typedef struct mr_spec {
    const char *text;  /* canonical: names, and only what differs from the defaults */
    const char *given; /* as it was asked for: accumulate:4 though that is the default */
    MR_VEC(mr_stage) rewrites; /* left to right */
    mr_stage place;
} mr_spec;

/* `strategies` ends with NULL.  MR_EUSAGE names the word, where it stands and
 * the nearest name. */
mr_status mr_spec_parse(mr_ctx *ctx, const mr_strategy *const strategies[], const char *text,
                        mr_spec *out);

/* The name nearest to `word` among `n`, NULL when none is near enough to be a slip
 * of the hand. */
const char *mr_nearest(const char *word, const char *const names[], size_t n);

#endif
