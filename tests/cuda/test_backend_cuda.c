/* The backend for devices, on a driver that holds host memory: every
 * placement, every failure. */
#include <glob.h>
#include <stdlib.h>

#include "on_fake.h"

static const char *const specs[] = {
    "native",
    "pytorch",
    "pytorch:expandable_segments=True",
    "pytorch:max_split_size_mb=32",
    "pytorch:roundup_power2_divisions=8,garbage_collection_threshold=0.6",
    "pytorch:expandable_segments=True,version=2.4",
    "plan",
    "inplace/pytorch",
    "checkpoint:sqrt/pytorch",
    "checkpoint:sqrt/pytorch:expandable_segments=True",
    "checkpoint:sqrt+inplace/native",
    "accumulate:2/native",
    "nograd/pytorch",
    "rotor:budget=5KiB/native",
    "chen:budget=5KiB/native",
    "revolve/native",
    "knapsack:budget=4650/native",
    "mincut/native",
    "mincut+inplace/plan",
    "dtr:budget=5KiB/native",
};

/* On how many recordings the spec could be tried. */
static uint32_t on_tiny(const char *spec)
{
    glob_t tiny;
    uint32_t passed = 0;
    CHECK(glob(TRACES "/tiny/*.csv", 0, NULL, &tiny) == 0);
    for (size_t i = 0; i < tiny.gl_pathc; i++) {
        passed += agrees(tiny.gl_pathv[i], spec, 1, &checked);
        passed += agrees(tiny.gl_pathv[i], spec, 3, &checked);
    }
    globfree(&tiny);
    return passed;
}

TEST(tiny_recordings_end_at_the_models_peak_with_every_byte_right)
{
    for (size_t s = 0; s < MR_COUNT(specs); s++)
        if (!on_tiny(specs[s])) TEST_FAIL("%s was not tried on any recording", specs[s]);
}

/* Those that need a parameter, or more of a recording, are left out where they
 * are not above. */
TEST(so_they_do_under_every_strategy_as_it_is)
{
    for (size_t i = 0; mr_strategies[i]; i++) {
        char spec[128];
        const char *name = mr_strategies[i]->name;
        if (mr_strategies[i]->place) snprintf(spec, sizeof spec, "%s", name);
        else snprintf(spec, sizeof spec, "%s/native", name);
        if (strcmp(name, "bound") != 0) on_tiny(spec);
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Every byte is looked at above; here it is the ways out that count. */
static const mr_manner sparse = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 4096, .kernels = kernels};

static void every_call_fails_once(const char *path, const char *spec, const mr_manner *manner)
{
    const outcome whole = on_fake(path, spec, 2, manner, 0);
    CHECK_STR(whole.text, "");
    CHECK(whole.calls > 20);
    for (uint64_t n = 1; n <= whole.calls; n++) {
        const outcome out = on_fake(path, spec, 2, manner, n);
        if (!is_clean(&out, path, spec)) printf("... call %llu\n", (unsigned long long)n);
        if (out.status == MR_OK)
            TEST_FAIL("%s under %s: call %llu failed and nobody said so", path, spec,
                      (unsigned long long)n);
        else if (strlen(out.text) < 20) TEST_FAIL("'%s' is no sentence", out.text);
    }
}

TEST(whatever_call_fails_there_is_a_sentence_and_nothing_is_left_behind)
{
    every_call_fails_once(TRACES "/tiny/mlp.csv", "pytorch", &sparse);
    every_call_fails_once(TRACES "/tiny/mlp.csv", "native", &sparse);
    every_call_fails_once(TRACES "/tiny/blocks.csv", "checkpoint:sqrt/plan", &sparse);
    every_call_fails_once(TRACES "/tiny/blocks.csv", "pytorch:expandable_segments=True",
                          &sparse);
    every_call_fails_once(TRACES "/tiny/streams.csv", "pytorch", &sparse);
    every_call_fails_once(TRACES "/tiny/streams.csv", "pytorch:expandable_segments=True",
                          &sparse);
    const mr_manner full = {.compute = MR_COMPUTE_FULL, .kernels = kernels, .limit = MR_GIB};
    every_call_fails_once(TRACES "/tiny/mlp.csv", "pytorch", &full);
}

/* ---- integrity --------------------------------------------------------------------------- */

TEST(one_changed_byte_ends_the_run_with_both_owners_named)
{
    fake_cuda_settings()->corrupt = 60;
    const outcome out = on_fake(TRACES "/tiny/mlp.csv", "pytorch", 1, &checked, 0);
    fake_cuda_settings()->corrupt = 0;
    CHECK(out.status == MR_EINVARIANT);
    CHECK_HAS(out.text, "wrong bytes in storage");
    CHECK_EQ(out.leaks, 0);
}

/* Two storages at one place, which the referee of placements would not let pass. */
TEST(two_owners_of_one_place_are_both_named)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace trace;
    mr_schedule schedule;
    mr_metrics metrics;
    fake_cuda_reset();
    CHECK(mr_recording_read(&ctx, TRACES "/tiny/streams.csv", &options, &trace) == MR_OK);
    CHECK(mr_schedule_make(&ctx, &trace, 0, &schedule) == MR_OK);
    mr_placement p = {.schedule = &schedule, .oom_at = MR_NONE};
    MR_PUSH(&ctx, &p.segments, (mr_segment){.bytes = 8 * MR_MIB});
    const mr_cmd cmds[] = {{MR_RESERVE, MR_NONE, {0, 0, 0, 8 * MR_MIB}},
                           {MR_BIND, 0, {0, 0, 0, 4 * MR_MIB}},
                           {MR_BIND, 2, {0, 0, 2 * MR_MIB, 6 * MR_MIB}},
                           {MR_UNBIND, 0, {0, 0, 0, 4 * MR_MIB}}};
    for (size_t i = 0; i < MR_COUNT(cmds); i++) MR_PUSH(&ctx, &p.cmds, cmds[i]);
    const mr_status status =
        mr_replay(&ctx, &p, &device, &mr_backend_cuda, &checked, &metrics);
    CHECK(status == MR_EINVARIANT);
    CHECK_HAS(ctx.failure.text, "wrong bytes in storage 0");
    CHECK_HAS(ctx.failure.text, "at offset 2097152 stood the bytes of storage 2");
    CHECK_EQ(fake_cuda_leaks(), 0);
    mr_ctx_clear(&ctx);
}

