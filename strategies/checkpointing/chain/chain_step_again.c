/* chain_step_again -- stages of a recorded step run again, as nested calls of
 * torch.utils.checkpoint run them.
 *
 * A plan is such a nest: each CHAIN_KEEP with what runs from there unsaved is one call.  Between
 * two backward passes lies one run of a function: calls inside keep what they were given, the
 * rest is saved.  What was run is run again, also what nobody reads this time, and variables end
 * where they ended in the first pass, at the latest with the function.  That stops early: with
 * the last op that saves something.  A call within one that saves nothing holds what it was
 * given until it returns.
 *
 * A stage that saves a part (an option) runs what somebody reads.
 */
#include "chain_step_internal.h"

static uint32_t storage_of(const chain_writer *w, uint32_t tensor)
{
    return w->step->trace->tensors.at[tensor].storage;
}

bool chain_leaves_out(const chain_writer *w, uint32_t stage, uint32_t option, uint32_t s)
{
    return chain_step_makes(w->step, stage, s) && (w->step->without[s] >> option & 1);
}

/* ---- nested calls ------------------------------------------------------------------------ */

static void find_calls(mr_ctx *ctx, chain_writer *w)
{
    const uint32_t n = w->step->problem.n;
    w->call_end = chain_calls(ctx, n, w->plan);
    w->calls = mr_alloc_n(ctx, (size_t)n + 1, sizeof *w->calls);
    for (uint32_t i = 1; i < n; i++)
        if (w->call_end[i]) MR_PUSH(ctx, &w->calls[w->call_end[i]], i);
}

/* Of what the stage makes, the tensor that it is left in is the next one's. */
static void note_input(chain_writer *w, mr_ids made, uint32_t stage)
{
    for (uint32_t k = 0; k < made.n; k++) {
        const uint32_t i = w->lead[storage_of(w, made.at[k])];
        if (i == stage + 1) w->input[i] = made.at[k];
    }
}

static void find_inputs(mr_ctx *ctx, chain_writer *w)
{
    const chain_step *step = w->step;
    const mr_trace *t = step->trace;
    w->lead = mr_none_of(ctx, t->storages.n);
    w->input = mr_none_of(ctx, step->problem.n);
    w->dropped = MR_NEW_N(ctx, uint32_t, t->tensors.n);
    for (uint32_t i = 1; i < step->problem.n; i++) w->lead[step->input[i]] = i;
    for (uint32_t e = step->begin; e < step->turn; e++) {
        const uint32_t id = t->events.at[e].id;
        if (t->events.at[e].kind == MR_DROP) w->dropped[id] = e;
        if (t->events.at[e].kind != MR_RUN) continue;
        note_input(w, t->ops.at[id].out, step->stage[id]);
        note_input(w, t->ops.at[id].mutates, step->stage[id]);
    }
}

static bool saves(const chain_writer *w, uint32_t o, uint32_t s)
{
    const mr_op *op = &w->step->trace->ops.at[o];
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (storage_of(w, op->saved.at[i].tensor) == s) return true;
    return false;
}

/* What the backward pass reads though no op has saved it for that: where autograd is not asked,
 * as in a step that runs again already, nobody lets go of it. */
static void find_unsaved(mr_ctx *ctx, chain_writer *w)
{
    const mr_trace *t = w->step->trace;
    w->unsaved = MR_NEW_N(ctx, bool, t->storages.n);
    for (uint32_t e = w->step->turn; e < w->step->end; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t s = storage_of(w, op->in.at[i]);
            if (op->of == MR_NONE || !saves(w, op->of, s)) w->unsaved[s] = true;
        }
    }
}

void chain_again_begin(mr_ctx *ctx, chain_writer *w)
{
    const chain_step *step = w->step;
    find_calls(ctx, w);
    find_inputs(ctx, w);
    find_unsaved(ctx, w);
    w->first = MR_NEW_N(ctx, uint32_t, (size_t)step->problem.n + 1);
    w->copy = mr_none_of(ctx, step->trace->ops.n);
    w->run = MR_NEW_N(ctx, uint32_t, step->trace->storages.n);
    w->asked = MR_NEW_N(ctx, uint32_t, step->trace->storages.n);
    w->kept = MR_NEW_N(ctx, uint32_t, step->problem.n);
    for (uint32_t e = step->begin; e < step->turn; e++)
        if (step->trace->events.at[e].kind == MR_RUN)
            w->first[step->stage[step->trace->events.at[e].id] + 1] = e + 1;
    w->first[0] = step->begin;
}

bool chain_again_holds(const chain_writer *w, uint32_t s, uint32_t stage)
{
    const uint32_t i = w->lead[s];
    return i != MR_NONE && stage < w->call_end[i];
}

