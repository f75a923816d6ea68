/* In place: what is saved, what is refused and who is in the way.
 *
 * The chains are those that were measured with real autograd: how many tensors are held after
 * the forward pass, and which chains end in "one of the variables needed for gradient
 * computation has been modified by an inplace operation".
 */
#include "rewritten.h"

/* ---- kinds of ops, with what their gradients need ---------------------------------------- */

static const step_op RELU = {"aten::relu", "aten::threshold_backward", .saves_output = true};
static const step_op TANH = {"aten::tanh", "aten::tanh_backward", .saves_output = true};
static const step_op EXP = {"aten::exp", "aten::mul", .saves_output = true};
static const step_op LEAKY = {"aten::leaky_relu", "aten::leaky_relu_backward",
                              .saves_input = true};
static const step_op ELU = {"aten::elu", "aten::elu_backward", .saves_input = true};
static const step_op GELU = {"aten::gelu", "aten::gelu_backward", .saves_input = true};
static const step_op SILU = {"aten::silu", "aten::silu_backward", .saves_input = true};
static const step_op DROPOUT = {"aten::native_dropout", "aten::native_dropout_backward",
                                .random = true};
static const step_op ADD = {.name = "aten::add"};

/* Bytes of activations at the end of the forward pass, in tensors, the chain's own input
 * counted. */
static uint64_t held(const mr_schedule *schedule)
{
    const mr_trace *t = schedule->trace;
    uint64_t live = 0, next = 0; /* what the next op needs */
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        const uint64_t bytes = event.kind <= MR_FREE ? t->storages.at[event.id].bytes : 0;
        if (event.kind == MR_RUN && t->ops.at[event.id].phase == MR_BACKWARD) break;
        if (event.kind == MR_ALLOC) next += bytes / STEP_BYTES;
        if (event.kind == MR_FREE) live -= bytes / STEP_BYTES;
        if (event.kind != MR_RUN) continue;
        live += next;
        next = 0;
    }
    return live;
}

static void check_held(const step_op *list, uint32_t n, const char *spec, uint64_t expected)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const mr_trace t = step_of(&ctx, list, n);
    if (step_evaluate(&ctx, &t, spec, answer)) TEST_FAIL("%s", ctx.failure.text);
    else if (held(&answer->schedule) != expected)
        TEST_FAIL("%s, %s: %d tensors are held, expected %d", list->name, spec,
                  (int)held(&answer->schedule), (int)expected);
    mr_ctx_clear(&ctx);
}

static void check_remark(const step_op *list, uint32_t n, const char *spec,
                         const char *sentence)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const mr_trace t = step_of(&ctx, list, n);
    if (step_evaluate(&ctx, &t, spec, answer)) TEST_FAIL("%s", ctx.failure.text);
    else if (!answer->trace.remarks.n) TEST_FAIL("%s: nothing is refused", list->name);
    else CHECK_HAS(answer->trace.remarks.at[0], sentence);
    mr_ctx_clear(&ctx);
}

#define CHAIN(...)                                                                             \
    ((const step_op[]){__VA_ARGS__}), sizeof((const step_op[]){__VA_ARGS__}) / sizeof(step_op)

/* ---- measured tables --------------------------------------------------------------------- */

TEST(an_op_that_saves_its_result_gains_nothing_after_the_forward_pass)
{
    check_held(CHAIN(RELU), "inplace", 1);
    check_held(CHAIN(TANH), "inplace", 1);
    check_held(CHAIN(EXP), "inplace", 1);
}

TEST(an_op_that_saves_its_result_instead_of_its_input_gains_a_tensor)
{
    check_held(CHAIN(LEAKY), "inplace", 1);
    check_held(CHAIN(ELU), "inplace", 1);
    check_held(CHAIN(LEAKY, RELU), "inplace", 2); /* one of them */
    check_held(CHAIN(ELU, LEAKY, TANH), "inplace", 2);
    check_remark(CHAIN(ELU, LEAKY, TANH), "inplace",
                 "inplace leaves aten::leaky_relu: it may not write over tensor 3, because"
                 " aten::elu_, in place, saved that as its output");
}

TEST(an_op_that_must_have_its_input_gains_nothing)
{
    check_remark(
        CHAIN(SILU, RELU), "inplace",
        "inplace leaves aten::silu: it may not write over tensor 2, because its gradient"
        " needs that, and in place it would copy it first");
    check_held(CHAIN(SILU, RELU), "inplace", 2);
}

TEST(version_errors_are_foreseen_and_name_the_saver)
{
    check_remark(
        CHAIN(EXP, ADD, GELU), "inplace:add=True",
        "inplace leaves aten::add: it may not write over tensor 3, because aten::exp saved"
        " that as its output, which aten::mul reads");
    check_remark(CHAIN(RELU, ADD, GELU), "inplace:add=True",
                 "inplace leaves aten::add: it may not write over tensor 3, because aten::relu"
                 " saved that as its output, which aten::threshold_backward reads");
    check_remark(CHAIN(GELU, RELU, TANH), "inplace",
                 "inplace leaves aten::tanh: it may not write over tensor 4, because aten::relu"
                 " saved that as its output, which aten::threshold_backward reads");
    check_remark(CHAIN(LEAKY, GELU, EXP, RELU), "inplace",
                 "inplace leaves aten::relu: it may not write over tensor 5, because aten::exp"
                 " saved that as its output, which aten::mul reads");
}

