/* Checkpointing: regions found, published figures of uniform chains, what cannot be run again.
 */
#include "rewritten.h"

#define BLOCKS "tiny/blocks.csv"

/* ---- uniform chains ---------------------------------------------------------------------- */

static mr_trace uniform_chain(mr_ctx *ctx, uint32_t n)
{
    step_op *list = MR_NEW_N(ctx, step_op, n - 1);
    for (uint32_t i = 0; i + 1 < n; i++)
        list[i] = (step_op){"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true};
    mr_trace t = step_of(ctx, list, n - 1); /* with the linear op: n stages */
    step_save(ctx, &t, 0, t.ops.at[0].out.at[0], MR_SAVED_OUTPUT);
    return t;
}

static uint32_t count_again(const mr_trace *t)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < t->events.n; e++)
        n += t->events.at[e].kind == MR_RUN && t->ops.at[t->events.at[e].id].again != MR_NONE;
    return n;
}

static uint32_t root(uint32_t n)
{
    uint32_t r = 1;
    while ((r + 1) * (r + 1) <= n) r++;
    return r;
}

/* Chen et al.: n/k in a segment and k kept, k being the root of n; n - n/k stages run again,
 * for the last segment does not.  Kept are the input and the ends of all segments but the last
 * two: the last end is among the n/k already, and the one before is made again with its
 * segment. At the peak there are two gradients beside: one is read, one is made. */
static void check_chain(uint32_t n)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const uint32_t k = root(n);
    const mr_trace t = uniform_chain(&ctx, n);
    if (step_evaluate(&ctx, &t, "checkpoint:sqrt", answer)) TEST_FAIL("%s", ctx.failure.text);
    else {
        const uint64_t fixed = 64; /* the weight; the number that is the loss is gone by then */
        CHECK_EQ(count_again(&answer->trace), n - n / k);
        CHECK_EQ(answer->metrics.peak_requested, (n / k + k - 1 + 2) * STEP_BYTES + fixed);
    }
    mr_ctx_clear(&ctx);
}

TEST(a_uniform_chain_takes_twice_the_root_of_its_length)
{
    static const uint32_t squares[] = {16, 25, 64, 100, 144, 256, 400, 625, 1024};
    for (size_t i = 0; i < MR_COUNT(squares); i++) check_chain(squares[i]);
}

TEST(segments_of_every_length_take_the_longest_and_all_kept)
{
    for (uint32_t length = 2; length < 64; length++) {
        mr_ctx ctx = {0};
        mr_answer *answer = MR_NEW(&ctx, mr_answer);
        const mr_trace t = uniform_chain(&ctx, 64);
        const char *spec = mr_printf(&ctx, "checkpoint:every=%u", length);
        CHECK_EQ(step_evaluate(&ctx, &t, spec, answer), MR_OK);
        const uint32_t k = (64 + length - 1) / length, last = 64 - (k - 1) * length;
        CHECK_EQ(count_again(&answer->trace), 64 - last);
        CHECK_EQ(answer->metrics.peak_requested, (length + k - 1 + 2) * STEP_BYTES + 64);
        mr_ctx_clear(&ctx);
    }
}

TEST(two_segments_leave_the_second_alone)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const mr_trace t = uniform_chain(&ctx, 7);
    CHECK_EQ(step_evaluate(&ctx, &t, "checkpoint:segments=2", answer), MR_OK);
    CHECK_EQ(count_again(&answer->trace), 4);
    mr_ctx_clear(&ctx);
}

/* ---- early stop -------------------------------------------------------------------------- */

