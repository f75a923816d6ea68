/* The placer, the driver of online allocators, and the referee, which is fed wrong answers. */
#include "scripted.h"

static const char *placed(mr_ctx *ctx, const char *script, const char *spec, uint64_t capacity)
{
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    *trace = scripted(ctx, script);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    if (scripted_run(ctx, trace, spec, capacity, 1, answer)) return ctx->failure.text;
    return shown_cmds(ctx, &answer->placement);
}

TEST(native_asks_the_device_for_every_tensor)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "0=64 1+100 0- 2+50 1- 2-", "native", UINT64_MAX),
              "R0:64 0>0:0+64 | R1:100 1>1:0+100 0- X0 R2:50 2>2:0+50 1- X1 2- X2");
    mr_ctx_clear(&ctx);
}

TEST(memory_that_another_stream_may_use_is_held_until_it_is_done)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "1+100 1~ 2+50 1! 2-", "native", UINT64_MAX),
              "R0:100 1>0:0+100 1~ R1:50 2>1:0+50 1- X0 2- X1");
    mr_ctx_clear(&ctx);
}

TEST(a_free_that_was_pending_from_the_start_is_completed)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "1=100 1! 2+50", "native", UINT64_MAX),
              "R0:100 1>0:0+100 | 1~ 1- X0 R1:50 2>1:0+50");
    CHECK_STR(placed(&ctx, "1=100 1~ 1! 2+50", "native", UINT64_MAX),
              "R0:100 1>0:0+100 | 1~ 1- X0 R1:50 2>1:0+50");
    mr_ctx_clear(&ctx);
}

TEST(the_first_refusal_ends_the_run)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "1+100 2+50 1- 3+10", "native", 120), "R0:100 1>0:0+100 2?");
    CHECK_STR(placed(&ctx, "0=200 1+100", "native", 120), "0?");
    mr_ctx_clear(&ctx);
}

TEST(a_request_that_was_refused_then_takes_nothing_now)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "1?100 2+50", "native", UINT64_MAX),
              "R0:100 1>0:0+100 1- X0 R1:50 2>1:0+50");
    mr_ctx_clear(&ctx);
}

TEST(nothing_is_a_block_of_its_own)
{
    mr_ctx ctx = {0};
    static const char *const specs[] = {"native", "bound", "pytorch"};
    for (size_t i = 0; i < MR_COUNT(specs); i++)
        CHECK_HAS(placed(&ctx, "1+0 1-", specs[i], UINT64_MAX), "+0 1-");
    mr_ctx_clear(&ctx);
}

TEST(metrics_are_those_of_the_commands)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0=64 1+100 0- 2+50 1- 2-");
    mr_answer answer;
    CHECK_EQ(scripted_run(&ctx, &trace, "native", UINT64_MAX, 1, &answer), MR_OK);
    CHECK_EQ(answer.metrics.peak_requested, 164);
    CHECK_EQ(answer.metrics.peak_reserved, 164);
    CHECK_EQ(answer.metrics.device_calls, 5); /* what was there before is no call */
    CHECK_EQ(scripted_run(&ctx, &trace, "bound", UINT64_MAX, 1, &answer), MR_OK);
    CHECK_EQ(answer.metrics.peak_reserved, 164);
    CHECK_EQ(answer.metrics.device_calls, 0);
    mr_ctx_clear(&ctx);
}

TEST(a_seam_waits_for_the_streams_of_what_it_frees)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "0+64 1+50 1-");
    mr_answer answer;
    trace.storages.at[0].deferred = true; /* as when a cut leaves its free out */
    CHECK_EQ(scripted_run(&ctx, &trace, "native", UINT64_MAX, 3, &answer), MR_OK);
    CHECK_EQ(answer.metrics.peak_allocated, 114);
    CHECK_EQ(answer.metrics.peak_reserved, 114);
    mr_ctx_clear(&ctx);
}

