/* clock -- which event of the schedule a command of the placement serves, and when that was. */
#include "plot.h"

static bool ops_have_times(const mr_trace *trace)
{
    for (uint32_t i = 0; i < trace->ops.n; i++)
        if (trace->ops.at[i].ns) return true;
    return false;
}

bool mr_clock_knows_time(const mr_figure *figure, const mr_answer *answer)
{
    const mr_trace *recorded = &figure->scene->trace;
    return ops_have_times(&answer->trace)
           || (recorded->times.n && answer->trace.events.at == recorded->events.at
               && answer->schedule.ends.n < 2);
}

mr_clock mr_clock_start(const mr_figure *figure, const mr_answer *answer)
{
    return (mr_clock){.answer = answer,
                      .by_time = figure->by_time,
                      .timed = figure->by_time && !ops_have_times(&answer->trace)};
}

static void find_recorded(mr_clock *clock, const mr_event *event)
{
    const mr_trace *trace = &clock->answer->trace;
    for (; clock->recorded < trace->events.n; clock->recorded++) {
        const mr_event *other = &trace->events.at[clock->recorded];
        if (other->kind != event->kind || other->id != event->id) continue;
        clock->ns = trace->times.at[clock->recorded++];
        return;
    }
}

static void tick(mr_clock *clock)
{
    const mr_event *event = &clock->answer->schedule.events.at[clock->event++];
    if (clock->timed) find_recorded(clock, event);
    else if (event->kind == MR_RUN) clock->ns += clock->answer->trace.ops.at[event->id].ns;
}

void mr_clock_past(mr_clock *clock, uint32_t event)
{
    while (clock->event < event && clock->event < clock->answer->schedule.events.n) tick(clock);
}

/* Events that free an id, looked for no further than the next allocation: a block that became
 * free because the allocator waited for the device has its event only later. */
static uint32_t find_release(const mr_clock *clock, uint32_t id)
{
    const mr_schedule *schedule = &clock->answer->schedule;
    for (uint32_t e = clock->event; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind == MR_ALLOC || event->kind == MR_CARRY || event->kind == MR_RUN) break;
        if ((event->kind == MR_FREE || event->kind == MR_DONE) && event->id == id) return e + 1;
    }
    return clock->event;
}

static bool serves(const mr_schedule *schedule, const mr_event *event, const mr_cmd *cmd)
{
    switch (cmd->kind) {
    case MR_EXEC: return event->kind == MR_RUN && event->id == cmd->id;
    case MR_BIND:
        if (event->kind == MR_CARRY) return schedule->carries.at[event->id].to == cmd->id;
        return event->kind == MR_ALLOC && event->id == cmd->id;
    default: return event->kind == MR_ALLOC && event->id == cmd->id;
    }
}

void mr_clock_to(mr_clock *clock, uint32_t c)
{
    const mr_placement *placement = &clock->answer->placement;
    const mr_schedule *schedule = &clock->answer->schedule;
    const mr_cmd *cmd = &placement->cmds.at[c];
    if (c < placement->start) return;
    if (cmd->kind == MR_UNBIND || cmd->kind == MR_DEFER)
        mr_clock_past(clock, find_release(clock, cmd->id));
    if (cmd->kind != MR_BIND && cmd->kind != MR_REFUSE && cmd->kind != MR_EXEC) return;
    uint32_t e = clock->event;
    while (e < schedule->events.n && !serves(schedule, &schedule->events.at[e], cmd)) e++;
    mr_clock_past(clock, e + 1);
}

double mr_clock_x(const mr_clock *clock)
{
    return clock->by_time ? (double)clock->ns / 1e6 : clock->event;
}

double mr_clock_end(const mr_figure *figure)
{
    double end = 0;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        mr_clock clock = mr_clock_start(figure, figure->panels.at[p].answer);
        mr_clock_past(&clock, clock.answer->schedule.events.n);
        if (mr_clock_x(&clock) > end) end = mr_clock_x(&clock);
    }
    return end > 0 ? end : 1;
}
