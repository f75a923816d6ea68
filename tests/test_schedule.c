/* Lifetimes: as recorded, as they follow from ops, and repeated. */
#include "scripted.h"

static const char *schedule_of(mr_ctx *ctx, const mr_trace *trace, uint32_t device,
                               uint32_t iterations)
{
    mr_schedule once, all;
    if (mr_schedule_make(ctx, trace, device, &once)) return ctx->failure.text;
    if (mr_schedule_repeat(ctx, &once, iterations, &all)) return ctx->failure.text;
    return shown_events(ctx, &all);
}

static uint32_t add_tensor(mr_ctx *ctx, mr_trace *trace, uint64_t bytes, bool kept)
{
    MR_PUSH(ctx, &trace->storages,
            (mr_storage){.bytes = bytes, .stack = MR_NONE, .before = kept, .after = kept});
    const uint32_t storage = trace->storages.n - 1;
    MR_PUSH(ctx, &trace->tensors,
            (mr_tensor){.name = "", .dtype = "", .storage = storage, .bytes = bytes});
    return trace->tensors.n - 1;
}

static void add_op(mr_ctx *ctx, mr_trace *trace, uint32_t in, uint32_t out)
{
    uint32_t *ids = MR_NEW_N(ctx, uint32_t, 2);
    ids[0] = in;
    ids[1] = out;
    MR_PUSH(ctx, &trace->ops,
            (mr_op){.name = "op", .module = "", .again = MR_NONE, .of = MR_NONE,
                    .in = {ids, 1}, .out = {ids + 1, 1}});
    MR_PUSH(ctx, &trace->events, (mr_event){MR_RUN, trace->ops.n - 1});
}

/* weight 0 stays; tensor i + 1 is made of tensor i */
static mr_trace chain(mr_ctx *ctx, uint32_t n)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "chain");
    trace.has = MR_HAS_DATAFLOW;
    add_tensor(ctx, &trace, 100, true);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t made = add_tensor(ctx, &trace, 10, false);
        add_op(ctx, &trace, made - 1, made);
    }
    return trace;
}

/* PyTorch's dropout on a GPU asks for the mask before the result that it returns first. */
TEST(dropout_asks_for_its_mask_first)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 1);
    const uint32_t mask = add_tensor(&ctx, &trace, 1, false);
    mr_op *op = &trace.ops.at[0];
    const uint32_t made[] = {op->out.at[0], mask};
    op->out = mr_ids_of(&ctx, 2, made);
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 +2 #0 -1 -2");
    op->name = "aten::native_dropout";
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+2 +1 #0 -1 -2");
    mr_ctx_clear(&ctx);
}

TEST(recorded_events_are_taken_as_they_are)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0=64 1+100 2+200 1~ 0- flush 1! 2-");
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 +2 -1 -0 flush !1 -2");
    mr_ctx_clear(&ctx);
}

TEST(only_the_events_of_one_device_are_taken)
{
    mr_ctx ctx = {0};
    mr_trace trace = scripted(&ctx, "0+1 1+1 2+1 1- 0- 2-");
    trace.storages.at[1].device = 3;
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+0 +2 -0 -2");
    CHECK_STR(schedule_of(&ctx, &trace, 3, 1), "+1 -1");
    CHECK_HAS(schedule_of(&ctx, &trace, 5, 1), "no events on device 5");
    mr_ctx_clear(&ctx);
}

TEST(a_storage_lives_from_its_writer_to_its_last_reader)
{
    mr_ctx ctx = {0};
    const mr_trace trace = chain(&ctx, 3);
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 +2 #1 -1 +3 #2 -2 -3");
    mr_ctx_clear(&ctx);
}

TEST(aliases_share_one_life)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 3);
    trace.tensors.at[2].storage = 1;
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 #1 +3 #2 -1 -3");
    mr_ctx_clear(&ctx);
}

