/* half: everything that has 32 bits has 16, but for what norms note; and who is refused. */
#include "evaluate.h"
#include "format.h"
#include "rewrite_check.h"
#include "strategies.h"

#include "test.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

static mr_status rewritten(mr_ctx *ctx, const char *file, mr_trace *in, mr_trace *out)
{
    const mr_read_options options = {0};
    mr_spec spec;
    MR_TRY(mr_recording_read(ctx, mr_printf(ctx, "%s/%s", TRACES, file), &options, in));
    MR_TRY(mr_spec_parse(ctx, mr_strategies, "half/bound", &spec));
    const mr_stage *stage = &spec.rewrites.at[0];
    MR_TRY(stage->strategy->rewrite(ctx, stage->params, in, out));
    MR_TRY(mr_trace_check(ctx, out));
    return mr_rewrite_check(ctx, in, out);
}

static uint64_t bytes_of(const mr_trace *trace, mr_role role)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].role == role) sum += trace->storages.at[s].bytes;
    return sum;
}

TEST(everything_is_halved_but_statistics)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    if (rewritten(&ctx, BERT, &in, &out)) TEST_FAIL("%s", ctx.failure.text);
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_parameter), bytes_of(&in, MR_ROLE_parameter));
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_gradient), bytes_of(&in, MR_ROLE_gradient));
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_state), bytes_of(&in, MR_ROLE_state));
    CHECK_EQ(bytes_of(&out, MR_ROLE_input), bytes_of(&in, MR_ROLE_input));
    for (uint32_t o = 0; o < out.ops.n; o++)
        if (!strcmp(out.ops.at[o].name, "aten::native_layer_norm"))
            CHECK_STR(out.tensors.at[out.ops.at[o].out.at[1]].dtype, "float32");
    mr_ctx_clear(&ctx);
}

TEST(what_is_half_already_is_refused)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK_EQ(rewritten(&ctx, "models/vit-b16-b64-i224-bf16.csv.gz", &in, &out),
             MR_EUNSUPPORTED);
    CHECK_HAS(ctx.failure.text, "is of precision bfloat16");
    mr_ctx_clear(&ctx);
}

TEST(the_referee_sees_shapes_that_changed)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK(!rewritten(&ctx, BERT, &in, &out));
    for (uint32_t t = 0; t < out.tensors.n; t++)
        if (!strcmp(out.tensors.at[t].dtype, "bfloat16")) out.tensors.at[t].dtype = "float32";
    CHECK_EQ(mr_rewrite_check(&ctx, &in, &out), MR_EINVARIANT);
    CHECK_HAS(ctx.failure.text, "expected the shape and place");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
