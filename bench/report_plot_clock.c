/* clock -- which event of the schedule a command of the placement serves, and when that was. */
#include "plot.h"

static bool ops_have_times(const mr_trace *trace)
{
    for (uint32_t i = 0; i < trace->ops.n; i++)
        if (trace->ops.at[i].ns) return true;
    return false;
}

bool mr_clock_knows_numbers(const mr_figure *figure, const mr_answer *answer)
{
    return answer->trace.events.at == figure->scene->trace.events.at
           && answer->schedule.ends.n < 2;
}

bool mr_clock_knows_time(const mr_figure *figure, const mr_answer *answer)
{
    return ops_have_times(&answer->trace)
           || (figure->scene->trace.times.n && mr_clock_knows_numbers(figure, answer));
}

mr_clock mr_clock_start(const mr_figure *figure, const mr_answer *answer)
{
    return (mr_clock){.answer = answer,
                      .by_time = figure->by_time,
                      .numbered = figure->numbered,
                      .timed = figure->by_time && !ops_have_times(&answer->trace)};
}

/* Lifetimes that were derived, and those of workspaces, are not in the recording. */
static void find_recorded(mr_clock *clock, const mr_event *event)
{
    const mr_trace *trace = &clock->answer->trace;
    if (event->kind <= MR_DONE && trace->storages.at[event->id].workspace) return;
    if (event->kind <= MR_DONE && !mr_trace_knows_lives(trace)) return;
    for (; clock->recorded < trace->events.n; clock->recorded++) {
        const mr_event *other = &trace->events.at[clock->recorded];
        if (other->kind != event->kind || other->id != event->id) continue;
        if (clock->timed) clock->ns = trace->times.at[clock->recorded];
        clock->recorded++;
        return;
    }
}

static void tick(mr_clock *clock)
{
    const mr_event *event = &clock->answer->schedule.events.at[clock->event++];
    const uint32_t before = clock->recorded;
    if (clock->timed || clock->numbered) find_recorded(clock, event);
    const uint32_t over = clock->numbered ? clock->recorded : clock->event;
    const bool derived = clock->numbered && clock->recorded == before;
    clock->begin = derived ? over : over - 1;
    if (!clock->timed && event->kind == MR_RUN)
        clock->ns += clock->answer->trace.ops.at[event->id].ns;
}

static void go_past(mr_clock *clock, uint32_t event)
{
    while (clock->event < event && clock->event < clock->answer->schedule.events.n) tick(clock);
}

void mr_clock_past(mr_clock *clock, uint32_t event)
{
    go_past(clock, event);
    clock->x = clock->by_time    ? (double)clock->ns
               : clock->numbered ? clock->recorded
                                 : clock->event;
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
    if (event->kind == MR_RUN) return cmd->kind == MR_EXEC && event->id == cmd->id;
    if (event->kind == MR_CARRY)
        return cmd->kind == MR_BIND && schedule->carries.at[event->id].to == cmd->id;
    return event->kind == MR_ALLOC && cmd->kind != MR_EXEC && event->id == cmd->id;
}

/* Commands for the sake of a request have moved the clock to its event already. */
static uint32_t first_candidate(const mr_clock *clock, const mr_cmd *cmd)
{
    const mr_schedule *schedule = &clock->answer->schedule;
    const bool request = cmd->kind == MR_BIND || cmd->kind == MR_REFUSE;
    const bool moved = request && clock->event
                       && serves(schedule, &schedule->events.at[clock->event - 1], cmd);
    return clock->event - moved;
}

/* The event, plus 1, that a command serves; where that cannot be said, that of the last one. */
static uint32_t find_event(const mr_clock *clock, const mr_cmd *cmd)
{
    const mr_schedule *schedule = &clock->answer->schedule;
    if (cmd->kind == MR_UNBIND || cmd->kind == MR_DEFER) return find_release(clock, cmd->id);
    if (cmd->kind != MR_BIND && cmd->kind != MR_REFUSE && cmd->kind != MR_EXEC)
        return clock->event;
    uint32_t e = first_candidate(clock, cmd);
    while (e < schedule->events.n && !serves(schedule, &schedule->events.at[e], cmd)) e++;
    return e < schedule->events.n ? e + 1 : clock->event;
}

static bool is_about_segments(const mr_cmd *cmd)
{
    return cmd->kind == MR_RESERVE || cmd->kind == MR_RELEASE || cmd->kind == MR_MAP
           || cmd->kind == MR_UNMAP;
}

/* Does the command give back memory of the block that was freed just before? */
static bool gives_back(const mr_placement *placement, uint32_t c)
{
    const uint32_t segment = placement->cmds.at[c].block.segment;
    for (; c > placement->start; c--) {
        const mr_cmd *cmd = &placement->cmds.at[c], *before = cmd - 1;
        if (cmd->kind != MR_RELEASE && cmd->kind != MR_UNMAP) return false;
        if (before->block.segment != segment) return false;
        if (before->kind == MR_UNBIND) return true;
    }
    return false;
}

void mr_clock_to(mr_clock *clock, uint32_t c)
{
    const mr_placement *placement = &clock->answer->placement;
    if (c < placement->start) return;
    const mr_cmd *cmd = &placement->cmds.at[c];
    if (gives_back(placement, c)) return;
    /* Other segments come and go for the sake of the request behind them. */
    while (c + 1 < placement->cmds.n && is_about_segments(&placement->cmds.at[c])) c++;
    if (placement->cmds.at[c].kind == MR_EXEC && is_about_segments(cmd)) return;
    go_past(clock, find_event(clock, &placement->cmds.at[c]));
    clock->x = clock->by_time ? (double)clock->ns : clock->begin;
}

double mr_clock_end(const mr_figure *figure)
{
    double end = 0;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        mr_clock clock = mr_clock_start(figure, figure->panels.at[p].answer);
        mr_clock_past(&clock, clock.answer->schedule.events.n);
        if (clock.x > end) end = clock.x;
    }
    return end > 0 ? end : 1;
}

uint32_t mr_clock_iteration(const mr_schedule *schedule, uint32_t event)
{
    uint32_t i = 0;
    while (i + 1 < schedule->ends.n && event >= schedule->ends.at[i]) i++;
    return i;
}