TEST(a_reference_that_the_program_keeps_prolongs_a_life)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 3);
    MR_PUSH(&ctx, &trace.events, (mr_event){MR_DROP, 1});
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 +2 #1 +3 #2 -2 -3 -1");
    mr_ctx_clear(&ctx);
}

TEST(what_an_op_saved_lives_until_its_gradient_is_computed)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 4);
    mr_saved saved = {1, MR_SAVED_OUTPUT};
    trace.ops.at[0].saved.at = &saved;
    trace.ops.at[0].saved.n = 1;
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 +2 #1 -1 +3 #2 -2 +4 #3 -3 -4");
    trace.ops.at[2].of = 0;
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 +2 #1 +3 #2 -1 -2 +4 #3 -3 -4");
    mr_ctx_clear(&ctx);
}

TEST(what_outlives_the_step_is_not_freed)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 2);
    trace.storages.at[2].after = true;
    CHECK_STR(schedule_of(&ctx, &trace, 0, 1), "+1 #0 +2 #1 -1");
    mr_ctx_clear(&ctx);
}

TEST(what_ends_alive_is_carried_to_what_the_next_iteration_expects)
{
    mr_ctx ctx = {0};
    /* storage 0 is last step's gradient, 1 the new one; 2 has no partner, nor has 3 */
    const mr_trace trace = scripted(&ctx, "0=64 3=7 0- 1+64 2+9 3-");
    CHECK_STR(schedule_of(&ctx, &trace, 0, 2),
              "-0 +1 +2 -3 -2 1>0 +3 -0 +1 +2 -3");
    mr_ctx_clear(&ctx);
}

TEST(a_pending_free_is_over_when_the_next_iteration_begins)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0+64 0~");
    CHECK_STR(schedule_of(&ctx, &trace, 0, 2), "+0 -0 !0 +0 -0");
    mr_ctx_clear(&ctx);
}

TEST(too_many_iterations_are_refused)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0+64 0- 1+1 1-");
    mr_schedule once, all;
    CHECK_EQ(mr_schedule_make(&ctx, &trace, 0, &once), MR_OK);
    CHECK_EQ(mr_schedule_repeat(&ctx, &once, 2000000000, &all), MR_EUSAGE);
    mr_ctx_clear(&ctx);
}

/* A parameter 0, its state 1, its gradient 2 of the step before, which is let go; an activation 3,
 * the new gradient 4, made by the backward pass, which the next step knows as 2. */
static mr_trace training(mr_ctx *ctx)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "training");
    trace.has = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_DROPS;
    for (uint32_t s = 0; s < 5; s++) add_tensor(ctx, &trace, s == 3 ? 10 : 100, s < 2);
    trace.storages.at[1].role = MR_ROLE_state;
    trace.storages.at[2].role = trace.storages.at[4].role = MR_ROLE_gradient;
    trace.storages.at[2].before = trace.storages.at[4].after = true;
    MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, 2});
    MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, 3});
    add_op(ctx, &trace, 0, 3);
    MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, 4});
    add_op(ctx, &trace, 3, 4);
    MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, 3});
    add_op(ctx, &trace, 4, 1);
    trace.ops.at[0].phase = MR_FORWARD;
    trace.ops.at[1].phase = MR_BACKWARD;
    trace.ops.at[2].phase = MR_UPDATE;
    return trace;
}

static const char *begun(mr_ctx *ctx, mr_trace *trace, uint32_t iterations)
{
    mr_schedule once, all;
    if (mr_schedule_make(ctx, trace, 0, &once)) return ctx->failure.text;
    if (mr_schedule_repeat(ctx, &once, iterations, &all)) return ctx->failure.text;
    mr_schedule_first_step(ctx, trace, &all);
    CHECK_EQ(all.ends.n, iterations);
    CHECK_EQ(all.ends.at[iterations - 1], all.events.n);
    return shown_events(ctx, &all);
}