/* ---- machines that cannot ---------------------------------------------------------------- */

static void says(const char *part, const mr_manner *manner)
{
    const outcome out = on_fake(TRACES "/tiny/mlp.csv", "native", 1, manner, 0);
    CHECK(out.status == MR_EDEVICE);
    CHECK_HAS(out.text, part);
    CHECK_EQ(out.leaks, 0);
}

TEST(a_machine_that_cannot_says_why)
{
    fake_settings *s = fake_cuda_settings();
    const fake_settings usual = *s;
    s->devices = 0;
    says("finds no device", &checked);
    *s = usual;
    s->start = MR_CUDA_STUB;
    says("stub of a CUDA Toolkit", &checked);
    *s = usual;
    s->start = MR_CUDA_MISMATCH;
    says("of different versions", &checked);
    *s = usual;
    s->version = 10020;
    says("too old: it is for CUDA 10.2", &checked);
    *s = usual;
    s->memory = MR_GIB;
    s->context = 2 * MR_GIB;
    says("not even memory for a context", &checked);
    *s = usual;
    const mr_manner second = {.gpu = 1, .kernels = kernels};
    says("no CUDA device 1, the driver sees 1", &second);
}

TEST(a_limit_makes_a_large_device_small)
{
    const mr_manner limited = {.verify = true, .kernels = kernels, .limit = 8 * MR_MIB};
    const outcome out = on_fake(TRACES "/tiny/streams.csv", "native", 1, &limited, 0);
    CHECK(out.status == MR_EDEVICE);
    CHECK_HAS(out.text, "out of memory");
    CHECK_EQ(out.leaks, 0);
    const mr_manner absurd = {.kernels = kernels, .limit = 100 * MR_GIB};
    says("less than the limit", &absurd);
}

static bool at_once(void *company)
{
    (void)company;
    return true;
}

TEST(who_interrupts_gets_everything_given_back)
{
    mr_manner interrupted = checked;
    interrupted.stop = at_once;
    says("stopped at command 0", &interrupted);
}

/* ---- calibration ------------------------------------------------------------------------- */

static mr_status calibrate(uint64_t fail, mr_device *out)
{
    mr_ctx ctx = {0};
    const mr_manner manner = {.compute = MR_COMPUTE_TOUCH, .kernels = kernels};
    fake_cuda_reset();
    fake_cuda_settings()->memory = 5 * MR_GIB;
    fake_cuda_settings()->fail = fail;
    *out = (mr_device){.fp32 = 7000000000000};
    const mr_status status = mr_cuda_calibrate(&ctx, &manner, out);
    out->description = NULL; /* gone with the context */
    CHECK_STR(fake_cuda_violation(), "");
    CHECK_EQ(fake_cuda_leaks(), 0);
    if (status) CHECK(strlen(ctx.failure.text) > 20);
    fake_cuda_settings()->fail = 0;
    fake_cuda_settings()->memory = 80 * MR_GIB;
    mr_ctx_clear(&ctx);
    return status;
}

TEST(calibration_tells_what_a_device_has_and_leaves_the_rest)
{
    mr_device measured;
    CHECK(calibrate(0, &measured) == MR_OK);
    CHECK_EQ(measured.memory, 5 * MR_GIB);
    CHECK_EQ(measured.context, CONTEXT);
    CHECK_EQ(measured.granularity, 2 * MR_MIB);
    CHECK_EQ(measured.fp32, 7000000000000);
    CHECK(measured.bandwidth && measured.link);
    CHECK(measured.fp16 && measured.bf16 && measured.eff_matmul_fp32);
    CHECK(measured.pool_take_ns && measured.pool_give_ns);
    CHECK(fake_cuda_calls_of("cuMemPoolTrimTo") > 20 && fake_cuda_calls_of("cuMemFreeAsync") > 40);
}

/* All calls up to the launches, of which there are thousands, and some of these. */
TEST(whatever_call_of_a_calibration_fails_nothing_is_left_behind)
{
    mr_device measured;
    CHECK(calibrate(0, &measured) == MR_OK);
    const uint64_t calls = fake_cuda_calls();
    for (uint64_t n = 1; n <= calls; n += n < 350 ? 1 : 1499)
        CHECK(calibrate(n, &measured) == MR_EDEVICE);
    for (uint64_t n = calls - 10; n <= calls; n++)
        CHECK(calibrate(n, &measured) == MR_EDEVICE);
}

TEST_MAIN()