static const mr_stat *stat_named(const mr_placement *placement, const char *name)
{
    uint32_t i = 0;
    while (i < placement->stats.n && strcmp(placement->stats.at[i].name, name) != 0) i++;
    return i < placement->stats.n ? &placement->stats.at[i] : NULL;
}

TEST(the_allocators_own_statistics_come_along)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "1+1000 1- 2+40000000 3+40000000 2- 4+50000000");
    mr_answer answer;
    CHECK_EQ(scripted_run(&ctx, &trace, "pytorch", 96 * MR_MIB, 1, &answer), MR_OK);
    const mr_stat *stat = stat_named(&answer.placement, "allocated_bytes.small_pool");
    CHECK(stat);
    CHECK_EQ(stat ? stat->peak : 0, 1024);
    CHECK_EQ(stat ? stat->current : 1, 0);
    CHECK_EQ(answer.placement.retries, 1);
    mr_ctx_clear(&ctx);
}

TEST(options_of_pytorch_arrive)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed(&ctx, "1+20971520 1- 2+31457280",
                     "pytorch:garbage_collection_threshold=0.1,"
                     "set_per_process_memory_fraction=0.001953125", /* 128 MiB */
                     200 * MR_MIB),
              "R0:20971520 1>0:0+20971520 1- X0 R1:31457280 2>1:0+31457280");
    CHECK_HAS(placed(&ctx, "1+1000", "pytorch:conf=[max_split_size_mb:64],version=2.4",
                     UINT64_MAX),
              "1>0:0+1024");
    CHECK_HAS(placed(&ctx, "1+1000", "pytorch:version=2.16", UINT64_MAX), "2.0 to 2.15");
    CHECK_HAS(placed(&ctx, "1+1000", "pytorch:version=2.x", UINT64_MAX), "no version number");
    CHECK_HAS(placed(&ctx, "1+3000000",
                     "pytorch:expandable_segments=True,large_segment_size_mb=21", UINT64_MAX),
              "CUDA driver error: invalid argument");
    mr_ctx_clear(&ctx);
}

TEST(segments_that_grow_say_by_which_page)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "1+1000 2+3000000");
    mr_answer answer;
    CHECK_EQ(scripted_run(&ctx, &trace, "pytorch:expandable_segments=True", MR_GIB, 1, &answer),
             MR_OK);
    CHECK_EQ(answer.placement.segments.n, 2);
    const mr_segment *small = &answer.placement.segments.at[0], *large = small + 1;
    CHECK_EQ(small->page, 2 * MR_MIB);
    CHECK(!small->large);
    CHECK_EQ(large->page, 20 * MR_MIB);
    CHECK(large->large);
    mr_ctx_clear(&ctx);
}

/* 20 MiB of an expandable range, of whose pages nothing is known, are there from the start. */
static mr_status begun_with_a_range(mr_ctx *ctx, mr_trace *trace, mr_answer *answer)
{
    static const mr_device device = {.name = "test", .memory = MR_GIB};
    mr_history history = {.held = 1, .capacity_high = UINT64_MAX};
    MR_PUSH(ctx, &history.segments,
            (mr_segment){.address = MR_GIB, .large = true, .expandable = true});
    MR_PUSH(ctx, &history.start, (mr_piece){.storage = 0, .bytes = 20 * MR_MIB});
    MR_PUSH(ctx, &trace->histories, history);
    mr_spec spec;
    MR_TRY(mr_spec_parse(ctx, mr_strategies, "pytorch:expandable_segments=True", &spec));
    const mr_question question = {.trace = trace,
                                  .spec = &spec,
                                  .device = &device,
                                  .capacity = MR_GIB,
                                  .iterations = 1,
                                  .as_recorded = true};
    return mr_evaluate(ctx, &question, answer);
}