void chain_again_return(chain_writer *w, mr_where *where, uint32_t stage)
{
    const chain_tensors *calls = &w->calls[stage + 1];
    for (uint32_t k = 0; k < calls->n; k++) {
        const uint32_t i = calls->at[k], tensor = w->input[i];
        const uint32_t s = w->step->input[i];
        if (tensor == MR_NONE || w->dropped[tensor] >= w->first[stage + 1]) continue;
        if (where ? w->run[s] != w->runs || w->kept[i] == w->runs : w->held[s]) continue;
        mr_rewrite_drop(&w->r, where, tensor);
    }
}

/* ---- one op ------------------------------------------------------------------------------ */

/* What the op saved, as far as the option wants it and it is there again. */
static void save_again(chain_writer *w, uint32_t o, uint32_t copy, uint32_t stage,
                       uint32_t option)
{
    const mr_op *op = &w->step->trace->ops.at[o];
    mr_op *now = &w->r.out->ops.at[copy];
    const mr_saved *all = now->saved.at;
    now->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    now->saved.n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++) {
        const uint32_t s = storage_of(w, op->saved.at[i].tensor);
        if (chain_leaves_out(w, stage, option, s)) continue;
        if (chain_step_makes(w->step, stage, s) && w->turns[w->step->maker[s]] != w->at)
            continue;
        now->saved.at[now->saved.n++] = all[i];
    }
}

/* An optimizer that works during the backward pass leaves nothing to run again with. */
static void look_for_update(chain_writer *w, uint32_t o)
{
    const mr_ids in = w->step->trace->ops.at[o].in;
    for (uint32_t i = 0; i < in.n; i++)
        if (w->update[storage_of(w, in.at[i])] != MR_NONE) w->lost = o;
}

/* What is there already is read where it is; what the op made of it a second time is not. */
static void replay(chain_writer *w, uint32_t o, uint32_t stage, unsigned reasons,
                   uint32_t option)
{
    const mr_ids out = w->step->trace->ops.at[o].out;
    look_for_update(w, o);
    uint32_t *was = mr_alloc_n(w->r.ctx, out.n, sizeof *was);
    for (uint32_t i = 0; i < out.n; i++) was[i] = w->where.storage[storage_of(w, out.at[i])];
    const uint32_t copy = mr_rewrite_replay(&w->r, &w->where, o);
    w->copy[o] = option ? MR_NONE : copy;
    if (reasons & CHAIN_FOR_SAVING) save_again(w, o, copy, stage, option);
    else w->r.out->ops.at[copy].saved.n = 0;
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t s = storage_of(w, out.at[i]);
        if (w->step->maker[s] == o) w->run[s] = option ? 0 : w->runs;
        if (chain_needs_there(&w->needs, stage, s, reasons, option))
            w->where.storage[s] = was[i];
    }
}

/* ---- one stage --------------------------------------------------------------------------- */

static void run_needed(chain_writer *w, uint32_t stage, unsigned reasons, uint32_t option)
{
    const size_t row = (size_t)stage * w->options + option;
    mr_ids *again = &w->again[row * CHAIN_REASONS + reasons];
    if (!again->at) *again = chain_needs_ops(w->r.ctx, &w->needs, stage, reasons, option);
    for (uint32_t i = 0; i < again->n; i++) w->turns[again->at[i]] = w->at;
    for (uint32_t i = again->n; i-- > 0;) {
        replay(w, again->at[i], stage, reasons, option);
        if (reasons != CHAIN_FOR_MISSING) w->r.out->ops.at[again->at[i]].saved.n = 0;
    }
}

void chain_again_missing(chain_writer *w, const chain_action *a)
{
    run_needed(w, a->stage, CHAIN_FOR_MISSING, a->option);
}

/* Constants are there whatever ends; x(i) of a call is its own, and what the op reads before
 * which the run stops is its gradient's. */
static void drop_again(chain_writer *w, uint32_t tensor)
{
    const uint32_t s = storage_of(w, tensor);
    if (w->run[s] != w->runs || w->asked[s] == w->runs) return;
    if (w->unsaved[s] || w->step->constant[s]) return;
    if (w->lead[s] != MR_NONE && w->kept[w->lead[s]] == w->runs) return;
    mr_rewrite_drop(&w->r, &w->where, tensor);
}

/* A constant is as the first pass left it. */
static bool is_done(const chain_writer *w, const mr_op *op)
{
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (w->step->constant[storage_of(w, op->mutates.at[i])]) return true;
    return false;
}

/* Nothing of earlier stages but x(i) is read. */
static void run_part(chain_writer *w, uint32_t stage, unsigned next, uint32_t option)
{
    const mr_trace *t = w->step->trace;
    for (uint32_t e = w->first[stage]; e < w->first[stage + 1]; e++)
        if (t->events.at[e].kind == MR_DROP
            && w->step->born[storage_of(w, t->events.at[e].id)] != stage)
            drop_again(w, t->events.at[e].id);
    run_needed(w, stage, CHAIN_FOR_SAVING | next, option);
}

