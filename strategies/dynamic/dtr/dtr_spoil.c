/* dtr_spoil -- constants that are changed in place, or go: parameters, states, old gradients.
 *
 * What was computed from the old value can never be computed again.  So whatever the program
 * still refers to is brought back before, and stays; what it does not refer to is looked
 * through, to what was computed from that in turn.
 */
#include "dtr_internal.h"

void dtr_hold(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (s->held || s->pinned || s->released) return;
    s->held = true;
    dtr_lock(run, storage);
}

void dtr_let_go(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (!s->held) return;
    s->held = false;
    dtr_unlock(run, storage);
}

static void look_at(dtr_run *run, uint32_t storage)
{
    if (run->states[storage].seen == run->search || !run->states[storage].tensors_n) return;
    run->states[storage].seen = run->search;
    MR_PUSH(run->ctx, &run->found, storage);
}

static void look_at_outputs(dtr_run *run, uint32_t o)
{
    const mr_ids out = run->program->ops.at[o].out;
    for (uint32_t i = 0; i < out.n; i++)
        look_at(run, run->program->tensors.at[out.at[i]].storage);
}

/* Those that cannot be computed again, in the order in which they are found. */
static mr_ids find_spoilt(dtr_run *run, mr_ids constants, uint32_t before)
{
    run->search++;
    run->found.n = 0;
    for (uint32_t i = 0; i < constants.n; i++) {
        const mr_ids readers = run->program->storages.at[constants.at[i]].readers;
        for (uint32_t j = 0; j < readers.n && readers.at[j] < before; j++)
            look_at_outputs(run, readers.at[j]);
    }
    for (uint32_t i = 0; i < run->found.n; i++) {
        const uint32_t s = run->found.at[i];
        if (!run->states[s].released) continue;
        for (uint32_t j = 0; j < run->states[s].children_n; j++)
            look_at(run, run->program->storages.at[s].children.at[j]);
    }
    mr_ids all = {MR_NEW_N(run->ctx, uint32_t, run->found.n), run->found.n};
    for (uint32_t i = 0; i < all.n; i++) all.at[i] = run->found.at[i];
    return all;
}

dtr_result dtr_protect(dtr_run *run, mr_ids constants, uint32_t before)
{
    dtr_result result = DTR_PASS;
    if (!constants.n) return result;
    const mr_ids spoilt = find_spoilt(run, constants, before);
    for (uint32_t i = 0; !result && i < spoilt.n; i++) {
        const uint32_t s = spoilt.at[i];
        const dtr_storage *storage = &run->program->storages.at[s];
        if (run->states[s].released || storage->constant) continue;
        if (!run->states[s].present)
            result = dtr_materialize(run, storage->op, storage->tensors.at[0], true);
        if (!result) dtr_hold(run, s);
    }
    return result;
}
