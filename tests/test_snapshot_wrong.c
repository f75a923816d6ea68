/* Snapshots that cannot be, and histories that the referee refuses. */
#include "snapshots.h"

/* ---- what is wrong --------------------------------------------------------------------- */

/* One segment of 2 MiB, free at the end. */
static void tail(doc *d)
{
    segments(d);
    segment(d, 0x200000, 0x200000);
    block(d, 0x200000, 0x200000, "inactive");
    end_segment(d);
    end(d);
}

#define EVENTS_FAIL(part, ...)           \
    do {                                 \
        mr_ctx ctx = {0};                \
        doc d;                           \
        begin(&d);                       \
        __VA_ARGS__;                     \
        tail(&d);                        \
        CHECK_HAS(said(&ctx, &d), part); \
        mr_ctx_clear(&ctx);              \
    } while (0)

TEST(events_that_cannot_have_happened_are_refused)
{
    EVENTS_FAIL("device 0, event 1: the block at 0x200000 is allocated while it is in use",
                event(&d, "alloc", 0x200000, 512), event(&d, "alloc", 0x200000, 512));
    EVENTS_FAIL("event 3: free_requested of the block at 0x200000, which is not in use",
                event(&d, "alloc", 0x200000, 512), freed(&d, 0x200000, 512),
                freed(&d, 0x200000, 512));
    EVENTS_FAIL("event 2: free_requested of the block at 0x200000, whose free was requested",
                event(&d, "alloc", 0x200000, 512),
                event(&d, "free_requested", 0x200000, 512),
                event(&d, "free_requested", 0x200000, 512));
    EVENTS_FAIL("event 1: free_completed of the block at 0x200000, whose free was not",
                event(&d, "alloc", 0x200000, 512), event(&d, "free_completed", 0x200000, 512));
    EVENTS_FAIL("event 0: 512 bytes are allocated at 0x100000, expected them inside a segment",
                event(&d, "alloc", 0x100000, 512));
    EVENTS_FAIL("expected them inside a segment", event(&d, "alloc", 0x3fff00, 512));
    EVENTS_FAIL("event 0: 0 bytes", event(&d, "alloc", 0x200000, 0));
    EVENTS_FAIL("event 1: the block at 0x200000 is freed with 600 bytes, expected the 512",
                event(&d, "alloc", 0x200000, 512), freed(&d, 0x200000, 600));
    EVENTS_FAIL("the events leave 1 blocks in use", event(&d, "alloc", 0x200000, 512));
    EVENTS_FAIL("lies in no segment", freed(&d, 0x900000, 512));
    EVENTS_FAIL("has room for 512", freed(&d, 0x200000, 1024), freed(&d, 0x200200, 512));
    EVENTS_FAIL("binds storage 1 where storage 0 lives",
                event(&d, "alloc", 0x200000, 1024), event(&d, "alloc", 0x200200, 512),
                freed(&d, 0x200000, 1024), freed(&d, 0x200200, 512));
}

TEST(a_block_at_the_end_has_room_for_what_was_asked)
{
    mr_ctx ctx = {0};
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200000, 600);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_allocated");
    block(&d, 0x200200, 0x1ffe00, "inactive");
    end_segment(&d);
    end(&d);
    CHECK_HAS(said(&ctx, &d),
              "piece 0 at the end of device 0 is wrong, expected as many bytes as");
    mr_ctx_clear(&ctx);
}

TEST(segments_that_cannot_have_been_are_refused)
{
    EVENTS_FAIL("event 0: a segment of 4194304 bytes is taken at 0x200000, but what follows",
                event(&d, "segment_alloc", 0x200000, 0x400000));
    EVENTS_FAIL("event 0: segment_free of 2097152 bytes at 0x300000, but what follows",
                event(&d, "segment_free", 0x300000, 0x200000));
    EVENTS_FAIL("event 0: 2097152 bytes are mapped at 0x200000",
                event(&d, "segment_map", 0x200000, 0x200000));
    EVENTS_FAIL("expected a range of addresses",
                event(&d, "segment_alloc", UINT64_C(0x7ffffffffffffff0), UINT64_MAX));
    EVENTS_FAIL("expected a range of addresses", event(&d, "segment_free", 0x900000, 0));
}

