/* moment -- finds the place of a placement that is worth explaining. */
#include "explain.h"

/* The command at or behind one that serves or refuses a request: what the others were for. */
static uint32_t answer_behind(const mr_placement *placement, uint32_t command)
{
    while (command < placement->cmds.n && placement->cmds.at[command].kind != MR_BIND
           && placement->cmds.at[command].kind != MR_REFUSE)
        command++;
    return command;
}

/* The first of the commands that take memory for the same request. */
static uint32_t first_taking(const mr_placement *placement, uint32_t command)
{
    while (command > 0
           && (placement->cmds.at[command - 1].kind == MR_RESERVE
               || placement->cmds.at[command - 1].kind == MR_MAP))
        command--;
    return command;
}

static uint32_t iteration_of(const mr_placement *placement, uint32_t command)
{
    uint32_t i = 0;
    while (i < placement->seams.n && command >= placement->seams.at[i]) i++;
    return i;
}

static uint32_t refusal(const mr_placement *placement)
{
    uint32_t c = 0;
    while (c < placement->cmds.n && placement->cmds.at[c].kind != MR_REFUSE) c++;
    return c;
}

/* Where the recording allocates the storage: in every iteration at the same event. */
static uint32_t find_event(const mr_schedule *schedule, uint32_t storage)
{
    for (uint32_t e = 0; e < schedule->events.n; e++)
        if (schedule->events.at[e].kind == MR_ALLOC && schedule->events.at[e].id == storage)
            return mr_recorded_event(schedule, e);
    return 0;
}

static bool is_first(const mr_placement *placement, uint32_t served)
{
    for (uint32_t c = 0; c < served && c < placement->cmds.n; c++)
        if (placement->cmds.at[c].kind == MR_BIND) return false;
    return true;
}

/* The command after which the most bytes are handed out. */
static uint32_t most_in_use(const mr_placement *placement)
{
    uint64_t now = 0, most = 0;
    uint32_t at = 0;
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind == MR_BIND) now += cmd->block.bytes;
        if (cmd->kind == MR_UNBIND) now -= cmd->block.bytes;
        if (now <= most) continue;
        most = now;
        at = c;
    }
    return at;
}

void mr_moment_find(mr_ctx *ctx, const mr_scene *scene, const mr_spec *spec,
                    const mr_answer *answer, mr_moment *out)
{
    const mr_placement *placement = &answer->placement;
    *out = (mr_moment){.scene = scene,
                       .answer = answer,
                       .oom = placement->refusals > 0,
                       .planned = spec->place.strategy->clairvoyant};
    uint32_t command = out->oom ? refusal(placement) : answer->metrics.peak_at;
    out->at_once = !out->oom && is_first(placement, answer_behind(placement, command));
    if (out->at_once) command = most_in_use(placement);
    const uint32_t served = answer_behind(placement, command);
    const bool known = served < placement->cmds.n;
    out->storage = known ? placement->cmds.at[served].id : MR_NONE;
    out->at_start = command < placement->start;
    out->iteration = iteration_of(placement, command);
    if (known && !out->at_start) out->event = find_event(&answer->schedule, out->storage);
    mr_pieces_after(ctx, placement, first_taking(placement, command), &out->met);
    mr_pieces_after(ctx, placement, known ? served + 1 : command + 1, &out->left);
    out->makers = mr_makers_new(ctx, &answer->trace);
}
