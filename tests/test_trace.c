/* The referee of traces, fed with wrong answers; names, copies, devices. */
#include "trace.h"

#include "test.h"

/* A storage live throughout, one allocated and freed, a tensor on each, an op from 0 to 1. */
static mr_trace small(mr_ctx *ctx)
{
    mr_trace t;
    mr_trace_init(ctx, &t, "small");
    MR_PUSH(ctx, &t.storages,
            (mr_storage){.bytes = 64, .stack = MR_NONE, .before = true, .after = true});
    MR_PUSH(ctx, &t.storages, (mr_storage){.bytes = 32, .stack = MR_NONE});
    MR_PUSH(ctx, &t.tensors, (mr_tensor){.name = "a", .dtype = "", .storage = 0, .bytes = 64});
    MR_PUSH(ctx, &t.tensors, (mr_tensor){.name = "b", .dtype = "", .storage = 1, .bytes = 32});
    return t;
}

static mr_trace allocations(mr_ctx *ctx)
{
    mr_trace t = small(ctx);
    MR_PUSH(ctx, &t.events, (mr_event){MR_ALLOC, 1});
    MR_PUSH(ctx, &t.events, (mr_event){MR_FREE, 1});
    return t;
}

static mr_ids one(mr_ctx *ctx, uint32_t id)
{
    mr_ids ids = {MR_NEW(ctx, uint32_t), 1};
    *ids.at = id;
    return ids;
}

static mr_trace operators(mr_ctx *ctx)
{
    mr_trace t = small(ctx);
    MR_PUSH(ctx, &t.ops,
            (mr_op){.name = "f",
                    .module = "",
                    .again = MR_NONE,
                    .of = MR_NONE,
                    .in = one(ctx, 0),
                    .out = one(ctx, 1)});
    MR_PUSH(ctx, &t.events, (mr_event){MR_RUN, 0});
    MR_PUSH(ctx, &t.events, (mr_event){MR_DROP, 1});
    return t;
}

static void add_history(mr_ctx *ctx, mr_trace *t)
{
    mr_history h = {.held = 1, .capacity_high = UINT64_MAX};
    MR_PUSH(ctx, &h.segments, (mr_segment){.address = 4096, .bytes = 1024});
    MR_PUSH(ctx, &h.start, (mr_piece){.storage = 0, .bytes = 512});
    MR_PUSH(ctx, &h.start, (mr_piece){.storage = MR_NONE, .offset = 512, .bytes = 512});
    MR_PUSH(ctx, &h.cmds, (mr_cmd){MR_BIND, 1, {.offset = 512, .bytes = 512}});
    MR_PUSH(ctx, &h.cmds, (mr_cmd){MR_UNBIND, 1, {.offset = 512, .bytes = 512}});
    MR_PUSH(ctx, &h.end, (mr_piece){.storage = 0, .bytes = 512});
    MR_PUSH(ctx, &t->histories, h);
}

static mr_trace with_history(mr_ctx *ctx)
{
    mr_trace t = allocations(ctx);
    add_history(ctx, &t);
    return t;
}

/* One trace, changed by a statement on `t` (and its history `h`), must be refused like this. */
#define REFUSED(make, change, sentence)                       \
    do {                                                      \
        mr_ctx ctx = {0};                                     \
        mr_trace t = make(&ctx);                              \
        mr_history *h = t.histories.at;                       \
        (void)h;                                              \
        change;                                               \
        CHECK_EQ(mr_trace_check(&ctx, &t), MR_EINPUT);        \
        CHECK_HAS(ctx.failure.text, sentence);                \
        mr_ctx_clear(&ctx);                                   \
    } while (0)

TEST(good_traces_pass)
{
    mr_ctx ctx = {0};
    mr_trace t = allocations(&ctx);
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    t = operators(&ctx);
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    t = with_history(&ctx);
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    mr_ctx_clear(&ctx);
}