TEST(a_segment_of_the_start_says_by_which_page_it_grows)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "0=20971520 1+20971520");
    mr_answer answer;
    CHECK_EQ(begun_with_a_range(&ctx, &trace, &answer), MR_OK);
    CHECK_STR(shown_cmds(&ctx, &answer.placement),
              "R0:0 M0:0:20971520 0>0:0+20971520 | M0:20971520:20971520 "
              "1>0:20971520+20971520");
    CHECK_EQ(answer.placement.segments.at[0].page, 20 * MR_MIB);
    mr_ctx_clear(&ctx);
}

TEST(growth_is_what_every_further_iteration_adds)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0=64 0- 1+64 2+50 2-");
    mr_answer answer;
    CHECK_EQ(scripted_run(&ctx, &trace, "native", UINT64_MAX, 5, &answer), MR_OK);
    CHECK_EQ(answer.metrics.growth, 0);
    CHECK_EQ(answer.placement.seams.n, 5);
    CHECK_EQ(answer.metrics.peak_reserved, 114);
    CHECK_EQ(answer.placement.cmds.n, 5 * 8 + 4 * 2 + 2); /* a carry is two commands */
    mr_ctx_clear(&ctx);
}

/* ---- the referee ------------------------------------------------------------------------- */

typedef struct wrong {
    mr_ctx ctx;
    mr_trace trace;
    mr_answer answer;
} wrong;

/* "1+100 2+50 1- 2-" on the native placement: R0 1> R1 2> 1- X0 2- X1 */
static wrong *right_answer(void)
{
    wrong *w = calloc(1, sizeof *w);
    w->trace = scripted(&w->ctx, "1+100 2+50 1- 2-");
    CHECK_EQ(scripted_run(&w->ctx, &w->trace, "native", UINT64_MAX, 1, &w->answer), MR_OK);
    return w;
}

static void must_say(wrong *w, const char *what)
{
    if (mr_placement_check(&w->ctx, &w->answer.placement, UINT64_MAX, 1) != MR_EINVARIANT)
        TEST_FAIL("the referee saw nothing, expected '%s'", what);
    else
        CHECK_HAS(w->ctx.failure.text, what);
    mr_ctx_clear(&w->ctx);
    free(w);
}

TEST(the_referee_sees_overlapping_blocks)
{
    wrong *w = right_answer();
    w->answer.placement.cmds.at[3].block = (mr_block){.segment = 0, .offset = 60, .bytes = 50};
    must_say(w, "binds beyond the end");
    w = right_answer();
    w->answer.placement.cmds.at[3].block = (mr_block){.segment = 0, .offset = 50, .bytes = 50};
    must_say(w, "binds over the block of another storage (found 1, expected 2)");
}

TEST(the_referee_sees_what_was_there_before_and_was_not_placed)
{
    wrong *w = right_answer();
    w->trace.storages.at[0].bytes = 64;
    w->trace.storages.at[0].before = w->trace.storages.at[0].after = true;
    must_say(w, "a storage that was live before has no place");
}

TEST(the_referee_sees_a_block_that_is_too_small)
{
    wrong *w = right_answer();
    w->answer.placement.cmds.at[3].block.bytes = 49;
    must_say(w, "gives less than was asked for (found 49, expected 50)");
}

TEST(the_referee_sees_memory_used_before_it_is_held_and_after)
{
    wrong *w = right_answer();
    const mr_cmd reserve = w->answer.placement.cmds.at[2];
    w->answer.placement.cmds.at[2] = w->answer.placement.cmds.at[3];
    w->answer.placement.cmds.at[3] = reserve;
    must_say(w, "uses a segment that is not held");
    w = right_answer();
    const mr_cmd unbind = w->answer.placement.cmds.at[4];
    w->answer.placement.cmds.at[4] = w->answer.placement.cmds.at[5];
    w->answer.placement.cmds.at[5] = unbind;
    must_say(w, "releases a segment with bound blocks");
}

