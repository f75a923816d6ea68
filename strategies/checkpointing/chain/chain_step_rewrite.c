/* chain_step_rewrite -- a recorded step written anew as a plan for its chain has it.
 *
 * The first action of each stage says how it runs in the forward pass: only CHAIN_SAVE leaves
 * to ops what they save.  All other actions are carried out in the backward pass, up to the one
 * that the next recorded op belongs to.  A stage that runs again runs what somebody reads:
 *
 *     forward    k0 f1 s2            saves of stages 0 and 1 are taken away, x(0) is held
 *     backward   B2 | k0 s1 B1 | s0 B0
 */
#include "chain_step_internal.h"
#include "rewrite.h"

#include <string.h>

typedef MR_VEC(uint32_t) tensors;

typedef struct writer {
    const chain_step *step;
    const chain_actions *plan;
    chain_needs needs;
    mr_rewrite r;
    mr_where where;
    uint32_t at;    /* next action of the plan */
    uint32_t stage; /* that runs backward now; the number of stages before the first */
    mr_ids
        *again; /* by stage, option and reasons: ops that run; at is NULL when not yet known */
    uint32_t *turns;  /* by op: `at` when it ran again last */
    bool *held;       /* by storage: dropped later than the program did */
    uint32_t *reader; /* by storage: the first stage that reads it; MR_NONE for none */
    tensors *drops;   /* by stage: to be dropped when the plan lets go of its x(i) */
    tensors *late;    /* by stage: to be dropped when it has run backward */
    uint32_t *update; /* by storage: op of the backward pass that has changed it; MR_NONE */
    uint32_t lost;    /* op that cannot run again, since what it read is changed; MR_NONE */
    uint32_t options; /* most that a stage has */
} writer;

static uint32_t storage_of(const writer *w, uint32_t tensor)
{
    return w->step->trace->tensors.at[tensor].storage;
}

static bool leaves_out(const writer *w, uint32_t stage, uint32_t option, uint32_t s)
{
    return chain_step_makes(w->step, stage, s) && (w->step->without[s] >> option & 1);
}

/* ---- running again
 * ------------------------------------------------------------------------------ */

/* What the op saved, as far as the option wants it and it is there again. */
static void save_again(writer *w, uint32_t o, uint32_t copy, uint32_t stage, uint32_t option)
{
    const mr_op *op = &w->step->trace->ops.at[o];
    mr_op *now = &w->r.out->ops.at[copy];
    const mr_saved *all = now->saved.at;
    now->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    now->saved.n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++) {
        const uint32_t s = storage_of(w, op->saved.at[i].tensor);
        if (leaves_out(w, stage, option, s)) continue;
        if (chain_step_makes(w->step, stage, s) && w->turns[w->step->maker[s]] != w->at)
            continue;
        now->saved.at[now->saved.n++] = all[i];
    }
}

/* An optimizer that works during the backward pass leaves nothing to run again with. */
static void look_for_update(writer *w, uint32_t o)
{
    const mr_ids in = w->step->trace->ops.at[o].in;
    for (uint32_t i = 0; i < in.n; i++)
        if (w->update[storage_of(w, in.at[i])] != MR_NONE) w->lost = o;
}

static void note_update(writer *w, uint32_t o)
{
    const mr_ids changed = w->step->trace->ops.at[o].mutates;
    for (uint32_t i = 0; i < changed.n; i++) {
        const uint32_t s = storage_of(w, changed.at[i]);
        const mr_storage *storage = &w->step->trace->storages.at[s];
        if (storage->before && storage->role != MR_ROLE_buffer) w->update[s] = o;
    }
}

static mr_status is_lost(mr_ctx *ctx, const writer *w)
{
    const mr_trace *t = w->step->trace;
    const mr_op *op = &t->ops.at[w->lost];
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "op %u (%s%s%s) of '%s' would run again after a parameter that it reads was"
                   " updated: rewrites that update during the backward pass come after those"
                   " that compute again",
                   w->lost, op->name, *op->module ? " of " : "", op->module, t->name);
}

/* What is there already is read where it is; what the op made of it a second time is not. */
static void replay(writer *w, uint32_t o, uint32_t stage, unsigned reasons, uint32_t option)
{
    const mr_ids out = w->step->trace->ops.at[o].out;
    look_for_update(w, o);
    uint32_t *was = mr_alloc_n(w->r.ctx, out.n, sizeof *was);
    for (uint32_t i = 0; i < out.n; i++) was[i] = w->where.storage[storage_of(w, out.at[i])];
    const uint32_t copy = mr_rewrite_replay(&w->r, &w->where, o);
    if (reasons & CHAIN_FOR_SAVING) save_again(w, o, copy, stage, option);
    else w->r.out->ops.at[copy].saved.n = 0;
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t s = storage_of(w, out.at[i]);
        if (chain_needs_there(&w->needs, stage, s, reasons, option))
            w->where.storage[s] = was[i];
    }
}

