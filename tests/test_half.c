/* half: everything that has 32 bits has 16, but for what norms note; and who is refused. */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

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
    if (rewritten(&ctx, BERT, "half", &in, &out)) TEST_FAIL("%s", ctx.failure.text);
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
    refuses("models/vit-b16-b64-i224-bf16.csv.gz", "half", "is of precision bfloat16");
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    (void)ctx, (void)in;
    for (uint32_t t = 0; t < out->tensors.n && mistake == 0; t++)
        if (!strcmp(out->tensors.at[t].dtype, "bfloat16")) out->tensors.at[t].dtype = "float32";
}

TEST(the_referee_sees_shapes_that_changed)
{
    static const char *const said[] = {"expected the shape and place"};
    referee_says(BERT, "half", plant, said, MR_COUNT(said));
}

TEST_MAIN()
