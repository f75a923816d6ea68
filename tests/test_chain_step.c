/* Recorded steps as chains: what a plan promises is what the rewritten step takes. */
#include "chain_step.h"
#include "format.h"
#include "rewrite_check.h"
#include "schedule.h"
#include "step_budget.h"
#include "test.h"

#include <time.h>

#define MODELS TRACES "/models/"

static bool read_step(mr_ctx *ctx, const char *path, mr_trace *trace)
{
    const mr_read_options options = {0};
    if (!mr_recording_read(ctx, path, &options, trace)) return true;
    TEST_FAIL("%s", ctx->failure.text);
    return false;
}

static uint64_t peak_of(mr_ctx *ctx, const mr_trace *trace)
{
    uint64_t peak = 0;
    CHECK_EQ(step_peak(ctx, trace, &peak), MR_OK);
    return peak;
}

/* Peak of the step rewritten by a plan that the referees let pass; 0 when they do not. */
static uint64_t carried_out(mr_ctx *ctx, const chain_step *step, const chain_actions *plan)
{
    mr_trace out;
    CHECK_EQ(chain_step_rewrite(ctx, step, plan, &out), MR_OK);
    if (mr_trace_check(ctx, &out) || mr_rewrite_check(ctx, step->trace, &out)) {
        TEST_FAIL("%s", ctx->failure.text);
        return 0;
    }
    return peak_of(ctx, &out);
}

/* Part of the promise that the step took. */
static double compare(mr_ctx *ctx, const chain_step *step, const char *what,
                      const chain_actions *plan)
{
    const chain_outcome out = chain_replay(ctx, &step->problem, plan);
    CHECK_STR(out.wrong ? out.wrong : "", "");
    const uint64_t promised = chain_step_peak(step, out.called);
    const uint64_t actual = carried_out(ctx, step, plan);
    const double ratio = (double)actual / (double)promised;
    printf("  %-16s time %.3f  promised %8.1f MiB  took %8.1f MiB  %.4f\n", what,
           (double)out.time / (double)chain_base_time(&step->problem),
           (double)promised / (1 << 20), (double)actual / (1 << 20), ratio);
    return ratio;
}

static void try_budgets(mr_ctx *ctx, const chain_step *step, const char *what)
{
    for (uint64_t percent = 90; percent >= 20; percent -= 10) {
        const uint64_t budget = step->peak / 100 * percent,
                       room = chain_step_room(step, budget);
        if (!room) continue;
        chain_actions plan = {0};
        const chain_table *table = chain_rotor(ctx, &step->problem, room, 500);
        if (!chain_rotor_plan(ctx, table, room, &plan)) continue;
        const double part =
            compare(ctx, step, mr_printf(ctx, "%s %" PRIu64 "%%", what, percent), &plan);
        CHECK(part <= 1);
        CHECK(part >= 0.85);
        CHECK(chain_step_peak(step, chain_replay(ctx, &step->problem, &plan).peak) <= budget);
    }
}

static void check_model(mr_ctx *ctx, const char *name, uint32_t stages)
{
    mr_trace trace;
    chain_step step;
    if (!read_step(ctx, mr_printf(ctx, MODELS "%s.csv.gz", name), &trace)) return;
    const clock_t begin = clock();
    CHECK_EQ(chain_step_of(ctx, &trace, 128, &step), MR_OK);
    printf("%s: %u ops in %.1f ms\n", name, trace.ops.n,
           1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC);
    CHECK(step.problem.n >= stages);
    CHECK_EQ(step.peak, peak_of(ctx, &trace));
    chain_actions all = {0}, revolve = {0}, halves = {0};
    chain_all(ctx, &step.problem, &all);
    const double kept = compare(ctx, &step, "all", &all);
    CHECK(kept <= 1);
    CHECK(kept >= 0.94);
    chain_revolve(ctx, step.problem.n, 8, &revolve);
    CHECK(compare(ctx, &step, "revolve 8", &revolve) <= 1);
    chain_chen_recursive(ctx, &step.problem, 1, &halves);
    CHECK(compare(ctx, &step, "recursive", &halves) <= 1);
    try_budgets(ctx, &step, "rotor");
    chain_step_add_options(ctx, &step, 8);
    try_budgets(ctx, &step, "with options");
}

/* A plan may promise more than it takes, for what it is too careful about: a stage that runs
 * again stops early, an op of the backward pass that reads an x(i) counts for the stage behind
 * it, and what skips stages (a U-Net) is held as long as a stage, not as long as its readers
 * need. */
TEST(recorded_models_take_what_their_plans_promise)
{
    static const struct {
        const char *name;
        uint32_t stages;
    } models[] = {{"bert-base-mlm-b16-s512", 61}, {"vgg16-b64-i224", 41},
                  {"resnet50-b64-i224", 40},      {"gpt2-small-b8-s1024", 31},
                  {"llama-7b-b1-s2048-bf16", 73}, {"unet-b8-i256", 16},
                  {"vit-b16-b64-i224", 31}};
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        mr_ctx ctx = {0};
        check_model(&ctx, models[i].name, models[i].stages);
        mr_ctx_clear(&ctx);
    }
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % below;
}

/* A plan as no planner would make it: each stage runs backward from the last input that is
 * there; inputs on the way to it are kept, let go of and made again at random, and the last
 * stages on the way save by any option. */