/* The last op of the segment saves only what it reads: it does not run again. */
TEST(running_again_stops_when_all_that_was_saved_is_there)
{
    static const step_op list[] = {
        {"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true},
        {"aten::gelu", "aten::gelu_backward", .saves_input = true},
        {"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true},
        {"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true}};
    mr_ctx ctx = {0};
    mr_answer *stop = MR_NEW(&ctx, mr_answer), *all = MR_NEW(&ctx, mr_answer);
    const mr_trace t = step_of(&ctx, list, MR_COUNT(list));
    CHECK_EQ(step_evaluate(&ctx, &t, "checkpoint:every=3", stop), MR_OK);
    t.storages.at[1].role = MR_ROLE_activation; /* the input, as if it needed a gradient */
    CHECK_EQ(step_evaluate(&ctx, &t, "checkpoint:every=3,reentrant=True", all), MR_OK);
    CHECK_EQ(count_again(&stop->trace), 2);
    CHECK_EQ(count_again(&all->trace), 3);
    mr_ctx_clear(&ctx);
}

TEST(random_ops_run_again_as_what_they_were)
{
    static const step_op list[] = {
        {"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true},
        {"aten::drop", "aten::drop_backward", .saves_output = true, .random = true},
        {"aten::sigmoid", "aten::sigmoid_backward", .saves_output = true}};
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const mr_trace t = step_of(&ctx, list, MR_COUNT(list));
    uint32_t random = 0;
    CHECK_EQ(step_evaluate(&ctx, &t, "checkpoint:every=3", answer), MR_OK);
    for (uint32_t o = 0; o < answer->trace.ops.n; o++)
        random += answer->trace.ops.at[o].random && answer->trace.ops.at[o].again != MR_NONE;
    CHECK_EQ(random, 1);
    mr_ctx_clear(&ctx);
}

/* ---- regions that are modules ------------------------------------------------------------ */

static const char *ran_again(mr_ctx *ctx, const mr_trace *t)
{
    const char *text = "";
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        if (op->again != MR_NONE)
            text = mr_printf(ctx, "%s%s%s", text, *text ? " " : "", op->module);
    }
    return text;
}

TEST(repeated_blocks_are_found)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace in;
    CHECK_EQ(evaluated(&ctx, BLOCKS, "checkpoint", &in, answer), MR_OK);
    CHECK_STR(
        ran_again(&ctx, &answer->trace),
        "blocks.1.linear blocks.1.norm blocks.1.norm blocks.1.relu blocks.1 blocks.1.dropout"
        " blocks.0.linear blocks.0.norm blocks.0.norm blocks.0.relu blocks.0"
        " blocks.0.dropout");
    mr_ctx_clear(&ctx);
}

TEST(a_pattern_chooses_modules)
{
    static const struct pair {
        const char *spec, *again;
    } pairs[] = {
        {"checkpoint:module=blocks.1",
         "blocks.1.linear blocks.1.norm blocks.1.norm blocks.1.relu"
         " blocks.1 blocks.1.dropout"},
        {"checkpoint:module=blocks.*.norm", "blocks.1.norm blocks.0.norm"},
        {"checkpoint:module=[blocks.0.relu,blocks.1.relu]", "blocks.1.relu blocks.0.relu"},
        {"checkpoint:module=bl*.*.r*", "blocks.1.relu blocks.0.relu"},
    };
    for (size_t i = 0; i < MR_COUNT(pairs); i++) {
        mr_ctx ctx = {0};
        mr_answer *answer = MR_NEW(&ctx, mr_answer);
        mr_trace in;
        if (evaluated(&ctx, BLOCKS, pairs[i].spec, &in, answer))
            TEST_FAIL("%s", ctx.failure.text);
        else CHECK_STR(ran_again(&ctx, &answer->trace), pairs[i].again);
        mr_ctx_clear(&ctx);
    }
}

TEST(neighbouring_modules_become_segments)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace in;
    if (evaluated(&ctx, BLOCKS, "checkpoint:module=blocks.*,segments=2", &in, answer))
        TEST_FAIL("%s", ctx.failure.text);
    else
        CHECK_STR(ran_again(&ctx, &answer->trace), "blocks.0.linear blocks.0.norm blocks.0.norm"
                                                   " blocks.0.relu blocks.0 blocks.0.dropout");
    mr_ctx_clear(&ctx);
}

/* Kept from forward, it is let go of by the second run, where that has read it. */
TEST(results_of_chosen_ops_are_taken_from_the_first_run)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace in;
    if (evaluated(&ctx, BLOCKS, "checkpoint:module=blocks.0,keep=[mm,relu]", &in, answer))
        TEST_FAIL("%s", ctx.failure.text);
    else
        CHECK_STR(ran_again(&ctx, &answer->trace),
                  "blocks.0.norm blocks.0.norm blocks.0 blocks.0.dropout");
    mr_ctx_clear(&ctx);
}

static void expect_refusal(const char *spec, const char *sentence)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace in;
    CHECK(evaluated(&ctx, BLOCKS, spec, &in, answer) != MR_OK);
    CHECK_HAS(ctx.failure.text, sentence);
    mr_ctx_clear(&ctx);
}

TEST(what_cannot_be_done_is_refused_with_the_reason)
{
    expect_refusal("checkpoint:module=encoder.*",
                   "no module of 'blocks.csv' that runs forward is"
                   " called 'encoder.*'");
    expect_refusal("checkpoint:sqrt,every=2", "expected only one of");
    expect_refusal("checkpoint+checkpoint", "it is computed again already");
    expect_refusal("checkpoint:attention", "has no attention by its formula");
    expect_refusal("checkpoint:keep=mm,reentrant=True", "a reentrant checkpoint cannot keep");
    expect_refusal("checkpoint:module=blocks.*,segments=3", "fewer such modules than segments");
    expect_refusal("checkpoint:segments=1", "is no chain that can be cut in two");
    expect_refusal("checkpoint:groups=[1,1]", "groups goes with module");
    expect_refusal("checkpoint:module=blocks.*,groups=[1,7]", "expected how many modules each");
    expect_refusal("checkpoint:module=blocks.*,groups=[0]", "expected how many modules each");
    expect_refusal("checkpoint:module=blocks.*,groups=2", "expected how many modules each");
}

