/* chain_step -- finds the stages of a recorded step: see chain_step.h. */
#include "chain_step_internal.h"
#include "chain_time.h"
#include "rewrite.h"

#include <string.h>

enum {
    SMALL = 1000, /* a constant is at most this part of all that is saved ... */
    FAR = 8,      /* ... and is read over more than this part of the forward pass */
};

typedef struct finder {
    mr_ctx *ctx;
    const mr_trace *trace;
    const chain_lives *lives;
    chain_step *step;
    uint64_t small;
} finder;

/* Made by the forward pass. */
static bool is_forward(const finder *f, uint32_t s)
{
    const uint32_t birth = f->lives->at[s].birth;
    return birth != MR_NONE && birth < f->lives->turn;
}

static uint64_t bytes_of(const finder *f, uint32_t s)
{
    return f->trace->storages.at[s].bytes;
}

/* ---- constants
 * --------------------------------------------------------------------------------- */

static bool is_constant(const finder *f, uint32_t s)
{
    const chain_life *life = &f->lives->at[s];
    if (!is_forward(f, s)) return false;
    if (life->birth < f->lives->begin)
        return true; /* made before the pass: nobody makes it again */
    if (life->first_read < life->changed) return false;
    if (life->drop >= f->lives->turn || life->death >= f->lives->end) return true;
    const uint32_t pass = f->lives->turn - f->lives->begin;
    return life->read != MR_NONE && life->read - life->birth > pass / FAR
           && bytes_of(f, s) <= f->small;
}

static void find_constants(finder *f)
{
    uint64_t saved = 0;
    for (uint32_t s = 0; s < f->trace->storages.n; s++)
        if (is_forward(f, s) && f->lives->at[s].death >= f->lives->turn)
            saved += bytes_of(f, s);
    f->small = saved / SMALL;
    f->step->constant = MR_NEW_N(f->ctx, bool, f->trace->storages.n);
    for (uint32_t s = 0; s < f->trace->storages.n; s++)
        f->step->constant[s] = is_constant(f, s);
}

/* ---- where stages end
 * ---------------------------------------------------------------------------- */

typedef struct crossing { /* storages that lead from one side of an event to the other */
    uint32_t n;
    uint64_t sum; /* of their numbers: that of the only one, when it is one */
} crossing;

static crossing *find_crossings(const finder *f)
{
    const uint32_t begin = f->lives->begin, n = f->lives->turn - begin;
    crossing *at = MR_NEW_N(f->ctx, crossing, (size_t)n + 1);
    for (uint32_t s = 0; s < f->trace->storages.n; s++) {
        const chain_life *life = &f->lives->at[s];
        if (!is_forward(f, s) || f->step->constant[s] || life->read == MR_NONE) continue;
        at[life->birth - begin].n++;
        at[life->birth - begin].sum += s;
        at[life->read - begin].n--;
        at[life->read - begin].sum -= s;
        /* Where it is still to be changed nothing can begin anew from it. */
        if (life->settled == life->birth) continue;
        at[life->birth - begin].n++;
        at[life->settled - begin].n--;
    }
    for (uint32_t i = 1; i < n; i++) {
        at[i].n += at[i - 1].n;
        at[i].sum += at[i - 1].sum;
    }
    return at;
}

typedef MR_VEC(uint32_t) events;

/* Events behind which a stage ends, and the storages that lead on from there. */
static void find_cuts(const finder *f, events *cuts, events *leads)
{
    const crossing *at = find_crossings(f);
    for (uint32_t e = f->lives->begin; e < f->lives->turn; e++) {
        const crossing *here = &at[e - f->lives->begin];
        if (f->trace->events.at[e].kind != MR_RUN || here->n != 1) continue;
        const uint32_t lead = (uint32_t)here->sum;
        if (leads->n && leads->at[leads->n - 1] == lead) continue;
        MR_PUSH(f->ctx, cuts, e);
        MR_PUSH(f->ctx, leads, lead);
    }
}

