/* Planned places for what recurs, an allocator for the rest: by hand, then for random steps. */
#include "scripted.h"

static const char *placed_as(mr_ctx *ctx, const mr_trace *trace, const char *spec,
                             uint32_t iterations)
{
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    if (scripted_run(ctx, trace, spec, UINT64_MAX, iterations, answer))
        return ctx->failure.text;
    return shown_cmds(ctx, &answer->placement);
}

static const char *placed_in(mr_ctx *ctx, const mr_trace *trace, uint32_t iterations)
{
    return placed_as(ctx, trace, "stalloc:dynamic_algo=dynamic-only", iterations);
}

static const char *placed(mr_ctx *ctx, const char *script, uint32_t iterations)
{
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    *trace = scripted(ctx, script);
    return placed_in(ctx, trace, iterations);
}

/* Steps of a recording, each a script. */
static mr_trace steps_of(mr_ctx *ctx, const char *const *scripts, uint32_t n)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "steps");
    MR_PUSH(ctx, &trace.marks, (mr_mark){MR_STEP_BEGIN, ""});
    for (uint32_t i = 0; i < n; i++) {
        const char *script = scripts[i];
        MR_PUSH(ctx, &trace.events, (mr_event){MR_MARK, 0});
        while (*script) {
            scripted_token(ctx, &trace, script);
            script += strcspn(script, " ");
            script += strspn(script, " ");
        }
    }
    return trace;
}

TEST(one_step_is_its_own_plan)
{
    mr_ctx ctx = {0};
    /* 3 comes when 1 is gone and finds room below 2. */
    CHECK_STR(placed(&ctx, "1+1024 2+1000 1- 3+512 2- 3-", 1),
              "R0:2048 1>0:0+1024 2>0:1024+1024 1- 3>0:0+512 2- 3-");
    mr_ctx_clear(&ctx);
}

TEST(what_stays_lies_below_what_comes_and_goes)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "0=512 1+2048 1- 2+1024 2-", 2),
              "R0:2560 0>0:0+512 | 1>0:512+2048 1- 2>0:512+1024 2- "
              "1>0:512+2048 1- 2>0:512+1024 2-");
    mr_ctx_clear(&ctx);
}

/* 2 is of another size in each step: it alone goes to PyTorch's allocator, which asks for 2 MiB
 * and, above 1 MiB, for 20. */
TEST(a_request_that_varies_is_dynamic)
{
    static const char *const scripts[] = {
        "1+1024 2+600 3+2048 1- 2- 3-", "4+1024 5+2000000 6+2048 4- 5- 6-",
        "7+1024 8+4000 9+2048 7- 8- 9-"};
    mr_ctx ctx = {0};
    const mr_trace trace = steps_of(&ctx, scripts, 3);
    CHECK_STR(placed_in(&ctx, &trace, 1),
              "R0:3072 1>0:0+1024 R1:2097152 2>1:0+1024 3>0:1024+2048 1- 2- 3- "
              "4>0:0+1024 R2:20971520 5>2:0+2000384 6>0:1024+2048 4- 5- 6- "
              "7>0:0+1024 8>1:0+4096 9>0:1024+2048 7- 8- 9-");
    mr_ctx_clear(&ctx);
}

/* 2 comes when 1 is gone, and has its place as long as that is idle: where 3 comes before 2 goes,
 * it lies above that, and where it is too large it goes to PyTorch's allocator.  4 is in use. */
TEST(what_varies_lies_in_idle_parts_of_the_pool)
{
    static const char *const steps[] = {"1+4096 4+512 1- 2+600 2- 3+2048 3- 4-",
                                        "11+4096 14+512 11- 12+1500 13+2048 12- 13- 14-",
                                        "21+4096 24+512 21- 22+2049 23+2048 22- 23- 24-"};
    mr_ctx ctx = {0};
    const mr_trace trace = steps_of(&ctx, steps, 3);
    CHECK_STR(placed_as(&ctx, &trace, "stalloc", 1),
              "R0:4608 1>0:0+4096 4>0:4096+512 1- 2>0:0+1024 2- 3>0:0+2048 3- 4- "
              "11>0:0+4096 14>0:4096+512 11- 12>0:2048+1536 13>0:0+2048 12- 13- 14- "
              "21>0:0+4096 24>0:4096+512 21- R1:2097152 22>1:0+2560 23>0:0+2048 22- 23- 24-");
    mr_ctx_clear(&ctx);
}

