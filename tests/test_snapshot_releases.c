/* Snapshots: who gave memory back, and what that says of the device's capacity. */
#include "snapshots.h"

/* Two segments of 20 MiB, both given back, then one of 30 MiB is taken, or what `then` says. */
static void burst(doc *d, const char *then)
{
    begin(d);
    event(d, "segment_alloc", 0x10000000, 0x1400000);
    event(d, "segment_alloc", 0x20000000, 0x1400000);
    event(d, "segment_free", 0x10000000, 0x1400000);
    event(d, "segment_free", 0x20000000, 0x1400000);
    if (!strcmp(then, "alloc")) {
        event(d, "segment_alloc", 0x30000000, 0x1e00000);
        event(d, "alloc", 0x30000000, 0x1e00000);
    }
    if (!strcmp(then, "less")) {
        event(d, "segment_alloc", 0x30000000, 0x1400000);
        event(d, "segment_alloc", 0x40000000, 0x6400000);
    }
    if (!strcmp(then, "oom")) event(d, "oom", 0x100000, 0x3c00000);
    segments(d);
    const uint64_t first = !strcmp(then, "alloc") ? 0x1e00000 : 0x1400000;
    if (!strcmp(then, "alloc") || !strcmp(then, "less")) {
        segment(d, 0x30000000, first);
        block(d, 0x30000000, first, first == 0x1e00000 ? "active_allocated" : "inactive");
        end_segment(d);
    }
    if (!strcmp(then, "less")) {
        segment(d, 0x40000000, 0x6400000);
        block(d, 0x40000000, 0x6400000, "inactive");
        end_segment(d);
    }
    end(d);
}

TEST(releases_before_memory_is_taken_were_a_retry_and_bound_the_capacity)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "alloc");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_low, 0x2800000);
    CHECK_EQ(h->capacity_high, 0x2800000 + 0x1e00000);
    mr_ctx_clear(&ctx);
}

TEST(releases_that_nothing_follows_were_asked_for)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "nothing");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

TEST(releases_that_contradict_what_succeeded_were_asked_for)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "less");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    CHECK_EQ(h->capacity_low, 0x1400000 + 0x6400000);
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

/* The same where garbage_collection_threshold is set. */
static void collected_burst(doc *d, const char *then, const char *threshold)
{
    burst(d, then);
    d->n--; /* the end */
    put(d, "S'allocator_settings'\n(dS'garbage_collection_threshold'\nF%s\nss.", threshold);
}

TEST(releases_that_may_be_a_collection_bound_nothing)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    collected_burst(&d, "alloc", "0.5");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    collected_burst(&d, "less", "0.25");
    h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

TEST(below_its_threshold_of_what_succeeded_nothing_is_collected)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    collected_burst(&d, "less", "0.5"); /* of 120 MiB, and 40 are held */
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    mr_ctx_clear(&ctx);
}

TEST(a_segment_of_the_small_pool_is_not_collected)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x10000000, 0x1400000);
    event(&d, "segment_alloc", 0x20000000, 0x200000);
    event(&d, "segment_free", 0x10000000, 0x1400000);
    event(&d, "segment_free", 0x20000000, 0x200000);
    event(&d, "segment_alloc", 0x30000000, 0x1e00000);
    event(&d, "alloc", 0x30000000, 0x1e00000);
    segments(&d);
    segment(&d, 0x30000000, 0x1e00000);
    block(&d, 0x30000000, 0x1e00000, "active_allocated");
    end_segment(&d);
    put(&d, "sS'allocator_settings'\n(dS'garbage_collection_threshold'\nF0.5\nss.");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_high, 0x1600000 + 0x1e00000);
    mr_ctx_clear(&ctx);
}

TEST(an_oom_is_a_storage_that_was_refused)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "oom");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "!0");
    CHECK_HAS(cmds(&ctx, h), "refuse0");
    CHECK_EQ(trace.storages.at[0].bytes, 0x3c00000);
    CHECK_EQ(h->capacity_low, 0x2800000);
    CHECK_EQ(h->capacity_high, 0x3c00000); /* it failed with nothing held */
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
