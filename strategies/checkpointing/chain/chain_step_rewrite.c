/* chain_step_rewrite -- a recorded step written anew as a plan for its chain has it.
 *
 * The first action of each stage says how it runs in the forward pass: only CHAIN_SAVE leaves
 * to ops what they save.  All other actions are carried out in the backward pass, up to the one
 * that the next recorded op belongs to.  A stage that runs again runs what somebody reads:
 *
 *     forward    k0 f1 s2            saves of stages 0 and 1 are taken away, x(0) is held
 *     backward   B2 | k0 s1 B1 | s0 B0
 */
#include "chain_step.h"
#include "rewrite.h"

#include <string.h>

/* What a stage that runs again is run for. */
enum { FOR_NEXT = 1, FOR_BACKWARD = 2, REASONS = 4 };

typedef struct writer {
    const chain_step *step;
    const chain_actions *plan;
    mr_rewrite r;
    mr_where where;
    uint32_t at;          /* next action of the plan */
    uint32_t stage;       /* that runs backward now; the number of stages before the first */
    const uint32_t **ops; /* by stage: its ops in order */
    uint32_t *ops_n;
    mr_ids *again;    /* by stage and reason: ops that run; at is NULL when not yet known */
    uint32_t *turns;  /* by op: `at` when it ran again last */
    bool *read_later; /* by tensor: read by an op of the backward pass or behind it */
    uint32_t *reader; /* by storage: least stage whose backward pass reads it; MR_NONE */
    bool *held;       /* by storage: dropped later than the program did */
    mr_ids *drops;    /* by stage: tensors to be dropped when it has run backward */
} writer;

static uint32_t storage_of(const writer *w, uint32_t tensor)
{
    return w->step->trace->tensors.at[tensor].storage;
}

/* ---- what is needed of a stage
 * --------------------------------------------------------------- */

static void find_ops(mr_ctx *ctx, writer *w)
{
    const mr_trace *t = w->step->trace;
    const uint32_t n = w->step->problem.n;
    uint32_t *all = MR_NEW_N(ctx, uint32_t, t->ops.n), ops = 0;
    w->ops = mr_alloc_n(ctx, n, sizeof *w->ops);
    w->ops_n = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t e = w->step->begin; e < w->step->turn; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id, stage = w->step->stage[o];
        if (!w->ops_n[stage]++) w->ops[stage] = all + ops;
        all[ops++] = o;
    }
}

static void find_readers(mr_ctx *ctx, writer *w)
{
    const mr_trace *t = w->step->trace;
    w->read_later = MR_NEW_N(ctx, bool, t->tensors.n);
    w->reader = MR_NEW_N(ctx, uint32_t, t->storages.n);
    memset(w->reader, 0xff, t->storages.n * sizeof *w->reader);
    for (uint32_t e = w->step->turn; e < w->step->end; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id;
        const mr_op *op = &t->ops.at[o];
        for (uint32_t i = 0; i < op->in.n; i++) {
            w->read_later[op->in.at[i]] = true;
            w->reader[storage_of(w, op->in.at[i])] = w->step->stage[o]; /* they descend */
        }
    }
}

typedef struct need {
    bool *tensor, *storage;
} need;

static bool in_stage(const writer *w, uint32_t s, uint32_t stage)
{
    return w->step->born[s] == stage && !w->step->constant[s];
}

static bool is_needed(const writer *w, const need *n, uint32_t o)
{
    const mr_op *op = &w->step->trace->ops.at[o];
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t t = op->out.at[i], s = storage_of(w, t);
        if (n->tensor[t] || (n->storage[s] && w->r.birth[s] == o)) return true;
    }
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (n->storage[storage_of(w, op->mutates.at[i])]) return true;
    return false;
}

static void need_inputs(const writer *w, need *n, mr_ids ids, uint32_t stage)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        if (!in_stage(w, storage_of(w, ids.at[i]), stage)) continue;
        n->tensor[ids.at[i]] = true;
        n->storage[storage_of(w, ids.at[i])] = true;
    }
}

static void need_results(const writer *w, need *n, uint32_t stage, unsigned reasons)
{
    const chain_step *step = w->step;
    if (reasons & FOR_NEXT) n->storage[step->input[stage + 1]] = true;
    if (!(reasons & FOR_BACKWARD)) return;
    for (uint32_t k = 0; k < w->ops_n[stage]; k++) {
        const mr_ids out = step->trace->ops.at[w->ops[stage][k]].out;
        for (uint32_t i = 0; i < out.n; i++) {
            const uint32_t s = storage_of(w, out.at[i]);
            if (!in_stage(w, s, stage) || w->reader[s] > stage) continue;
            n->storage[s] = true;
            if (w->read_later[out.at[i]]) n->tensor[out.at[i]] = true;
        }
    }
}

static mr_ids find_needed(writer *w, uint32_t stage, unsigned reasons)
{
    mr_ctx *ctx = w->r.ctx;
    need n = {MR_NEW_N(ctx, bool, w->step->trace->tensors.n),
              MR_NEW_N(ctx, bool, w->step->trace->storages.n)};
    need_results(w, &n, stage, reasons);
    mr_ids out = {MR_NEW_N(ctx, uint32_t, (size_t)w->ops_n[stage] + 1), 0};
    for (uint32_t k = w->ops_n[stage]; k-- > 0;) {
        const uint32_t o = w->ops[stage][k];
        if (!is_needed(w, &n, o)) continue;
        out.at[out.n++] = o;
        need_inputs(w, &n, w->step->trace->ops.at[o].in, stage);
        need_inputs(w, &n, w->step->trace->ops.at[o].mutates, stage);
    }
    return out; /* last first */
}

