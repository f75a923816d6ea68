/* clip: the length of all gradients before the update; that PyTorch does the same is for the
 * twins (test_twins.c).
 */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define GPT "models/gpt2-small-generate-b8-s128.csv.gz"

static mr_answer *answer_to(mr_ctx *ctx, const char *spec)
{
    mr_trace *in = MR_NEW(ctx, mr_trace);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    if (evaluated(ctx, BERT, spec, in, answer)) TEST_FAIL("%s: %s", spec, ctx->failure.text);
    return answer;
}

static uint32_t count(const mr_answer *answer, const char *name)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < answer->trace.ops.n; o++)
        n += answer->trace.ops.at[o].phase == MR_UPDATE
             && !strcmp(answer->trace.ops.at[o].name, name);
    return n;
}

static const mr_op *op_of(const mr_answer *answer, const char *name)
{
    return &answer->trace.ops.at[op_named(&answer->trace, 0, name)];
}

/* BERT-base has 202 tensors of parameters, 109514298 numbers. */
TEST(gradients_are_read_twice_and_written_once)
{
    mr_ctx ctx = {0};
    const mr_answer *clipped = answer_to(&ctx, "clip");
    const mr_op *norm = op_of(clipped, "aten::_foreach_norm");
    CHECK_EQ(count(clipped, "aten::_foreach_norm"), 1);
    CHECK_EQ(norm->in.n, 202);
    CHECK_EQ(norm->out.n, 202);
    CHECK_EQ(norm->read, (uint64_t)4 * 109514298);
    const mr_op *stack = op_of(clipped, "aten::stack");
    CHECK_EQ(stack->written, 4 * 202);
    CHECK_EQ(predicted_peak(BERT, "clip"), predicted_peak(BERT, "accumulate:1"));
    mr_ctx_clear(&ctx);
}

TEST(one_by_one_each_gradient_has_two_ops)
{
    mr_ctx ctx = {0};
    const mr_answer *clipped = answer_to(&ctx, "clip:for-loop+optimizer:sgd");
    CHECK_EQ(count(clipped, "aten::linalg_vector_norm"), 202 + 1);
    CHECK_EQ(count(clipped, "aten::mul_"), 202);
    mr_ctx_clear(&ctx);
}

TEST(the_host_waits_where_it_has_to_know)
{
    mr_ctx ctx = {0};
    CHECK_EQ(count(answer_to(&ctx, "clip"), "aten::_local_scalar_dense"), 0);
    const mr_answer *asked = answer_to(&ctx, "clip:error_if_nonfinite=True");
    CHECK_EQ(count(asked, "aten::_local_scalar_dense"), 1);
    mr_ctx_clear(&ctx);
}

/* Of what is made of them before: gradients in 16 bits whose masters have 32, scaled ones. */
TEST(gradients_are_those_that_the_update_reads)
{
    mr_ctx ctx = {0};
    const mr_answer *half = answer_to(&ctx, "half:masters=True+clip");
    const mr_op *norm = op_of(half, "aten::_foreach_norm");
    CHECK_STR(half->trace.tensors.at[norm->in.at[0]].dtype, "float32");
    CHECK_EQ(norm->in.n, 202);
    const mr_answer *scaled = answer_to(&ctx, "clip+amp");
    const uint32_t unscale =
        op_named(&scaled->trace, 0, "aten::_amp_foreach_non_finite_check_and_unscale_");
    CHECK(unscale < op_named(&scaled->trace, 0, "aten::_foreach_norm"));
    mr_ctx_clear(&ctx);
}

static void same(const char *x, const char *y)
{
    mr_ctx ctx = {0};
    CHECK_EQ(predicted_peak(BERT, x), predicted_peak(BERT, y));
    CHECK_EQ(answer_to(&ctx, x)->trace.ops.n, answer_to(&ctx, y)->trace.ops.n);
    mr_ctx_clear(&ctx);
}

TEST(the_order_does_not_matter)
{
    same("clip+accumulate:4", "accumulate:4+clip");
    same("clip+checkpoint", "checkpoint+clip");
    same("clip+amp", "amp+clip");
    same("clip+optimizer:sgd", "optimizer:sgd+clip");
    same("clip+ddp", "ddp+clip");
    same("clip+offload:save_on_cpu", "offload:save_on_cpu+clip");
}

TEST(gradients_that_are_not_there_together_are_refused)
{
    refuses(BERT, "release+clip", "expected all gradients to be there");
    refuses(BERT, "clip+release", "looks at all gradients before it uses one");
    refuses(BERT, "nograd+clip", "has no update that reads gradients");
    refuses(GPT, "clip", "has no update that reads gradients");
}

/* ---- mistakes ---------------------------------------------------------------------------- */

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    (void)in;
    const uint32_t norm = op_named(out, 0, "aten::_foreach_norm");
    const uint32_t product = op_named(out, norm, "aten::_foreach_mul_");
    mr_op *op = &out->ops.at[product];
    if (mistake == 0) op->moves = false; /* gradients are something else now */
    if (mistake == 1) { /* one becomes another */
        op->mutates = mr_ids_of(ctx, op->mutates.n, op->mutates.at);
        op->mutates.at[0] = op->in.at[1];
        op->mutates.at[1] = op->in.at[0];
    }
    if (mistake == 2) forget_op(out, op_named(out, 0, "aten::_foreach_addcmul_"));
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {"expected", "expected", "expected what op"};
    referee_says(BERT, "clip", plant, said, MR_COUNT(said));
}

TEST_MAIN()
