/* rewritten.h -- recordings of traces/ after rewrites: evaluated, refused, or with a mistake
 * planted that the referee has to see; shared by tests of rewrites.
 */
#ifndef REWRITTEN_H
#define REWRITTEN_H

#include "format.h"
#include "rewrite_check.h"
#include "steps.h"
#include "trace_check.h"

static inline mr_status recording(mr_ctx *ctx, const char *file, mr_trace *trace)
{
    const mr_read_options options = {0};
    return mr_recording_read(ctx, mr_printf(ctx, "%s/%s", TRACES, file), &options, trace);
}

static inline mr_status evaluated(mr_ctx *ctx, const char *file, const char *spec,
                                  mr_trace *in, mr_answer *answer)
{
    MR_TRY(recording(ctx, file, in));
    MR_TRY(step_evaluate(ctx, in, spec, answer));
    return mr_trace_check(ctx, &answer->trace);
}

/* Peak of the bytes asked for; 0 where it cannot be evaluated, which is a failure. */
static inline uint64_t predicted_peak(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    uint64_t peak = 0;
    if (evaluated(&ctx, file, spec, &in, &answer)) TEST_FAIL("%s: %s", spec, ctx.failure.text);
    else peak = mr_schedule_peak(&answer.schedule, &at);
    mr_ctx_clear(&ctx);
    return peak;
}

/* What the last rewrite reads and what it makes of that, which is not settled yet. */
static inline mr_status rewritten(mr_ctx *ctx, const char *file, const char *spec,
                                  mr_trace *in, mr_trace *out)
{
    mr_spec *parsed = MR_NEW(ctx, mr_spec);
    MR_TRY(recording(ctx, file, out));
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", spec), parsed));
    for (uint32_t i = 0; i < parsed->rewrites.n; i++) {
        const mr_stage *stage = &parsed->rewrites.at[i];
        if (i) mr_rewrite_settle(ctx, out);
        *in = *out;
        MR_TRY(stage->strategy->rewrite(ctx, stage->params, in, out));
        MR_TRY(mr_trace_check(ctx, out));
        MR_TRY(mr_rewrite_check(ctx, in, out));
    }
    return MR_OK;
}

static inline void refuses_as(mr_status status, const char *file, const char *spec,
                              const char *why)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    CHECK_EQ(evaluated(&ctx, file, spec, &in, &answer), status);
    if (!strstr(ctx.failure.text, why))
        TEST_FAIL("%s: '%s', expected '%s'", spec, ctx.failure.text, why);
    mr_ctx_clear(&ctx);
}

static inline void refuses(const char *file, const char *spec, const char *why)
{
    refuses_as(MR_EUNSUPPORTED, file, spec, why);
}

/* ---- planted mistakes -------------------------------------------------------------------- */

/* The first op of that name that is `from` or later; MR_NONE when there is none. */
static inline uint32_t op_named(const mr_trace *trace, uint32_t from, const char *name)
{
    for (uint32_t o = from; o < trace->ops.n; o++)
        if (!strcmp(trace->ops.at[o].name, name)) return o;
    return MR_NONE;
}

/* Another op runs in its place. */
static inline void run_instead(mr_trace *trace, uint32_t op, uint32_t other)
{
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN && trace->events.at[e].id == op)
            trace->events.at[e].id = other;
}

/* The first event stands once more where the op ran. */
static inline void forget_op(mr_trace *trace, uint32_t op)
{
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN && trace->events.at[e].id == op)
            trace->events.at[e] = trace->events.at[0];
}

typedef void planter(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake);

/* The referee says said[i] of mistake i, and nothing where there is no mistake. */
static inline void referee_says(const char *file, const char *spec, planter *plant,
                                const char *const *said, uint32_t n)
{
    for (uint32_t mistake = 0; mistake <= n; mistake++) {
        mr_ctx ctx = {0};
        mr_trace in, out;
        if (rewritten(&ctx, file, spec, &in, &out)) TEST_FAIL("%s", ctx.failure.text);
        plant(&ctx, &in, &out, mistake);
        const mr_status status = mr_rewrite_check(&ctx, &in, &out);
        if (status != (mistake < n ? MR_EINVARIANT : MR_OK))
            TEST_FAIL("mistake %" PRIu32 ": status %d, %s", mistake, status, ctx.failure.text);
        else if (mistake < n) CHECK_HAS(ctx.failure.text, said[mistake]);
        mr_ctx_clear(&ctx);
    }
}

#endif
