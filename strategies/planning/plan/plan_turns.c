/* plan_turns -- the plan of one iteration for all that are like it. */
#include "plan.h"

mr_status plan_turns_make(mr_ctx *ctx, const plan_problem *whole, plan_turns *out)
{
    *out = (plan_turns){.whole = whole};
    out->folded = plan_fold_make(ctx, whole, &out->fold);
    return out->folded ? plan_prepare(ctx, &out->fold.problem) : MR_OK;
}

static bool knows(const plan_problem *problem, const plan_rule *rule)
{
    return !rule || plan_rule_knows(rule, problem);
}

bool plan_turns_knows(const plan_turns *turns, const plan_rule *rule)
{
    return knows(turns->folded ? &turns->fold.problem : turns->whole, rule);
}

static void solve(mr_ctx *ctx, const plan_problem *problem, const plan_rule *rule,
                  const plan_effort *effort, plan_answer *out)
{
    *out = (plan_answer){.bound = problem->load, .bound_by = "load", .in_time = true};
    if (rule) rule->run(ctx, problem, &out->layout);
    else plan_solve(ctx, problem, effort, out);
}

/* Where the fold is not exact, a plan of all iterations may be lower, and what is proven of the
 * fold need not hold. */
void plan_turns_solve(mr_ctx *ctx, const plan_turns *turns, const plan_rule *rule,
                      const plan_effort *effort, plan_answer *out)
{
    plan_layout once;
    if (!turns->folded) {
        solve(ctx, turns->whole, rule, effort, out);
        return;
    }
    solve(ctx, &turns->fold.problem, rule, effort, out);
    plan_unfold(ctx, turns->whole, &turns->fold, &out->layout, &once);
    out->layout = once;
    if (turns->fold.exact) return;
    out->bound = turns->whole->load;
    out->bound_by = "load";
    if (once.height == out->bound || !knows(turns->whole, rule)) return;
    plan_answer apart;
    solve(ctx, turns->whole, rule, effort, &apart);
    apart.nodes += out->nodes;
    if (apart.layout.height >= once.height) apart.layout = once;
    *out = apart;
}
