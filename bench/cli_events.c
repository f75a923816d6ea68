/* events -- where an event of a schedule stands in the recording. */
#include "commands.h"

/* A schedule leaves out events of other devices, and adds lifetimes: those that it derived, those
 * of workspaces; what is in both stands in the same order.  An added allocation belongs to the
 * op that follows. */
uint32_t mr_recorded_event(const mr_schedule *schedule, uint32_t event)
{
    const mr_trace *trace = schedule->trace;
    const bool recorded = mr_trace_knows_lives(trace);
    uint32_t t = 0;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *want = &schedule->events.at[e];
        if (want->kind <= MR_DONE && (!recorded || trace->storages.at[want->id].workspace))
            continue;
        while (
            t < trace->events.n
            && (trace->events.at[t].kind != want->kind || trace->events.at[t].id != want->id))
            t++;
        if (e >= event) break;
    }
    return t < trace->events.n ? t : trace->events.n - 1;
}
