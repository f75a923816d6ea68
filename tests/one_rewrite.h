/* one_rewrite.h -- one rewrite of a pipeline, looked at by the referees, ready for the next. */
#ifndef ONE_REWRITE_H
#define ONE_REWRITE_H

#include "rewrite_check.h"
#include "spec.h"
#include "strategies.h"
#include "trace_check.h"

static inline mr_status one_rewrite(mr_ctx *ctx, const char *text, const mr_trace *in,
                                    mr_trace *out)
{
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", text), spec));
    const mr_stage *stage = &spec->rewrites.at[0];
    if (stage->strategy->needs & ~in->has)
        return mr_fail(ctx, MR_EUNSUPPORTED, "%s needs more than is recorded", text);
    MR_TRY(stage->strategy->rewrite(ctx, stage->params, in, out));
    MR_TRY(mr_trace_check(ctx, out));
    MR_TRY(mr_rewrite_check(ctx, in, out));
    mr_rewrite_settle(ctx, out);
    return MR_OK;
}

#endif
