/* Every placement on every shipped recording: the model's peak to the byte, and values where
 * they belong; and calls that fail, one at a time.
 *
 * As a test it takes some of them.  SWEEP=peaks tries all recordings under all specs,
 * SWEEP=failures lets calls of every kind fail in the tiny ones and the models, with bytes
 * verified and with products computed: the first, the last and some between; FAILURES says how
 * many of a kind (4), 0 for all.  TRACES_LIKE is a part of the names of recordings, SPECS_LIKE
 * one of specs.
 */
#include <glob.h>
#include <stdlib.h>

#include "on_fake.h"

static const char *const specs[] = {
    "native",
    "pytorch",
    "pytorch:expandable_segments=True",
    "pytorch:max_split_size_mb=64,roundup_power2_divisions=4",
    "pytorch:garbage_collection_threshold=0.6",
    "bfc",
    "ort",
    "rmm_pool",
    "rmm_arena",
    "rmm_binning",
    "cupy",
    "cudamallocasync",
    "cudamallocasync:reuse_allow_internal_dependencies=False",
    "firstfit",
    "bestfit",
    "exactfit",
    "buddy",
    "gmlake",
    "gmlake:fragLimit=2MiB",
    "gmlake:fragLimit=2MiB,reAlloc=True",
    "gmlake:fragLimit=2MiB,defragLevel=1,reuseLimit=2",
    "stalloc",
    "plan",
    "inplace/pytorch",
    "accumulate:2/gmlake:fragLimit=2MiB",
    "accumulate:2/cudamallocasync",
    "offload/pytorch",
    "offload/pytorch:expandable_segments=True",
    "offload/gmlake:fragLimit=2MiB",
    "offload/cudamallocasync",
    "offload/native",
    "paged_kv/pytorch",
    "paged_kv/gmlake:fragLimit=2MiB",
    "paged_kv/cudamallocasync",
    "ddp:ranks=2/pytorch:expandable_segments=True",
    "ddp:ranks=2,zero=2/cudamallocasync",
    "fsdp:ranks=2/pytorch",
    "fsdp:ranks=2/gmlake:fragLimit=2MiB",
    "fsdp:ranks=2+offload/cudamallocasync",
};

/* One word in 2 MiB, and the first of every storage. */
static const mr_manner sparsest = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 131072, .kernels = kernels};

/* Ranges that a profiler has heard of; the text of one is not looked at. */
static int open_ranges;

static void begin_range(const char *name)
{
    (void)name;
    open_ranges++;
}

static void end_range(void)
{
    open_ranges--;
}

static const mr_listener listener = {begin_range, end_range};

/* With products by cuBLAS, a smaller device, and a profiler. */
static const mr_manner full = {.compute = MR_COMPUTE_FULL,
                               .kernels = kernels,
                               .limit = 64 * MR_GIB,
                               .listener = &listener};

static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text ? text : otherwise;
}

static bool is(const char *what)
{
    return strcmp(setting("SWEEP", ""), what) == 0;
}

/* One that is no longer written so would be left out in silence below. */
TEST(every_spec_is_one)
{
    for (size_t s = 0; s < MR_COUNT(specs); s++) {
        mr_ctx ctx = {0};
        mr_spec spec;
        if (mr_spec_parse(&ctx, mr_strategies, specs[s], &spec))
            TEST_FAIL("%s: %s", specs[s], ctx.failure.text);
        mr_ctx_clear(&ctx);
    }
}

/* ---- peaks ------------------------------------------------------------------------------- */

/* On each device of the recording. */
static void peaks_of(const char *path, size_t first, size_t step)
{
    uint32_t agreed = 0, asked = 0;
    for (size_t s = first; s < MR_COUNT(specs); s += step) {
        uint32_t n = 0;
        if (!strstr(specs[s], setting("SPECS_LIKE", ""))) continue;
        asked++;
        while (agrees_on(path, n, specs[s], 2, &sparsest)) n++;
        agreed += n;
    }
    if (is("peaks")) printf("%s: %u cells, %u specs\n", strrchr(path, '/') + 1, agreed, asked);
    fflush(stdout);
}

static void each_recording(const char *pattern, size_t step)
{
    glob_t found;
    glob(pattern, 0, NULL, &found); /* nothing where recordings are not shared */
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strstr(found.gl_pathv[i], setting("TRACES_LIKE", "")))
            peaks_of(found.gl_pathv[i], step > 1 ? i * 7 % step : 0, step);
    globfree(&found);
}

