/* knapsack -- saves, op by op, the results that are dearest to compute again for their bytes.
 *
 * What running an op again costs is its value, what its result takes its weight, as in the
 * memory budget of PyTorch's ahead-of-time autograd.  The ends of stages (chain/chain_step.h)
 * are always saved, so that what is computed again is computed from near by and is gone soon.
 * Values only add up where no result is computed from another that is gone too, and what is
 * computed again takes memory while it is used; so the limit is lowered, by halves, until the
 * step fits.
 */
#include "chain_step.h"
#include "graph_step.h"
#include "knapsack.h"
#include "step_budget.h"
#include "strategy.h"

typedef struct settings {
    const char *budget;
    uint64_t solver;
} settings;

enum { TABLE, HALVES, GREEDY };
enum { TRIES = 10 };

static const mr_param params_table[] = {
    MR_PARAM_TEXT(settings, budget, "60%",
                  "peak of the step: a size, or a part of what it was"),
    MR_PARAM_CHOICE(settings, solver, "table|halves|greedy", "table",
                    "how to choose: exactly, exactly in less memory, by value per byte"),
    {0},
};

typedef struct search {
    mr_ctx *ctx;
    const graph_step *step;
    const settings *settings;
    knapsack_item *items;
    uint32_t *node; /* by item */
    uint32_t n;
    uint64_t whole; /* weight of all items */
    bool *always;   /* by node */
} search;

static mr_status keep_ends(search *s)
{
    chain_step chain;
    const mr_trace *trace = s->step->trace;
    MR_TRY(chain_step_of(s->ctx, trace, UINT32_MAX, &chain));
    bool *ends = MR_NEW_N(s->ctx, bool, trace->storages.n);
    for (uint32_t i = 1; i < chain.problem.n; i++) ends[chain.input[i]] = true;
    s->always = MR_NEW_N(s->ctx, bool, s->step->graph.n);
    for (uint32_t i = 0; i < s->step->graph.n; i++)
        s->always[i] = s->step->storage[i] != MR_NONE && ends[s->step->storage[i]];
    return MR_OK;
}

static bool is_there(const search *s, uint32_t i)
{
    const graph_op *op = &s->step->ops[i];
    return s->always[i] || op->free || op->must_save;
}

/* Is it what the backward pass reads, and can it be had again? */
static bool is_item(const search *s, uint32_t i)
{
    const graph *g = &s->step->graph;
    if (s->step->ops[i].backward || is_there(s, i)) return false;
    for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
        if (s->step->ops[g->out[e]].backward) return true;
    return false;
}

/* Time to have node i again from other items and what is there: ops between them run again too.
 */
static uint64_t time_again(const search *s, uint32_t i, uint32_t *stack, uint32_t *seen)
{
    const graph *g = &s->step->graph;
    uint64_t time = 0;
    uint32_t n = 0;
    stack[n++] = i;
    while (n) {
        const uint32_t at = stack[--n];
        time += s->step->ops[at].time;
        for (uint32_t e = g->in_first[at]; e < g->in_first[at + 1]; e++) {
            const uint32_t from = g->in[e];
            if (seen[from] == i + 1 || is_there(s, from) || is_item(s, from)) continue;
            seen[from] = i + 1;
            stack[n++] = from;
        }
    }
    return time;
}

static void find_items(search *s)
{
    const uint32_t n = s->step->graph.n;
    uint32_t *stack = MR_NEW_N(s->ctx, uint32_t, n), *seen = MR_NEW_N(s->ctx, uint32_t, n);
    s->items = MR_NEW_N(s->ctx, knapsack_item, n);
    s->node = MR_NEW_N(s->ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!is_item(s, i)) continue;
        s->node[s->n] = i;
        s->items[s->n++] =
            (knapsack_item){time_again(s, i, stack, seen) + 1, s->step->ops[i].bytes};
        s->whole += s->step->ops[i].bytes;
    }
}

static mr_status keep_within(const search *s, uint64_t limit, mr_trace *out, uint64_t *peak)
{
    const knapsack_problem sack = {s->items,        s->n,       limit, s->whole ? s->whole : 1,
                                   KNAPSACK_QUANTA, KNAPSACK_UP};
    const knapsack_choice choice = s->settings->solver == TABLE ? knapsack_table(s->ctx, &sack)
                                   : s->settings->solver == HALVES
                                       ? knapsack_halves(s->ctx, &sack)
                                       : knapsack_greedy(s->ctx, &sack);
    bool *kept = MR_NEW_N(s->ctx, bool, s->step->graph.n);
    for (uint32_t i = 0; i < s->step->graph.n; i++) kept[i] = s->always[i];
    for (uint32_t i = 0; i < s->n; i++) kept[s->node[i]] = choice.taken[i];
    MR_TRY(graph_step_rewrite(s->ctx, s->step, kept, out));
    return step_peak(s->ctx, out, peak);
}

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    graph_step step;
    uint64_t budget, was, peak;
    MR_TRY(step_peak(ctx, in, &was));
    MR_TRY(step_budget(ctx, was, ((const settings *)params)->budget, &budget));
    MR_TRY(graph_step_of(ctx, in, false, &step));
    search s = {.ctx = ctx, .step = &step, .settings = params};
    MR_TRY(keep_ends(&s));
    find_items(&s);
    uint64_t low = 0, high = s.whole;
    MR_TRY(keep_within(&s, high, out, &peak));
    if (peak <= budget) return MR_OK;
    MR_TRY(keep_within(&s, low, out, &peak));
    for (uint32_t i = 0; i < TRIES; i++) {
        mr_trace tried;
        uint64_t tried_peak;
        const uint64_t middle = low + (high - low) / 2;
        MR_TRY(keep_within(&s, middle, &tried, &tried_peak));
        if (tried_peak > budget) {
            high = middle;
            if (tried_peak >= peak || peak <= budget) continue;
        } else {
            low = middle;
        }
        *out = tried;
        peak = tried_peak;
    }
    if (peak <= budget) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "knapsack finds no results to save within %s; '%s' takes %s at least, and %s"
                   " as it is",
                   mr_say_size(ctx, budget), in->name, mr_say_size(ctx, peak),
                   mr_say_size(ctx, was));
}

const mr_strategy mr_strategy_knapsack = {
    .name = "knapsack",
    .summary = "saves the results that are dearest to compute again within a budget, op by op",
    .source = "torch/_functorch/_activation_checkpointing of PyTorch 2.x",
    .how =
        "torch._functorch.config.activation_memory_budget = 0.5 or another part of 1, with "
        "torch.compile(model)",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
