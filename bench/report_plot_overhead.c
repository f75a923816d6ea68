/* plot_overhead -- the table of overheads against budgets, for plots/overhead.gp. */
#include <inttypes.h>
#include <string.h>

#include "results.h"

#define PANELS_MOST 24

/* Colours of what is no heuristic are their own. */
static uint32_t hue_of(const mr_budgets *budgets, uint32_t plan)
{
    enum { BEST = 5, BOUND = 9 };
    static const uint8_t hues[] = {2, 1, 4, 3, 8, 6, 7};
    uint32_t before = 0;
    if (strcmp(budgets->plans.at[plan], "best") == 0) return BEST;
    if (strcmp(budgets->plans.at[plan], "bound") == 0) return BOUND;
    for (uint32_t i = 0; i < plan; i++)
        before += strcmp(budgets->plans.at[i], "best") && strcmp(budgets->plans.at[i], "bound");
    return hues[before % MR_COUNT(hues)];
}

static const char *describe_log(mr_ctx *ctx, const mr_budgets *budgets, uint32_t log)
{
    const uint64_t peak = budgets->peak.at[log], least = budgets->floor.at[log];
    const char *text = mr_printf(ctx, "peak %s", mr_show_bytes(ctx, peak));
    if (!least || !peak) return text;
    return mr_printf(ctx, "%s; every plan needs %.0f %% of it", text,
                     100 * (double)least / (double)peak);
}

static double highest(const mr_budgets *budgets)
{
    double high = 1;
    for (uint32_t i = 0; i < budgets->rows.n; i++)
        if (budgets->rows.at[i].overhead > high) high = budgets->rows.at[i].overhead;
    return high;
}

void mr_plot_overhead(mr_ctx *ctx, const mr_budgets *budgets, mr_sink *sink)
{
    mr_head head = {.ctx = ctx};
    mr_head_add(&head, "title\tOverhead of recomputing under a budget of memory");
    mr_head_add(&head, "subtitle\t%s: %s, %s", mr_head_text(ctx, budgets->name, 60),
                mr_show_count(ctx, budgets->logs.n, "step", "steps"),
                mr_show_count(ctx, budgets->plans.n, "plan", "plans"));
    mr_head_add(&head, "x\t0\t100\tbudget");
    mr_head_add(&head, "y\t%.4g", highest(budgets));
    for (uint32_t i = 0; i < budgets->logs.n && i < PANELS_MOST; i++)
        mr_head_add(&head, "panel\t%" PRIu32 "\t%s\t%s", i + 1,
                    mr_head_text(ctx, budgets->logs.at[i], 40), describe_log(ctx, budgets, i));
    for (uint32_t i = 0; i < budgets->plans.n; i++)
        mr_head_add(&head, "stack\t%" PRIu32 "\t%s\t%" PRIu32, i + 1,
                    mr_head_text(ctx, budgets->plans.at[i], 30), hue_of(budgets, i));
    mr_head_add(&head, "caption\tA line ends at the smallest budget under which the plan "
                       "passes; no plan is faster than the bound.");
    if (budgets->logs.n > PANELS_MOST)
        mr_head_add(&head, "caption\tThe first %d of %" PRIu32 " steps are shown.", PANELS_MOST,
                    budgets->logs.n);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,plan,budget,overhead\n");
    for (uint32_t i = 0; i < budgets->rows.n; i++) {
        const mr_budget *row = &budgets->rows.at[i];
        if (row->overhead >= 0 && row->log < PANELS_MOST)
            mr_sink_print(sink, "%" PRIu32 ",%" PRIu32 ",%.6g,%.6g\n", row->log + 1,
                          row->plan + 1, row->budget, row->overhead);
    }
}
