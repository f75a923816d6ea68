/* step_budget -- how much memory a rewritten step may take. */
#include "step_budget.h"

#include "param.h"
#include "rewrite.h"
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

mr_status step_peak(mr_ctx *ctx, const mr_trace *trace, uint64_t *peak)
{
    uint32_t devices, at;
    const uint32_t *device = mr_trace_devices(ctx, trace, &devices);
    mr_trace whole = *trace;
    mr_schedule schedule;
    MR_TRY(mr_schedule_make(ctx, &whole, devices ? device[0] : 0, &schedule));
    mr_schedule_workspaces(ctx, &whole, &schedule);
    *peak = mr_schedule_peak(&schedule, &at);
    return MR_OK;
}

mr_status step_remark_peak(mr_ctx *ctx, const char *who, const mr_trace *in, mr_trace *out)
{
    mr_rewrite r = {.ctx = ctx, .in = in, .out = out};
    uint64_t was, is;
    MR_TRY(step_peak(ctx, in, &was));
    MR_TRY(step_peak(ctx, out, &is));
    if (is >= was)
        mr_rewrite_remark(&r,
                          "%s saves nothing here: the step takes %s at its peak, and %s as it"
                          " is; inputs that are kept and stages that run again take as much"
                          " as what is let go",
                          who, mr_say_size(ctx, is), mr_say_size(ctx, was));
    return MR_OK;
}

mr_status step_budget(mr_ctx *ctx, uint64_t peak, const char *text, uint64_t *bytes)
{
    char *end;
    const double percent = strtod(text, &end);
    if (end != text && !strcmp(end, "%") && percent > 0 && percent <= 100) {
        *bytes = (uint64_t)((double)peak * percent / 100);
        return MR_OK;
    }
    if (mr_parse_size(text, bytes)) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "'budget' takes a size such as 8GiB or a part of the peak such as 60%%, not"
                   " '%s'",
                   text);
}