/* A step with one request more, and one with one less: what they have in common is planned. */
TEST(steps_are_aligned_by_what_they_have_in_common)
{
    static const char *const scripts[] = {"1+1024 2+512 3+1024 1- 2- 3-", "4+1024 5+1024 4- 5-",
                                          "6+1024 7+4096 8+512 9+1024 6- 7- 8- 9-"};
    mr_ctx ctx = {0};
    const mr_trace trace = steps_of(&ctx, scripts, 3);
    CHECK_STR(placed_in(&ctx, &trace, 1),
              "R0:2048 1>0:0+1024 R1:2097152 2>1:0+512 3>0:1024+1024 1- 2- 3- "
              "4>0:0+1024 5>0:1024+1024 4- 5- "
              "6>0:0+1024 7>1:0+4096 8>1:4096+512 9>0:1024+1024 6- 7- 8- 9-");
    mr_ctx_clear(&ctx);
}

/* In the second step 1's counterpart outlives 2's: their places must not be one. */
TEST(lives_of_all_steps_count)
{
    static const char *const scripts[] = {"1+1024 1- 2+512 2-", "3+1024 4+512 3- 4-"};
    mr_ctx ctx = {0};
    const mr_trace trace = steps_of(&ctx, scripts, 2);
    CHECK_STR(placed_in(&ctx, &trace, 1),
              "R0:1536 1>0:0+1024 1- 2>0:1024+512 2- 3>0:0+1024 4>0:1024+512 3- 4-");
    mr_ctx_clear(&ctx);
}

/* 0 is a gradient: there before the step, which lets go of it and makes 2 for the next. */
TEST(what_is_handed_to_the_next_step_keeps_its_place)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "0=1024 1+512 0- 2+1024 1-");
    trace.storages.at[2].after = true;
    CHECK_STR(placed_in(&ctx, &trace, 3),
              "R0:1536 0>0:512+1024 | 1>0:0+512 0- 2>0:512+1024 1- 2- "
              "0>0:512+1024 1>0:0+512 0- 2>0:512+1024 1- 2- "
              "0>0:512+1024 1>0:0+512 0- 2>0:512+1024 1-");
    mr_ctx_clear(&ctx);
}

TEST(no_pool_no_plan)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "1+1024 2+1024 1- 2-");
    mr_answer answer;
    CHECK_EQ(scripted_run(&ctx, &trace, "stalloc", 2047, 1, &answer), MR_OK);
    CHECK_EQ(answer.placement.oom_at, 0);
    CHECK_EQ(scripted_run(&ctx, &trace, "stalloc", 2048, 1, &answer), MR_OK);
    CHECK_EQ(answer.placement.oom_at, MR_NONE);
    mr_ctx_clear(&ctx);
}

/* ---- random steps ------------------------------------------------------------------------ */

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The same requests in each step, of which one in so many has another size, is left out, lives
 * longer, or comes on another stream. */
static mr_trace random_steps(mr_ctx *ctx, uint64_t seed, uint32_t one_in)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "random");
    MR_PUSH(ctx, &trace.streams, 7);
    MR_PUSH(ctx, &trace.marks, (mr_mark){MR_STEP_BEGIN, ""});
    uint64_t chance = seed;
    MR_VEC(uint32_t) live = {0};
    for (uint32_t step = 0; step < 4; step++) {
        uint64_t same = seed + 99;
        MR_PUSH(ctx, &trace.events, (mr_event){MR_MARK, 0});
        for (uint32_t i = 0; i < 200; i++) {
            const uint64_t bytes = 1 + draw(&same) % ((uint32_t)2 << draw(&same) % 24);
            const bool comes = draw(&same) % 100 < 55, varies = draw(&chance) % one_in == 0;
            const uint32_t which = draw(&same);
            if (comes && !(varies && draw(&chance) % 2)) {
                MR_PUSH(ctx, &trace.storages,
                        (mr_storage){.bytes = varies ? bytes / 2 : bytes,
                                     .stream = varies && draw(&chance) % 2,
                                     .stack = MR_NONE});
                MR_PUSH(ctx, &live, trace.storages.n - 1);
                MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, trace.storages.n - 1});
            } else if (live.n && !varies) {
                const uint32_t k = which % live.n;
                MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, live.at[k]});
                live.at[k] = live.at[--live.n];
            }
        }
    }
    return trace;
}

TEST(random_steps_are_placed_without_overlaps)
{
    for (uint64_t seed = 0; seed < 120; seed++) {
        mr_ctx ctx = {0};
        const mr_trace trace = random_steps(&ctx, seed, 2 + (uint32_t)seed % 60);
        mr_answer answer;
        if (scripted_run(&ctx, &trace, "stalloc", UINT64_MAX, 1 + (uint32_t)seed % 3,
                         &answer))
            TEST_FAIL("seed %d: %s", (int)seed, ctx.failure.text);
        mr_ctx_clear(&ctx);
    }
}

TEST_MAIN()
