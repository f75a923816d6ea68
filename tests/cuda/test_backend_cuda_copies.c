/* Copies to the host and back beside other work, in whatever order the streams run. */
#include "on_fake.h"

enum { X, ON_HOST, Z, BACK, STORAGES };

/* x is made and copied out, z takes its place, x comes back elsewhere, both are read. */
static mr_trace offload(mr_ctx *ctx)
{
    mr_trace t;
    mr_trace_init(ctx, &t, "offload");
    for (uint32_t s = 0; s < STORAGES; s++) add_storage(ctx, &t, MR_MIB, s == ON_HOST);
    const mr_ids none = {0};
    MR_PUSH(ctx, &t.ops, op("make x", MR_ENGINE_compute, none, ids(ctx, 1, X, 0)));
    MR_PUSH(ctx, &t.ops,
            op("out", MR_ENGINE_to_host, ids(ctx, 1, X, 0), ids(ctx, 1, ON_HOST, 0)));
    MR_PUSH(ctx, &t.ops, op("make z", MR_ENGINE_compute, none, ids(ctx, 1, Z, 0)));
    MR_PUSH(ctx, &t.ops,
            op("back", MR_ENGINE_from_host, ids(ctx, 1, ON_HOST, 0), ids(ctx, 1, BACK, 0)));
    MR_PUSH(ctx, &t.ops, op("use", MR_ENGINE_compute, ids(ctx, 2, BACK, Z), none));
    t.ops.at[4].read = 2 * MR_MIB;
    return t;
}

static const mr_cmd cmds[] = {
    {MR_RESERVE, MR_NONE, {0, 0, 0, 2 * MR_MIB}},
    {MR_BIND, X, {0, 0, 0, MR_MIB}},
    {MR_EXEC, 0, {.segment = MR_NONE}},
    {MR_EXEC, 1, {.segment = MR_NONE}},
    {MR_UNBIND, X, {0, 0, 0, MR_MIB}},
    {MR_RESERVE, MR_NONE, {1, 0, 0, MR_MIB}}, /* so that z does not just get what x had */
    {MR_BIND, Z, {0, 0, 0, MR_MIB}},
    {MR_EXEC, 2, {.segment = MR_NONE}},
    {MR_BIND, BACK, {0, 0, MR_MIB, MR_MIB}},
    {MR_EXEC, 3, {.segment = MR_NONE}},
    {MR_EXEC, 4, {.segment = MR_NONE}},
};

static mr_status carry_out(mr_ctx *ctx, const mr_manner *manner, bool pooled)
{
    mr_trace trace = offload(ctx);
    const mr_schedule schedule = {.trace = &trace};
    mr_placement p = {.schedule = &schedule, .oom_at = MR_NONE,
                      .pooled = pooled ? MR_POOLED : MR_NOT_POOLED};
    mr_metrics metrics;
    MR_PUSH(ctx, &p.segments, (mr_segment){.bytes = 2 * MR_MIB});
    MR_PUSH(ctx, &p.segments, (mr_segment){.bytes = MR_MIB});
    for (size_t i = 0; i < MR_COUNT(cmds); i++) MR_PUSH(ctx, &p.cmds, cmds[i]);
    return mr_replay(ctx, &p, &device, &mr_backend_cuda, manner, &metrics);
}

TEST(what_was_copied_out_comes_back_the_same_although_its_place_was_taken)
{
    for (uint64_t order = 0; order < 4; order++) {
        mr_ctx ctx = {0};
        fake_cuda_reset();
        fake_cuda_settings()->order = order % 2;
        CHECK(carry_out(&ctx, &checked, order > 1) == MR_OK);
        CHECK_STR(ctx.failure.text, "");
        CHECK_STR(fake_cuda_violation(), "");
        CHECK_EQ(fake_cuda_leaks(), 0);
        mr_ctx_clear(&ctx);
    }
    fake_cuda_settings()->order = 0;
}

/* Every byte is looked at above; here it is the ways out that count. */
static const mr_manner sparse = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 4096, .kernels = kernels};

static void every_call_fails_once(bool pooled)
{
    mr_ctx ctx = {0};
    fake_cuda_reset();
    CHECK(carry_out(&ctx, &sparse, pooled) == MR_OK);
    const uint64_t calls = fake_cuda_calls();
    mr_ctx_clear(&ctx);
    for (uint64_t n = 1; n <= calls; n++) {
        fake_cuda_reset();
        fake_cuda_settings()->fail = n;
        CHECK(carry_out(&ctx, &sparse, pooled) == MR_EDEVICE);
        CHECK_STR(fake_cuda_violation(), "");
        CHECK_EQ(fake_cuda_leaks(), 0);
        mr_ctx_clear(&ctx);
    }
    fake_cuda_settings()->fail = 0;
}

TEST(whatever_call_fails_between_copies_nothing_is_left_behind)
{
    every_call_fails_once(false);
    every_call_fails_once(true);
}

TEST_MAIN()
