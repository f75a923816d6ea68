/* revolve -- as few stages computed again as possible with room for a number of kept inputs.
 *
 * Stages count as equal, so the plan follows from their number alone (chain/chain_revolve.c).
 */
#include "chain_step.h"
#include "step_budget.h"
#include "strategy.h"

typedef struct settings {
    uint64_t slots, stages;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, slots, "8", 1, 100000, "inputs of stages that are kept at once"),
    MR_PARAM_INT(settings, stages, "1000", 1, 100000,
                 "stages are joined until there are so few"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    chain_step step;
    chain_actions plan = {0};
    MR_TRY(chain_step_of(ctx, in, (uint32_t)s->stages, &step));
    chain_revolve(ctx, step.problem.n, (uint32_t)s->slots, &plan);
    MR_TRY(chain_step_rewrite(ctx, &step, &plan, out));
    return step_remark_peak(ctx, "revolve", in, out);
}

const mr_strategy mr_strategy_revolve = {
    .name = "revolve",
    .summary = "keeps a number of inputs of stages and computes the rest again, binomially",
    .source = "Griewank and Walther, \"Algorithm 799: Revolve\", 2000",
    .how =
        "torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False), calls within calls, "
        "around the stages that memreuse explain names",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
