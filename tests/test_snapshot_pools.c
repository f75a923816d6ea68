/* Snapshots: expandable memory, and pools of memory that is gone. */
#include "snapshots.h"

TEST(expandable_memory_lies_in_address_ranges_that_are_concluded)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_map", 0x40000000, 0x2800000);
    event(&d, "alloc", 0x40000000, 0x1500000);
    event(&d, "segment_map", 0x90000000, 0x200000);
    event(&d, "alloc", 0x90000000, 512);
    freed(&d, 0x40000000, 0x1500000);
    event(&d, "segment_unmap", 0x40000000, 0x2800000);
    event(&d, "segment_map", 0x50000000, 0x1400000);
    event(&d, "alloc", 0x50000000, 0x1400000);
    segments(&d);
    segment_of(&d, 0, 0x50000000, 0x1400000, true);
    block(&d, 0x50000000, 0x1400000, "active_allocated");
    end_segment(&d);
    segment_of(&d, 0, 0x90000000, 0x200000, true);
    block(&d, 0x90000000, 0x200, "active_allocated");
    block(&d, 0x90000200, 0x1ffe00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+0 map@0:0+2800000 bind0@0:0+0"
                             " reserve@1:0+0 map@1:0+200000 bind1@1:0+0"
                             " unbind0@0:0+0 unmap@0:0+2800000 release@0:0+0"
                             " reserve@2:0+0 map@2:0+1400000 bind2@2:0+0");
    CHECK_EQ(h->segments.n, 3);
    CHECK_EQ(h->segments.at[1].large, false);
    CHECK_EQ(h->segments.at[1].page, 2 * MR_MIB);
    CHECK_EQ(h->segments.at[2].large, true);
    CHECK_EQ(h->segments.at[2].page, 20 * MR_MIB);
    mr_ctx_clear(&ctx);
}

TEST(a_range_begins_where_its_lowest_page_was_seen)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_map", 0x41400000, 0x1400000);
    event(&d, "alloc", 0x41400000, 0x1400000);
    event(&d, "segment_map", 0x40000000, 0x1400000);
    event(&d, "alloc", 0x40000000, 0x1400000);
    segments(&d);
    segment_of(&d, 0, 0x40000000, 0x2800000, true);
    block(&d, 0x40000000, 0x1400000, "active_allocated");
    block(&d, 0x41400000, 0x1400000, "active_allocated");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+0 map@0:1400000+1400000 bind0@0:1400000+0"
                             " map@0:0+1400000 bind1@0:0+0");
    CHECK_EQ(h->segments.at[0].address, 0x40000000);
    mr_ctx_clear(&ctx);
}

/* ---- pools of memory that is gone -------------------------------------------------------- */

enum { STRETCH = 0x1400000 }; /* bytes that are mapped at once */

static void comes(doc *d, uint64_t address)
{
    event(d, "segment_map", address, STRETCH);
    event(d, "alloc", address, STRETCH);
}

static void goes(doc *d, uint64_t address)
{
    freed(d, address, STRETCH);
    event(d, "segment_unmap", address, STRETCH);
}

/* At the end it is of the given pool, all of it one block in use. */
static void stays(doc *d, uint64_t address, unsigned pool)
{
    segment_of(d, 0, address, STRETCH, true);
    block(d, address, STRETCH, "active_allocated");
    put(d, "sS'segment_pool_id'\n(I0\nI%u\ntsa", pool);
}

TEST(memory_that_went_was_of_the_pool_that_it_lay_beside)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    comes(&d, 0x50000000);
    comes(&d, 0x51400000);
    goes(&d, 0x50000000);
    segments(&d);
    stays(&d, 0x51400000, 1);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->segments.n, 1);
    CHECK_EQ(trace.pools.n, 2);
    CHECK_EQ(trace.storages.at[0].pool, 1);
    mr_ctx_clear(&ctx);
}

TEST(memory_behind_that_of_another_pool_was_of_a_pool_that_is_gone)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    comes(&d, 0x50000000);
    comes(&d, 0x90000000);
    comes(&d, 0xd0000000);
    goes(&d, 0xd0000000);
    segments(&d);
    stays(&d, 0x50000000, 0);
    stays(&d, 0x90000000, 1);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->segments.n, 3);
    CHECK_EQ(trace.pools.n, 3);
    CHECK_EQ(trace.storages.at[0].pool, 0);
    CHECK_EQ(trace.storages.at[1].pool, 1);
    CHECK_EQ(trace.storages.at[2].pool, 2);
    CHECK_EQ(trace.notes.n, 1);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
