/* dtr_run -- a program runs under a budget.
 *
 * To compute a tensor, what its op reads is locked, or computed again first where it is
 * missing, in the order of its arguments; then storages are evicted, one at a time, until the
 * fresh outputs fit; then the op runs and what it read is unlocked.  Waiting tensors stand on a
 * stack of our own: a recurrent net makes it as deep as the step is long.
 */
#include "dtr_internal.h"

void dtr_write_down(dtr_run *run, dtr_deed_kind kind, uint32_t id)
{
    if (run->deeds)
        MR_PUSH(run->ctx, &run->report->deeds, (dtr_deed){kind, id, run->step});
}

/* simrd keeps none while it banishes; neighbourhoods are then searched anew. */
static bool has_regions(const dtr_run *run)
{
    return !run->kin && run->options->heuristic.cost >= DTR_COST_ANCESTORS;
}

static bool has_classes(const dtr_run *run)
{
    return run->options->heuristic.cost == DTR_COST_CLASS;
}

/* ---- memory ------------------------------------------------------------------------------ */

void dtr_evict(dtr_run *run, uint32_t storage, dtr_deed_kind why)
{
    const dtr_storage *s = &run->program->storages.at[storage];
    run->states[storage].present = false;
    run->used -= s->bytes;
    if (run->space) dtr_space_remove(run, storage);
    dtr_pool_remove(run, storage);
    for (uint32_t i = 0; i < run->states[storage].tensors_n; i++)
        run->defined[s->tensors.at[i]] = false;
    if (why == DTR_EVICTED) run->report->evictions++;
    dtr_write_down(run, why, storage);
    if (run->kin) dtr_banish_evict(run, storage);
    if (run->states[storage].hosted) return; /* to have it again no op has to run */
    if (has_regions(run)) dtr_regions_evict(run, storage);
    if (has_classes(run)) dtr_classes_evict(run, storage);
}

bool dtr_make_room(dtr_run *run, uint64_t bytes)
{
    const uint64_t budget = run->options->budget;
    while (bytes > budget || run->used > budget - bytes) {
        if (!run->pooled) return false;
        const uint32_t storage = dtr_choose(run);
        if (run->swap) dtr_swap_send(run, storage);
        dtr_evict(run, storage, DTR_EVICTED);
    }
    return true;
}

static bool make_room_for(dtr_run *run, const dtr_op *op)
{
    if (run->space) return dtr_space_make_room(run, op);
    return dtr_make_room(run, op->bytes + op->workspace - dtr_taken_bytes(run->program, op));
}

/* ---- ops --------------------------------------------------------------------------------- */

/* The op of `frame` brings all its outputs; those that were there are given back again. */
static void compute(dtr_run *run, const dtr_frame *frame)
{
    const dtr_op *op = &run->program->ops.at[frame->op];
    dtr_report *report = run->report;
    uint64_t doubles = op->workspace;
    report->clock += op->ns;
    *(frame->again ? &report->remat : &report->compute) += op->ns;
    report->remats += frame->again;
    run->used += op->bytes + op->workspace - dtr_taken_bytes(run->program, op);
    if (run->used > report->peak) report->peak = run->used;
    run->fresh.n = run->came.n = 0;
    for (uint32_t i = 0; i <= op->out.n; i++) { /* the wanted one comes last */
        const uint32_t t = i < op->out.n ? op->out.at[i] : frame->tensor;
        if (t == MR_NONE || (i < op->out.n && t == frame->tensor)) continue;
        const uint32_t s = run->program->tensors.at[t].storage;
        if (run->defined[t]) doubles += run->program->tensors.at[t].bytes;
        else MR_PUSH(run->ctx, &run->came, t);
        if (!run->states[s].present) MR_PUSH(run->ctx, &run->fresh, s);
        run->defined[t] = true;
        run->states[s].present = true;
    }
    run->used -= doubles;
    if (run->space) dtr_space_end(run);
    for (uint32_t i = 0; i < run->fresh.n; i++) /* it may have been pinned while away */
        if (!run->states[run->fresh.at[i]].locks) dtr_pool_add(run, run->fresh.at[i]);
    dtr_write_down(run, frame->again ? DTR_RERAN : DTR_RAN, frame->op);
    if (has_regions(run)) dtr_regions_compute(run);
    if (has_classes(run)) dtr_classes_compute(run);
}

static void push(dtr_run *run, uint32_t op, uint32_t tensor, bool again)
{
    const mr_ids in = dtr_parents(run, op, tensor);
    const dtr_tensor *tensors = run->program->tensors.at;
    dtr_frame frame = {tensor, op, run->missing.n, 0, again};
    for (uint32_t i = 0; i < in.n; i++) {
        dtr_state *s = &run->states[tensors[in.at[i]].storage];
        if (!run->kin || !s->released) s->accessed = run->report->clock;
    }
    for (uint32_t i = 0; i < in.n; i++)
        if (run->defined[in.at[i]]) dtr_lock(run, tensors[in.at[i]].storage);
        else MR_PUSH(run->ctx, &run->missing, in.at[i]);
    frame.end = run->missing.n;
    MR_PUSH(run->ctx, &run->frames, frame);
}

