/* PyTorch's memory snapshots: what happened, release by release. */
#include "snapshots.h"

/* ---- what happened --------------------------------------------------------------------- */

TEST(a_recording_from_an_empty_start)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 100);
    event(&d, "alloc", 0x200200, 700);
    freed(&d, 0x200000, 100);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "inactive");
    block(&d, 0x200200, 0x400, "active_allocated");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0 +1 -0");
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+200000 bind0@0:0+0 bind1@0:200+0 unbind0@0:0+0");
    CHECK_STR(pieces(&ctx, &h->start), "");
    CHECK_STR(pieces(&ctx, &h->end), "0:.@0+200 0:1@200+400 0:.@600+1ffa00");
    CHECK_EQ(h->capacity_low, 0x200000);
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    CHECK_EQ(trace.storages.at[0].bytes, 100);
    CHECK_EQ(trace.storages.at[1].after, true);
    CHECK_EQ(trace.times.n, 0);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], "2.1");
    mr_ctx_clear(&ctx);
}

TEST(who_lived_before_is_found_and_free_memory_is_the_gaps)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    freed(&d, 0x200400, 300);
    event(&d, "alloc", 0x200600, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_allocated");
    block(&d, 0x200200, 0x400, "inactive");
    block(&d, 0x200600, 0x200, "active_allocated");
    block(&d, 0x200800, 0x1ff800, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(pieces(&ctx, &h->start), "0:0@0+200 0:.@200+200 0:1@400+200 0:.@600+1ffa00");
    CHECK_STR(events(&ctx, &trace), "-1 +2");
    CHECK_EQ(trace.storages.at[0].before && trace.storages.at[0].after, true);
    CHECK_EQ(trace.storages.at[1].bytes, 300);
    CHECK_EQ(trace.storages.at[1].before && !trace.storages.at[1].after, true);
    mr_ctx_clear(&ctx);
}

TEST(a_large_block_may_own_a_tail_that_was_not_split_off)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    large_block(&d, 0x2280000);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+280000 0:.@280000+1180000");
    large_block(&d, 0x2200000);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+200000 0:.@200000+1200000");
    large_block(&d, 0x2300200); /* more than a mebibyte is never a tail */
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+200000 0:.@200000+1200000");
    mr_ctx_clear(&ctx);
}

TEST(the_rest_of_a_large_segment_up_to_a_mebibyte_belongs_to_its_block)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    freed(&d, 0x2000000, 0x1380000);
    segments(&d);
    segment(&d, 0x2000000, 0x1400000);
    block(&d, 0x2000000, 0x1400000, "inactive");
    end_segment(&d);
    end(&d);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+1400000");
    mr_ctx_clear(&ctx);
}

TEST(frees_that_wait_for_another_stream_are_done_later)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "free_completed", 0x200000, 512); /* was requested before the recording */
    event(&d, "alloc", 0x200200, 512);
    event(&d, "free_requested", 0x200200, 512);
    event(&d, "alloc", 0x200400, 512);
    event(&d, "free_completed", 0x200200, 512);
    event(&d, "free_requested", 0x200400, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x400, "inactive");
    block(&d, 0x200400, 0x200, "active_pending_free");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "~0 +1 -1 +2 ~1 -2");
    CHECK_STR(cmds(&ctx, h), "unbind0@0:0+0 bind1@0:200+0 defer1@0:200+0"
                             " bind2@0:400+0 unbind1@0:200+0 defer2@0:400+0");
    CHECK_STR(pieces(&ctx, &h->start), "0:0~@0+200 0:.@200+1ffe00");
    CHECK_STR(pieces(&ctx, &h->end), "0:.@0+400 0:2~@400+200 0:.@600+1ffa00");
    CHECK_EQ(trace.storages.at[1].deferred, true);
    mr_ctx_clear(&ctx);
}

TEST(a_free_may_be_pending_from_before_the_first_event_to_the_end)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200200, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_pending_free");
    block(&d, 0x200200, 0x200, "active_allocated");
    block(&d, 0x200400, 0x1ffc00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+1");
    CHECK_STR(pieces(&ctx, &h->start), "0:0~@0+200 0:.@200+1ffe00");
    CHECK_STR(pieces(&ctx, &h->end), "0:0~@0+200 0:1@200+200 0:.@400+1ffc00");
    CHECK_EQ(trace.storages.at[0].before, true);
    CHECK_EQ(trace.storages.at[0].after, false);
    mr_ctx_clear(&ctx);
}

TEST(devices_have_histories_of_their_own)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 512);
    next_device(&d);
    next_device(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 1024);
    segments(&d);
    for (uint32_t device = 0; device <= 2; device += 2) {
        segment_of(&d, device, 0x200000, 0x200000, false);
        block(&d, 0x200000, device ? 0x400 : 0x200, "active_allocated");
        block(&d, device ? 0x200400 : 0x200200, device ? 0x1ffc00 : 0x1ffe00, "inactive");
        end_segment(&d);
    }
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_EQ(trace.histories.n, 2);
    CHECK_EQ(trace.histories.at[1].device, 2);
    CHECK_EQ(trace.storages.at[1].device, 2);
    mr_ctx_clear(&ctx);
}

/* ---- versions -------------------------------------------------------------------------- */

