/* Whole training steps on the driver that holds host memory: of each 64 KiB a word is looked
 * at, so that gigabytes fit into a test. */
#include <glob.h>

#include "on_fake.h"

static const mr_manner sparse = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 4096, .kernels = kernels};

static void ends_alike(const char *model, const char *const specs[], size_t n)
{
    char path[512];
    snprintf(path, sizeof path, TRACES "/models/%s.csv.gz", model);
    for (size_t i = 0; i < n; i++)
        if (!agrees(path, specs[i], 2, &sparse))
            TEST_FAIL("%s could not be tried under %s", model, specs[i]);
}

static const char *const specs[] = {
    "native",
    "pytorch",
    "pytorch:expandable_segments=True",
    "pytorch:max_split_size_mb=64,roundup_power2_divisions=4",
    "accumulate:2/pytorch",
    "chen:budget=95%/pytorch:expandable_segments=True",
    "inplace/pytorch", /* finds nothing in an LSTM */
};

TEST(a_step_of_an_lstm_ends_at_the_models_peak)
{
    ends_alike("lstm-650-b20-s35", specs, MR_COUNT(specs) - 1);
}

TEST(a_step_of_a_u_net_ends_at_the_models_peak)
{
    ends_alike("unet-b8-i256", specs, MR_COUNT(specs));
}

TEST(a_step_of_vgg_ends_at_the_models_peak)
{
    ends_alike("vgg16-b64-i224", specs, MR_COUNT(specs));
}

/* ---- products ---------------------------------------------------------------------------- */

static const mr_manner full = {.compute = MR_COMPUTE_FULL, .kernels = kernels};

/* cuBLAS looks at all that it is given; `acts` are some that have to occur. */
static void multiplies(const char *model, const char *spec, const mr_act *acts, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, TRACES "/models/%s.csv.gz", model);
    fake_cuda_settings()->idle = 1;
    const outcome out = on_fake(path, spec, 2, &full, 0);
    fake_cuda_settings()->idle = 0;
    CHECK_STR(out.text, "");
    is_clean(&out, path, spec);
    for (size_t i = 0; i < n; i++) CHECK(out.metrics.acts[acts[i]] > 0);
    CHECK_EQ(out.metrics.acts[MR_ACT_recorded], 0);
}

TEST(products_are_computed_where_their_tensors_are)
{
    static const mr_act acts[] = {MR_ACT_product, MR_ACT_touch};
    multiplies("lstm-650-b20-s35", "pytorch", acts, MR_COUNT(acts));
    multiplies("gpt2-small-b8-s1024", "pytorch", acts, MR_COUNT(acts));
}

/* A plan packs storages byte by byte: what no product could begin at passes as time. */
TEST(nothing_is_multiplied_at_odd_addresses)
{
    static const mr_act acts[] = {MR_ACT_product, MR_ACT_modelled};
    multiplies("vgg16-b64-i224", "plan", acts, MR_COUNT(acts));
}

TEST(convolutions_are_computed_in_memory_of_their_own)
{
    static const mr_act acts[] = {MR_ACT_convolution, MR_ACT_touch};
    multiplies("unet-b8-i256", "pytorch", acts, MR_COUNT(acts));
    multiplies("resnet50-b64-i224", "pytorch", acts, MR_COUNT(acts));
}

/* One word in 2 MiB, and the first of every storage. */
static const mr_manner sparsest = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 131072, .kernels = kernels};

TEST(every_model_ends_at_its_peak_under_the_usual_allocators)
{
    static const char *const usual[] = {"pytorch", "pytorch:expandable_segments=True",
                                        "native"};
    glob_t models;
    fake_cuda_settings()->memory = 1024 * MR_GIB;
    CHECK(glob(TRACES "/models/*.csv.gz", 0, NULL, &models) == 0);
    for (size_t i = 0; i < models.gl_pathc; i++)
        for (size_t s = 0; s < MR_COUNT(usual); s++)
            if (!agrees(models.gl_pathv[i], usual[s], 1, &sparsest))
                TEST_FAIL("%s could not be tried under %s", models.gl_pathv[i], usual[s]);
    globfree(&models);
}

TEST_MAIN()