/* What was computed in place from what can never be computed again cannot either. */
static void note_taker(dtr_run *run, const dtr_op *op, uint32_t old)
{
    const dtr_program *p = run->program;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t new = p->tensors.at[op->out.at[i]].storage;
        if (new == old || p->storages.at[new].of != p->storages.at[old].of) continue;
        run->states[old].taker = new + 1;
        if (run->states[old].pinned) dtr_pin(run, new);
        if (run->states[old].held) dtr_hold(run, new);
    }
}

/* The memory of these has the new value now. */
static void give_up_taken(dtr_run *run, const dtr_op *op)
{
    for (uint32_t i = 0; i < op->takes.n; i++) {
        note_taker(run, op, op->takes.at[i]);
        run->states[op->takes.at[i]].released = true;
        dtr_let_go(run, op->takes.at[i]);
        if (run->space) dtr_space_take(run, op, op->takes.at[i]);
        run->used +=
            run->program->storages.at[op->takes.at[i]].bytes; /* which evict gives back */
        dtr_evict(run, op->takes.at[i], DTR_TAKEN);
    }
}

/* What banishing must not give back: another value is there now. */
static void keep_taken(dtr_run *run, const dtr_op *op)
{
    for (uint32_t i = 0; i < op->takes.n; i++) run->states[op->takes.at[i]].released = false;
}

/* Computes the tensor on top of the stack; all it reads is there. */
static dtr_result pop(dtr_run *run)
{
    const dtr_frame frame = run->frames.at[--run->frames.n];
    const dtr_op *op = &run->program->ops.at[frame.op];
    if (!make_room_for(run, op)) return DTR_OOM;
    if (run->swap) dtr_swap_wait(run, op);
    compute(run, &frame);
    if (run->swap) dtr_swap_touch(run, op);
    keep_taken(run, op);
    if (run->kin && frame.tensor != MR_NONE)
        dtr_banish_unlock(run, frame.tensor, (mr_ids){run->came.at, run->came.n});
    for (uint32_t i = 0; (!run->kin || frame.tensor == MR_NONE) && i < op->in.n; i++)
        dtr_unlock(run, run->program->tensors.at[op->in.at[i]].storage);
    give_up_taken(run, op);
    return run->report->remat + run->report->stall > run->options->limit ? DTR_THRASH
                                                                        : DTR_PASS;
}

dtr_result dtr_materialize(dtr_run *run, uint32_t op, uint32_t tensor, bool again)
{
    dtr_result result = DTR_PASS;
    if (again && dtr_swap_can_fetch(run, run->program->tensors.at[tensor].storage))
        return dtr_swap_fetch(run, run->program->tensors.at[tensor].storage);
    push(run, op, tensor, again);
    while (run->frames.n && !result) {
        dtr_frame *top = &run->frames.at[run->frames.n - 1];
        if (top->missing == top->end) {
            result = pop(run);
            if (run->frames.n) run->missing.n = run->frames.at[run->frames.n - 1].end;
            else run->missing.n = 0;
            continue;
        }
        const uint32_t wanted = run->missing.at[top->missing];
        const uint32_t storage = run->program->tensors.at[wanted].storage;
        if (run->defined[wanted]) {
            top->missing++;
            dtr_lock(run, storage);
        } else if (dtr_swap_can_fetch(run, storage)) result = dtr_swap_fetch(run, storage);
        else push(run, run->program->tensors.at[wanted].op, wanted, true);
    }
    return result;
}

/* What cannot be computed again is about to go: neither can then what was computed from it. */
static dtr_result lose(dtr_run *run, uint32_t storage, uint32_t before)
{
    if (!run->states[storage].held) return DTR_PASS;
    return dtr_protect(run, (mr_ids){&storage, 1}, before);
}

