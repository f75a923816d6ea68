/* Results kept one by one: budgets are met, the referee agrees, and what it costs in time. */
#include "chain_time.h"
#include "format.h"
#include "graph_step.h"
#include "rewrite_check.h"
#include "spec.h"
#include "step_budget.h"
#include "strategies.h"
#include "test.h"

#include <stdlib.h>

#define MODELS TRACES "/models/"

static bool read_step(mr_ctx *ctx, const char *path, mr_trace *trace)
{
    const mr_read_options options = {0};
    if (!mr_recording_read(ctx, path, &options, trace)) return true;
    TEST_FAIL("%s", ctx->failure.text);
    return false;
}

static uint64_t time_of(const mr_trace *trace)
{
    const bool measured = chain_measured(trace);
    uint64_t time = 0;
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN)
            time += chain_time(&trace->ops.at[trace->events.at[e].id], measured);
    return time;
}

typedef struct effect {
    double peak, time; /* as parts of what they were */
} effect;

static effect effect_of(mr_ctx *ctx, const mr_trace *in, const char *rewrite)
{
    mr_spec spec;
    mr_trace out;
    uint64_t was = 1, is = 0;
    if (mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", rewrite), &spec)
        || spec.rewrites.at[0].strategy->rewrite(ctx, spec.rewrites.at[0].params, in, &out)
        || mr_trace_check(ctx, &out) || mr_rewrite_check(ctx, in, &out)) {
        TEST_FAIL("%s: %s", rewrite, ctx->failure.text);
        return (effect){0, 0};
    }
    CHECK_EQ(step_peak(ctx, in, &was), MR_OK);
    CHECK_EQ(step_peak(ctx, &out, &is), MR_OK);
    const effect e = {(double)is / (double)was, (double)time_of(&out) / (double)time_of(in)};
    printf("  %-22s peak %.3f  time %.4f\n", rewrite, e.peak, e.time);
    return e;
}

/* name, what 60% of the peak may cost at most: results one by one, parts of stages, whole
 * stages */
static const struct model {
    const char *name;
    double results, parts, stages;
} models[] = {{"bert-base-mlm-b16-s512", 1.05, 1.05, 1.12},
              {"gpt2-small-b8-s1024", 1.04, 1.05, 1.12},
              {"resnet50-b64-i224", 1.08, 1.06, 1.09}};

TEST(budgets_are_met_and_choosing_results_is_cheaper_than_choosing_stages)
{
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        mr_ctx ctx = {0};
        mr_trace trace;
        if (read_step(&ctx, mr_printf(&ctx, MODELS "%s.csv.gz", models[i].name), &trace)) {
            printf("%s\n", models[i].name);
            const effect results = effect_of(&ctx, &trace, "knapsack:60%");
            const effect greedy = effect_of(&ctx, &trace, "knapsack:60%,solver=greedy");
            const effect stages = effect_of(&ctx, &trace, "rotor:60%,options=0");
            const effect parts = effect_of(&ctx, &trace, "rotor:60%");
            const effect chen = effect_of(&ctx, &trace, "chen:60%");
            CHECK(results.peak <= 0.6 && greedy.peak <= 0.6);
            CHECK(stages.peak <= 0.6 && chen.peak <= 0.6);
            CHECK(results.time <= models[i].results);
            CHECK(parts.peak <= 0.6 && parts.time <= models[i].parts);
            CHECK(stages.time <= models[i].stages);
            CHECK(stages.time <= chen.time);
        }
        mr_ctx_clear(&ctx);
    }
}

TEST(a_smallest_cut_takes_less_memory_and_hardly_more_time)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    if (read_step(&ctx, MODELS "bert-base-mlm-b16-s512.csv.gz", &trace)) {
        const effect cut = effect_of(&ctx, &trace, "mincut");
        CHECK(cut.peak < 0.9 && cut.time < 1.02);
        const effect half = effect_of(&ctx, &trace, "mincut:0.5");
        CHECK(half.peak < cut.peak && half.time > cut.time);
        const effect none = effect_of(&ctx, &trace, "mincut:0");
        CHECK(none.time > half.time);
    }
    mr_ctx_clear(&ctx);
}

/* Whatever is kept, the step computes the same: all subsets of the results of a tiny step. */
TEST(any_choice_of_results_passes_the_referee)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    graph_step step;
    if (read_step(&ctx, TRACES "/tiny/blocks.csv", &trace)) {
        CHECK_EQ(graph_step_of(&ctx, &trace, false, &step), MR_OK);
        uint32_t results = 0;
        while (results < step.graph.n && !step.ops[results].backward) results++;
        CHECK(results > 8 && results < 16);
        bool *kept = MR_NEW_N(&ctx, bool, step.graph.n);
        for (uint32_t set = 0; set < 1u << results; set++) {
            mr_trace out;
            for (uint32_t i = 0; i < results; i++) kept[i] = set >> i & 1;
            CHECK_EQ(graph_step_rewrite(&ctx, &step, kept, &out), MR_OK);
            if (mr_trace_check(&ctx, &out) || mr_rewrite_check(&ctx, &trace, &out))
                TEST_FAIL("%s", ctx.failure.text);
        }
    }
    mr_ctx_clear(&ctx);
}

TEST(measured_times_count_when_no_op_lacks_one)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    if (read_step(&ctx, TRACES "/tiny/blocks.csv", &trace)) {
        trace.has |= MR_HAS_TIMES;
        for (uint32_t o = 0; o < trace.ops.n; o++) trace.ops.at[o].ns = 7;
        CHECK(chain_measured(&trace));
        mr_op *op = &trace.ops.at[0];
        op->ns = op->flops = op->read = op->written = 0; /* a view takes no time */
        CHECK(chain_measured(&trace));
        CHECK_EQ(chain_time(&trace.ops.at[1], true), 7);
        op->flops = 39000;
        CHECK(!chain_measured(&trace));
        CHECK_EQ(chain_time(op, false), 2);
    }
    mr_ctx_clear(&ctx);
}

/* Rewrites by the spec; 0, or else the peak that the refusal names as what can be reached. */
static uint64_t refused(mr_ctx *ctx, const mr_trace *in, const char *spec_text)
{
    mr_spec spec;
    mr_trace out;
    CHECK_EQ(mr_spec_parse(ctx, mr_strategies, spec_text, &spec), MR_OK);
    const mr_stage *first = &spec.rewrites.at[0];
    if (!first->strategy->rewrite(ctx, first->params, in, &out)) return 0;
    const char *least = strstr(ctx->failure.text, "to about ");
    char *unit;
    const double size = least ? strtod(least + strlen("to about "), &unit) : 0;
    if (!least) return 0;
    return (uint64_t)(size * (!strncmp(unit, " GiB", 4) ? 1 << 30 : 1 << 20)) + 1;
}

TEST(a_budget_that_is_too_small_is_refused_with_one_that_is_not)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    if (read_step(&ctx, MODELS "vgg16-b64-i224.csv.gz", &trace)) {
        const uint64_t least = refused(&ctx, &trace, "rotor:10%/bound");
        CHECK(least > 0);
        CHECK_EQ(refused(&ctx, &trace, mr_printf(&ctx, "rotor:%" PRIu64 "/bound", least)), 0);
        CHECK(refused(&ctx, &trace, mr_printf(&ctx, "rotor:%" PRIu64 "/bound", least / 10 * 9))
              > 0);
    }
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
