/* rotor -- the fastest way to keep, let go of and compute again the stages of a step in a
 * budget.
 *
 * The forward pass is cut where a single activation leads on; a table over all pieces of that
 * chain and all budgets gives the plan (chain/chain_rotor.c).  A stage may also save a part of
 * what it saves (chain/chain_step_options.c): softmax and dropout are cheap to have again,
 * products of matrices are not.  Where rounding to slots makes the plan no better than segments
 * chosen greedily, those are taken.
 */
#include "chain_step.h"
#include "step_budget.h"
#include "strategy.h"

typedef struct settings {
    const char *budget;
    uint64_t slots, stages, options;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_TEXT(settings, budget, "60%",
                  "peak of the step: a size, or a part of what it was"),
    MR_PARAM_INT(settings, slots, "500", 10, 5000, "memory is counted in budget/slots bytes"),
    MR_PARAM_INT(settings, stages, "128", 1, 1000, "stages are joined until there are so few"),
    MR_PARAM_INT(settings, options, "8", 0, 31,
                 "ways to save a part of a stage; 0: all or nothing"),
    {0},
};

/* A plan may promise more than the step takes, so the table is made for more room than there
 * is; or less, as calls within calls hold what they are given. */
enum { MORE = 4, TRIES = 5 };

/* Looks for the plan with the most room, between two sizes, whose step fits.
 * `best`: time of the plan that `out` was written by, CHAIN_NEVER for none. */
static mr_status use_up(mr_ctx *ctx, const chain_step *step, const chain_table *table,
                        uint64_t low, uint64_t high, uint64_t budget, uint64_t *best,
                        mr_trace *out)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const uint64_t middle = low + (high - low) / 2, time = chain_rotor_time(table, middle);
        chain_actions plan = {0};
        uint64_t peak = 0;
        mr_trace tried;
        const bool faster = time < *best && chain_rotor_plan(ctx, table, middle, &plan);
        if (faster) MR_TRY(chain_step_rewrite(ctx, step, &plan, &tried));
        if (faster) MR_TRY(step_peak(ctx, &tried, &peak));
        if (peak > budget) {
            high = middle;
            continue;
        }
        low = middle;
        if (!faster) continue;
        *out = tried;
        *best = time;
    }
    return MR_OK;
}

/* Names the least peak that a table finds up to what the greedy plan needs. */
static mr_status too_small(mr_ctx *ctx, const chain_step *step, uint32_t slots, uint64_t budget,
                           const chain_actions *greedy)
{
    const uint64_t enough = chain_replay(ctx, &step->problem, greedy).called;
    const chain_table *table = chain_rotor(ctx, &step->problem, enough, slots);
    const uint64_t least = chain_rotor_least(table);
    chain_actions plan = {0};
    const bool found = least <= enough && chain_rotor_plan(ctx, table, least, &plan);
    return chain_step_too_small(ctx, step, "rotor", budget, found ? &plan : greedy);
}

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    chain_step step;
    uint64_t budget;
    MR_TRY(chain_step_of(ctx, in, (uint32_t)s->stages, &step));
    MR_TRY(step_budget(ctx, step.peak, s->budget, &budget));
    if (s->options) chain_step_add_options(ctx, &step, (uint32_t)s->options);
    const uint64_t room = chain_step_room(&step, budget);
    const chain_table *table = chain_rotor(ctx, &step.problem, room + room / MORE,
                                           (uint32_t)(s->slots + s->slots / MORE));
    chain_actions plan = {0}, greedy = {0};
    uint64_t best = chain_rotor_time(table, room);
    if (chain_rotor_plan(ctx, table, room, &plan)
        && chain_replay(ctx, &step.problem, &plan).called > room)
        best = CHAIN_NEVER;
    if (chain_chen_greedy(ctx, &step.problem, room, &greedy)) {
        const uint64_t time = chain_replay(ctx, &step.problem, &greedy).time;
        if (time < best) plan = greedy;
        if (time < best) best = time;
    }
    if (best < CHAIN_NEVER) MR_TRY(chain_step_rewrite(ctx, &step, &plan, out));
    MR_TRY(use_up(ctx, &step, table, room, room + room / MORE, budget, &best, out));
    if (best == CHAIN_NEVER) MR_TRY(use_up(ctx, &step, table, 0, room, budget, &best, out));
    if (best < CHAIN_NEVER) return MR_OK;
    return too_small(ctx, &step, (uint32_t)s->slots, budget, &greedy);
}

const mr_strategy mr_strategy_rotor = {
    .name = "rotor",
    .summary = "computes stages again so that the step fits a budget in the least time",
    .source =
        "Beaumont et al., \"Optimal Re-Materialization Strategies for Heterogeneous Chains:"
        " How to Train Deep Neural Networks with Limited Memory\", 2019; parts of stages as in"
        " Zhao et al., \"Rockmate\", 2023",
    .how =
        "torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False), calls within calls, "
        "around the stages that memreuse explain names; options=0 keeps to such calls",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