static void run_again(writer *w, uint32_t stage, unsigned reasons, uint32_t option)
{
    const size_t row = (size_t)stage * w->options + option;
    mr_ids *again = &w->again[row * CHAIN_REASONS + reasons];
    if (!again->at) *again = chain_needs_ops(w->r.ctx, &w->needs, stage, reasons, option);
    for (uint32_t i = 0; i < again->n; i++) w->turns[again->at[i]] = w->at;
    for (uint32_t i = again->n; i-- > 0;) {
        const uint32_t o = again->at[i];
        replay(w, o, stage, reasons, option);
        if (reasons != CHAIN_FOR_MISSING) w->r.out->ops.at[o].saved.n = 0;
    }
}

static void drop_all(writer *w, const tensors *drops)
{
    for (uint32_t i = 0; i < drops->n; i++) mr_rewrite_drop(&w->r, NULL, drops->at[i]);
}

static void drop_held(writer *w, uint32_t stage)
{
    drop_all(w, &w->drops[stage]);
}

static void end_backward(writer *w, uint32_t stage)
{
    drop_held(w, stage);
    drop_all(w, &w->late[stage]);
}

static void begin_backward(writer *w, const chain_action *a)
{
    w->stage = a->stage;
    if (a->option) run_again(w, a->stage, CHAIN_FOR_MISSING, a->option);
}

/* Carries the plan out up to where a stage begins to run backward.  An x(i) goes when the plan
 * lets go of it, before anything else runs again; with that of stage 0 go constants, which the
 * backward pass reads to its end. */
static void advance_to(writer *w, uint32_t stage)
{
    while (w->stage > stage && w->at < w->plan->n) {
        if (w->plan->at[w->at - 1].kind == CHAIN_BACKWARD) end_backward(w, w->stage);
        const chain_action a = w->plan->at[w->at++];
        const bool leads = w->at < w->plan->n && w->plan->at[w->at].stage == a.stage + 1;
        if (a.kind == CHAIN_BACKWARD) {
            begin_backward(w, &a);
        } else if (a.kind == CHAIN_SAVE) {
            run_again(w, a.stage, CHAIN_FOR_SAVING | (leads ? CHAIN_FOR_NEXT : 0), a.option);
            if (w->step->problem.stages[a.stage].passing) drop_held(w, a.stage);
        } else {
            run_again(w, a.stage, CHAIN_FOR_NEXT, 0);
            if (a.kind == CHAIN_FORWARD && a.stage) drop_held(w, a.stage);
        }
    }
}

/* ---- the passes
 * -------------------------------------------------------------------------------- */

/* The stage with which x(i) goes: its own, or an earlier one that has saved x(i) with all that
 * it made and whose backward pass reads it. */
static tensors *end_of_input(writer *w, uint32_t i)
{
    const uint32_t reader = w->needs.reader[w->step->input[i]];
    const bool saved = w->plan->at[i - 1].kind == CHAIN_SAVE;
    return saved && reader < i ? &w->late[reader] : &w->drops[i];
}

/* x(i) of a stage that runs again, and constants, are held until nobody runs from them again.
 */
static void hold(mr_ctx *ctx, writer *w)
{
    const chain_step *step = w->step;
    const uint32_t n = step->problem.n;
    w->held = MR_NEW_N(ctx, bool, step->trace->storages.n);
    w->drops = mr_alloc_n(ctx, n, sizeof *w->drops);
    w->late = mr_alloc_n(ctx, n, sizeof *w->late);
    tensors **until = mr_alloc_n(ctx, step->trace->storages.n, sizeof *until);
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

static void find_first_readers(mr_ctx *ctx, writer *w)
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
static void save_first(writer *w, uint32_t o)
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
        if (!leaves_out(w, stage, first->option, storage_of(w, op->saved.at[i].tensor)))
            now->saved.at[now->saved.n++] = op->saved.at[i];
}

static void write_forward(writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = 0; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_DROP && e >= step->begin && w->held[storage_of(w, event.id)])
            continue;
        mr_rewrite_keep(&w->r, NULL, e);
        if (event.kind == MR_RUN && step->stage[event.id] != MR_NONE) save_first(w, event.id);
    }
}

/* A constant that the program lets go of during the backward pass is held for as long as a
 * stage that reads it may run again. */
static bool is_postponed(writer *w, mr_event event)
{
    if (event.kind != MR_DROP) return false;
    const uint32_t s = storage_of(w, event.id), first = w->reader[s];
    if (!w->step->constant[s] || first == MR_NONE || w->stage <= first) return false;
    MR_PUSH(w->r.ctx, &w->late[first], event.id);
    return true;
}

static void write_backward(writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = step->turn; e < step->end; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_RUN) advance_to(w, step->stage[event.id]);
        if (is_postponed(w, event)) continue;
        mr_rewrite_keep(&w->r, event.kind == MR_RUN ? &w->where : NULL, e);
        if (event.kind == MR_RUN) note_update(w, event.id);
    }
    for (uint32_t i = 0; i <= w->stage && i < step->problem.n; i++) end_backward(w, i);
    for (uint32_t e = step->end; e < step->trace->events.n; e++)
        mr_rewrite_keep(&w->r, NULL, e);
}

mr_status chain_step_rewrite(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                             mr_trace *out)
{
    writer w = {.step = step,
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
    hold(ctx, &w);
    find_first_readers(ctx, &w);
    write_forward(&w);
    write_backward(&w);
    return w.lost == MR_NONE ? MR_OK : is_lost(ctx, &w);
}
