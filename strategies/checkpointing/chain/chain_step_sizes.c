/* chain_step_sizes -- sizes and times of the stages of a recorded step: see chain_step.h. */
#include "chain_step_internal.h"
#include "chain_time.h"

#include "param.h"

#include <string.h>

typedef struct meter {
    const mr_trace *trace;
    const chain_lives *lives;
    chain_step *step;
    chain_stage *stages;
    chain_option *options;
    uint64_t *back;
    bool *there; /* by storage: was counted when it was made, not yet when it ended */
    uint64_t own, own_bare; /* bytes that this stage made, with and without what it saves */
    uint64_t lag;           /* of earlier stages, not yet dropped by the program */
    uint64_t made;          /* by the backward pass */
    uint64_t saved;         /* by this stage, not yet let go of */
    uint32_t stage;
} meter;

static uint64_t bytes_of(const meter *m, uint32_t s)
{
    return m->trace->storages.at[s].bytes;
}

static bool in_stage(const meter *m, uint32_t s)
{
    return m->step->born[s] != MR_NONE && !m->step->constant[s];
}

static void raise(uint64_t *most, uint64_t value)
{
    if (value > *most) *most = value;
}

static uint64_t over(uint64_t value, uint64_t base)
{
    return value > base ? value - base : 0;
}

/* ---- forward
 * --------------------------------------------------------------------------------- */

/* x and xbar need no walk. */
static void size_stages(meter *m)
{
    chain_step *step = m->step;
    for (uint32_t i = 0; i < step->problem.n; i++) {
        m->stages[i].options = &m->options[i];
        m->stages[i].n = 1;
        if (i + 1 < step->problem.n) m->stages[i].out = bytes_of(m, step->input[i + 1]);
    }
    for (uint32_t s = 0; s < m->trace->storages.n; s++) {
        if (!in_stage(m, s)) continue;
        const uint32_t i = step->born[s];
        const bool leads = i + 1 < step->problem.n && step->input[i + 1] == s;
        if (m->lives->at[s].death >= m->lives->turn) m->options[i].saved += bytes_of(m, s);
        else if (leads) m->stages[i + 1].passing = true;
    }
}

/* What this stage leaves to the program becomes a rest of an earlier stage; x(i) does when the
 * stage that reads it has ended. */
static void next_stage(meter *m, uint32_t stage)
{
    const uint32_t before = m->step->input[m->stage], lead = m->step->input[stage];
    if (before != MR_NONE && m->there[before]) m->lag += bytes_of(m, before);
    m->lag += m->own_bare - (m->there[lead] ? bytes_of(m, lead) : 0);
    m->own = m->own_bare = 0;
    m->stage = stage;
}

static void make_forward(meter *m, const mr_op *op, uint32_t event)
{
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = m->trace->tensors.at[op->out.at[i]].storage;
        if (m->lives->at[s].birth != event || m->there[s] || !in_stage(m, s)) continue;
        m->there[s] = true;
        m->own += bytes_of(m, s);
        m->own_bare += bytes_of(m, s);
    }
}

static void end_forward(meter *m, uint32_t s, bool bare)
{
    if (!in_stage(m, s)) return;
    const uint64_t bytes = bytes_of(m, s);
    if (!bare) {
        if (m->step->born[s] == m->stage) m->own -= bytes;
        return;
    }
    m->there[s] = false;
    if (m->step->born[s] == m->stage) m->own_bare -= bytes;
    else if (m->step->input[m->stage] != s) m->lag -= bytes;
}

static void walk_forward(mr_ctx *ctx, meter *m)
{
    const chain_ends bare = chain_ends_of(ctx, m->trace, m->lives, true);
    const chain_ends full = chain_ends_of(ctx, m->trace, m->lives, false);
    for (uint32_t e = m->lives->begin; e < m->lives->turn; e++) {
        if (m->trace->events.at[e].kind == MR_RUN) {
            const uint32_t o = m->trace->events.at[e].id;
            const mr_op *op = &m->trace->ops.at[o];
            if (m->step->stage[o] != m->stage) next_stage(m, m->step->stage[o]);
            chain_stage *stage = &m->stages[m->stage];
            chain_option *option = &m->options[m->stage];
            make_forward(m, op, e);
            raise(&stage->tmp, over(m->own_bare + m->lag + op->workspace, stage->out));
            raise(&option->forward_tmp, over(m->own + m->lag + op->workspace, option->saved));
            stage->time += chain_time(op, m->step->measured);
        }
        for (uint32_t s = bare.first[e]; s != MR_NONE; s = bare.next[s])
            end_forward(m, s, true);
        for (uint32_t s = full.first[e]; s != MR_NONE; s = full.next[s])
            end_forward(m, s, false);
    }
    for (uint32_t i = 0; i < m->step->problem.n; i++)
        m->options[i].forward_time = m->stages[i].time;
}

/* ---- backward
 * ---------------------------------------------------------------------------------- */

static void enter_backward(meter *m, uint32_t stage)
{
    for (; m->stage > stage; m->stage--) m->back[m->stage] = m->made;
    m->saved = m->options[stage].saved;
}

static void make_backward(meter *m, const mr_op *op, uint32_t event)
{
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = m->trace->tensors.at[op->out.at[i]].storage;
        if (m->lives->at[s].birth != event || m->there[s]) continue;
        m->there[s] = true;
        m->made += bytes_of(m, s);
    }
}