TEST(every_placement_ends_at_the_models_peak)
{
    if (is("failures")) return;
    fake_cuda_settings()->memory = 1024 * MR_GIB;
    fake_cuda_settings()->stride = sparsest.stride;
    each_recording(TRACES "/tiny/*.csv", 1);
    if (!is("peaks")) {
        each_recording(TRACES "/models/twins/lstm-*.csv.gz", 4);
        return;
    }
    each_recording(TRACES "/models/*.csv.gz", 1);
    each_recording(TRACES "/timed/*.csv.gz", 1);
    each_recording(TRACES "/models/twins/*.csv.gz", 1);
    each_recording(SHARED "/recordings/*/*.pickle", 1);
    each_recording(SHARED "/recordings/*/*.json.gz", 1);
    each_recording(SHARED "/recordings/*/*.log.gz", 1);
    each_recording(SHARED "/recordings/*/[A-Z]*.csv", 1);
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct attempt {
    const prediction *p;
    const mr_manner *manner;
    const char *path, *spec;
} attempt;

static void fails_once(const attempt *a, const char *only, uint64_t n)
{
    fake_cuda_reset();
    fake_cuda_settings()->only = only;
    fake_cuda_settings()->fail = n;
    const outcome out = carried_out(a->p, a->manner);
    fake_cuda_settings()->only = NULL;
    if (!is_clean(&out, a->path, a->spec)) printf("... call %" PRIu64 " of %s\n", n, only);
    if (out.status != MR_EDEVICE || strlen(out.text) < 20 || open_ranges)
        TEST_FAIL("%s under %s: when call %" PRIu64 " of %s failed: '%s', %d ranges open",
                  a->path, a->spec, n, only, out.text, open_ranges);
    open_ranges = 0;
}

enum { KINDS = 96 };

/* Of the calls of a kind the first, the last, and others at equal distances. */
static uint64_t fail_kinds(const attempt *a, uint64_t of_kind)
{
    const char *names[KINDS];
    uint64_t counts[KINDS], n = 0, tried = 0;
    fake_cuda_reset();
    const outcome whole = carried_out(a->p, a->manner);
    if (!is_clean(&whole, a->path, a->spec) || whole.status) return 0;
    for (; n < KINDS && fake_cuda_name((uint32_t)n); n++) {
        names[n] = fake_cuda_name((uint32_t)n);
        counts[n] = fake_cuda_calls_of(names[n]);
    }
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t most = of_kind && of_kind < counts[k] ? of_kind : counts[k];
        for (uint64_t i = 0; i < most; i++, tried++)
            fails_once(a, names[k], most > 1 ? 1 + i * (counts[k] - 1) / (most - 1) : 1);
    }
    return tried;
}

static void failures_of(const char *path, size_t first, size_t step, uint64_t of_kind)
{
    uint64_t tried = 0;
    const mr_manner *const manners[] = {&sparsest, &full};
    for (size_t s = first; s < MR_COUNT(specs); s += step) {
        prediction p;
        if (!strstr(specs[s], setting("SPECS_LIKE", ""))) continue;
        const bool asked = predict(&p, path, specs[s], 2);
        for (size_t m = 0; asked && m < MR_COUNT(manners); m++)
            tried += fail_kinds(&(attempt){&p, manners[m], path, specs[s]}, of_kind);
        mr_ctx_clear(&p.ctx);
    }
    if (is("failures")) printf("%s: %" PRIu64 " failures\n", strrchr(path, '/') + 1, tried);
    fflush(stdout);
}

TEST(whatever_kind_of_call_fails_nothing_is_left_behind)
{
    static const char *const all[] = {TRACES "/tiny/*.csv", TRACES "/models/*.csv.gz"};
    const uint64_t of_kind = strtoull(setting("FAILURES", "4"), NULL, 10);
    if (is("peaks")) return;
    fake_cuda_settings()->memory = 1024 * MR_GIB;
    fake_cuda_settings()->stride = sparsest.stride;
    if (!is("failures")) {
        failures_of(TRACES "/tiny/streams.csv", 0, 1, 2);
        failures_of(TRACES "/tiny/blocks.csv", 0, 5, 2);
        return;
    }
    for (size_t i = 0; i < MR_COUNT(all); i++) {
        glob_t found;
        CHECK(glob(all[i], 0, NULL, &found) == 0);
        for (size_t f = 0; f < found.gl_pathc; f++)
            if (strstr(found.gl_pathv[f], setting("TRACES_LIKE", "")))
                failures_of(found.gl_pathv[f], 0, 1, of_kind);
        globfree(&found);
    }
}

TEST_MAIN()
