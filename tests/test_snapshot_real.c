/* Snapshots of real programs hold what they are known to hold. */
#include "snapshots.h"

typedef struct expected {
    const char *file;
    uint32_t history; /* which of them */
    uint32_t alloc, freed, take, release, refused;
    uint32_t held;
    const char *version;
} expected;

/* From the README beside them. */
static const expected real[] = {
    {"attention-probe", 0, 36, 26, 9, 0, 0, 0, "2.5 to 2.6"},
    {"cnn-epochs", 0, 1935, 1926, 7, 0, 0, 3, "2.2 to 2.3"},
    {"llama-offload-10-streams-oom-retry", 0, 3058, 3053, 584, 579, 0, 131, "2.1"},
    {"lm-2.7b-adamw-fullstep-ctx128", 0, 6771, 5894, 783, 0, 0, 227, "2.5 to 2.6"},
    {"lm-medium-training-ctx512", 0, 7591, 7370, 1, 0, 0, 399, "2.9 or newer"},
    {"lm-newest-keys", 0, 3221, 3220, 9, 0, 0, 27, "2.9 or newer"},
    {"lm-windows", 0, 1721, 1721, 0, 0, 0, 216, "2.9 or newer"},
    {"nca-inference-oom-retry", 0, 782, 777, 22, 17, 0, 1, "2.5 to 2.6"},
    {"qwen3-gnn-expandable-3-gpus-oom", 0, 2434, 1918, 175, 0, 0, 0, "2.7 to 2.8"},
    {"qwen3-gnn-expandable-3-gpus-oom", 1, 199, 175, 40, 6, 1, 0, "2.7 to 2.8"},
    {"qwen3-gnn-expandable-3-gpus-oom", 2, 392, 206, 78, 0, 0, 0, "2.7 to 2.8"},
};

static const char *path_of(mr_ctx *ctx, const char *name)
{
    return mr_printf(ctx, "%s/recordings/pytorch-snapshots/%s.pickle", SHARED, name);
}

static uint32_t count(const mr_history *h, mr_cmd_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *c = &h->cmds.at[i];
        const bool range = (kind == MR_RESERVE || kind == MR_RELEASE) && !c->block.bytes;
        n += c->kind == kind && !range; /* an address range is not in the file */
    }
    return n;
}

static void check_real(const expected *want)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    if (mr_recording_read(&ctx, path_of(&ctx, want->file), NULL, &trace)) {
        TEST_FAIL("%s: %s: %s", want->file, ctx.failure.where, ctx.failure.text);
        mr_ctx_clear(&ctx);
        return;
    }
    const mr_history *h = &trace.histories.at[want->history];
    CHECK_EQ(count(h, MR_BIND), want->alloc);
    CHECK_EQ(count(h, MR_UNBIND), want->freed);
    CHECK_EQ(count(h, MR_RESERVE) + count(h, MR_MAP), want->take);
    CHECK_EQ(count(h, MR_RELEASE) + count(h, MR_UNMAP), want->release);
    CHECK_EQ(count(h, MR_REFUSE), want->refused);
    CHECK_EQ(h->held, want->held);
    CHECK_EQ(h->wrapped, false);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], want->version);
    mr_ctx_clear(&ctx);
}

TEST(real_recordings_hold_what_they_are_known_to_hold)
{
    mr_ctx ctx = {0};
    const bool there = !access(path_of(&ctx, real[0].file), R_OK);
    mr_ctx_clear(&ctx);
    if (!there) SKIP("the recordings are not there");
    for (size_t i = 0; i < MR_COUNT(real); i++) check_real(&real[i]);
}

TEST(the_retries_of_a_real_recording_bound_its_device)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    const char *path = path_of(&ctx, "llama-offload-10-streams-oom-retry");
    if (access(path, R_OK)) {
        mr_ctx_clear(&ctx);
        SKIP("the recordings are not there");
    }
    CHECK_EQ(mr_recording_read(&ctx, path, NULL, &trace), MR_OK);
    CHECK_EQ(trace.histories.at[0].capacity_low, UINT64_C(22519218176));
    CHECK_EQ(trace.histories.at[0].capacity_high, UINT64_C(22556966912));
    CHECK_EQ(trace.streams.n, 10);
    CHECK_EQ(mr_recording_read(&ctx, path_of(&ctx, "history-not-recorded"), NULL, &trace),
             MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "torch.cuda.memory._record_memory_history()");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