/* What the model of a recording was wrapped in: stretches of its layers, of unequal length.
 * The first reads only the picture, which needs no gradient. */
TEST(groups_of_modules_run_again_as_one)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const char *const groups = "checkpoint:module=features.*,groups=[5,5,7,7,7]";
    CHECK_EQ(evaluated(&ctx, "models/vgg16-b64-i224.csv.gz", groups, &in, answer), MR_OK);
    CHECK_EQ(answer->trace.remarks.n, 0);
    CHECK_EQ(evaluated(&ctx, "models/vgg16-b64-i224.csv.gz",
                       mr_printf(&ctx, "%s,reentrant=True", groups), &in, answer),
             MR_OK);
    CHECK_EQ(answer->trace.remarks.n, 1);
    CHECK_HAS(answer->trace.remarks.at[0], "PyTorch would not train it");
    mr_ctx_clear(&ctx);
}

/* Sums by the engine in a place of their own; in place there are none without a region. */
static uint32_t sums_apart(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    uint32_t n = 0;
    if (evaluated(&ctx, file, spec, &in, answer)) TEST_FAIL("%s: %s", spec, ctx.failure.text);
    for (uint32_t o = 0; o < answer->trace.ops.n; o++) {
        const mr_op *op = &answer->trace.ops.at[o];
        n += op->phase == MR_BACKWARD && op->of == MR_NONE && op->again == MR_NONE
             && !strcmp(op->name, "aten::add");
    }
    mr_ctx_clear(&ctx);
    return n;
}

/* A block that ends with the sum of a residual connection hands its gradient on to that sum,
 * which a reentrant checkpoint's caller holds.  So it was recorded of a ViT with two blocks. */
TEST(gradients_of_reentrant_regions_are_not_added_to_in_place)
{
    static const char vit[] = "models/vit-b16-b64-i224.csv.gz",
                      gpt[] = "models/gpt2-small-b8-s1024.csv.gz";
    const uint32_t plain = sums_apart(vit, "checkpoint");
    CHECK_EQ(sums_apart(vit, "checkpoint:reentrant=True"), plain + 12);
    CHECK_EQ(sums_apart(gpt, "checkpoint:module=blocks.*.attention,reentrant=True"),
             sums_apart(gpt, "checkpoint:module=blocks.*.attention"));
    CHECK(predicted_peak(vit, "checkpoint:reentrant=True")
          >= predicted_peak(vit, "checkpoint"));
}

TEST(a_trace_without_dataflow_says_how_to_record_more)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace trace;
    CHECK_EQ(recording(&ctx, "tiny/streams.csv", &trace), MR_OK);
    CHECK_EQ(step_evaluate(&ctx, &trace, "checkpoint", answer), MR_EUNSUPPORTED);
    CHECK_HAS(ctx.failure.text, "a recording by traces/record/memreuse_record.py does");
    mr_ctx_clear(&ctx);
}

/* A statistic is brought up to date by both runs; changing anything else twice is refused. */
TEST(a_region_that_changes_what_it_has_not_made_stays)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace trace;
    CHECK_EQ(recording(&ctx, BLOCKS, &trace), MR_OK);
    for (uint32_t s = 0; s < 4; s++) /* the count in block 1 is no buffer any more */
        if (s == 3) trace.storages.at[s].role = MR_ROLE_input;
    CHECK_EQ(step_evaluate(&ctx, &trace, "checkpoint", answer), MR_OK);
    CHECK_EQ(count_again(&answer->trace), 6);
    CHECK_EQ(answer->trace.remarks.n, 1);
    CHECK_STR(answer->trace.remarks.at[0],
              "checkpoint leaves blocks.1 as it is: its op aten::add_"
              " changes a tensor that it has not made");
    mr_ctx_clear(&ctx);
}

static bool remarks(const mr_trace *trace, const char *what)
{
    for (uint32_t i = 0; i < trace->remarks.n; i++)
        if (strstr(trace->remarks.at[i], what)) return true;
    return false;
}

/* Stages that run again may take more than what is let go. */
TEST(revolve_says_when_it_saves_nothing)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    CHECK(!evaluated(&ctx, "models/twins/vgg16-b16.csv.gz", "revolve", &in, &answer));
    CHECK(remarks(&answer.trace, "revolve saves nothing here"));
    CHECK(!evaluated(&ctx, "models/resnet50-b64-i224.csv.gz", "revolve", &in, &answer));
    CHECK(!remarks(&answer.trace, "revolve saves nothing here"));
    mr_ctx_clear(&ctx);
}

TEST(budgets_that_are_too_small_are_told_in_one_form)
{
    const char *resnet = "models/resnet50-b64-i224.csv.gz";
    refuses(resnet, "rotor:budget=1GiB", "no plan within 1.00 GiB; 'resnet50-b64-i224.csv.gz'"
                                         " can be brought down from 5.37 GiB");
    refuses(resnet, "chen:budget=10%", "no plan within 549.53 MiB");
}

TEST_MAIN()
