/* States of PyTorch's allocator that are taken over, and shown. */
#include "c10_world.h"

static const c10_version old = {2, 4}, newest = {2, 15};

static void add_piece(mr_ctx *ctx, c10_segment *s, uint64_t size, c10_state state)
{
    const c10_piece piece = {.address = s->address + s->total,
                             .size = size,
                             .requested = state == C10_INACTIVE ? 0 : size,
                             .state = state};
    MR_PUSH(ctx, &s->pieces, piece);
    s->total += size;
}

/* One segment of 20 MiB at 1 GiB: live, free, live. */
static c10_segment three_pieces(mr_ctx *ctx)
{
    c10_segment s = {.address = MR_GIB, .large = true};
    add_piece(ctx, &s, 4 * MR_MIB, C10_ALLOCATED);
    add_piece(ctx, &s, 6 * MR_MIB, C10_INACTIVE);
    add_piece(ctx, &s, 10 * MR_MIB, C10_ALLOCATED);
    return s;
}

/* The same in two pages of a reservation. */
static c10_segment three_mapped(mr_ctx *ctx)
{
    c10_segment s = three_pieces(ctx);
    s.expandable = true;
    s.reserved_at = MR_GIB;
    s.reserved = 200 * MR_MIB;
    return s;
}

static const char *adoption(mr_ctx *ctx, c10_segment *one, uint32_t n)
{
    world w;
    start(&w, newest, "");
    c10_segments segments = {.at = one, .n = n, .cap = n};
    const mr_status status = c10_adopt(w.allocator, &segments);
    const char *text = status == MR_OK ? "" : mr_strdup(ctx, w.ctx.failure.text);
    end(&w);
    return text;
}

TEST(a_state_that_could_not_have_come_about_is_not_taken_over)
{
    mr_ctx ctx = {0};
    c10_segment s = three_pieces(&ctx);
    CHECK_STR(adoption(&ctx, &s, 1), "");
    s.pieces.at[1].address += 512;
    CHECK_STR(adoption(&ctx, &s, 1),
              "segment 0x40000000, at 0x40400000: the blocks leave a gap or overlap");
    s = three_pieces(&ctx);
    s.pieces.at[0].state = C10_INACTIVE;
    CHECK_HAS(adoption(&ctx, &s, 1), "two free blocks beside each other");
    s = three_pieces(&ctx);
    s.total += 512;
    CHECK_HAS(adoption(&ctx, &s, 1), "do not fill the segment");
    s = three_pieces(&ctx);
    s.total -= 512;
    CHECK_HAS(adoption(&ctx, &s, 1), "reaches past the end");
    s = three_pieces(&ctx);
    s.pieces.at[2].size = 1000;
    CHECK_HAS(adoption(&ctx, &s, 1), "no multiple of 512");
    s = three_pieces(&ctx);
    s.pieces.at[2].requested = s.pieces.at[2].size + 1;
    CHECK_HAS(adoption(&ctx, &s, 1), "smaller than what was requested");
    s = three_pieces(&ctx);
    s.stream = C10_STREAMS_MAX;
    CHECK_HAS(adoption(&ctx, &s, 1), "no such stream");
    s = (c10_segment){.address = MR_GIB};
    CHECK_HAS(adoption(&ctx, &s, 1), "do not fill the segment");
    c10_segment two[2] = {three_pieces(&ctx), three_pieces(&ctx)};
    CHECK_HAS(adoption(&ctx, two, 2), "overlaps the segment before");
    mr_ctx_clear(&ctx);
}

