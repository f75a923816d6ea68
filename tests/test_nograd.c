/* nograd: what inference leaves out, what the referee makes of it, and what is refused. */
#include "evaluate.h"
#include "format.h"
#include "rewrite_check.h"
#include "strategies.h"

#include "test.h"

static mr_status rewritten(mr_ctx *ctx, const char *file, const char *spec, mr_trace *in,
                           mr_trace *out)
{
    const mr_read_options options = {0};
    mr_spec *parsed = MR_NEW(ctx, mr_spec);
    MR_TRY(mr_recording_read(ctx, mr_printf(ctx, "%s/%s", TRACES, file), &options, in));
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", spec), parsed));
    *out = *in;
    for (uint32_t i = 0; i < parsed->rewrites.n; i++) {
        const mr_stage *stage = &parsed->rewrites.at[i];
        *in = *out;
        MR_TRY(stage->strategy->rewrite(ctx, stage->params, in, out));
        MR_TRY(mr_rewrite_check(ctx, in, out));
        if (i + 1 < parsed->rewrites.n) mr_rewrite_settle(ctx, out);
    }
    return MR_OK;
}

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
    check_is_inference("models/bert-base-mlm-b32-s128.csv.gz", "nograd");
    check_is_inference("models/resnet50-b64-i224.csv.gz", "nograd");
    check_is_inference("models/resnet50-b64-i224.csv.gz", "inplace+nograd");
    check_is_inference("models/gpt2-small-b8-s1024.csv.gz", "nograd");
    check_is_inference("tiny/blocks.csv", "nograd+nograd");
}

/* In training 53 normalizations have a mean and a deviation of the batch, and count it. */
TEST(batch_normalization_reads_what_it_knows)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint32_t n = 0;
    CHECK(!rewritten(&ctx, "models/resnet50-b64-i224.csv.gz", "nograd", &in, &out));
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

static void refuses(const char *file, const char *spec, const char *why)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK_EQ(rewritten(&ctx, file, spec, &in, &out), MR_EUNSUPPORTED);
    CHECK_HAS(ctx.failure.text, why);
    mr_ctx_clear(&ctx);
}

TEST(several_steps_are_refused)
{
    refuses("models/bert-base-changing-b16.csv.gz", "nograd", "after an update");
    refuses("models/bert-base-mlm-b32-s128.csv.gz", "nograd+accumulate",
            "no forward and backward pass");
}

/* ---- deliberate mistakes ----------------------------------------------------------------- */

static uint32_t first_of(const mr_trace *trace, const char *name)
{
    uint32_t o = 0;
    while (!strstr(trace->ops.at[o].name, name)) o++;
    return o;
}

static void expect(void (*mistake)(mr_ctx *, const mr_trace *, mr_trace *),
                   const char *sentence)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK(!rewritten(&ctx, "models/bert-base-mlm-b32-s128.csv.gz", "nograd", &in, &out));
    mistake(&ctx, &in, &out);
    CHECK_EQ(mr_rewrite_check(&ctx, &in, &out), MR_EINVARIANT);
    CHECK_HAS(ctx.failure.text, sentence);
    mr_ctx_clear(&ctx);
}

static void hide_a_dropout(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    (void)ctx, (void)in;
    memmove(&out->stand_ins.at[0], &out->stand_ins.at[1],
            (out->stand_ins.n - 1) * sizeof *out->stand_ins.at);
    out->stand_ins.n--;
}

static void leave_out_a_product(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    (void)ctx;
    const uint32_t o = first_of(in, "addmm");
    for (uint32_t e = 0; e < out->events.n; e++)
        if (out->events.at[e].kind == MR_RUN && out->events.at[e].id == o)
            out->events.at[e] = (mr_event){MR_RUN, o - 1};
}

static void have_another_op_stand_in(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    (void)ctx, (void)in;
    out->stand_ins.at[0].op = 0;
}

static void give_the_input_of_another(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    (void)in;
    out->stand_ins.at[0].gives = mr_ids_of(ctx, 1, out->stand_ins.at[1].gives.at);
}

TEST(the_referee_sees_what_is_wrong_with_an_inference)
{
    expect(hide_a_dropout, "expected what op");
    expect(leave_out_a_product, "");
    expect(have_another_op_stand_in, "no new op has read");
    expect(give_the_input_of_another, "expected what op");
}

TEST_MAIN()