TEST(the_referee_sees_what_is_missing_and_what_is_too_much)
{
    wrong *w = right_answer();
    w->answer.placement.cmds.n = 6;
    must_say(w, "is missing");
    w = right_answer();
    w->answer.placement.cmds.at[1].id = 2;
    must_say(w, "is not what the schedule asks for");
    w = right_answer();
    w->answer.placement.cmds.at[3].block.segment = 7;
    must_say(w, "names a segment that does not exist");
    w = right_answer();
    w->answer.placement.cmds.at[4].id = 99;
    must_say(w, "names what does not exist");
}

/* "1+100 2+50 1~ 2~ 3+10 1! 2! 3-" by native: R0 1> R1 2> 1~ 2~ R2 3> 1- X0 2- X1 3- X2 */
static wrong *deferring_answer(void)
{
    wrong *w = calloc(1, sizeof *w);
    w->trace = scripted(&w->ctx, "1+100 2+50 1~ 2~ 3+10 1! 2! 3-");
    CHECK_EQ(scripted_run(&w->ctx, &w->trace, "native", UINT64_MAX, 1, &w->answer), MR_OK);
    return w;
}

static void move(wrong *w, uint32_t from, uint32_t to)
{
    mr_cmd *cmds = w->answer.placement.cmds.at;
    const mr_cmd moved = cmds[from];
    for (; from > to; from--) cmds[from] = cmds[from - 1];
    cmds[to] = moved;
}

TEST(the_referee_sees_another_block_deferred)
{
    wrong *w = deferring_answer();
    w->answer.placement.cmds.at[4].block.segment = 1;
    must_say(w, "defers another block than was bound (found 1, expected 2)");
    w = deferring_answer();
    w->answer.placement.cmds.at[4].block.segment = 7;
    must_say(w, "names a segment that does not exist");
}

TEST(the_referee_lets_all_deferred_frees_take_effect_early_or_none)
{
    wrong *w = deferring_answer();
    move(w, 8, 6); /* the first alone, while storage 3 is asked for */
    must_say(w, "but not all (found 1, expected 0)");
    w = deferring_answer();
    move(w, 8, 6);
    move(w, 10, 7);
    CHECK_EQ(mr_placement_check(&w->ctx, &w->answer.placement, UINT64_MAX, 1), MR_OK);
    mr_ctx_clear(&w->ctx);
    free(w);
    w = deferring_answer();
    move(w, 8, 5); /* before the second is deferred: nobody waits for anything */
    must_say(w, "is not what the schedule asks for");
}

TEST(the_referee_sees_a_device_that_is_too_small)
{
    wrong *w = right_answer();
    CHECK_EQ(mr_placement_check(&w->ctx, &w->answer.placement, 149, 1), MR_EINVARIANT);
    CHECK_HAS(w->ctx.failure.text, "takes more than the device has left");
    CHECK_EQ(mr_placement_check(&w->ctx, &w->answer.placement, 150, 1), MR_OK);
    mr_ctx_clear(&w->ctx);
    free(w);
}

TEST(the_referee_sees_unmapped_memory)
{
    wrong *w = calloc(1, sizeof *w);
    w->trace = scripted(&w->ctx, "1+100 1-"); /* bound: R0 M0 1> 1- U0 X0 */
    CHECK_EQ(scripted_run(&w->ctx, &w->trace, "bound", UINT64_MAX, 1, &w->answer), MR_OK);
    w->answer.placement.cmds.at[1].block.bytes = 99;
    must_say(w, "binds where nothing is mapped");
}

TEST(the_referee_sees_memory_unmapped_under_a_block)
{
    wrong *w = calloc(1, sizeof *w);
    w->trace = scripted(&w->ctx, "1+100 1-");
    CHECK_EQ(scripted_run(&w->ctx, &w->trace, "bound", UINT64_MAX, 1, &w->answer), MR_OK);
    w->answer.placement.cmds.at[3] = w->answer.placement.cmds.at[4];
    must_say(w, "unmaps memory under a bound block");
}

TEST_MAIN()
