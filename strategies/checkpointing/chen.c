/* chen -- keeps the ends of segments and computes each segment again before its backward pass.
 *
 * Segments are those of algorithm 3: the chain is cut as soon as a segment holds more than so
 * many bytes.  Of all plans for 66 such values the fastest within the budget is taken
 * (chain/chain_chen.c); without a budget, every sqrt(n)-th stage is kept.
 */
#include "chain_step.h"
#include "step_budget.h"
#include "strategy.h"

typedef struct settings {
    uint64_t cut;
    const char *budget;
} settings;

enum { GREEDY, SQRT, RECURSIVE };

static const mr_param params_table[] = {
    MR_PARAM_TEXT(settings, budget, "60%",
                  "peak of the step: a size, or a part of what it was"),
    MR_PARAM_CHOICE(settings, cut, "greedy|sqrt|recursive", "greedy",
                    "where: by bytes within the budget, every sqrt(n)-th, or in halves"),
    {0},
};

static void cut_sqrt(mr_ctx *ctx, const chain_problem *chain, chain_actions *plan)
{
    chain_node *nodes = MR_NEW_N(ctx, chain_node, chain->n);
    bool *kept = MR_NEW_N(ctx, bool, (size_t)chain->n + 1);
    for (uint32_t i = 0; i < chain->n; i++) nodes[i].cut = true;
    const chain_cuts cuts = chain_chen_sqrt(ctx, nodes, chain->n);
    for (uint32_t i = 0; i < chain->n; i++) kept[i + 1] = cuts.at[i];
    chain_segments(ctx, chain, kept, plan);
}

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    chain_step step;
    uint64_t budget;
    chain_actions plan = {0};
    MR_TRY(chain_step_of(ctx, in, UINT32_MAX, &step));
    MR_TRY(step_budget(ctx, step.peak, s->budget, &budget));
    if (s->cut == SQRT) cut_sqrt(ctx, &step.problem, &plan);
    if (s->cut == RECURSIVE) chain_chen_recursive(ctx, &step.problem, 1, &plan);
    if (s->cut == GREEDY
        && !chain_chen_greedy(ctx, &step.problem, chain_step_room(&step, budget), &plan))
        return chain_step_too_small(ctx, &step, "chen", budget, &plan);
    return chain_step_rewrite(ctx, &step, &plan, out);
}

const mr_strategy mr_strategy_chen = {
    .name = "chen",
    .summary = "keeps the ends of segments that a budget chooses and computes the rest again",
    .source = "Chen et al., \"Training Deep Nets with Sublinear Memory Cost\", 2016",
    .how =
        "torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False) around the stages that "
        "memreuse explain names",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