TEST(the_first_step_makes_states_before_its_update_and_knows_no_gradient_before)
{
    mr_ctx ctx = {0};
    mr_trace trace = training(&ctx);
    const mr_trace recorded = trace;
    CHECK_STR(begun(&ctx, &trace, 2),
              "+3 #0 +4 #1 -3 +1 #2 4>2 -2 +3 #0 +4 #1 -3 #2");
    CHECK(recorded.storages.at[1].before && recorded.storages.at[2].before);
    CHECK(!trace.storages.at[1].before && !trace.storages.at[2].before);
    CHECK(trace.storages.at[0].before && trace.storages.at[1].after);
    mr_ctx_clear(&ctx);
}

/* Masters of parameters in half precision are made with them, not before the first update. */
TEST(a_state_that_is_copied_to_a_parameter_is_there_from_the_beginning)
{
    mr_ctx ctx = {0};
    mr_trace trace = training(&ctx);
    trace.storages.at[0].role = MR_ROLE_parameter;
    add_op(&ctx, &trace, 1, 0);
    mr_op *copy = &trace.ops.at[trace.ops.n - 1];
    copy->mutates = copy->out;
    copy->out.n = 0;
    copy->phase = MR_UPDATE;
    CHECK_STR(begun(&ctx, &trace, 1), "+3 #0 +4 #1 -3 +1 #2 #3");
    trace = training(&ctx);
    trace.storages.at[0].role = MR_ROLE_parameter;
    MR_PUSH(&ctx, &trace.ops, *copy);
    MR_PUSH(&ctx, &trace.events, (mr_event){MR_RUN, trace.ops.n - 1});
    trace.ops.at[trace.ops.n - 1].name = "aten::_foreach_copy_";
    CHECK_STR(begun(&ctx, &trace, 1), "+3 #0 +4 #1 -3 #2 #3");
    CHECK(trace.storages.at[1].before);
    mr_ctx_clear(&ctx);
}

/* A gradient that an op of the step reads has to be there. */
TEST(a_gradient_that_is_read_is_there_in_the_first_step_too)
{
    mr_ctx ctx = {0};
    mr_trace trace = training(&ctx);
    trace.events.at[0] = (mr_event){MR_ALLOC, 3};
    trace.events.at[1] = (mr_event){MR_RUN, 0};
    trace.events.at[2] = (mr_event){MR_FREE, 2};
    trace.ops.at[0].in.at[0] = 2;
    CHECK_STR(begun(&ctx, &trace, 2),
              "+3 #0 -2 +4 #1 -3 +1 #2 4>2 +3 #0 -2 +4 #1 -3 #2");
    CHECK(trace.storages.at[2].before);
    mr_ctx_clear(&ctx);
}

/* ---- batches ----------------------------------------------------------------------------- */

/* An input 0 with a part for each sample, another 1 without, which may be a weight, and an
 * activation 2. */
static mr_trace two_inputs(mr_ctx *ctx)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "training");
    trace.has = MR_HAS_DATAFLOW | MR_HAS_DROPS;
    add_tensor(ctx, &trace, 100, true);
    add_tensor(ctx, &trace, 70, true);
    add_tensor(ctx, &trace, 10, false);
    for (uint32_t s = 0; s < 2; s++) trace.storages.at[s].role = MR_ROLE_input;
    trace.storages.at[0].per_sample = 100;
    MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, 2});
    add_op(ctx, &trace, 0, 2);
    MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, 2});
    return trace;
}

static const char *trained(mr_ctx *ctx, mr_trace *trace, uint32_t iterations,
                           mr_batches batches)
{
    mr_schedule once, all;
    if (mr_schedule_make(ctx, trace, 0, &once)) return ctx->failure.text;
    if (mr_schedule_train(ctx, trace, &once, iterations, batches, &all))
        return ctx->failure.text;
    return shown_events(ctx, &all);
}