TEST(dropout_in_place_keeps_its_factors)
{
    check_remark(CHAIN(RELU, DROPOUT, GELU), "inplace:dropout=True",
                 "inplace leaves aten::native_dropout: it may not write over tensor 3, because"
                 " aten::relu saved that as its output, which aten::threshold_backward reads");
    check_held(CHAIN(GELU, DROPOUT, TANH), "inplace:dropout=True", 3);
    check_held(CHAIN(DROPOUT), "inplace:dropout=True", 1);
}

TEST(a_sum_may_be_in_place_where_nobody_saved_what_it_reads)
{
    check_held(CHAIN(ADD, GELU), "inplace:add=True", 1);
    check_held(CHAIN(ADD, ADD, RELU), "inplace:add=True", 1);
    check_held(CHAIN(ADD, GELU, ADD, RELU), "inplace:add=True", 2);
}

/* ---- what else is in the way ------------------------------------------------------------- */

typedef void change(mr_ctx *ctx, mr_trace *t);

static void check_changed(change *how, const char *sentence)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    mr_trace t = step_of(&ctx, CHAIN(RELU, GELU));
    how(&ctx, &t);
    if (step_evaluate(&ctx, &t, "inplace", answer)) TEST_FAIL("%s", ctx.failure.text);
    else if (!answer->trace.remarks.n) TEST_FAIL("nothing is refused, expected: %s", sentence);
    else CHECK_HAS(answer->trace.remarks.at[0], sentence);
    mr_ctx_clear(&ctx);
}

static uint32_t read_by_relu(const mr_trace *t)
{
    return t->ops.at[1].in.at[0];
}

static void is_read_later(mr_ctx *ctx, mr_trace *t)
{
    const uint32_t out = step_tensor(ctx, t, STEP_BYTES, MR_ROLE_temporary);
    uint32_t n = 0;
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind != MR_DROP || t->events.at[e].id != read_by_relu(t))
            t->events.at[n++] = t->events.at[e];
    t->events.n = n;
    step_run(ctx, t, "aten::norm", MR_OTHER, MR_NONE, read_by_relu(t), MR_NONE, out);
}

static void is_a_parameter(mr_ctx *ctx, mr_trace *t)
{
    (void)ctx;
    mr_storage *s = &t->storages.at[t->tensors.at[read_by_relu(t)].storage];
    s->before = s->after = true;
    s->role = MR_ROLE_parameter;
}

static void is_kept(mr_ctx *ctx, mr_trace *t)
{
    (void)ctx;
    t->storages.at[t->tensors.at[read_by_relu(t)].storage].after = true;
}

static void is_a_part(mr_ctx *ctx, mr_trace *t)
{
    (void)ctx;
    t->storages.at[t->tensors.at[read_by_relu(t)].storage].bytes *= 2;
}

static void is_of_another_type(mr_ctx *ctx, mr_trace *t)
{
    (void)ctx;
    t->tensors.at[t->ops.at[1].out.at[0]].dtype = "float64";
}

static void is_one_view_of_two(mr_ctx *ctx, mr_trace *t)
{
    const uint32_t x = read_by_relu(t);
    MR_PUSH(ctx, &t->tensors, t->tensors.at[x]);
    t->ops.at[0].out = step_ids(ctx, x, t->tensors.n - 1);
}

TEST(what_others_need_is_not_overwritten)
{
    check_changed(is_read_later, "because aten::norm reads that later");
    check_changed(is_a_parameter,
                  "because that is one of the parameters, there before the step");
    check_changed(is_kept, "because the program keeps that after the step");
    check_changed(is_a_part, "because that is a part of a larger memory");
    check_changed(is_of_another_type, "because its result has another shape or type than that");
    check_changed(is_one_view_of_two,
                  "because that is one of several views that aten::mm made");
}

TEST(a_step_without_activations_says_so)
{
    mr_ctx ctx = {0};
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const mr_trace t = step_of(&ctx, CHAIN(GELU));
    CHECK_EQ(step_evaluate(&ctx, &t, "inplace", answer), MR_EUNSUPPORTED);
    CHECK_HAS(ctx.failure.text, "has no op that 'inplace' could change");
    mr_ctx_clear(&ctx);
}

/* ---- together ---------------------------------------------------------------------------- */

TEST(with_checkpointing_the_order_does_not_matter)
{
    mr_ctx ctx = {0};
    mr_answer *a = MR_NEW(&ctx, mr_answer), *b = MR_NEW(&ctx, mr_answer);
    mr_trace t;
    CHECK_EQ(recording(&ctx, "tiny/blocks.csv", &t), MR_OK);
    CHECK_EQ(step_evaluate(&ctx, &t, "inplace+checkpoint", a), MR_OK);
    CHECK_EQ(step_evaluate(&ctx, &t, "checkpoint+inplace", b), MR_OK);
    CHECK_EQ(a->metrics.peak_requested, b->metrics.peak_requested);
    CHECK_EQ(a->trace.ops.n, b->trace.ops.n);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