TEST(mapped_stretches_lie_in_whole_pages_of_their_reservation)
{
    mr_ctx ctx = {0};
    c10_segment s = three_mapped(&ctx);
    CHECK_STR(adoption(&ctx, &s, 1), "");
    s.reserved_at += 20 * MR_MIB;
    CHECK_HAS(adoption(&ctx, &s, 1), "does not cover");
    s = three_mapped(&ctx);
    s.reserved_at -= 2 * MR_MIB;
    s.reserved += 20 * MR_MIB;
    CHECK_HAS(adoption(&ctx, &s, 1), "not whole pages");
    s.page = 2 * MR_MIB; /* said by the snapshot itself */
    CHECK_STR(adoption(&ctx, &s, 1), "");
    s = three_mapped(&ctx);
    s.reserved = 0;
    CHECK_HAS(adoption(&ctx, &s, 1), "does not cover");
    c10_segment stretches[2] = {three_mapped(&ctx), three_mapped(&ctx)};
    for (uint32_t i = 0; i < 3; i++) stretches[1].pieces.at[i].address += 20 * MR_MIB;
    stretches[1].address += 20 * MR_MIB;
    CHECK_HAS(adoption(&ctx, stretches, 2), "does not lie apart");
    c10_segment two[2] = {three_mapped(&ctx), three_pieces(&ctx)};
    two[1].pieces.n = 0;
    two[1].address = MR_GIB + 100 * MR_MIB;
    two[1].total = 0;
    add_piece(&ctx, &two[1], 20 * MR_MIB, C10_ALLOCATED);
    CHECK_HAS(adoption(&ctx, two, 2), "overlaps the segment before");
    mr_ctx_clear(&ctx);
}

TEST(only_an_allocator_without_a_past_takes_over)
{
    world w;
    start(&w, newest, "");
    request(&w, 1, 0);
    c10_segment s = three_pieces(&w.ctx);
    c10_segments segments = {.at = &s, .n = 1, .cap = 1};
    CHECK_EQ(c10_adopt(w.allocator, &segments), MR_EINPUT);
    CHECK_HAS(w.ctx.failure.text, "before the first request");
    end(&w);
}

static void check_equal(const c10_segments *got, const c10_segments *want)
{
    CHECK_EQ(got->n, want->n);
    for (uint32_t i = 0; i < got->n && i < want->n; i++) {
        const c10_segment *g = &got->at[i], *e = &want->at[i];
        CHECK_EQ(g->address, e->address);
        CHECK_EQ(g->active, e->active);
        CHECK_EQ(g->stream, e->stream);
        CHECK_EQ(g->pool, e->pool);
        CHECK_EQ(g->reserved_at, e->reserved_at);
        CHECK_EQ(g->pieces.n, e->pieces.n);
        for (uint32_t k = 0; k < g->pieces.n && k < e->pieces.n; k++) {
            CHECK_EQ(g->pieces.at[k].size, e->pieces.at[k].size);
            CHECK_EQ(g->pieces.at[k].state, e->pieces.at[k].state);
            CHECK_EQ(g->pieces.at[k].waits_for, e->pieces.at[k].waits_for);
        }
    }
}

/* Two kinds of segments, two streams, a private pool, a pending free and a hole. */
static void live_a_little(world *w)
{
    c10_lease leases[8];
    c10_pool_begin(w->allocator, 7, MR_NONE);
    leases[0] = request(w, 3 * MR_MIB, 0);
    c10_pool_end(w->allocator, 7);
    for (int i = 1; i < 7; i++) leases[i] = request(w, 20 * MR_MIB, 1);
    leases[7] = request(w, 1000, 1);
    c10_free(w->allocator, leases[2].block);
    c10_empty_cache(w->allocator);
    c10_free(w->allocator, leases[4].block);
    c10_record_stream(w->allocator, leases[5].block, 9);
    c10_free(w->allocator, leases[5].block);
}

TEST(what_is_taken_over_shows_like_what_it_came_from)
{
    world from, to;
    c10_segments before, after;
    start(&from, newest, "expandable_segments:True");
    start(&to, newest, "expandable_segments:True");
    live_a_little(&from);
    c10_snapshot(from.allocator, &from.ctx, &before);
    CHECK_EQ(c10_adopt(to.allocator, &before), MR_OK);
    c10_snapshot(to.allocator, &to.ctx, &after);
    check_equal(&after, &before);
    const c10_stats *f = c10_statistics(from.allocator), *t = c10_statistics(to.allocator);
    CHECK_EQ(t->active_bytes[C10_ALL].current, f->active_bytes[C10_ALL].current);
    CHECK_EQ(t->allocated_bytes[C10_ALL].current, f->allocated_bytes[C10_ALL].current);
    CHECK_EQ(t->reserved_bytes[C10_LARGE_POOL].peak, f->reserved_bytes[C10_LARGE_POOL].current);
    CHECK_EQ(t->allocation[C10_ALL].allocated, 0);
    end(&from);
    end(&to);
}