/* Bytes that each stage saves decide which of too many cuts are left out. */
static void join_stages(const finder *f, uint32_t most, events *cuts, events *leads)
{
    if (cuts->n < most) return;
    uint64_t *until = MR_NEW_N(f->ctx, uint64_t, (size_t)f->lives->turn + 1);
    for (uint32_t s = 0; s < f->trace->storages.n; s++)
        if (is_forward(f, s) && !f->step->constant[s]
            && f->lives->at[s].death >= f->lives->turn)
            until[f->lives->at[s].birth] += bytes_of(f, s);
    for (uint32_t e = 1; e <= f->lives->turn; e++) until[e] += until[e - 1];
    const uint64_t each = until[f->lives->turn] / most + 1;
    uint32_t n = 0;
    for (uint32_t c = 0; c < cuts->n && n + 1 < most; c++) {
        if (until[cuts->at[c]] < each * (n + 1)) continue;
        cuts->at[n] = cuts->at[c];
        leads->at[n++] = leads->at[c];
    }
    cuts->n = leads->n = n;
}

/* ---- who belongs to which stage
 * --------------------------------------------------------------------- */

static void number_forward(finder *f, const events *cuts)
{
    chain_step *step = f->step;
    uint32_t stage = 0;
    for (uint32_t e = f->lives->begin; e < f->lives->turn; e++) {
        if (f->trace->events.at[e].kind == MR_RUN)
            step->stage[f->trace->events.at[e].id] = stage;
        if (stage < cuts->n && cuts->at[stage] == e) stage++;
    }
    for (uint32_t s = 0; s < f->trace->storages.n; s++) {
        const uint32_t birth = f->lives->at[s].birth;
        if (birth != MR_NONE) step->maker[s] = f->trace->events.at[birth].id;
        if (is_forward(f, s) && birth >= f->lives->begin)
            step->born[s] = step->stage[f->trace->events.at[birth].id];
    }
}

/* The last stage at which the op can run backward, by what it reads: an x(i) is there for stage
 * i too, all else only while the stage that made it runs backward. */
static uint32_t latest(const finder *f, const mr_op *op, uint32_t stage)
{
    const chain_step *step = f->step;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = f->trace->tensors.at[op->in.at[i]].storage;
        if (step->born[s] == MR_NONE || step->constant[s]) continue;
        const uint32_t made = step->born[s];
        const bool leads = made + 1 < step->problem.n && step->input[made + 1] == s;
        if (made + leads < stage) stage = made + leads;
    }
    return stage;
}

static void number_backward(finder *f)
{
    uint32_t stage = f->step->problem.n - 1;
    for (uint32_t e = f->lives->turn; e < f->lives->end; e++) {
        if (f->trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &f->trace->ops.at[f->trace->events.at[e].id];
        if (op->of != MR_NONE && f->step->stage[op->of] < stage) stage = f->step->stage[op->of];
        stage = latest(f, op, stage);
        f->step->stage[f->trace->events.at[e].id] = stage;
    }
}

static uint32_t *none(mr_ctx *ctx, size_t n)
{
    uint32_t *at = MR_NEW_N(ctx, uint32_t, n);
    if (n) memset(at, 0xff, n * sizeof *at);
    return at;
}

mr_status chain_step_of(mr_ctx *ctx, const mr_trace *trace, uint32_t most, chain_step *step)
{
    chain_lives lives;
    MR_TRY(mr_rewrite_before_host(ctx, trace, "checkpointing"));
    MR_TRY(mr_rewrite_before_evictions(ctx, trace, "checkpointing"));
    MR_TRY(chain_lives_of(ctx, trace, &lives));
    *step = (chain_step){.trace = trace,
                         .measured = chain_measured(trace),
                         .begin = lives.begin,
                         .turn = lives.turn,
                         .end = lives.end,
                         .stage = none(ctx, trace->ops.n),
                         .born = none(ctx, trace->storages.n),
                         .maker = none(ctx, trace->storages.n),
                         .without = MR_NEW_N(ctx, uint32_t, trace->storages.n)};
    finder f = {ctx, trace, &lives, step, 0};
    find_constants(&f);
    events cuts = {0}, leads = {0};
    find_cuts(&f, &cuts, &leads);
    join_stages(&f, most, &cuts, &leads);
    step->problem.n = cuts.n + 1;
    step->input = none(ctx, step->problem.n);
    for (uint32_t c = 0; c < cuts.n; c++) step->input[c + 1] = leads.at[c];
    number_forward(&f, &cuts);
    number_backward(&f);
    chain_step_measure(ctx, &lives, step);
    return MR_OK;
}
