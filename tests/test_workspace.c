/* workspace: what cuDNN and cuBLAS take beside an op's tensors. */
#include "rewritten.h"

#define RESNET "models/resnet50-b64-i224.csv.gz"

static uint64_t peak(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    uint64_t bytes = 0;
    if (evaluated(&ctx, file, spec, &in, &answer)) TEST_FAIL("%s: %s", spec, ctx.failure.text);
    else bytes = mr_schedule_peak(&answer.schedule, &at);
    mr_ctx_clear(&ctx);
    return bytes;
}

/* More than anything else that lives for one op: then the peak is in a convolution. */
TEST(a_convolution_takes_it_while_it_runs)
{
    const uint64_t small = peak(RESNET, "workspace:convolution=4GiB");
    CHECK_EQ(peak(RESNET, "workspace:convolution=5GiB"), small + MR_GIB);
    CHECK(peak(RESNET, "workspace:convolution=1KiB") <= peak(RESNET, "accumulate:1") + MR_KIB);
}

TEST(products_keep_it)
{
    const uint64_t plain = peak("models/bert-base-mlm-b32-s128.csv.gz", "accumulate:1");
    CHECK_EQ(peak("models/bert-base-mlm-b32-s128.csv.gz", "workspace:products=8320KiB"),
             plain + 8320 * MR_KIB);
}

/* Smaller batches, the same workspace. */
TEST(it_goes_with_others)
{
    CHECK_EQ(peak(RESNET, "workspace:products=1MiB+accumulate:4"),
             peak(RESNET, "accumulate:4") + MR_MIB);
    CHECK_EQ(peak(RESNET, "inplace+workspace:products=1MiB"), peak(RESNET, "inplace") + MR_MIB);
    CHECK(peak(RESNET, "workspace:convolution=64MiB+checkpoint")
          <= peak(RESNET, "checkpoint") + 64 * MR_MIB);
    CHECK(peak(RESNET, "amp+workspace:convolution=64MiB") <= peak(RESNET, "amp") + 64 * MR_MIB);
}

TEST(what_takes_none_is_refused)
{
    refuses("models/bert-base-mlm-b32-s128.csv.gz", "workspace:convolution=1MiB",
            "no op that would take such a workspace");
    refuses_as(MR_EUSAGE, RESNET, "workspace", "expected how large");
}

TEST_MAIN()
