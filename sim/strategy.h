/* strategy.h -- what a strategy is.  The only header of ours that a strategy includes. */
#ifndef MR_STRATEGY_H
#define MR_STRATEGY_H

#include "param.h"
#include "paths.h"
#include "placement.h"
#include "rewrite.h"

typedef struct mr_strategy {
    const char *name;    /* as written in a spec */
    const char *summary; /* one line, present tense */
    /* What is written in a program, or said to it, to have this; {k} stands for the parameter k.
     * NULL where nothing is known that does it. */
    const char *how;
    const char *source;  /* paper or program it follows; NULL when it is a definition of ours */
    const mr_param *params; /* NULL when there are none */
    size_t params_size;
    unsigned needs;   /* MR_HAS_... bits the trace must have */
    bool clairvoyant; /* looks at the whole schedule before placing: a planner, no allocator */
    bool fixed_inputs; /* every batch is copied to the place that is planned for it */
    bool other_result; /* what comes out is another model, or none: nobody's way out of a lack
                        * of memory, so explain does not propose it */
    /* The same where it depends on the parameters; may be NULL. */
    const char *(*how_of)(mr_ctx *ctx, const void *params);
    /* Parameters that do not go together: MR_EUSAGE with the sentence.  May be NULL. */
    mr_status (*validate)(mr_ctx *ctx, const void *params);

    /* Exactly one is set. */
    mr_status (*rewrite)(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out);
    mr_status (*place)(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out);
} mr_strategy;

#endif
