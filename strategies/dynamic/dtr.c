/* dtr -- forgets tensors when memory runs out, and computes them again when they are needed.
 *
 * The step runs as it was recorded, under a budget.  Before an op whose outputs do not fit, storages
 * are evicted, the one with the least score first; before an op that reads what is gone, the ops that
 * made it run again.  What is decided never looks ahead, so a framework could do the same while it
 * trains.
 *
 * Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021.
 */
#include "dtr.h"
#include "strategy.h"

#include <string.h>

typedef struct settings {
    uint64_t budget;
    double ratio, limit;
    uint64_t heuristic, dealloc, seed;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, budget, "0", 0, 0, "memory that may be used; 0 for a part of the peak"),
    MR_PARAM_REAL(settings, ratio, "0.5", 0.01, 1, "that part, when no budget is given"),
    MR_PARAM_CHOICE(settings, heuristic,
                    "dtr|dtr-eq|local|msps|lru|size|random|dtr-size|dtr-stale|dtr-cost|eq-size"
                    "|eq-stale|eq-cost|local-size|local-stale|local-cost|size-stale|stale",
                    "dtr", "which score decides who is evicted"),
    MR_PARAM_CHOICE(settings, dealloc, "ignore|eager", "eager",
                    "what becomes of a tensor that the program lets go"),
    MR_PARAM_REAL(settings, limit, "1", 0, 1000, "recomputing that is too much, in steps"),
    MR_PARAM_INT(settings, seed, "1", 0, 1e9, "of heuristic=random"),
    {0},
};

static const char *const results[] = {"passes", "is out of memory",
                                      "computes more again than the limit allows"};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    dtr_program program;
    dtr_report report;
    MR_TRY(dtr_program_make(ctx, in, DTR_IN_PLACE, &program));
    const uint64_t peak = dtr_live_peak(&program), compute = dtr_compute_ns(&program);
    const dtr_options options = {
        .budget = s->budget ? s->budget : (uint64_t)(s->ratio * (double)peak),
        .limit = (uint64_t)(s->limit * (double)compute),
        .heuristic = dtr_names[s->heuristic].heuristic,
        .dealloc = (dtr_dealloc)s->dealloc,
        .seed = s->seed,
    };
    dtr_run_program(ctx, &program, &options, true, &report);
    if (report.result)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "under a budget of %s '%s' %s, expected a larger budget (without one it"
                       " takes %s)",
                       mr_print_size(ctx, options.budget), in->name, results[report.result],
                       mr_print_size(ctx, peak));
    return dtr_write(ctx, &program, &report, out);
}

const mr_strategy mr_strategy_dtr = {
    .name = "dtr",
    .summary = "evicts tensors under a budget and computes them again",
    .source = "Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW,
    .rewrite = rewrite,
};
