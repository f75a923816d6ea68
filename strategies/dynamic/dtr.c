/* dtr -- forgets tensors when memory runs out, and computes them again when they are needed.
 *
 * The step runs as it was recorded, under a budget.  Before an op whose outputs do not fit,
 * storages are evicted, the one with the least score first; before an op that reads what is
 * gone, the ops that made it run again.  What the paper's heuristics decide never looks ahead,
 * so a framework could do the same while it trains.  heuristic=best knows the recording: it
 * tries them all, others that know who reads next, and then variations of the best, and says
 * how far it is from what no plan can beat.
 *
 * What is evicted may also come back from a copy on the host (dtr/dtr_swap.c).  The budget is a
 * sum of bytes, as the paper's is, or what an allocator has of addresses: then neighbours have
 * to go (dtr/dtr_space.c).
 *
 * Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021.
 */
#include "dtr.h"
#include "strategy.h"

#include <inttypes.h>

typedef struct settings {
    uint64_t budget;
    double ratio, limit;
    uint64_t heuristic, tries, dealloc, seed, memory, back, link;
    bool sample;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, budget, "0", 0, 0,
                  "memory that may be used; 0 for a part of the peak"),
    MR_PARAM_REAL(settings, ratio, "0.5", 0.01, 1, "that part, when no budget is given"),
    MR_PARAM_CHOICE(settings, heuristic,
                    "dtr|dtr-eq|local|msps|lru|size|random|dtr-size|dtr-stale|dtr-cost|eq-size"
                    "|eq-stale|eq-cost|local-size|local-stale|local-cost|size-stale|stale|best",
                    "dtr", "which score decides who is evicted"),
    MR_PARAM_INT(settings, tries, "300", 0, 1e9, "variations that heuristic=best tries"),
    MR_PARAM_CHOICE(settings, dealloc, "ignore|eager|banish", "eager",
                    "what becomes of a tensor that the program lets go"),
    MR_PARAM_CHOICE(settings, memory, "sum|hole|window", "sum",
                    "what the budget is: a sum of bytes; addresses, and storages are evicted"
                    " until there is a hole, or neighbours whose window costs least (Coop)"),
    MR_PARAM_CHOICE(settings, back, "recompute|swap|cheaper", "recompute",
                    "how it comes back: computed again, from a copy on the host, or by what"
                    " costs less time (Capuchin)"),
    MR_PARAM_SIZE(settings, link, "20GB", 1, 1e15,
                  "bytes per second over the host link, by which copies are planned: less than"
                  " it has, since ops may be faster than planned"),
    MR_PARAM_BOOL(settings, sample, "False",
                  "score only some that may go, at distances drawn up to the root of their"
                  " number, as the prototype on GPUs does"),
    MR_PARAM_REAL(settings, limit, "1", 0, 1000, "recomputing that is too much, in steps"),
    MR_PARAM_INT(settings, seed, "1", 0, 1e9, "of heuristic=random and best, and of sample"),
    {0},
};

static dtr_options read_options(const settings *s, const dtr_program *program)
{
    dtr_options o = {
        .budget = s->budget ? s->budget : (uint64_t)(s->ratio * (double)dtr_live_peak(program)),
        .limit = (uint64_t)(s->limit * (double)dtr_compute_ns(program)),
        .dealloc = (dtr_dealloc)s->dealloc,
        .seed = s->seed,
        .memory = (dtr_memory)s->memory,
        .way = (dtr_way)s->back,
        .link = s->link,
        .doubt = 1,
        .sample = s->sample,
    };
    if (s->heuristic < dtr_names_n) o.heuristic = dtr_names[s->heuristic].heuristic;
    return o;
}