static void end_backward(meter *m, uint32_t s)
{
    if (m->there[s]) m->made -= bytes_of(m, s);
    else if (in_stage(m, s) && m->step->born[s] == m->stage) m->saved -= bytes_of(m, s);
}

static void walk_backward(mr_ctx *ctx, meter *m)
{
    const chain_ends full = chain_ends_of(ctx, m->trace, m->lives, false);
    memset(m->there, 0, m->trace->storages.n);
    m->stage = m->step->problem.n - 1;
    m->saved = m->options[m->stage].saved;
    for (uint32_t e = m->lives->turn; e < m->lives->end; e++) {
        if (m->trace->events.at[e].kind == MR_RUN) {
            const uint32_t o = m->trace->events.at[e].id;
            const mr_op *op = &m->trace->ops.at[o];
            if (m->step->stage[o] < m->stage) enter_backward(m, m->step->stage[o]);
            chain_option *option = &m->options[m->stage];
            make_backward(m, op, e);
            raise(&option->backward_tmp, over(m->made + m->saved + op->workspace,
                                              option->saved + m->back[m->stage + 1]));
            option->backward_time += chain_time(op, m->step->measured);
        }
        for (uint32_t s = full.first[e]; s != MR_NONE; s = full.next[s]) end_backward(m, s);
    }
    enter_backward(m, 0);
    m->back[0] = m->made;
}

/* ---- beside the chain
 * ---------------------------------------------------------------------------- */

/* What the last stage makes and the program keeps is there from that stage on, not before. */
static void place_constants(meter *m)
{
    chain_step *step = m->step;
    const uint32_t last = step->problem.n - 1;
    for (uint32_t s = 0; s < m->trace->storages.n; s++) {
        const uint32_t death = m->lives->at[s].death;
        if (m->trace->storages.at[s].before && (death == MR_NONE || death >= step->begin))
            step->around += bytes_of(m, s);
        if (!step->constant[s]) continue;
        if (!last || step->born[s] != last) {
            step->around += bytes_of(m, s);
            continue;
        }
        m->options[last].saved += bytes_of(m, s);
        for (uint32_t i = 0; i <= last; i++) m->back[i] += bytes_of(m, s);
    }
}

static void walk_all(mr_ctx *ctx, meter *m)
{
    const chain_ends full = chain_ends_of(ctx, m->trace, m->lives, false);
    chain_step *step = m->step;
    uint64_t live = 0;
    for (uint32_t s = 0; s < m->trace->storages.n; s++)
        if (m->trace->storages.at[s].before) live += bytes_of(m, s);
    step->peak = step->outside = live; /* gradients of the step before may be dropped at once */
    memset(m->there, 0, m->trace->storages.n);
    for (uint32_t e = 0; e < m->trace->events.n; e++) {
        if (m->trace->events.at[e].kind == MR_RUN) {
            const mr_op *op = &m->trace->ops.at[m->trace->events.at[e].id];
            for (uint32_t i = 0; i < op->out.n; i++) {
                const uint32_t s = m->trace->tensors.at[op->out.at[i]].storage;
                if (m->lives->at[s].birth != e || m->there[s]) continue;
                m->there[s] = true;
                live += bytes_of(m, s);
            }
            const uint64_t now = live + op->workspace;
            raise(&step->peak, now);
            if (e < step->begin || e >= step->end) raise(&step->outside, now);
        }
        for (uint32_t s = full.first[e]; s != MR_NONE; s = full.next[s]) live -= bytes_of(m, s);
    }
}

void chain_step_measure(mr_ctx *ctx, const chain_lives *lives, chain_step *step)
{
    meter m = {.trace = step->trace,
               .lives = lives,
               .step = step,
               .stages = MR_NEW_N(ctx, chain_stage, step->problem.n),
               .options = MR_NEW_N(ctx, chain_option, step->problem.n),
               .back = MR_NEW_N(ctx, uint64_t, (size_t)step->problem.n + 1),
               .there = MR_NEW_N(ctx, bool, step->trace->storages.n)};
    step->problem.stages = m.stages;
    step->problem.back = m.back;
    size_stages(&m);
    walk_forward(ctx, &m);
    walk_backward(ctx, &m);
    place_constants(&m);
    walk_all(ctx, &m);
}

/* ---- budgets ------------------------------------------------------------------------------ */

uint64_t chain_step_room(const chain_step *step, uint64_t peak)
{
    if (peak < step->outside || peak < step->around) return 0;
    return peak - step->around;
}

uint64_t chain_step_peak(const chain_step *step, uint64_t chain)
{
    return chain + step->around > step->outside ? chain + step->around : step->outside;
}

mr_status chain_step_too_small(mr_ctx *ctx, const chain_step *step, const char *who,
                               uint64_t budget, const chain_actions *plan)
{
    const uint64_t least = chain_step_peak(step, chain_replay(ctx, &step->problem, plan).called);
    if (least >= step->peak)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "%s finds no plan within %s; what it can compute again does not bring '%s'"
                       " below its %s, of which %s are held whatever is computed again",
                       who, mr_say_size(ctx, budget), step->trace->name,
                       mr_say_size(ctx, step->peak), mr_say_size(ctx, step->around));
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "%s finds no plan within %s; '%s' can be brought down from %s to about %s, of"
        " which %s are held whatever is computed again",
        who, mr_say_size(ctx, budget), step->trace->name, mr_say_size(ctx, step->peak),
        mr_say_size(ctx, least), mr_say_size(ctx, step->around));
}
