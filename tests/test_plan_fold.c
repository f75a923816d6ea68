/* Iterations that are alike are planned once. */
#include "plan.h"
#include "scripted.h"

/* "1>0+64": buffer 1 of the whole has the place of buffer 0 of the fold, of 64 bytes. */
static const char *folded(mr_ctx *ctx, const char *script, uint32_t iterations)
{
    const mr_trace trace = scripted(ctx, script);
    mr_schedule once, all;
    plan_problem whole;
    plan_fold fold;
    if (mr_schedule_make(ctx, &trace, 0, &once)) return ctx->failure.text;
    if (mr_schedule_repeat(ctx, &once, iterations, &all)) return ctx->failure.text;
    if (plan_listen(ctx, &all, 1, &whole)) return ctx->failure.text;
    if (!plan_fold_make(ctx, &whole, &fold)) return "no fold";
    const char *text = fold.exact ? "exact" : "at most";
    for (uint32_t i = 0; i < fold.problem.buffers.n; i++) {
        const plan_buffer *b = &fold.problem.buffers.at[i];
        text = mr_printf(ctx, "%s %llu-%llu:%llu", text, (unsigned long long)b->lower,
                         (unsigned long long)b->upper, (unsigned long long)b->bytes);
    }
    text = mr_printf(ctx, "%s |", text);
    for (uint32_t i = 0; i < whole.buffers.n; i++)
        text = mr_printf(ctx, "%s %u", text, fold.buffer[i]);
    return text;
}

TEST(what_comes_and_goes_is_one_buffer)
{
    mr_ctx ctx = {0};
    CHECK_STR(folded(&ctx, "1+64 2+32 1- 3+16 2- 3-", 2),
              "exact 1-3:64 2-5:32 4-6:16 | 0 1 2 0 1 2");
    CHECK_STR(folded(&ctx, "1+64 1-", 1), "no fold");
    mr_ctx_clear(&ctx);
}

TEST(what_stays_is_one_buffer)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "0=8 1+64 1-");
    CHECK(trace.storages.at[0].before);
    CHECK_STR(folded(&ctx, "0=8 1+64 1-", 3), "exact 0-3:8 1-2:64 | 0 1 1 1");
    mr_ctx_clear(&ctx);
}

/* What an iteration leaves alive is freed at its end, or handed to the next. */
TEST(what_is_handed_on_keeps_its_place)
{
    mr_ctx ctx = {0};
    CHECK_STR(folded(&ctx, "1+64 2+32 1-", 2), "exact 2-4:64 3-5:32 | 0 1 0 1");
    CHECK_STR(folded(&ctx, "0=32 1+64 0- 2+32 1-", 3), "at most 1-4:64 0-5:32 | 1 0 1 0 1 0 1");
    CHECK_STR(folded(&ctx, "0=32 1+64 2+32 0- 1-", 2), "no fold");
    mr_ctx_clear(&ctx);
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A table of lifetimes: nothing is there before or after. */
static mr_trace random_lives(mr_ctx *ctx, uint64_t seed, bool some_before)
{
    uint64_t state = seed * 2 + 1;
    mr_trace trace;
    mr_trace_init(ctx, &trace, "lives");
    MR_VEC(uint32_t) live = {0};
    while (trace.events.n < 160 || (live.n && !some_before)) {
        if (trace.events.n < 120 && draw(&state) % 100 < 52) {
            const bool before = some_before && trace.storages.n < 9;
            MR_PUSH(ctx, &trace.storages,
                    (mr_storage){
                        .bytes = 1 + draw(&state) % 60, .stack = MR_NONE, .before = before});
            MR_PUSH(ctx, &live, trace.storages.n - 1);
            if (!before)
                MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, trace.storages.n - 1});
        } else if (live.n > (some_before ? 5u : 0u)) {
            const uint32_t k = draw(&state) % live.n;
            MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, live.at[k]});
            live.at[k] = live.at[--live.n];
        } else if (trace.events.n >= 120) {
            break;
        }
    }
    return trace;
}

TEST(more_iterations_need_no_more_memory)
{
    static const char *const specs[] = {"plan", "plan:rule=tflite", "plan:rule=xla_temporal",
                                        "plan:rule=tvm_size", "plan:rule=inductor"};
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t i = 0; i < MR_COUNT(specs); i++) {
            mr_ctx ctx = {0};
            const mr_trace trace = random_lives(&ctx, seed, false);
            mr_answer one, three;
            CHECK_EQ(scripted_run(&ctx, &trace, specs[i], UINT64_MAX, 1, &one), MR_OK);
            CHECK_EQ(scripted_run(&ctx, &trace, specs[i], UINT64_MAX, 3, &three), MR_OK);
            CHECK_EQ(one.metrics.peak_reserved, three.metrics.peak_reserved);
            mr_ctx_clear(&ctx);
        }
}

TEST(whatever_lives_across_iterations_is_placed)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        mr_ctx ctx = {0};
        const mr_trace trace = random_lives(&ctx, seed, true);
        mr_answer answer;
        if (scripted_run(&ctx, &trace, seed % 2 ? "plan" : "plan:rule=first_fit", UINT64_MAX,
                         2 + (uint32_t)seed % 3, &answer))
            TEST_FAIL("seed %d: %s", (int)seed, ctx.failure.text);
        mr_ctx_clear(&ctx);
    }
}

/* The command lays out what it listens to; compare asks the strategy. */
TEST(one_iteration_is_planned_for_all_whoever_asks)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        mr_ctx ctx = {0};
        const plan_rule *rule = seed % 2 ? &plan_rules[0] : NULL;
        const plan_effort effort = {.threads = 1};
        const mr_trace trace = random_lives(&ctx, seed, seed % 3 == 0);
        mr_answer answer;
        mr_schedule once, all;
        plan_problem whole;
        plan_turns turns;
        plan_answer planned;
        if (mr_schedule_make(&ctx, &trace, 0, &once)) TEST_FAIL("%s", ctx.failure.text);
        CHECK_EQ(mr_schedule_repeat(&ctx, &once, 4, &all), MR_OK);
        CHECK_EQ(plan_listen(&ctx, &all, 1, &whole), MR_OK);
        CHECK_EQ(plan_turns_make(&ctx, &whole, &turns), MR_OK);
        plan_turns_solve(&ctx, &turns, rule, &effort, &planned);
        CHECK_EQ(plan_check(&ctx, &whole, &planned.layout), MR_OK);
        CHECK(planned.bound >= whole.load && planned.bound <= planned.layout.height);
        CHECK_EQ(scripted_run(&ctx, &trace, rule ? "plan:rule=tflite" : "plan", UINT64_MAX, 4,
                              &answer),
                 MR_OK);
        CHECK_EQ(answer.metrics.peak_reserved, planned.layout.height);
        mr_ctx_clear(&ctx);
    }
}

TEST_MAIN()