TEST(blocks_of_2_0_have_a_history_in_place_of_an_address)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200200, 300);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    put(&d, "(dS'size'\nI512\nsS'state'\nS'active_allocated'\nsS'history'\n(l"
            "(dS'real_size'\nI77\nsS'addr'\nI5\nsa(dS'real_size'\nI9\nsasa");
    put(&d, "(dS'size'\nI512\nsS'state'\nS'active_allocated'\nsS'history'\n(lsa");
    put(&d, "(dS'size'\nI2096128\nsS'state'\nS'inactive'\nsa");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(pieces(&ctx, &h->end), "0:0@0+200 0:1@200+200 0:.@400+1ffc00");
    CHECK_EQ(trace.storages.at[0].bytes, 77);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], "2.0");
    mr_ctx_clear(&ctx);
}

TEST(annotations_and_metadata_become_marks)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    for (unsigned i = 0; i < 3; i++) {
        put(&d, "(d");
        word(&d, "action", "alloc");
        word(&d, "user_metadata", i ? "warm" : "");
        key(&d, "addr", 0x200000 + i * 512);
        key(&d, "size", 512);
        key(&d, "time_us", 1000 + i * 10);
        put(&d, "a");
    }
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    for (unsigned i = 0; i < 3; i++) block(&d, 0x200000 + i * 512, 512, "active_allocated");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    put(&d, "sS'external_annotations'\n(l");
    put(&d, "(dS'stage'\nS'END'\nsS'name'\nS'Optimizer.step#AdamW.step'\ns"
            "S'time_us'\nI1015\nsa");
    put(&d, "(dS'stage'\nS'START'\nsS'name'\nS'Optimizer.step#AdamW.step'\ns"
            "S'time_us'\nI1005\nsa");
    put(&d, "(dS'stage'\nS'START'\nsS'name'\nS'load'\nsS'time_us'\nI990\nsa");
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "#0 +0 #1 #2 +1 #3 +2");
    CHECK_EQ(trace.marks.at[0].kind, MR_REGION_BEGIN);
    CHECK_EQ(trace.marks.at[1].kind, MR_PHASE_BEGIN);
    CHECK_STR(trace.marks.at[1].name, "update");
    CHECK_STR(trace.marks.at[2].name, "warm");
    CHECK_EQ(trace.marks.at[3].kind, MR_PHASE_END);
    CHECK_STR(trace.about[MR_ABOUT_optimizer], "adamw");
    CHECK_EQ(trace.times.at[1], 10000);
    CHECK_EQ(trace.times.at[6], 30000);
    mr_ctx_clear(&ctx);
}

/* ---- what else stands there -------------------------------------------------------------- */

TEST(settings_are_told_as_in_the_environment)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "oom", 5, 512);
    segments(&d);
    put(&d, "sS'allocator_settings'\n(d");
    word(&d, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
    key(&d, "max_split_size", 134217728);
    put(&d, "S'expandable_segments'\nI01\nsS'garbage_collection_threshold'\nF0.8\ns"
            "S'roundup_power2_divisions'\n(d");
    for (unsigned i = 0; i < 16; i++) key(&d, mr_printf(&ctx, "%u", 1u << i), i < 2 ? 4 : 0);
    put(&d, "s");
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(trace.about[MR_ABOUT_allocator],
              "expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8,"
              "roundup_power2_divisions:[1:4,2:4,4:0,8:0,16:0,32:0,64:0,128:0,256:0,512:0,"
              "1024:0,2048:0,4096:0,8192:0,16384:0,32768:0]");
    mr_ctx_clear(&ctx);
}

TEST(what_stands_below_unknown_keys_is_ignored)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200000, 512);
    freed(&d, 0x200000, 512);
    put(&d, "asS'host_traces'\n(l(l(dS'action'\nS'pinned'\nsaa");
    put(&d, "sS'more'\n(dS'x'\n(lI1\naI2\naI3\nassS'segments'\n(l");
    segment(&d, 0x200000, 0x200000);
    put(&d, "(dS'address'\nI2097152\nsS'size'\nI2097152\nsS'state'\nS'inactive'\nsS'new'\nN"
            "sS'frames'\n(lsa");
    end_segment(&d);
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0 -0");
    mr_ctx_clear(&ctx);
}

TEST(a_ring_that_is_exactly_full_has_lost_its_beginning)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d; /* 1,000 events, each made of a reference to one of two dicts */
    begin(&d);
    put(&d, "(d");
    word(&d, "action", "alloc");
    key(&d, "addr", 0x200200);
    key(&d, "size", 512);
    put(&d, "p1\na");
    put(&d, "(dS'action'\nS'free_requested'\nsS'addr'\nI2097664\nsS'size'\nI512\nsp2\na");
    put(&d, "(dS'action'\nS'free_completed'\nsS'addr'\nI2097664\nsS'size'\nI512\nsp3\na");
    for (unsigned i = 0; i < 332; i++) put(&d, "g1\nag2\nag3\na");
    put(&d, "g1\na");
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "inactive");
    block(&d, 0x200200, 0x200, "active_allocated");
    block(&d, 0x200400, 0x1ffc00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->wrapped, true);
    CHECK_HAS(trace.notes.at[0], "exactly 1000 events");
    CHECK_EQ(trace.events.n, 667);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
