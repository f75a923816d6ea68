/* chain_step_rewrite -- a recorded step written anew as a plan for its chain has it.
 *
 * The first action of each stage says how it runs in the forward pass: only CHAIN_SAVE leaves
 * to ops what they save.  All other actions are carried out in the backward pass, up to the one
 * that the next recorded op belongs to (chain_step_again.c):
 *
 *     forward    k0 f1 s2            saves of stages 0 and 1 are taken away, x(0) is held
 *     backward   B2 | k0 s1 B1 | s0 B0
 */
#include "chain_step_internal.h"
#include "recompute.h"

#include <string.h>

static uint32_t storage_of(const chain_writer *w, uint32_t tensor)
{
    return w->step->trace->tensors.at[tensor].storage;
}

/* ---- the backward pass of a stage -------------------------------------------------------- */

static void note_update(chain_writer *w, uint32_t o)
{
    const mr_ids changed = w->step->trace->ops.at[o].mutates;
    for (uint32_t i = 0; i < changed.n; i++) {
        const uint32_t s = storage_of(w, changed.at[i]);
        const mr_storage *storage = &w->step->trace->storages.at[s];
        if (storage->before && storage->role != MR_ROLE_buffer) w->update[s] = o;
    }
}

static mr_status is_lost(mr_ctx *ctx, const chain_writer *w)
{
    const mr_trace *t = w->step->trace;
    const mr_op *op = &t->ops.at[w->lost];
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "op %u (%s%s%s) of '%s' would run again after a parameter that it reads was"
                   " updated: rewrites that update during the backward pass come after those"
                   " that compute again",
                   w->lost, op->name, *op->module ? " of " : "", op->module, t->name);
}

static void drop_all(chain_writer *w, const chain_tensors *drops)
{
    for (uint32_t i = 0; i < drops->n; i++) mr_rewrite_drop(&w->r, NULL, drops->at[i]);
}

static void drop_held(chain_writer *w, uint32_t stage)
{
    drop_all(w, &w->drops[stage]);
}

static void end_backward(chain_writer *w, uint32_t stage)
{
    drop_held(w, stage);
    drop_all(w, &w->late[stage]);
}

/* Carries the plan out up to where a stage begins to run backward.  An x(i) goes when the plan
 * lets go of it, before anything else runs again; with that of stage 0 go constants, which the
 * backward pass reads to its end. */
static void advance_to(chain_writer *w, uint32_t stage)
{
    while (w->stage > stage && w->at < w->plan->n) {
        if (w->plan->at[w->at - 1].kind == CHAIN_BACKWARD) end_backward(w, w->stage);
        if (w->plan->at[w->at].kind != CHAIN_BACKWARD) chain_again_run(w);
        if (w->at == w->plan->n) return;
        const chain_action a = w->plan->at[w->at++];
        w->stage = a.stage;
        if (a.option) chain_again_missing(w, &a);
    }
}

/* ---- the passes
 * -------------------------------------------------------------------------------- */

/* The stage with which x(i) goes: its own, or an earlier one that has saved x(i) with all that
 * it made and whose backward pass reads it. */
static chain_tensors *end_of_input(chain_writer *w, uint32_t i)
{
    const uint32_t reader = w->needs.reader[w->step->input[i]];
    const bool saved = w->plan->at[i - 1].kind == CHAIN_SAVE;
    return saved && reader < i ? &w->late[reader] : &w->drops[i];
}

/* x(i) of a stage that runs again, and constants, are held until nobody runs from them again.
 */
static void hold(mr_ctx *ctx, chain_writer *w)
{
    const chain_step *step = w->step;
    const uint32_t n = step->problem.n;
    w->held = MR_NEW_N(ctx, bool, step->trace->storages.n);
    w->drops = mr_alloc_n(ctx, n, sizeof *w->drops);
    w->late = mr_alloc_n(ctx, n, sizeof *w->late);
    chain_tensors **until = mr_alloc_n(ctx, step->trace->storages.n, sizeof *until);
    memcpy(w->held, step->constant, step->trace->storages.n);
    for (uint32_t i = 1; i < n; i++) {
        const chain_action *first = &w->plan->at[i];
        if (first->kind != CHAIN_KEEP && !(first->kind == CHAIN_SAVE && first->option))
            continue;
        w->held[step->input[i]] = true;
        until[step->input[i]] = end_of_input(w, i);
    }
    for (uint32_t e = step->begin; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        const uint32_t s = event.kind == MR_DROP ? storage_of(w, event.id) : 0;
        if (event.kind != MR_DROP || !w->held[s]) continue;
        MR_PUSH(ctx, until[s] ? until[s] : &w->drops[0], event.id);
    }
}

static void find_first_readers(mr_ctx *ctx, chain_writer *w)
{
    w->reader = mr_none_of(ctx, w->step->trace->storages.n);
    for (uint32_t e = w->step->turn; e-- > w->step->begin;) {
        const mr_event event = w->step->trace->events.at[e];
        if (event.kind != MR_RUN) continue;
        const mr_ids in = w->step->trace->ops.at[event.id].in;
        for (uint32_t i = 0; i < in.n; i++)
            w->reader[storage_of(w, in.at[i])] = w->step->stage[event.id];
    }
}

