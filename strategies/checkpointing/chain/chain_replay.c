/* chain_replay -- carries out a plan for a chain, action by action: the referee of plans. */
#include "chain.h"

typedef struct machine {
    const chain_problem *chain;
    bool *held;      /* x(i) has memory of its own */
    uint32_t *saved; /* option by which stage i saved, MR_NONE */
    uint32_t back;   /* stages from here on have run backward: y(back) is held */
    uint64_t live, peak, time;
    const uint32_t *call_end; /* by stage: chain_calls */
    MR_VEC(uint32_t) calls;   /* that run within others, the innermost last */
    bool *given;              /* by stage: x(i) that was let go of, but not by its call */
    uint64_t lent, called;    /* bytes of these, and the peak with them */
} machine;

static void hold(machine *m, uint64_t bytes, uint64_t tmp)
{
    m->live += bytes;
    if (m->live + tmp > m->peak) m->peak = m->live + tmp;
    if (m->live + m->lent + tmp > m->called) m->called = m->live + m->lent + tmp;
}

static bool passing(const machine *m, uint32_t i)
{
    return i < m->chain->n && m->chain->stages[i].passing;
}

/* x(i) is there, by itself or among what the stage before saved. */
static bool there(const machine *m, uint32_t i)
{
    return m->held[i] || (i && m->saved[i - 1] != MR_NONE && !passing(m, i));
}

static void let_go(machine *m, uint32_t i)
{
    if (!m->held[i]) return;
    m->held[i] = false;
    m->live -= chain_size(m->chain, i);
}

static void lend(machine *m, uint32_t i, bool yes)
{
    if (m->given[i] == yes) return;
    m->given[i] = yes;
    m->lent += yes ? chain_size(m->chain, i) : 0;
    m->lent -= yes ? 0 : chain_size(m->chain, i);
}

/* x(i) is let go of, unless a call that begins with stage i still runs. */
static void leave(mr_ctx *ctx, machine *m, uint32_t i)
{
    if (m->held[i] && m->call_end[i] > i + 1) {
        lend(m, i, true);
        MR_PUSH(ctx, &m->calls, i);
    }
    let_go(m, i);
    while (m->calls.n && m->call_end[m->calls.at[m->calls.n - 1]] == i + 1)
        lend(m, m->calls.at[--m->calls.n], false);
}

static const char *forward(mr_ctx *ctx, machine *m, const chain_action *a)
{
    const chain_stage *stage = &m->chain->stages[a->stage];
    if (!there(m, a->stage)) return "reads an input that is not there";
    if (there(m, a->stage + 1)) return "computes what is there already";
    if (a->stage >= m->back) return "runs a stage forward that has run backward";
    hold(m, stage->out, stage->tmp);
    m->held[a->stage + 1] = true;
    m->time += stage->time;
    if (a->kind == CHAIN_FORWARD) leave(ctx, m, a->stage);
    return NULL;
}

static const char *save(machine *m, const chain_action *a)
{
    const chain_stage *stage = &m->chain->stages[a->stage];
    if (!there(m, a->stage)) return "reads an input that is not there";
    if (there(m, a->stage + 1)) return "computes what is there already";
    if (a->stage >= m->back) return "runs a stage forward that has run backward";
    if (a->option >= stage->n) return "has an option that the stage lacks";
    const chain_option *option = &stage->options[a->option];
    hold(m, option->saved, option->forward_tmp);
    m->saved[a->stage] = a->option;
    m->time += option->forward_time;
    if (stage->passing && m->held[a->stage] && m->call_end[a->stage]) lend(m, a->stage, true);
    if (stage->passing) let_go(m, a->stage);
    if (!passing(m, a->stage + 1)) return NULL;
    hold(m, stage->out, 0);
    m->held[a->stage + 1] = true;
    return NULL;
}

static const char *backward(machine *m, const chain_action *a)
{
    const chain_stage *stage = &m->chain->stages[a->stage];
    if (m->back != a->stage + 1) return "runs backward before its gradient is there";
    if (m->saved[a->stage] == MR_NONE) return "runs backward without what it saved";
    if (m->saved[a->stage] != a->option) return "runs backward by another option than it saved";
    if (!stage->passing && !there(m, a->stage)) return "runs backward without its input";
    if (passing(m, m->back)) let_go(m, m->back); /* made by saving, read by nobody */
    const chain_option *option = &stage->options[a->option];
    hold(m, 0, option->backward_tmp);
    m->time += option->backward_time;
    m->live -= option->saved + chain_back(m->chain, m->back);
    m->saved[a->stage] = MR_NONE;
    let_go(m, a->stage);
    lend(m, a->stage, false);
    m->back = a->stage;
    hold(m, chain_back(m->chain, m->back), 0);
    return NULL;
}

static const char *carry_out(mr_ctx *ctx, machine *m, const chain_action *a)
{
    if (a->stage >= m->chain->n) return "names a stage that the chain lacks";
    switch (a->kind) {
    case CHAIN_FORWARD:
    case CHAIN_KEEP: return forward(ctx, m, a);
    case CHAIN_SAVE: return save(m, a);
    case CHAIN_BACKWARD: return backward(m, a);
    }
    return "is of no known kind";
}

chain_outcome chain_replay(mr_ctx *ctx, const chain_problem *chain, const chain_actions *plan)
{
    machine m = {.chain = chain,
                 .held = MR_NEW_N(ctx, bool, chain->n + 1),
                 .saved = MR_NEW_N(ctx, uint32_t, chain->n + 1),
                 .call_end = chain_calls(ctx, chain->n, plan),
                 .given = MR_NEW_N(ctx, bool, chain->n + 1),
                 .back = chain->n};
    for (uint32_t i = 0; i <= chain->n; i++) m.saved[i] = MR_NONE;
    m.held[0] = true;
    hold(&m, chain->in, 0);
    if (chain->n) hold(&m, chain_back(chain, chain->n), 0); /* y(n) */
    chain_outcome out = {.wrong_at = MR_NONE};
    for (uint32_t i = 0; i < plan->n && !out.wrong; i++) {
        out.wrong = carry_out(ctx, &m, &plan->at[i]);
        if (out.wrong) out.wrong_at = i;
    }
    if (!out.wrong && m.back) {
        out.wrong = "ends before every stage has run backward";
        out.wrong_at = plan->n;
    }
    out.peak = m.peak;
    out.called = m.called;
    out.time = m.time;
    return out;
}
