/* moment -- finds the place of a placement that is worth explaining. */
#include "explain.h"

/* The first allocation at or behind a command: what the command was done for. */
static uint32_t storage_behind(const mr_placement *placement, uint32_t command)
{
    for (uint32_t c = command; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind == MR_BIND || cmd->kind == MR_REFUSE) return cmd->id;
    }
    return MR_NONE;
}

static uint32_t iteration_of(const mr_placement *placement, uint32_t command)
{
    uint32_t i = 0;
    while (i < placement->seams.n && command >= placement->seams.at[i]) i++;
    return i;
}

static uint32_t first_event(const mr_schedule *schedule, uint32_t iteration)
{
    return iteration ? schedule->ends.at[iteration - 1] : 0;
}

static uint32_t refusal(const mr_placement *placement)
{
    uint32_t c = 0;
    while (c < placement->cmds.n && placement->cmds.at[c].kind != MR_REFUSE) c++;
    return c;
}

/* Where the iteration allocates the storage, as the recording counts events. */
static uint32_t find_event(const mr_schedule *schedule, uint32_t iteration, uint32_t storage)
{
    const uint32_t first = first_event(schedule, iteration);
    for (uint32_t e = first; e < schedule->events.n; e++)
        if (schedule->events.at[e].kind == MR_ALLOC && schedule->events.at[e].id == storage)
            return mr_recorded_event(schedule, e - first);
    return 0;
}

void mr_moment_find(mr_ctx *ctx, const mr_scene *scene, const mr_answer *answer, mr_moment *out)
{
    const mr_placement *placement = &answer->placement;
    *out = (mr_moment){.scene = scene, .answer = answer, .oom = placement->refusals > 0};
    const uint32_t command = out->oom ? refusal(placement) : answer->metrics.peak_at;
    out->storage = storage_behind(placement, command);
    out->commands = out->oom ? command : command + 1;
    out->at_start = command < placement->start;
    out->iteration = iteration_of(placement, command);
    if (out->storage != MR_NONE && !out->at_start)
        out->event = find_event(&answer->schedule, out->iteration, out->storage);
    mr_pieces_after(ctx, placement, out->commands, &out->pieces);
    out->makers = mr_makers_new(ctx, &answer->trace);
}