/* The op and its outputs become known to the graph, then it runs. */
static dtr_result run_op(dtr_run *run, uint32_t o)
{
    const dtr_program *p = run->program;
    const dtr_op *op = &p->ops.at[o];
    run->op = o;
    dtr_result lost = dtr_protect(run, op->spoils, o);
    for (uint32_t i = 0; !lost && i < op->takes.n; i++) lost = lose(run, op->takes.at[i], o);
    if (lost) return lost;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const dtr_tensor *t = &p->tensors.at[op->out.at[i]];
        dtr_state *s = &run->states[t->storage];
        if (t->costs) s->ns += op->ns;
        if (t->costs && !s->present && s->tensors_n) s->grown = true;
        if (!s->tensors_n && has_classes(run)) dtr_classes_create(run, t->storage);
    }
    for (uint32_t i = op->ties; i < op->ties + op->ties_n; i++) {
        if (has_regions(run)) dtr_regions_tie(run, &p->ties.at[i]);
        run->states[p->ties.at[i].parent].children_n++;
        run->states[p->ties.at[i].child].parents_n++;
    }
    for (uint32_t i = 0; i < op->out.n; i++)
        run->states[p->tensors.at[op->out.at[i]].storage].tensors_n++;
    if (run->kin) dtr_banish_create(run, o);
    const dtr_result result =
        dtr_materialize(run, o, op->out.n ? op->out.at[0] : MR_NONE, false);
    for (uint32_t i = 0; !result && i < op->out.n; i++)
        run->states[p->tensors.at[op->out.at[i]].storage].accessed = run->report->clock;
    for (uint32_t i = 0; !result && op->spoils.n && i < op->out.n; i++)
        dtr_hold(run, p->tensors.at[op->out.at[i]].storage);
    if (run->swap && !result) dtr_swap_prefetch(run);
    return result;
}

void dtr_pin(dtr_run *run, uint32_t storage)
{
    const uint32_t taker = run->states[storage].taker;
    if (run->states[storage].pinned) return;
    dtr_lock(run, storage);
    run->states[storage].pinned = true;
    if (taker) dtr_pin(run, taker - 1);
}

/* A constant goes for good, where the program may change what is in memory. */
static dtr_result release_constant(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (run->program->change == DTR_COPIES) return DTR_PASS;
    const dtr_result result = dtr_protect(run, (mr_ids){&storage, 1}, run->program->ops.n);
    if (result) return result;
    s->pinned = false;
    dtr_unlock(run, storage);
    dtr_evict(run, storage, DTR_RELEASED);
    return result;
}

static dtr_result release(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    const dtr_result lost = run->kin ? DTR_PASS : lose(run, storage, run->op + 1);
    if (lost) return lost;
    s->released = true;
    if (run->kin) {
        dtr_banish_try(run, storage);
        return DTR_PASS;
    }
    if (run->program->storages.at[storage].constant) return release_constant(run, storage);
    dtr_let_go(run, storage);
    if (run->options->dealloc == DTR_EAGER && s->present && !s->pinned)
        dtr_evict(run, storage, DTR_RELEASED);
    return DTR_PASS;
}

static dtr_result do_step(dtr_run *run, const dtr_step *step)
{
    const dtr_program *p = run->program;
    if (step->kind == DTR_RELEASE) return release(run, step->id);
    const dtr_result result = run_op(run, step->id);
    const dtr_op *op = &p->ops.at[step->id];
    for (uint32_t i = 0; !result && op->constant && i < op->out.n; i++)
        dtr_pin(run, p->tensors.at[op->out.at[i]].storage);
    return result;
}

static void add_up_times(dtr_run *run)
{
    const dtr_program *p = run->program;
    run->begins = MR_NEW_N(run->ctx, uint64_t, p->ops.n + 1);
    for (uint32_t o = 0; o < p->ops.n; o++)
        run->begins[o + 1] = run->begins[o] + p->ops.at[o].ns;
}

void dtr_run_program(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                     bool deeds, dtr_report *out)
{
    dtr_run *run = MR_NEW(ctx, dtr_run);
    *run = (dtr_run){.ctx = ctx,
                     .program = program,
                     .options = options,
                     .report = out,
                     .deeds = deeds,
                     .defined = MR_NEW_N(ctx, bool, program->tensors.n),
                     .states = MR_NEW_N(ctx, dtr_state, program->storages.n),
                     .pool_first = MR_NONE,
                     .pool_last = MR_NONE,
                     .random = options->seed};
    *out = (dtr_report){.clock = 1};
    if (options->dealloc == DTR_BANISH) dtr_banish_begin(run);
    if (options->memory != DTR_SUM) dtr_space_begin(run);
    if (options->way != DTR_RECOMPUTE) dtr_swap_begin(run);
    if (has_regions(run)) dtr_regions_begin(run);
    if (options->weights || options->heuristic.ahead || run->swap) add_up_times(run);
    for (; !out->result && run->step < program->steps.n; run->step++)
        out->result = do_step(run, &program->steps.at[run->step]);
    out->steps = run->step;
    for (uint32_t i = 0; !out->result && i < program->kept.n; i++) {
        const uint32_t t = program->kept.at[i];
        if (!run->defined[t])
            out->result = dtr_materialize(run, program->tensors.at[t].op, t, true);
        if (!out->result) dtr_pin(run, program->tensors.at[t].storage);
    }
}
