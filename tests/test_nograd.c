/* nograd: what inference leaves out, what the referee makes of it, and what is refused. */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define RESNET "models/resnet50-b64-i224.csv.gz"

static void check_is_inference(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    if (rewritten(&ctx, file, spec, &in, &out)) TEST_FAIL("%s", ctx.failure.text);
    mr_rewrite_settle(&ctx, &out);
    for (uint32_t o = 0; o < out.ops.n; o++) {
        const mr_op *op = &out.ops.at[o];
        CHECK(op->phase != MR_BACKWARD && op->phase != MR_UPDATE);
        CHECK_EQ(op->saved.n, 0);
        CHECK(!op->random);
    }
    for (uint32_t s = 0; s < out.storages.n; s++) {
        const mr_role role = out.storages.at[s].role;
        CHECK(role != MR_ROLE_gradient && role != MR_ROLE_state && role != MR_ROLE_activation);
    }
    mr_ctx_clear(&ctx);
}

TEST(nothing_of_training_is_left)
{
    check_is_inference(BERT, "nograd");
    check_is_inference(RESNET, "nograd");
    check_is_inference(RESNET, "inplace+nograd");
    check_is_inference("models/gpt2-small-b8-s1024.csv.gz", "nograd");
    check_is_inference("tiny/blocks.csv", "nograd+nograd");
}

/* In training 53 normalizations have a mean and a deviation of the batch, and count it. */
TEST(batch_normalization_reads_what_it_knows)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint32_t n = 0;
    CHECK(!rewritten(&ctx, RESNET, "nograd", &in, &out));
    mr_rewrite_settle(&ctx, &out);
    for (uint32_t o = 0; o < out.ops.n; o++) {
        const mr_op *op = &out.ops.at[o];
        CHECK(strcmp(op->name, "aten::add_") != 0);
        if (!strstr(op->name, "batch_norm")) continue;
        n++;
        for (uint32_t i = 1; i < op->out.n; i++)
            CHECK_EQ(out.storages.at[out.tensors.at[op->out.at[i]].storage].bytes, 0);
    }
    CHECK_EQ(n, 53);
    mr_ctx_clear(&ctx);
}

/* What a dropout reads is in nobody's way when its result takes the place, unless it is read
 * once more behind it. */
/* As recorded: memory-efficient attention notes its sums for the backward pass only. */
TEST(fused_attention_notes_no_sums)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint32_t n = 0;
    if (rewritten(&ctx, "models/bert-base-mlm-b32-s128-sdpa.csv.gz", "nograd", &in, &out))
        TEST_FAIL("%s", ctx.failure.text);
    for (uint32_t o = 0; o < out.ops.n; o++) {
        const mr_op *op = &out.ops.at[o];
        if (op->phase != MR_FORWARD || !strstr(op->name, "dot_product_efficient")) continue;
        n += out.tensors.at[op->out.at[1]].bytes == 0;
    }
    CHECK_EQ(n, 12);
    mr_ctx_clear(&ctx);
}

TEST(a_dropout_stays_whose_input_is_read_again)
{
    static const step_op list[] = {
        {"aten::gelu", "aten::gelu_backward", .saves_input = true},
        {"aten::native_dropout", "aten::native_dropout_backward", .random = true}};
    for (int again = 0; again < 2; again++) {
        mr_ctx ctx = {0};
        mr_answer *answer = MR_NEW(&ctx, mr_answer);
        mr_trace t = step_of(&ctx, list, MR_COUNT(list));
        const uint32_t sum = op_named(&t, 0, "aten::sum");
        const uint32_t x = t.ops.at[2].in.at[0];
        if (again) t.ops.at[sum].in = step_ids(&ctx, t.ops.at[sum].in.at[0], x);
        if (step_evaluate(&ctx, &t, "nograd", answer)) TEST_FAIL("%s", ctx.failure.text);
        else CHECK_EQ(answer->trace.remarks.n, again);
        mr_ctx_clear(&ctx);
    }
}

TEST(several_steps_are_refused)
{
    refuses("models/bert-base-changing-b16.csv.gz", "nograd", "after an update");
    refuses(BERT, "nograd+accumulate", "no forward and backward pass");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static void hide_a_dropout(mr_trace *out)
{
    memmove(&out->stand_ins.at[0], &out->stand_ins.at[1],
            (out->stand_ins.n - 1) * sizeof *out->stand_ins.at);
    out->stand_ins.n--;
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    const uint32_t product = op_named(in, 0, "aten::addmm");
    mr_stand_in *first = &out->stand_ins.at[0], *next = &out->stand_ins.at[1];
    CHECK(product != MR_NONE && out->stand_ins.n > 1);
    if (mistake == 0) hide_a_dropout(out);
    if (mistake == 1) run_instead(out, product, product - 1);
    if (mistake == 2) first->op = 0;
    if (mistake == 3) first->gives = mr_ids_of(ctx, 1, next->gives.at);
}

TEST(the_referee_sees_what_is_wrong_with_an_inference)
{
    static const char *const said[] = {
        "expected what op",
        "(aten::t of layers.0.attention.query), which is done already",
        "no new op has read",
        "expected what op",
    };
    referee_says(BERT, "nograd", plant, said, MR_COUNT(said));
}

TEST_MAIN()
