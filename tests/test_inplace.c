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

/* ---- norm and activation as one op ------------------------------------------------------- */

#define RESNET "models/resnet50-b64-i224.csv.gz"

typedef struct facts {
    uint64_t peak, saved; /* saved: bytes that live when the backward pass begins */
    uint32_t fused, remarks;
} facts;

static facts after(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    facts f = {0};
    uint32_t at;
    if (evaluated(&ctx, file, spec, &in, answer)) {
        TEST_FAIL("%s, %s: %s", file, spec, ctx.failure.text);
    } else {
        const mr_trace *t = &answer->trace;
        f.peak = mr_schedule_peak(&answer->schedule, &at);
        f.remarks = t->remarks.n;
        for (uint32_t o = 0; o < t->ops.n; o++)
            f.fused += !strcmp(t->ops.at[o].name, "inplace_abn::forward");
        for (uint32_t e = 0; e < answer->schedule.events.n; e++) {
            const mr_event event = answer->schedule.events.at[e];
            if (event.kind == MR_RUN && t->ops.at[event.id].phase == MR_BACKWARD) break;
            if (event.kind == MR_ALLOC) f.saved += t->storages.at[event.id].bytes;
            if (event.kind == MR_FREE) f.saved -= t->storages.at[event.id].bytes;
        }
    }
    mr_ctx_clear(&ctx);
    return f;
}

/* Bytes of what norms read that an activation follows: what need not be kept. */
static uint64_t read_by_norms_before_relu(const char *file, uint32_t *n)
{
    mr_ctx ctx = {0};
    mr_trace t;
    uint64_t sum = 0;
    CHECK_EQ(recording(&ctx, file, &t), MR_OK);
    *n = 0;
    for (uint32_t o = 0; o + 1 < t.ops.n; o++) {
        const mr_op *norm = &t.ops.at[o];
        if (!strstr(norm->name, "batch_norm") || norm->phase != MR_FORWARD) continue;
        for (uint32_t p = o + 1; p < o + 3; p++) {
            const mr_op *relu = &t.ops.at[p];
            if (strcmp(relu->name, "aten::relu") || relu->in.at[0] != norm->out.at[0]) continue;
            sum += t.tensors.at[norm->in.at[0]].bytes;
            ++*n;
        }
    }
    mr_ctx_clear(&ctx);
    return sum;
}

/* Of the two tensors that norm and activation keep, one is left: up to half of all. */
TEST(a_norm_with_its_activation_keeps_one_tensor)
{
    static const char *const files[] = {RESNET, "models/resnet152-b32-i224.csv.gz",
                                        "models/unet-b8-i256.csv.gz"};
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        uint32_t n;
        const uint64_t bytes = read_by_norms_before_relu(files[i], &n);
        const facts plain = after(files[i], "inplace");
        const facts fused = after(files[i], "inplace:abn=relu");
        CHECK(n > 10);
        CHECK_EQ(fused.fused, n);
        CHECK_EQ(plain.saved - fused.saved, bytes);
        CHECK(fused.peak < plain.peak * 9 / 10);
        CHECK_EQ(after(files[i], "inplace:abn=invertible").fused, 0); /* relu has no inverse */
        CHECK_EQ(after(files[i], "inplace:abn=invertible").peak, plain.peak);
    }
}

TEST(fused_norms_go_with_what_else_there_is)
{
    CHECK(after(RESNET, "inplace:abn=relu+checkpoint").peak
          <= after(RESNET, "inplace+checkpoint").peak);
    CHECK_EQ(after(RESNET, "checkpoint+inplace:abn=relu").fused, 1); /* the only one outside */
    CHECK_EQ(after(RESNET, "inplace:abn=relu,module=blocks.3.*").fused, 2);
    CHECK(after(RESNET, "inplace:abn=relu,add=True+accumulate:4").fused > 100);
    CHECK(after(RESNET, "accumulate:4+inplace:abn=relu").fused > 100);
    CHECK(after(RESNET, "amp:bfloat16+inplace:abn=relu").fused > 10);
    CHECK(after(RESNET, "inplace:abn=relu+half:masters=True+fsdp").fused > 10);
}

static void plant_abn(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t forward = op_named(t, in->ops.n, "inplace_abn::forward");
    const uint32_t backward = op_named(t, in->ops.n, "inplace_abn::backward");
    const uint32_t pool = op_named(t, 0, "aten::max_pool2d_with_indices");
    CHECK(forward != MR_NONE && backward != MR_NONE && pool != MR_NONE);
    const uint32_t z = t->ops.at[forward].mutates.at[0];
    if (mistake == 0) t->ops.at[backward].in.at[0] = t->ops.at[backward].in.at[1];
    if (mistake == 1) forget_op(t, forward);
    if (mistake == 2) t->ops.at[forward].in = t->ops.at[backward].out;
    if (mistake == 3) t->stand_ins.n = 0;
    if (mistake == 4) t->ops.at[pool].mutates = step_ids(ctx, z, MR_NONE);
    if (mistake == 5) forget_op(t, backward);
    if (mistake == 6) t->stand_ins.at[0].gives.at[0] = t->stand_ins.at[0].gives.at[1];
}

TEST(the_referee_sees_norms_that_were_fused_wrongly)
{
    static const char *const said[] = {
        "but does not read tensor", "expected what",   "but no new op has read what",
        "expected what",            "what a new op wrote", "holds nothing yet",
        "expected what",
    };
    referee_says(RESNET, "inplace:abn=relu", plant_abn, said, MR_COUNT(said));
}

/* ---- as a planner would ------------------------------------------------------------------ */

/* Nothing is saved in inference: there most can be in place. */
TEST(all_that_goes_number_by_number_may_be_in_place)
{
    static const char *const files[] = {RESNET, "models/bert-base-mlm-b32-s128.csv.gz",
                                        "models/gpt2-small-b8-s1024.csv.gz"};
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        CHECK(after(files[i], "inplace:elementwise=True").peak
              <= after(files[i], "accumulate:1").peak);
        CHECK(after(files[i], "nograd+inplace:elementwise=True").peak * 10
              < after(files[i], "nograd").peak * 9);
        CHECK(after(files[i], "checkpoint+inplace:elementwise=True").peak
              <= after(files[i], "checkpoint").peak);
        CHECK(after(files[i], "amp+inplace:elementwise=True").peak
              <= after(files[i], "amp").peak);
    }
}

/* In either order, also where a gradient is a sum in place (of tied embeddings). */
TEST(micro_batches_are_done_in_place)
{
    static const char *const how[] = {"inplace:dropout=True", "inplace:elementwise=True"};
    for (size_t i = 0; i < MR_COUNT(how); i++) {
        mr_ctx ctx = {0};
        const char *first = mr_printf(&ctx, "%s+accumulate:4", how[i]);
        const char *last = mr_printf(&ctx, "accumulate:4+%s", how[i]);
        CHECK(after("models/bert-base-mlm-b32-s128.csv.gz", first).peak > 0);
        CHECK(after("models/bert-base-mlm-b32-s128.csv.gz", last).peak > 0);
        mr_ctx_clear(&ctx);
    }
}

/* What the forward pass is spared is no spare for the backward pass, which a remark says. */
TEST(spared_segments_are_spoken_of)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    CHECK_EQ(evaluated(&ctx, RESNET, "inplace", &in, answer), MR_OK);
    CHECK(answer->trace.remarks.n > 0);
    CHECK_HAS(answer->trace.remarks.at[answer->trace.remarks.n - 1],
              "has no spare of that size");
    CHECK_EQ(after("tiny/mlp.csv", "inplace").remarks, 0);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
