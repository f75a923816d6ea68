/* skip_reuse: skips made where they are joined; that PyTorch can do the same is for the twin
 * (test_twins.c).
 */
#include "rewritten.h"

#define UNET "models/unet-b8-i256.csv.gz"
#define SD "models/sd-unet-b4-i512.csv.gz"

/* Skips of 64 to 512 channels, 256 to 32 points wide; the largest result is there from the
 * beginning, and at the peak no skip is there beside it. */
TEST(skips_are_there_once)
{
    uint64_t skips = 0;
    for (uint32_t i = 0; i < 4; i++)
        skips += ((uint64_t)8 * 64 << i) * (uint64_t)(256 >> i) * (uint64_t)(256 >> i) * 4;
    CHECK_EQ(predicted_peak(UNET, "accumulate:1") - predicted_peak(UNET, "skip_reuse"), skips);
}

static uint64_t moved(const mr_op *op)
{
    return op->read + op->written;
}

TEST(what_is_skipped_is_not_copied)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t joins = 0;
    if (evaluated(&ctx, UNET, "skip_reuse", &in, &answer)) TEST_FAIL("%s", ctx.failure.text);
    for (uint32_t o = 0; o < in.ops.n; o++) {
        if (strcmp(in.ops.at[o].name, "aten::cat") != 0) continue;
        const mr_op *op = &answer.trace.ops.at[o];
        CHECK_STR(op->name, "aten::copy_");
        CHECK_EQ(2 * moved(op), moved(&in.ops.at[o])); /* both are of one size */
        joins++;
    }
    CHECK_EQ(joins, 4);
    mr_ctx_clear(&ctx);
}

TEST(it_goes_with_others)
{
    CHECK_EQ(predicted_peak(UNET, "skip_reuse+accumulate:4"),
             predicted_peak(UNET, "accumulate:4+skip_reuse"));
    CHECK_EQ(predicted_peak(UNET, "skip_reuse+half"), predicted_peak(UNET, "half+skip_reuse"));
    CHECK_EQ(predicted_peak(UNET, "skip_reuse+inplace"),
             predicted_peak(UNET, "inplace+skip_reuse"));
    CHECK_EQ(predicted_peak(SD, "skip_reuse+sdpa"), predicted_peak(SD, "sdpa+skip_reuse"));
    CHECK(predicted_peak(UNET, "skip_reuse+checkpoint") < predicted_peak(UNET, "checkpoint"));
    CHECK(predicted_peak(UNET, "amp+skip_reuse") < predicted_peak(UNET, "amp"));
}

TEST(what_cannot_be_placed_is_refused)
{
    refuses(UNET, "checkpoint+skip_reuse", "skip_reuse comes before what recomputes");
    refuses(UNET, "skip_reuse+skip_reuse", "joins nothing with aten::cat");
    refuses(UNET, "nograd+skip_reuse", "that is still needed after that");
    refuses(UNET, "skip_reuse+amp", "expected amp before that");
    refuses(UNET, "skip_reuse+offload", "expected none, for all of a storage is copied");
    refuses("models/gpt2-small-b8-s1024.csv.gz", "skip_reuse", "joins nothing with aten::cat");
    refuses("models/gpt2-small-generate-b8-s128.csv.gz", "skip_reuse", "joins nothing");
}

/* ---- mistakes ---------------------------------------------------------------------------- */

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    const uint32_t join = op_named(in, 0, "aten::cat");
    mr_op *op = &out->ops.at[join];
    mr_tensor *skip = &out->tensors.at[op->in.at[0]];
    const mr_tensor *whole = &out->tensors.at[op->mutates.at[0]];
    if (mistake == 0) skip->offset += 4;                        /* beside its place */
    if (mistake == 1) skip->offset = whole->bytes - skip->bytes; /* where the other one goes */
    if (mistake == 2) skip->bytes = whole->bytes;                /* rows of others too */
    if (mistake == 3) op->mutates = mr_ids_of(ctx, 1, &op->in.at[0]);
    if (mistake == 4) { /* the pool reads what lies behind it */
        mr_op *pool = &out->ops.at[op_named(in, 0, "aten::max_pool2d_with_indices")];
        const uint32_t t = out->tensors.n;
        const mr_tensor behind = out->tensors.at[pool->in.at[0]];
        MR_PUSH(ctx, &out->tensors, behind);
        out->tensors.at[t].offset += 64;
        pool->in = mr_ids_of(ctx, 1, &t);
    }
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {"expected", "expected", "expected", "expected",
                                       "expected the shape and place"};
    referee_says(UNET, "skip_reuse", plant, said, MR_COUNT(said));
}

TEST_MAIN()
