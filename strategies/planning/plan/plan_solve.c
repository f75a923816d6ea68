/* plan_solve -- the best layout that can be had with so much effort. */
#include "plan_internal.h"

static void keep_better(plan_answer *best, const plan_layout *layout, const char *name)
{
    if (best->layout.offset && best->layout.height <= layout->height) return;
    best->layout = *layout;
    best->found_by = name;
}

static void dive(mr_ctx *ctx, const plan_problem *problem, plan_answer *out)
{
    plan_field field;
    plan_field_make(ctx, problem, &field);
    plan_diver *diver = plan_diver_new(ctx, &field);
    uint32_t *rank = MR_NEW_N(ctx, uint32_t, field.n);
    uint64_t *base = MR_NEW_N(ctx, uint64_t, field.n);
    for (uint32_t k = 0; plan_dive_key(ctx, &field, k, rank); k++) {
        plan_layout layout;
        plan_dive(diver, rank, UINT64_MAX - 1, base);
        plan_field_layout(ctx, problem, &field, base, &layout);
        keep_better(out, &layout, plan_dive_name(k));
    }
}

void plan_solve(mr_ctx *ctx, const plan_problem *problem, const plan_effort *effort,
                plan_answer *out)
{
    (void)effort;
    *out = (plan_answer){.bound = problem->load, .in_time = true};
    if (problem->plain) dive(ctx, problem, out);
    for (size_t r = 0; plan_rules[r].name && !problem->plain; r++) {
        plan_layout layout;
        if (!plan_rule_knows(&plan_rules[r], problem)) continue;
        plan_rules[r].run(ctx, problem, &layout);
        keep_better(out, &layout, plan_rules[r].name);
    }
}