TEST(what_is_taken_over_counts)
{
    world w;
    start(&w, newest, "max_split_size_mb:20");
    c10_segment three[3] = {three_pieces(&w.ctx), {.large = true}, three_mapped(&w.ctx)};
    three[1].address = MR_GIB + 20 * MR_MIB; /* touches the one before */
    add_piece(&w.ctx, &three[1], 30 * MR_MIB, C10_INACTIVE);
    three[2].reserved_at = three[2].address = 2 * MR_GIB;
    for (uint32_t i = 0; i < 3; i++) three[2].pieces.at[i].address += MR_GIB;
    c10_segments segments = {.at = three, .n = 3, .cap = 3};
    CHECK_EQ(c10_adopt(w.allocator, &segments), MR_OK);
    const c10_stats *stats = c10_statistics(w.allocator);
    CHECK_EQ(stats->segment[C10_ALL].current, 2);
    CHECK_EQ(stats->inactive_split[C10_ALL].current, 1);
    CHECK_EQ(stats->inactive_split_bytes[C10_ALL].peak, 6 * MR_MIB);
    CHECK_EQ(stats->oversize_segments.current, 2);
    c10_lease lease;
    CHECK_EQ(c10_set_memory_fraction(w.allocator, 1.0 / 128), MR_OK); /* 64 MiB */
    CHECK(!c10_malloc(w.allocator, 60 * MR_MIB, 0, &lease));
    end(&w);
}

TEST(a_pool_that_was_taken_over_can_be_given_back)
{
    world w;
    start(&w, newest, "");
    c10_segment s = {.address = MR_GIB, .large = true, .pool = 7};
    add_piece(&w.ctx, &s, 20 * MR_MIB, C10_ALLOCATED);
    c10_segments segments = {.at = &s, .n = 1, .cap = 1};
    CHECK_EQ(c10_adopt(w.allocator, &segments), MR_OK);
    c10_free(w.allocator, s.pieces.at[0].block);
    CHECK_EQ(c10_pool_release(w.allocator, 7), MR_OK);
    CHECK_EQ(c10_empty_cache(w.allocator), MR_OK);
    CHECK_EQ(c10_pool_begin(w.allocator, 7, MR_NONE), MR_OK); /* another of that name */
    end(&w);
}

/* The stream that the block at an address waits for. */
static uint32_t waits_for(const c10_segments *segments, uint64_t address)
{
    for (uint32_t i = 0; i < segments->n; i++)
        for (uint32_t k = 0; k < segments->at[i].pieces.n; k++)
            if (segments->at[i].pieces.at[k].address == address)
                return segments->at[i].pieces.at[k].waits_for;
    return MR_NONE;
}

TEST(a_snapshot_names_the_stream_that_a_free_waits_for)
{
    world w;
    start(&w, old, "");
    const c10_lease sent = request(&w, 1000, 0), put_off = request(&w, 1000, 0);
    c10_record_stream(w.allocator, sent.block, 4);
    c10_record_stream(w.allocator, put_off.block, 6);
    c10_free(w.allocator, sent.block);
    CHECK_EQ(c10_pool_begin(w.allocator, 1, MR_NONE), MR_OK);
    c10_free(w.allocator, put_off.block);
    c10_segments segments;
    c10_snapshot(w.allocator, &w.ctx, &segments);
    CHECK_EQ(waits_for(&segments, sent.address), 4);
    CHECK_EQ(waits_for(&segments, put_off.address), 6);
    end(&w);
}

TEST(a_pending_free_that_was_taken_over_waits_for_its_stream)
{
    world w;
    start(&w, newest, "");
    c10_segment s = three_pieces(&w.ctx);
    s.pieces.at[2].state = C10_PENDING_FREE;
    s.pieces.at[2].waits_for = 5;
    c10_segments segments = {.at = &s, .n = 1, .cap = 1};
    CHECK_EQ(c10_adopt(w.allocator, &segments), MR_OK);
    CHECK_EQ(w.device.recorded, 5);
    CHECK_EQ(request(&w, 8 * MR_MIB, 0).address, w.device.next - 20 * MR_MIB);
    w.device.passed = w.device.tickets;
    CHECK_EQ(request(&w, 14 * MR_MIB, 0).address, MR_GIB + 4 * MR_MIB);
    end(&w);
}

TEST_MAIN()