TEST(events_that_are_no_events_are_refused)
{
    EVENTS_FAIL("event 0 of device 0 has 'action' = the text 'realloc'",
                event(&d, "realloc", 0x200000, 512));
    EVENTS_FAIL("has 'size' = -5, expected a whole number",
                put(&d, "(dS'action'\nS'alloc'\nsS'addr'\nI1\nsS'size'\nI-5\nsa"));
    EVENTS_FAIL("event 0 of device 0 has no 'addr'",
                put(&d, "(dS'action'\nS'alloc'\nsS'size'\nI5\nsa"));
    EVENTS_FAIL("has 'frames' = 7, expected a list of frames",
                put(&d, "(dS'action'\nS'alloc'\nsS'addr'\nI1\nsS'size'\nI5\ns"
                        "S'frames'\nI7\nsa"));
    EVENTS_FAIL("item 1 of device_traces[0] is of another kind",
                event(&d, "alloc", 0x200000, 512), put(&d, "I7\na"));
}

TEST(blocks_must_tile_their_segment)
{
    mr_ctx ctx = {0};
    doc d;
    for (int wrong = 0; wrong < 3; wrong++) {
        begin(&d);
        event(&d, "alloc", 0x200000, 512);
        segments(&d);
        segment(&d, 0x200000, 0x200000);
        block(&d, 0x200000, 0x200, "active_allocated");
        if (wrong == 0) block(&d, 0x200400, 0x1ffc00, "inactive");
        if (wrong == 1) block(&d, 0x200200, 0x1ffc00, "inactive");
        if (wrong == 2) block(&d, 0x200200, 0x200000, "inactive");
        end_segment(&d);
        end(&d);
        static const char *const parts[] = {"a block begins at 0x200400, expected 0x200200",
                                            "end at 0x3ffe00, expected 0x400000",
                                            "has 2097152 bytes, expected 1 to the end"};
        CHECK_HAS(said(&ctx, &d), parts[wrong]);
    }
    mr_ctx_clear(&ctx);
}

TEST(pickles_that_are_no_snapshot_are_refused)
{
    static const struct {
        const char *pickle, *part;
    } files[] = {
        {"(lp0\n.", "bare list of segments as PyTorch 1.x"},
        {"I5\n.", "the pickle holds 5, expected the dict"},
        {"(d.", "has no 'segments'"},
        {"(dS'segments'\n(ls.", "has no 'device_traces'"},
        {"(dS'segments'\n(lsS'device_traces'\n(ls.", "_record_memory_history()"},
        {"(dS'segments'\n(lsS'device_traces'\n(l(la(las.", "_record_memory_history()"},
        {"(dS'segments'\nI5\nsS'device_traces'\n(l(l(dS'action'\nS'oom'\nsS'size'\nI5\n"
         "sS'device_free'\nI5\nsaas.",
         "segments is 5, expected a list"},
    };
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        doc d = {"", 0};
        put(&d, "%s", files[i].pickle);
        CHECK_HAS(said(&ctx, &d), files[i].part);
        mr_ctx_clear(&ctx);
    }
}

/* ---- the referee of histories ---------------------------------------------------------- */

TEST(the_referee_sees_what_does_not_lead_to_the_end)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    large_block(&d, 0x2280000);
    CHECK_EQ(read_bytes(&ctx, d.text, d.n, &trace), MR_OK);
    mr_history *h = &trace.histories.at[0];
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_OK);
    h->cmds.n--;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->cmds.n++;
    h->end.at[1].offset += 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->end.at[1].offset -= 512;
    h->start.at[0].bytes -= 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->start.at[0].bytes += 512;
    h->cmds.at[0].block.offset -= 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "command 0 of the history of device 0 binds storage");
    h->cmds.at[0].block.offset += 512;
    h->cmds.at[1].block.offset += 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "command 1");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