TEST(indices_must_lead_somewhere)
{
    REFUSED(allocations, t.streams.at[0] = 5, "the trace lacks the default stream");
    REFUSED(allocations, MR_PUSH(&ctx, &t.streams, 0), "stream 0 follows stream 0");
    REFUSED(allocations, MR_PUSH(&ctx, &t.pools, 0), "pool 0 is there twice");
    REFUSED(allocations, t.storages.at[1].stream = 1, "storage 1 refers to stream 1");
    REFUSED(allocations, t.storages.at[1].pool = 9, "storage 1 refers to pool 9");
    REFUSED(allocations, t.storages.at[1].stack = 0, "storage 1 refers to stack 0");
    REFUSED(allocations, t.storages.at[1].role = 99, "storage 1 refers to role 99");
    REFUSED(allocations, t.storages.at[0].refused = true, "storage 0 was refused and is live");
    REFUSED(allocations, t.storages.at[0].bytes = ((uint64_t)1 << 47) + 1, "no device has");
    REFUSED(allocations, t.tensors.at[1].storage = 2, "tensor 1 refers to storage 2");
    REFUSED(allocations, MR_PUSH(&ctx, &t.stacks, (mr_stack){one(&ctx, 0).at, 1}),
            "stack 0 refers to frame 0");
    REFUSED(operators, t.ops.at[0].in.at[0] = 2, "op 0 refers to tensor 2");
    REFUSED(operators, t.ops.at[0].again = 0, "op 0 recomputes itself");
    REFUSED(operators, t.ops.at[0].again = 1, "op 0 refers to op 1");
    REFUSED(operators, t.ops.at[0].stream = 1, "op 0 refers to stream 1");
    REFUSED(operators, t.ops.at[0].ns = UINT64_MAX, "op 0 has 18446744073709551615 ns");
    REFUSED(operators, t.ops.at[0].flops = UINT64_MAX, "18446744073709551615 flops, with which");
    REFUSED(operators, t.ops.at[0].read = UINT64_MAX, "bytes read, with which all together");
    REFUSED(operators, t.ops.at[0].written = (uint64_t)1 << 63, "bytes written, with which");
    REFUSED(operators, t.ops.at[0].workspace = UINT64_MAX, "the workspace of op 0 has");
    REFUSED(operators, t.events.at[0].id = 1, "event 0 refers to op 1");
    REFUSED(operators, t.events.at[1].id = 2, "event 1 refers to tensor 2");
    REFUSED(operators, t.events.at[1].kind = MR_MARK, "event 1 refers to mark 1");
    REFUSED(operators, t.events.at[1].kind = MR_CARRY, "event 1 is of kind 7");
    REFUSED(operators, MR_PUSH(&ctx, &t.times, 0), "2 events have 1 times");
}

TEST(tensors_lie_inside_their_storage)
{
    REFUSED(operators, t.tensors.at[1].bytes = 33, "tensor 1 has 33 bytes at offset 0");
    REFUSED(operators, t.tensors.at[1].offset = 1, "tensor 1 has 32 bytes at offset 1");
    REFUSED(operators, t.tensors.at[1].offset = UINT64_MAX, "expected it to lie inside the 32");
}

TEST(a_storage_lives_once)
{
    REFUSED(allocations, t.events.at[1].kind = MR_ALLOC, "event 1 allocates storage 1");
    REFUSED(allocations, t.events.at[0].id = 0, "event 0 allocates storage 0");
    REFUSED(allocations, t.events.at[0].kind = MR_FREE,
            "event 0 frees storage 1, expected it to be al");
    REFUSED(allocations, MR_PUSH(&ctx, &t.events, (mr_event){MR_FREE, 1}),
            "event 2 frees storage 1");
    REFUSED(allocations, MR_PUSH(&ctx, &t.events, (mr_event){MR_ALLOC, 1}),
            "event 2 allocates");
    REFUSED(allocations, MR_PUSH(&ctx, &t.events, (mr_event){MR_DONE, 1}),
            "event 2 completes the free of storage 1, expected a deferred free");
    REFUSED(allocations, t.storages.at[1].refused = true,
            "no free, for its allocation was refused");
    REFUSED(allocations, t.storages.at[1].after = true, "storage 1 is freed");
    REFUSED(allocations, t.events.n = 1, "storage 1 is never freed");
    REFUSED(allocations, (t.events.n = 0, t.storages.at[1].after = true), "is never allocated");
}

TEST(a_deferred_free_ends_once)
{
    mr_ctx ctx = {0};
    mr_trace t = allocations(&ctx);
    t.storages.at[1].deferred = true;
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    MR_PUSH(&ctx, &t.events, (mr_event){MR_DONE, 1});
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    MR_PUSH(&ctx, &t.events, (mr_event){MR_DONE, 1});
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_EINPUT);
    mr_ctx_clear(&ctx);
}

TEST(ops_read_what_was_written_and_is_still_there)
{
    REFUSED(operators, t.ops.at[0].in.at[0] = 1, "event 0 runs an op that reads tensor 1");
    REFUSED(operators, MR_PUSH(&ctx, &t.events, (mr_event){MR_DROP, 1}),
            "event 2 drops tensor 1");
    REFUSED(operators, t.events.at[0] = ((mr_event){MR_FREE, 0}), "storage 0 is freed");
    REFUSED(operators,
            (t.storages.at[0].after = false, t.events.at[1] = t.events.at[0],
             t.events.at[0] = (mr_event){MR_FREE, 0}),
            "event 1 runs an op on tensor 0, expected its storage not to be freed before");
    mr_saved saved = {1, MR_SAVED_INPUT};
    REFUSED(operators,
            (t.ops.at[0].saved.at = &saved, t.ops.at[0].saved.n = 1, t.ops.at[0].out.n = 0),
            "event 0 runs an op that saves tensor 1");
}

