/* The same memory at several addresses, as GMLake uses it, beside copies to the host. */
#include "on_fake.h"

#define PAGE (2 * MR_MIB)

enum { X, X_ON_HOST, Y, Z, X_BACK, STORAGES };
enum { A, B, STITCHED, SEGMENTS };

/* x is made and copied out while y is; z takes the place of both, under other addresses; x
 * comes back to one of them. */
static mr_trace step(mr_ctx *ctx)
{
    static const uint64_t bytes[STORAGES] = {2 * PAGE, 2 * PAGE, PAGE, 3 * PAGE, 2 * PAGE};
    mr_trace t;
    const mr_ids none = {0};
    mr_trace_init(ctx, &t, "stitched");
    for (uint32_t s = 0; s < STORAGES; s++) add_storage(ctx, &t, bytes[s], s == X_ON_HOST);
    MR_PUSH(ctx, &t.ops, op("make x", MR_ENGINE_compute, none, ids(ctx, 1, X, 0)));
    MR_PUSH(ctx, &t.ops,
            op("out", MR_ENGINE_to_host, ids(ctx, 1, X, 0), ids(ctx, 1, X_ON_HOST, 0)));
    MR_PUSH(ctx, &t.ops, op("make y", MR_ENGINE_compute, none, ids(ctx, 1, Y, 0)));
    MR_PUSH(ctx, &t.ops, op("make z", MR_ENGINE_compute, none, ids(ctx, 1, Z, 0)));
    MR_PUSH(ctx, &t.ops, op("use z", MR_ENGINE_compute, ids(ctx, 1, Z, 0), none));
    MR_PUSH(ctx, &t.ops,
            op("back", MR_ENGINE_from_host, ids(ctx, 1, X_ON_HOST, 0), ids(ctx, 1, X_BACK, 0)));
    MR_PUSH(ctx, &t.ops, op("use x", MR_ENGINE_compute, ids(ctx, 1, X_BACK, 0), none));
    t.ops.at[4].read = 3 * PAGE;
    t.ops.at[6].read = 2 * PAGE;
    return t;
}

#define NOWHERE                                                                                \
    {                                                                                          \
        .segment = MR_NONE                                                                     \
    }
#define IN_A                                                                                   \
    {                                                                                          \
        A, 0, 0, 2 * PAGE                                                                      \
    }
#define IN_B                                                                                   \
    {                                                                                          \
        B, 0, 0, PAGE                                                                          \
    }
#define IN_STITCHED                                                                            \
    {                                                                                          \
        STITCHED, 0, 0, 3 * PAGE                                                               \
    }
#define SWITCH(from, to_segment, to_offset, to_bytes, how)                                     \
    {MR_UNMAP, MR_NONE, {from, MR_STANDING, 0, to_bytes}},                                     \
    {                                                                                          \
        MR_MAP, MR_NONE,                                                                       \
        {                                                                                      \
            to_segment, how, to_offset, to_bytes                                               \
        }                                                                                      \
    }

static const mr_cmd cmds[] = {
    {MR_RESERVE, MR_NONE, {A, 0, 0, 2 * PAGE}},
    {MR_MAP, MR_NONE, {A, 0, 0, 2 * PAGE}},
    {MR_RESERVE, MR_NONE, {B, 0, 0, PAGE}},
    {MR_MAP, MR_NONE, {B, 0, 0, PAGE}},
    {MR_BIND, X, IN_A},
    {MR_EXEC, 0, NOWHERE},
    {MR_EXEC, 1, NOWHERE},
    {MR_BIND, Y, IN_B},
    {MR_EXEC, 2, NOWHERE},
    {MR_UNBIND, X, IN_A},
    {MR_UNBIND, Y, IN_B},
    {MR_RESERVE, MR_NONE, {STITCHED, 0, 0, 3 * PAGE}},
    SWITCH(B, STITCHED, 0, PAGE, 0),
    SWITCH(A, STITCHED, PAGE, 2 * PAGE, 0),
    {MR_BIND, Z, IN_STITCHED},
    {MR_EXEC, 3, NOWHERE},
    {MR_EXEC, 4, NOWHERE},
    {MR_UNBIND, Z, IN_STITCHED},
    {MR_UNMAP, MR_NONE, {STITCHED, MR_STANDING, PAGE, 2 * PAGE}},
    {MR_MAP, MR_NONE, {A, MR_STANDING, 0, 2 * PAGE}},
    {MR_BIND, X_BACK, IN_A},
    {MR_EXEC, 5, NOWHERE},
    {MR_EXEC, 6, NOWHERE},
};

