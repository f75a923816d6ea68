/* mincut -- saves what a smallest cut between forward and backward pass says, and computes the
 * rest again, as PyTorch's partitioner of joint graphs does.
 *
 * `budget` is its activation_memory_budget: 1 saves what the cut says, 0 nothing, and what lies
 * between is decided by lifting bans, by a knapsack if need be (chain/graph_budget.c).  With
 * `fused` the cut is that of a compiled step: ops that a compiler joins are no results of their
 * own. Without, as an eager step has it, every op may run again that is neither random nor
 * heavy.
 */
#include "graph_step.h"
#include "strategy.h"

typedef struct settings {
    double budget;
    bool fused;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_REAL(settings, budget, "1", 0, 1, "part of what the cut saves that may be saved"),
    MR_PARAM_BOOL(settings, fused, "False", "decide as for a compiled step"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    const graph_bans eager = {.reductions = true};
    graph_step step;
    MR_TRY(graph_step_of(ctx, in, s->fused, &step));
    const uint32_t budget = (uint32_t)(s->budget * 1000 + 0.5);
    const graph_saving saving = graph_partition_within(
        ctx, &step.graph, step.ops, s->fused ? &graph_bans_default : &eager, budget);
    return graph_step_rewrite(ctx, &step, saving.saved, out);
}

const mr_strategy mr_strategy_mincut = {
    .name = "mincut",
    .summary =
        "saves a smallest cut between forward and backward pass, computes the rest again",
    .source = "torch/_functorch/partitioners.py of PyTorch 2.x",
    .how = "torch.compile(model), whose partitioner does so",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