TEST(the_next_batch_comes_before_or_after_the_last_one_goes)
{
    mr_ctx ctx = {0};
    mr_trace trace = two_inputs(&ctx);
    const mr_trace recorded = trace;
    CHECK_STR(trained(&ctx, &trace, 3, MR_BATCHES_EARLY),
              "+2 #0 -2 +3 -0 3>0 +2 #0 -2 +3 -0 3>0 +2 #0 -2");
    CHECK_EQ(trace.storages.n, 4);
    CHECK(!trace.storages.at[3].before && trace.storages.at[3].bytes == 100);
    CHECK_EQ(recorded.storages.n, 3);
    trace = recorded;
    CHECK_STR(trained(&ctx, &trace, 2, MR_BATCHES_LATE), "+2 #0 -2 -0 +0 +2 #0 -2");
    CHECK_STR(trained(&ctx, &trace, 2, MR_BATCHES_SAME), "+2 #0 -2 +2 #0 -2");
    CHECK_EQ(trace.storages.n, 3);
    mr_ctx_clear(&ctx);
}

TEST(a_batch_is_told_by_its_first_dimension_where_parts_for_samples_are_not_known)
{
    mr_ctx ctx = {0};
    mr_trace trace = two_inputs(&ctx);
    const uint64_t shapes[] = {5, 7};
    trace.storages.at[0].per_sample = 0;
    for (uint32_t t = 0; t < 2; t++) {
        trace.tensors.at[t].shape = &shapes[t];
        trace.tensors.at[t].rank = 1;
    }
    const mr_trace recorded = trace;
    CHECK_STR(trained(&ctx, &trace, 2, MR_BATCHES_EARLY), "+2 #0 -2 +2 #0 -2");
    trace = recorded;
    trace.about[MR_ABOUT_batch] = "7";
    CHECK_STR(trained(&ctx, &trace, 2, MR_BATCHES_EARLY), "+2 #0 -2 +3 -1 3>1 +2 #0 -2");
    mr_ctx_clear(&ctx);
}

/* Of two recorded steps the second has a batch of its own, as large as the first one's. */
TEST(the_batch_of_the_last_recorded_step_goes_when_the_first_comes_again)
{
    static const struct {
        mr_batches batches;
        const char *events;
    } cases[] = {{MR_BATCHES_EARLY, "+1 -0 +2 #0 -2 +0 -1 +1 -0 +2 #0 -2"},
                 {MR_BATCHES_LATE, "+1 -0 +2 #0 -2 -1 +0 +1 -0 +2 #0 -2"},
                 {MR_BATCHES_SAME, "+1 -0 +2 #0 -2 1>0 +1 -0 +2 #0 -2"}};
    for (size_t i = 0; i < MR_COUNT(cases); i++) {
        mr_ctx ctx = {0};
        mr_trace trace = two_inputs(&ctx);
        trace.storages.at[1].per_sample = trace.storages.at[1].bytes = 100;
        trace.storages.at[1].before = trace.storages.at[0].after = false;
        trace.storages.at[1].after = true;
        trace.events.n = 0;
        MR_PUSH(&ctx, &trace.events, (mr_event){MR_ALLOC, 1});
        MR_PUSH(&ctx, &trace.events, (mr_event){MR_FREE, 0});
        MR_PUSH(&ctx, &trace.events, (mr_event){MR_ALLOC, 2});
        MR_PUSH(&ctx, &trace.events, (mr_event){MR_RUN, 0});
        MR_PUSH(&ctx, &trace.events, (mr_event){MR_FREE, 2});
        CHECK_STR(trained(&ctx, &trace, 2, cases[i].batches), cases[i].events);
        mr_ctx_clear(&ctx);
    }
}

TEST(the_peak_counts_what_was_there_before_and_what_is_not_reusable_yet)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "0=1000 1+100 1~ 2+10 1! 3+20 9?5000");
    mr_schedule schedule;
    uint32_t at;
    CHECK_EQ(mr_schedule_make(&ctx, &trace, 0, &schedule), MR_OK);
    CHECK_EQ(mr_schedule_peak(&schedule, &at), 1110);
    CHECK_EQ(at, 2);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