static mr_status refuse(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                        dtr_result result)
{
    static const char *const results[] = {"passes", "is out of memory",
                                          "computes more again than the limit allows"};
    dtr_bound bound;
    dtr_find_bound(ctx, program, options->budget, &bound);
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "under a budget of %s '%s' %s, expected a larger budget: without one it takes"
        " %s, and no plan can do with less than about %s",
        mr_say_size(ctx, options->budget), program->trace->name, results[result],
        mr_say_size(ctx, dtr_live_peak(program)), mr_say_size(ctx, bound.bytes));
}

/* What time no plan can beat is known of those that compute again. */
static const char *least_time(mr_ctx *ctx, const dtr_options *options, const dtr_bound *bound,
                              uint64_t compute)
{
    if (options->way != DTR_RECOMPUTE) return "";
    return mr_printf(ctx, "less than %.2f%%, nor with ",
                     100 * (double)bound->remat / (double)compute);
}

static void remark(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                   const dtr_report *report, mr_trace *out)
{
    const uint64_t compute = dtr_compute_ns(program);
    dtr_bound bound;
    dtr_find_bound(ctx, program, options->budget, &bound);
    MR_PUSH(
        ctx, &out->remarks,
        mr_printf(ctx,
                  "under a budget of %s, %" PRIu64 " evictions and %" PRIu64 " ops run again,"
                  " which is %.2f%% more time; no plan can do with %sless than about %s;"
                  " %" PRIu64 " scores and %" PRIu64 " accesses to storages have decided that",
                  mr_say_size(ctx, options->budget), report->evictions, report->remats,
                  100 * (double)report->remat / (double)compute,
                  least_time(ctx, options, &bound, compute), mr_say_size(ctx, bound.bytes),
                  report->evaluations, report->accesses));
}

static void remark_copies(mr_ctx *ctx, const dtr_program *program, const dtr_report *report,
                          mr_trace *out)
{
    MR_PUSH(ctx, &out->remarks,
            mr_printf(ctx,
                      "%u storages go to the host and %" PRIu64
                      " times one comes back, for which computing waits %.2f%% of its time",
                      report->sendings.n, report->fetches,
                      100 * (double)report->stall / (double)dtr_compute_ns(program)));
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    if (s->back && s->memory)
        return mr_fail(ctx, MR_EUSAGE,
                       "dtr copies nothing to the host where addresses are the budget: expected"
                       " memory=sum with back=swap and back=cheaper");
    if (s->back && s->dealloc == DTR_BANISH)
        return mr_fail(ctx, MR_EUSAGE,
                       "what is banished never comes back: expected dealloc=eager or ignore"
                       " with back=swap and back=cheaper");
    return MR_OK;
}

static void run(mr_ctx *ctx, const settings *s, const dtr_program *program,
                const dtr_options *options, dtr_report *report)
{
    if (s->heuristic == dtr_names_n)
        dtr_search(ctx, program, options, (uint32_t)s->tries, report);
    else if (s->back) dtr_swap_search(ctx, program, options, report);
    else dtr_run_program(ctx, program, options, true, report);
}

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    dtr_program program;
    dtr_report report;
    MR_TRY(mr_rewrite_before_host(ctx, in, "dtr"));
    if (in->evicts)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "tensors of '%s' are evicted already, expected one dtr, with the smaller"
                       " of the budgets",
                       in->name);
    MR_TRY(dtr_program_make(ctx, in, DTR_IN_PLACE, &program));
    const dtr_options options = read_options(s, &program);
    run(ctx, s, &program, &options, &report);
    if (report.result) return refuse(ctx, &program, &options, report.result);
    MR_TRY(dtr_write(ctx, &program, &report, s->memory != DTR_SUM, out));
    remark(ctx, &program, &options, &report, out);
    if (s->back) remark_copies(ctx, &program, &report, out);
    return MR_OK;
}

const mr_strategy mr_strategy_dtr = {
    .name = "dtr",
    .summary = "evicts tensors under a budget and computes them again",
    .source = "Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .needs = MR_HAS_DATAFLOW,
    .rewrite = rewrite,
};