/* What the first run of its stage saves of what the op did. */
static void save_first(chain_writer *w, uint32_t o)
{
    const uint32_t stage = w->step->stage[o];
    const chain_action *first = &w->plan->at[stage];
    const mr_op *op = &w->step->trace->ops.at[o];
    mr_op *now = &w->r.out->ops.at[o];
    if (first->kind == CHAIN_SAVE && !first->option) return;
    now->saved.n = 0;
    if (first->kind != CHAIN_SAVE) return;
    now->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (!chain_leaves_out(w, stage, first->option, storage_of(w, op->saved.at[i].tensor)))
            now->saved.at[now->saved.n++] = op->saved.at[i];
}

static void write_stage(chain_writer *w, uint32_t stage)
{
    const chain_step *step = w->step;
    for (uint32_t e = w->first[stage]; e < w->first[stage + 1]; e++) {
        const mr_event event = step->trace->events.at[e];
        const uint32_t s = event.kind == MR_DROP ? storage_of(w, event.id) : 0;
        if (event.kind == MR_DROP && (w->held[s] || chain_again_holds(w, s, stage))) continue;
        mr_rewrite_keep(&w->r, NULL, e);
        if (event.kind == MR_RUN) save_first(w, event.id);
    }
    chain_again_return(w, NULL, stage);
}

static void write_forward(chain_writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = 0; e < step->begin; e++) mr_rewrite_keep(&w->r, NULL, e);
    for (uint32_t i = 0; i < step->problem.n; i++) write_stage(w, i);
    for (uint32_t e = w->first[step->problem.n]; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_DROP && w->held[storage_of(w, event.id)]) continue;
        mr_rewrite_keep(&w->r, NULL, e);
    }
}

/* A constant that the program lets go of during the backward pass is held for as long as a
 * stage that reads it may run again. */
static bool is_postponed(chain_writer *w, mr_event event)
{
    if (event.kind != MR_DROP) return false;
    const uint32_t s = storage_of(w, event.id), first = w->reader[s];
    if (!w->step->constant[s] || first == MR_NONE || w->stage <= first) return false;
    MR_PUSH(w->r.ctx, &w->late[first], event.id);
    return true;
}

/* What the second run saved goes with the gradient's own ops; of a part, as it is read. */
static void run_gradient(chain_writer *w, uint32_t e)
{
    const uint32_t o = w->step->trace->events.at[e].id, of = w->step->trace->ops.at[o].of;
    mr_rewrite_keep(&w->r, &w->where, e);
    note_update(w, o);
    if (of == MR_NONE || w->copy[of] == MR_NONE) return;
    w->summed[of] = recompute_is_sum_of_engine(&w->step->trace->ops.at[o], w->summed[of]);
    if (!w->summed[of] || !w->asks[of]) w->r.out->ops.at[o].of = w->copy[of];
    w->asks[of] = true;
}

static void write_backward(chain_writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = step->turn; e < step->end; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_RUN) advance_to(w, step->stage[event.id]);
        if (is_postponed(w, event)) continue;
        if (event.kind == MR_RUN) run_gradient(w, e);
        else mr_rewrite_keep(&w->r, NULL, e);
    }
    for (uint32_t i = 0; i <= w->stage && i < step->problem.n; i++) end_backward(w, i);
    for (uint32_t e = step->end; e < step->trace->events.n; e++)
        mr_rewrite_keep(&w->r, NULL, e);
}

mr_status chain_step_rewrite(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                             mr_trace *out)
{
    chain_writer w = {.step = step,
                .plan = plan,
                .at = step->problem.n,
                .stage = step->problem.n,
                .lost = MR_NONE};
    MR_TRY(mr_rewrite_begin(ctx, step->trace, out, &w.r));
    mr_where_init(&w.r, &w.where);
    w.options = 1;
    for (uint32_t i = 0; i < step->problem.n; i++)
        if (step->problem.stages[i].n > w.options) w.options = step->problem.stages[i].n;
    w.again = MR_NEW_N(ctx, mr_ids, (size_t)step->problem.n * w.options * CHAIN_REASONS);
    w.turns = MR_NEW_N(ctx, uint32_t, step->trace->ops.n);
    w.update = mr_none_of(ctx, step->trace->storages.n);
    w.needs = chain_needs_of(ctx, step);
    w.summed = MR_NEW_N(ctx, bool, step->trace->ops.n);
    w.asks = MR_NEW_N(ctx, bool, step->trace->ops.n);
    chain_again_begin(ctx, &w);
    hold(ctx, &w);
    find_first_readers(ctx, &w);
    write_forward(&w);
    write_backward(&w);
    chain_step_tell(ctx, step, plan, out);
    return w.lost == MR_NONE ? MR_OK : is_lost(ctx, &w);
}