/* Every byte is looked at once; where ways out count, one word in 64 KiB. */
static const mr_manner sparse = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .stride = 4096, .kernels = kernels};

static mr_status carry_out(mr_ctx *ctx, const mr_cmd *list, size_t n, const mr_manner *manner,
                           mr_metrics *metrics)
{
    static const uint64_t bytes[SEGMENTS] = {2 * PAGE, PAGE, 3 * PAGE};
    mr_trace trace = step(ctx);
    const mr_schedule schedule = {.trace = &trace};
    mr_placement p = {.schedule = &schedule, .oom_at = MR_NONE};
    for (uint32_t s = 0; s < SEGMENTS; s++)
        MR_PUSH(ctx, &p.segments,
                (mr_segment){.bytes = bytes[s], .page = PAGE, .expandable = true});
    for (size_t i = 0; i < n; i++) MR_PUSH(ctx, &p.cmds, list[i]);
    return mr_replay(ctx, &p, &device, &mr_backend_cuda, manner, metrics);
}

TEST(memory_stands_at_both_places_and_who_comes_waits_for_who_used_it_at_the_other)
{
    for (uint64_t order = 0; order < 2; order++) {
        mr_ctx ctx = {0};
        mr_metrics metrics;
        fake_cuda_reset();
        fake_cuda_settings()->order = order;
        CHECK(carry_out(&ctx, cmds, MR_COUNT(cmds), &checked, &metrics) == MR_OK);
        CHECK_STR(ctx.failure.text, "");
        CHECK_STR(fake_cuda_violation(), "");
        CHECK_EQ(fake_cuda_leaks(), 0);
        CHECK_EQ(metrics.peak_device, CONTEXT + 3 * PAGE);
        CHECK_EQ(fake_cuda_calls_of("cuMemCreate"), 3);
        CHECK_EQ(fake_cuda_calls_of("cuMemMap"), 6);
        CHECK_EQ(fake_cuda_calls_of("cuMemRelease"), 3);
        mr_ctx_clear(&ctx);
    }
    fake_cuda_settings()->order = 0;
}

TEST(whatever_call_fails_while_memory_is_stitched_nothing_is_left_behind)
{
    mr_ctx ctx = {0};
    mr_metrics metrics;
    fake_cuda_reset();
    CHECK(carry_out(&ctx, cmds, MR_COUNT(cmds), &sparse, &metrics) == MR_OK);
    const uint64_t calls = fake_cuda_calls();
    mr_ctx_clear(&ctx);
    for (uint64_t n = 1; n <= calls; n++) {
        fake_cuda_reset();
        fake_cuda_settings()->fail = n;
        CHECK(carry_out(&ctx, cmds, MR_COUNT(cmds), &sparse, &metrics) == MR_EDEVICE);
        CHECK(strlen(ctx.failure.text) > 20);
        CHECK_STR(fake_cuda_violation(), "");
        CHECK_EQ(fake_cuda_leaks(), 0);
        mr_ctx_clear(&ctx);
    }
    fake_cuda_settings()->fail = 0;
}

/* Pages that are said to stand where they never were. */
TEST(pages_cannot_be_used_where_they_are_not)
{
    static const mr_cmd wrong[] = {
        {MR_RESERVE, MR_NONE, {A, 0, 0, 2 * PAGE}},
        {MR_MAP, MR_NONE, {A, 0, 0, 2 * PAGE}},
        {MR_RESERVE, MR_NONE, {STITCHED, 0, 0, 3 * PAGE}},
        {MR_UNMAP, MR_NONE, {A, MR_STANDING, 0, 2 * PAGE}},
        {MR_MAP, MR_NONE, {STITCHED, MR_STANDING, PAGE, 2 * PAGE}},
    };
    mr_ctx ctx = {0};
    mr_metrics metrics;
    fake_cuda_reset();
    CHECK(carry_out(&ctx, wrong, MR_COUNT(wrong), &checked, &metrics) == MR_EINVARIANT);
    CHECK_HAS(ctx.failure.text, "where they are not mapped");
    CHECK_EQ(fake_cuda_leaks(), 0);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
