/* chain_lives -- when storages of a recorded step are made, read and let go of.
 *
 * A storage ends with its last reader, its last drop, or the last op `of` one that saved it.
 */
#include "chain_lives.h"

static mr_status find_passes(mr_ctx *ctx, const mr_trace *trace, chain_lives *l)
{
    l->begin = l->turn = l->end = MR_NONE;
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const mr_phase phase = trace->ops.at[trace->events.at[e].id].phase;
        if (phase == MR_FORWARD && l->turn != MR_NONE)
            return mr_fail(
                ctx, MR_EUNSUPPORTED,
                "op %u (%s) of '%s' runs forward after the backward pass has begun; a"
                " chain is planned for one forward and one backward pass, so rewrites"
                " that divide the batch come after it",
                trace->events.at[e].id, trace->ops.at[trace->events.at[e].id].name,
                trace->name);
        if (phase == MR_FORWARD && l->begin == MR_NONE) l->begin = e;
        if (phase == MR_BACKWARD && l->turn == MR_NONE) l->turn = e;
        if (phase == MR_BACKWARD) l->end = e + 1;
    }
    if (l->begin != MR_NONE && l->turn != MR_NONE) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' has no %s pass, so there is nothing to compute again for it",
                   trace->name, l->begin == MR_NONE ? "forward" : "backward");
}

static void later(uint32_t *at, uint32_t event)
{
    if (*at == MR_NONE || event > *at) *at = event;
}

static void touch(const mr_trace *trace, chain_lives *l, mr_ids ids, uint32_t e, bool change)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        chain_life *life = &l->at[trace->tensors.at[ids.at[i]].storage];
        if (e < l->turn) later(&life->read, e);
        if (change && e < l->turn) later(&life->settled, e);
        if (change) later(&life->changed, e);
        else if (life->first_read == MR_NONE) life->first_read = e;
        later(&life->death, e);
        if (e < l->turn || life->birth >= l->turn) later(&life->bare, e);
    }
}

static void run(const mr_trace *trace, chain_lives *l, uint32_t e, const mr_op *op)
{
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = trace->tensors.at[op->out.at[i]].storage;
        chain_life *life = &l->at[s];
        if (life->birth == MR_NONE && !trace->storages.at[s].before)
            life->birth = life->changed = life->settled = e;
        later(&life->death, e);
        if (e < l->turn || life->birth >= l->turn) later(&life->bare, e);
    }
    touch(trace, l, op->in, e, false);
    touch(trace, l, op->mutates, e, true);
}

/* What an op saves is there until the last op `of` it. */
static void hold_saved(mr_ctx *ctx, const mr_trace *trace, chain_lives *l)
{
    uint32_t *last = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const uint32_t of = trace->ops.at[trace->events.at[e].id].of;
        if (of != MR_NONE) last[of] = e;
    }
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        const uint32_t until = last[op->again == MR_NONE ? o : op->again];
        for (uint32_t i = 0; until && i < op->saved.n; i++) {
            chain_life *life = &l->at[trace->tensors.at[op->saved.at[i].tensor].storage];
            if (life->birth != MR_NONE) later(&life->death, until);
        }
    }
}

mr_status chain_lives_of(mr_ctx *ctx, const mr_trace *trace, chain_lives *l)
{
    MR_TRY(find_passes(ctx, trace, l));
    l->at = MR_NEW_N(ctx, chain_life, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++)
        l->at[s] = (chain_life){.birth = MR_NONE,
                                .read = MR_NONE,
                                .changed = MR_NONE,
                                .settled = MR_NONE,
                                .first_read = MR_NONE,
                                .death = MR_NONE,
                                .bare = MR_NONE};
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event event = trace->events.at[e];
        if (event.kind == MR_RUN) run(trace, l, e, &trace->ops.at[event.id]);
        if (event.kind != MR_DROP) continue;
        chain_life *life = &l->at[trace->tensors.at[event.id].storage];
        life->drop = e;
        later(&life->death, e);
        later(&life->bare, e);
    }
    hold_saved(ctx, trace, l);
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        chain_life *life = &l->at[s];
        if (!trace->storages.at[s].after) continue;
        life->death = life->bare = life->drop = trace->events.n - 1;
    }
    return MR_OK;
}

chain_ends chain_ends_of(mr_ctx *ctx, const mr_trace *trace, const chain_lives *lives,
                         bool bare)
{
    chain_ends ends = {MR_NEW_N(ctx, uint32_t, trace->events.n),
                       MR_NEW_N(ctx, uint32_t, trace->storages.n)};
    for (uint32_t e = 0; e < trace->events.n; e++) ends.first[e] = MR_NONE;
    for (uint32_t s = trace->storages.n; s-- > 0;) {
        const chain_life *life = &lives->at[s];
        const uint32_t end = bare ? life->bare : life->death;
        if (end == MR_NONE || (life->birth == MR_NONE && !trace->storages.at[s].before))
            continue;
        ends.next[s] = ends.first[end];
        ends.first[end] = s;
    }
    return ends;
}