static void draw_plan(mr_ctx *ctx, const chain_problem *chain, uint32_t *seed,
                      chain_actions *plan)
{
    bool *there = MR_NEW_N(ctx, bool, chain->n + 1);
    uint32_t *option = MR_NEW_N(ctx, uint32_t, chain->n + 1), saved = chain->n;
    const uint32_t rare = 2 + draw(seed, 12);
    there[0] = true;
    for (uint32_t i = chain->n; i-- > 0;) {
        uint32_t from = i;
        while (!there[from]) from--;
        const uint32_t save = i < saved ? i - draw(seed, i - from + 1) : saved;
        for (; i < saved && from < save; from++) {
            const bool keep = !from || !draw(seed, rare);
            MR_PUSH(ctx, plan, (chain_action){keep ? CHAIN_KEEP : CHAIN_FORWARD, from, 0});
            there[from] = keep;
            there[from + 1] = true;
        }
        for (; i < saved && from <= i; from++) {
            option[from] = draw(seed, chain->stages[from].n);
            MR_PUSH(ctx, plan, (chain_action){CHAIN_SAVE, from, option[from]});
        }
        saved = save;
        MR_PUSH(ctx, plan, (chain_action){CHAIN_BACKWARD, i, option[i]});
        there[i] = !i;
    }
}

static void try_any_plans(mr_ctx *ctx, const chain_step *step, const char *what)
{
    uint32_t seed = 1;
    for (uint32_t k = 0; k < 10; k++) {
        chain_actions plan = {0};
        draw_plan(ctx, &step->problem, &seed, &plan);
        CHECK(compare(ctx, step, what, &plan) <= 1);
    }
}

TEST(what_a_plan_lets_go_of_is_gone_before_anything_runs_again)
{
    static const char *models[] = {"vgg16-b64-i224", "albert-base-b32-s128", "lstm-650-b20-s35",
                                   "resnet50-b64-i224", "bert-large-mlm-b8-s512"};
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        mr_ctx ctx = {0};
        mr_trace trace;
        chain_step step;
        if (read_step(&ctx, mr_printf(&ctx, MODELS "%s.csv.gz", models[i]), &trace)) {
            CHECK_EQ(chain_step_of(&ctx, &trace, 64, &step), MR_OK);
            printf("%s\n", models[i]);
            try_any_plans(&ctx, &step, "any");
            chain_step_add_options(&ctx, &step, 4);
            try_any_plans(&ctx, &step, "any, options");
        }
        mr_ctx_clear(&ctx);
    }
}

TEST(a_tiny_step_is_computed_again_by_any_plan)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    chain_step step;
    if (read_step(&ctx, TRACES "/tiny/blocks.csv", &trace)) {
        CHECK_EQ(chain_step_of(&ctx, &trace, 128, &step), MR_OK);
        for (uint32_t c = 1; c < 6; c++) {
            chain_actions plan = {0};
            chain_revolve(&ctx, step.problem.n, c, &plan);
            CHECK(carried_out(&ctx, &step, &plan) > 0);
        }
        CHECK_EQ(chain_step_of(&ctx, &trace, 2, &step), MR_OK);
        CHECK(step.problem.n <= 2);
    }
    mr_ctx_clear(&ctx);
}

TEST(a_plan_is_told_as_calls_within_calls)
{
    mr_ctx ctx = {0};
    mr_trace trace, out;
    chain_step step;
    if (read_step(&ctx, TRACES "/tiny/blocks.csv", &trace)) {
        chain_actions halves = {0}, all = {0};
        CHECK_EQ(chain_step_of(&ctx, &trace, 128, &step), MR_OK);
        CHECK_EQ(step.problem.n, 9);
        chain_chen_recursive(&ctx, &step.problem, 1, &halves);
        CHECK_EQ(chain_step_rewrite(&ctx, &step, &halves, &out), MR_OK);
        CHECK_EQ(out.remarks.n, 1);
        CHECK_HAS(out.remarks.at[0], "run as [[[0]1][2]3][[4]5][6][7]8, where each bracket is a call");
        CHECK_HAS(out.remarks.at[0], "they end 0 by aten::mm of blocks.0.linear, 1 by");
        chain_all(&ctx, &step.problem, &all);
        CHECK_EQ(chain_step_rewrite(&ctx, &step, &all, &out), MR_OK);
        CHECK_EQ(out.remarks.n, 0);
    }
    mr_ctx_clear(&ctx);
}

TEST(a_step_without_a_backward_pass_is_refused)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    chain_step step;
    if (read_step(&ctx, TRACES "/tiny/blocks.csv", &trace)) {
        for (uint32_t o = 0; o < trace.ops.n; o++)
            if (trace.ops.at[o].phase == MR_BACKWARD) trace.ops.at[o].phase = MR_UPDATE;
        CHECK_EQ(chain_step_of(&ctx, &trace, 128, &step), MR_EUNSUPPORTED);
        CHECK_HAS(ctx.failure.text, "has no backward pass");
    }
    mr_ctx_clear(&ctx);
}

TEST(budgets_are_sizes_or_parts_of_the_peak)
{
    mr_ctx ctx = {0};
    uint64_t bytes = 0;
    CHECK_EQ(step_budget(&ctx, 1000, "60%", &bytes), MR_OK);
    CHECK_EQ(bytes, 600);
    CHECK_EQ(step_budget(&ctx, 1000, "2KiB", &bytes), MR_OK);
    CHECK_EQ(bytes, 2048);
    CHECK_EQ(step_budget(&ctx, 1000, "0%", &bytes), MR_EUSAGE);
    CHECK_EQ(step_budget(&ctx, 1000, "much", &bytes), MR_EUSAGE);
    CHECK_HAS(ctx.failure.text, "such as 60%, not 'much'");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
