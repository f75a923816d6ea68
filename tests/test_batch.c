/* batch: a step with another number of samples, and back. */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

TEST(a_batch_can_grow_and_shrink)
{
    CHECK_EQ(predicted_peak(BERT, "batch:8+batch:32"), predicted_peak(BERT, "batch:32"));
    CHECK_EQ(predicted_peak(BERT, "batch:64+batch:16"), predicted_peak(BERT, "batch:16"));
    CHECK(predicted_peak(BERT, "batch:64") > predicted_peak(BERT, "batch:32"));
}

TEST(other_rewrites_follow_the_new_batch)
{
    CHECK_EQ(predicted_peak(BERT, "batch:8+accumulate:1"), predicted_peak(BERT, "batch:8"));
    CHECK_EQ(predicted_peak(BERT, "batch:16+checkpoint"), predicted_peak(BERT, "checkpoint+batch:16"));
    CHECK(predicted_peak(BERT, "batch:64+accumulate:2") < predicted_peak(BERT, "batch:64"));
}

TEST(what_has_no_batch_is_refused)
{
    refuses("models/twins/bert-base-b8.csv.gz", "batch:32", "how many bytes a sample takes");
    refuses(BERT, "accumulate:2+batch:2", "expected batch before what divides it");
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    const uint32_t product = op_named(out, 0, "aten::addmm");
    mr_tensor *t = &out->tensors.at[out->ops.at[product].in.at[1]];
    CHECK(product != MR_NONE && t->rank == 2);
    if (mistake == 0) t->shape = in->tensors.at[out->ops.at[product].in.at[1]].shape;
    if (mistake == 0) t->shape = memcpy(MR_NEW_N(ctx, uint64_t, 2), t->shape, 16);
    if (mistake == 0) ((uint64_t *)(uintptr_t)t->shape)[0]--;
    if (mistake == 1) out->ops.at[product].flops--;
    if (mistake == 2) out->about[MR_ABOUT_batch] = in->about[MR_ABOUT_batch];
}

TEST(the_referee_sees_samples_that_are_missing)
{
    static const char *const said[] = {
        "expected the shape and place",
        "operations, expected",
        "expected the shape and place",
    };
    referee_says(BERT, "batch:8", plant, said, MR_COUNT(said));
}

TEST_MAIN()