TEST(histories_must_have_been_possible)
{
    REFUSED(with_history, h->held = 2, "begins with 2 segments");
    REFUSED(with_history, h->segments.at[0].stream = 1, "a stream or pool that is not there");
    REFUSED(with_history, h->segments.at[0].address = UINT64_MAX,
            "ends behind the last address");
    REFUSED(with_history, h->start.n = 1, "tiled by pieces of 512 bytes at the start");
    REFUSED(with_history, h->start.at[1].offset = 511, "no overlap with another piece");
    REFUSED(with_history, h->start.at[1].bytes = 0, "some bytes inside its segment");
    REFUSED(with_history, h->start.at[1].offset = 1024, "some bytes inside its segment");
    REFUSED(with_history, h->start.at[1].segment = 1, "a segment that exists at that time");
    REFUSED(with_history, h->start.at[1].storage = 2, "a storage of the trace");
    REFUSED(with_history, h->start.at[1].storage = 0, "a storage that has no other");
    REFUSED(with_history, h->cmds.at[0].block.offset = 0, "where storage 0 lives");
    REFUSED(with_history, h->cmds.at[0].block.offset = 1000, "a block inside its segment");
    REFUSED(with_history, h->cmds.at[0].block.segment = 1, "refers to segment 1");
    REFUSED(with_history, h->cmds.at[0].id = 2, "refers to storage or op 2");
    REFUSED(with_history, h->cmds.at[0].id = 0,
            "binds storage 0, expected one that lives nowhere");
    REFUSED(with_history, h->cmds.at[1].block.offset = 0, "the block that it lives in");
    REFUSED(with_history, h->cmds.n = 1, "1 storages live in the pieces at the end");
    REFUSED(with_history, h->cmds.at[0].kind = MR_RELEASE, "nobody to live there");
    REFUSED(with_history, h->cmds.at[0].kind = MR_RESERVE, "reserves segment 0");
    REFUSED(with_history, h->cmds.at[0].kind = MR_MAP, "an expandable one");
    REFUSED(with_history, h->cmds.at[0].kind = (mr_cmd_kind)77, "is of kind 77");
    REFUSED(with_history, h->end.at[0].offset = 4, "a storage where the commands have put it");
    REFUSED(with_history, h->capacity_low = UINT64_MAX, "expected the first to be less");
    REFUSED(with_history, add_history(&ctx, &t), "device 0 has a second history");
}

TEST(a_pending_piece_at_the_start_may_become_free)
{
    mr_ctx ctx = {0};
    mr_trace t = with_history(&ctx);
    mr_history *h = t.histories.at;
    t.storages.at[0].deferred = true;
    t.storages.at[0].after = false;
    h->start.at[0].pending = true;
    h->end.n = 0;
    MR_PUSH(&ctx, &h->cmds, (mr_cmd){MR_UNBIND, 0, {.bytes = 512}});
    MR_PUSH(&ctx, &t.events, (mr_event){MR_DONE, 0});
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    mr_ctx_clear(&ctx);
}

TEST(changing_a_copy_leaves_the_original)
{
    mr_ctx ctx = {0};
    mr_trace t = operators(&ctx), copy;
    mr_trace_copy(&ctx, &t, &copy);
    copy.storages.at[0].bytes = 1;
    copy.events.at[0].id = 9;
    MR_PUSH(&ctx, &copy.ops, t.ops.at[0]);
    CHECK_EQ(t.storages.at[0].bytes, 64);
    CHECK_EQ(t.events.at[0].id, 0);
    CHECK_EQ(t.ops.n, 1);
    CHECK_EQ(copy.ops.n, 2);
    mr_ctx_clear(&ctx);
}

TEST(devices_are_those_that_storages_live_on)
{
    mr_ctx ctx = {0};
    mr_trace t = with_history(&ctx);
    uint32_t n;
    t.storages.at[0].device = 7;
    MR_PUSH(&ctx, &t.storages, (mr_storage){.device = MR_PINNED, .stack = MR_NONE});
    MR_PUSH(&ctx, &t.storages, (mr_storage){.device = MR_PAGEABLE, .stack = MR_NONE});
    const uint32_t *devices = mr_trace_devices(&ctx, &t, &n);
    CHECK_EQ(n, 2);
    CHECK_EQ(devices[0], 0);
    CHECK_EQ(devices[1], 7);
    CHECK(mr_trace_history(&t, 0) == t.histories.at);
    CHECK(!mr_trace_history(&t, 7));
    mr_ctx_clear(&ctx);
}

TEST(everything_has_a_name)
{
    CHECK_STR(mr_about_name(MR_ABOUT_batch), "batch");
    CHECK_STR(mr_about_meaning(MR_ABOUT_batch), "samples in a step");
    CHECK_STR(mr_role_name(MR_ROLE_state), "state");
    CHECK_STR(mr_role_plural(MR_ROLE_state), "optimizer state");
    CHECK_STR(mr_phase_name(MR_UPDATE), "update");
    CHECK_STR(mr_saved_name(MR_SAVED_MASK), "mask");
    CHECK_STR(mr_mark_kind_name(MR_NOTE), "note");
}

TEST_MAIN()