static void run_events(chain_writer *w, uint32_t stage, unsigned reasons, uint32_t stop)
{
    const mr_trace *t = w->step->trace;
    for (uint32_t e = w->first[stage]; e < w->first[stage + 1] && e < stop; e++) {
        const mr_event event = t->events.at[e];
        if (event.kind == MR_DROP && !chain_again_holds(w, storage_of(w, event.id), stage))
            drop_again(w, event.id);
        if (event.kind != MR_RUN || is_done(w, &t->ops.at[event.id])) continue;
        w->turns[event.id] = w->at;
        replay(w, event.id, stage, reasons, 0);
        w->r.out->ops.at[event.id].saved.n = 0;
    }
    chain_again_return(w, &w->where, stage);
}

/* ---- one run of a function --------------------------------------------------------------- */

static bool saves_result(const mr_op *op)
{
    for (uint32_t i = 0; i < op->saved.n; i++) {
        if (op->saved.at[i].as != MR_SAVED_INPUT) return true;
        for (uint32_t j = 0; j < op->mutates.n; j++)
            if (op->mutates.at[j] == op->saved.at[i].tensor) return true;
    }
    return false;
}

/* The event of the stage's last op that saves something; MR_NONE for none. */
static uint32_t last_saver(const chain_writer *w, uint32_t stage)
{
    const mr_trace *t = w->step->trace;
    for (uint32_t e = w->first[stage + 1]; e-- > w->first[stage];)
        if (t->events.at[e].kind == MR_RUN && t->ops.at[t->events.at[e].id].saved.n) return e;
    return MR_NONE;
}

/* Before an op that saves only what it reads, that is there. */
static uint32_t stop_at(chain_writer *w, uint32_t e)
{
    const uint32_t o = w->step->trace->events.at[e].id;
    const mr_op *op = &w->step->trace->ops.at[o];
    if (saves_result(op)) return e + 1;
    for (uint32_t i = 0; i < op->saved.n; i++)
        w->asked[storage_of(w, op->saved.at[i].tensor)] = w->runs;
    w->copy[o] = MR_NONE;
    return e;
}

/* The event at which the run has saved all; inner calls save what they are given. */
static uint32_t find_stop(chain_writer *w, uint32_t end)
{
    for (uint32_t i = end; i-- > w->at;) {
        const chain_action *a = &w->plan->at[i];
        if (a->option) return MR_NONE;
        if (a->kind == CHAIN_KEEP) return w->first[a->stage];
        const uint32_t e = a->kind == CHAIN_SAVE ? last_saver(w, a->stage) : MR_NONE;
        if (e != MR_NONE) return stop_at(w, e);
    }
    return w->first[w->plan->at[w->at].stage];
}

/* What an inner call was given goes with its second run, unless one within keeps it on. */
static void drop_given(chain_writer *w, const chain_action *first)
{
    const uint32_t i = first->stage;
    if (first->kind != CHAIN_SAVE || first->option || !w->kept[i] || w->input[i] == MR_NONE) return;
    if (w->asked[w->step->input[i]] == w->runs || w->unsaved[w->step->input[i]]) return;
    mr_rewrite_drop(&w->r, &w->where, w->input[i]);
}

static void end_run(chain_writer *w, uint32_t begin, uint32_t end)
{
    const mr_trace *t = w->step->trace;
    drop_given(w, &w->plan->at[begin]);
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t stage = w->plan->at[i].stage;
        if (w->plan->at[i].option) continue;
        for (uint32_t e = w->first[stage]; e < w->first[stage + 1]; e++) {
            if (t->events.at[e].kind != MR_RUN) continue;
            const mr_op *op = &t->ops.at[t->events.at[e].id];
            if (w->turns[t->events.at[e].id] < begin) continue;
            for (uint32_t k = 0; k < op->out.n; k++) drop_again(w, op->out.at[k]);
            for (uint32_t k = 0; k < op->mutates.n; k++) drop_again(w, op->mutates.at[k]);
        }
    }
}

void chain_again_run(chain_writer *w)
{
    const uint32_t begin = w->at;
    uint32_t end = begin;
    while (end < w->plan->n && w->plan->at[end].kind != CHAIN_BACKWARD) end++;
    w->runs++;
    const uint32_t stop = find_stop(w, end);
    for (; w->at < end; w->at++) {
        const chain_action a = w->plan->at[w->at];
        const bool saves = a.kind == CHAIN_SAVE, leads = w->at + 1 < end;
        const unsigned next = leads ? CHAIN_FOR_NEXT : 0;
        if (a.kind == CHAIN_KEEP || a.option) w->kept[a.stage] = w->runs;
        if (a.option) run_part(w, a.stage, next, a.option);
        else run_events(w, a.stage, saves ? CHAIN_FOR_SAVING | next : CHAIN_FOR_NEXT, stop);
    }
    end_run(w, begin, end);
}