/* ---- running again
 * ------------------------------------------------------------------------------ */

/* What the op saved, as far as it is there again. */
static void save_again(writer *w, uint32_t o, uint32_t stage)
{
    const mr_op *op = &w->step->trace->ops.at[o];
    mr_op *now = &w->r.out->ops.at[o];
    now->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    now->saved.n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++) {
        const uint32_t s = storage_of(w, op->saved.at[i].tensor);
        if (in_stage(w, s, stage) && w->turns[w->r.birth[s]] != w->at) continue;
        now->saved.at[now->saved.n++] = op->saved.at[i];
    }
}

static void run_again(writer *w, uint32_t stage, unsigned reasons)
{
    mr_ids *again = &w->again[(size_t)stage * REASONS + reasons];
    if (!again->at) *again = find_needed(w, stage, reasons);
    for (uint32_t i = 0; i < again->n; i++) w->turns[again->at[i]] = w->at;
    for (uint32_t i = again->n; i-- > 0;) {
        const uint32_t o = again->at[i];
        if (reasons & FOR_BACKWARD) save_again(w, o, stage);
        mr_rewrite_replay(&w->r, &w->where, o);
        w->r.out->ops.at[o].saved.n = 0;
    }
}

static void drop_held(writer *w, uint32_t stage)
{
    const mr_ids drops = w->drops[stage];
    for (uint32_t i = 0; i < drops.n; i++) mr_rewrite_drop(&w->r, NULL, drops.at[i]);
}

/* Carries the plan out up to and with the backward pass of a stage. */
static void advance_to(writer *w, uint32_t stage)
{
    while (w->stage > stage && w->at < w->plan->n) {
        const chain_action a = w->plan->at[w->at++];
        const bool leads = w->at < w->plan->n && w->plan->at[w->at].stage == a.stage + 1;
        if (a.kind == CHAIN_BACKWARD) {
            if (w->stage < w->step->problem.n) drop_held(w, w->stage);
            w->stage = a.stage;
        } else if (a.kind == CHAIN_SAVE) {
            run_again(w, a.stage, FOR_BACKWARD | (leads ? FOR_NEXT : 0));
            if (w->step->problem.stages[a.stage].passing) drop_held(w, a.stage);
        } else {
            run_again(w, a.stage, FOR_NEXT);
        }
    }
}

/* ---- the passes
 * -------------------------------------------------------------------------------- */

/* x(i) of a stage that runs again, and constants, are held until nobody runs from them again.
 */
static void hold(mr_ctx *ctx, writer *w)
{
    const chain_step *step = w->step;
    const uint32_t n = step->problem.n;
    uint32_t *until = MR_NEW_N(ctx, uint32_t, step->trace->storages.n);
    w->held = MR_NEW_N(ctx, bool, step->trace->storages.n);
    w->drops = MR_NEW_N(ctx, mr_ids, n);
    memcpy(w->held, step->constant, step->trace->storages.n);
    for (uint32_t i = 1; i < n; i++) {
        if (w->plan->at[i].kind != CHAIN_KEEP) continue;
        w->held[step->input[i]] = true;
        until[step->input[i]] = i;
    }
    MR_VEC(uint32_t) *at = mr_alloc_n(ctx, n, sizeof *at);
    for (uint32_t e = step->begin; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind != MR_DROP || !w->held[storage_of(w, event.id)]) continue;
        MR_PUSH(ctx, &at[until[storage_of(w, event.id)]], event.id);
    }
    for (uint32_t i = 0; i < n; i++) w->drops[i] = (mr_ids){at[i].at, at[i].n};
}

static void write_forward(writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = 0; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_DROP && e >= step->begin && w->held[storage_of(w, event.id)])
            continue;
        mr_rewrite_keep(&w->r, NULL, e);
        if (event.kind != MR_RUN || step->stage[event.id] == MR_NONE) continue;
        if (w->plan->at[step->stage[event.id]].kind != CHAIN_SAVE)
            w->r.out->ops.at[event.id].saved.n = 0;
    }
}

static void write_backward(writer *w)
{
    const chain_step *step = w->step;
    for (uint32_t e = step->turn; e < step->end; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_RUN) advance_to(w, step->stage[event.id]);
        mr_rewrite_keep(&w->r, event.kind == MR_RUN ? &w->where : NULL, e);
    }
    for (uint32_t i = 0; i <= w->stage && i < step->problem.n; i++) drop_held(w, i);
    for (uint32_t e = step->end; e < step->trace->events.n; e++)
        mr_rewrite_keep(&w->r, NULL, e);
}

mr_status chain_step_rewrite(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                             mr_trace *out)
{
    writer w = {.step = step, .plan = plan, .at = step->problem.n, .stage = step->problem.n};
    MR_TRY(mr_rewrite_begin(ctx, step->trace, out, &w.r));
    mr_where_init(&w.r, &w.where);
    w.again = MR_NEW_N(ctx, mr_ids, (size_t)step->problem.n * REASONS);
    w.turns = MR_NEW_N(ctx, uint32_t, step->trace->ops.n);
    find_ops(ctx, &w);
    find_readers(ctx, &w);
    hold(ctx, &w);
    write_forward(&w);
    write_backward(&w);
    return MR_OK;
}
