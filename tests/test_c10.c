/* The model of PyTorch's allocator, where scripts for the real one (tests/oracle) do not reach:
 * options and their refusals, rounding at its borders, states that are taken over, and large
 * free sets against a search without any order. */
#include "c10.h"
#include "test.h"

#include <stdlib.h>

static const c10_version oldest = {2, 0}, old = {2, 4}, middle = {2, 6}, newest = {2, 15};

/* ---- a device that hands out ascending addresses ---------------------------------------- */

typedef struct device {
    uint64_t capacity, used, next;
    uint64_t passed; /* events up to this ticket are done */
    uint64_t tickets;
    uint32_t recorded; /* stream of the last event */
} device;

static bool device_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    (void)stream;
    device *d = self;
    if (bytes > d->capacity - d->used) return false;
    d->used += bytes;
    *address = d->next;
    d->next += bytes;
    return true;
}

static void device_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)address;
    ((device *)self)->used -= bytes;
}

static uint64_t device_reserve(void *self, uint64_t bytes, uint32_t stream)
{
    (void)stream;
    device *d = self;
    d->next += bytes;
    return d->next - bytes;
}

static void device_unreserve(void *self, uint64_t address, uint64_t bytes)
{
    (void)self, (void)address, (void)bytes;
}

static bool device_map(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    return device_malloc(self, bytes, 0, &address);
}

static void device_unmap(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    device_free(self, address, bytes);
}

static uint64_t device_available(void *self)
{
    const device *d = self;
    return d->capacity - d->used;
}

static uint64_t device_record(void *self, uint32_t stream)
{
    device *d = self;
    d->recorded = stream;
    return ++d->tickets;
}

static bool device_done(void *self, uint32_t stream, uint64_t ticket)
{
    (void)stream;
    return ticket <= ((device *)self)->passed;
}

static void device_synchronize(void *self, uint32_t stream, uint64_t ticket)
{
    (void)stream;
    device *d = self;
    if (ticket != UINT64_MAX && ticket > d->passed) d->passed = ticket;
}

typedef struct world {
    mr_ctx ctx;
    device device;
    c10_allocator *allocator;
} world;

static void start(world *w, c10_version version, const char *conf)
{
    *w = (world){.device = {.capacity = 8 * MR_GIB, .next = 64 * MR_GIB}};
    const c10_device calls = {
        .self = &w->device,
        .total = w->device.capacity,
        .malloc = device_malloc,
        .free = device_free,
        .reserve = device_reserve,
        .unreserve = device_unreserve,
        .map = device_map,
        .unmap = device_unmap,
        .available = device_available,
        .record = device_record,
        .done = device_done,
        .synchronize = device_synchronize,
    };
    c10_options options;
    c10_options_init(&options, version);
    CHECK_EQ(c10_options_parse(&w->ctx, version, conf, &options), MR_OK);
    w->allocator = c10_new(&w->ctx, &calls, version, &options);
}

static void end(world *w)
{
    mr_ctx_clear(&w->ctx);
}

static c10_lease request(world *w, uint64_t bytes, uint32_t stream)
{
    c10_lease lease;
    CHECK(c10_malloc(w->allocator, bytes, stream, &lease));
    return lease;
}

/* ---- options ---------------------------------------------------------------------------- */

static const char *refusal(mr_ctx *ctx, c10_version version, const char *text)
{
    c10_options options;
    c10_options_init(&options, version);
    options.running = true;
    return c10_options_parse(ctx, version, text, &options) == MR_OK ? "" : ctx->failure.text;
}

TEST(a_refused_option_says_what_its_release_says_and_what_was_found)
{
    mr_ctx ctx = {0};
    CHECK_STR(refusal(&ctx, old, "max_split_size_mb:20"),
              "CachingAllocator option max_split_size_mb too small, must be > 20; found 20");
    CHECK_STR(refusal(&ctx, newest, "max_split_size_mb:19"),
              "CachingAllocator option max_split_size_mb too small, must be >= 20; found 19");
    CHECK_STR(refusal(&ctx, newest, "max_split_size_mb:20"), "");
    CHECK_STR(
        refusal(&ctx, old, "max_spilt_size_mb:128"),
        "Unrecognized CachingAllocator option: max_spilt_size_mb; this release has no such "
        "option");
    CHECK_STR(
        refusal(&ctx, newest, "max_spilt_size_mb:128"),
        "Unrecognized key 'max_spilt_size_mb' in Accelerator allocator config; this release "
        "has no such option");
    CHECK_HAS(refusal(&ctx, old, "expandable_segments:true"), "True/False");
    CHECK_HAS(refusal(&ctx, old, "roundup_power2_divisions:[256:1,512:2"), "expected ,");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 8}, "roundup_power2_divisions:[256:1,512:2"),
              "expected ,");
    CHECK_HAS(refusal(&ctx, newest, "roundup_power2_divisions:[256:1,512:2"), "end where more");
    CHECK_HAS(refusal(&ctx, newest, "garbage_collection_threshold:1"), "set it in (0.0, 1.0)");
    CHECK_HAS(refusal(&ctx, newest, "backend:cudaMallocAsync"), "native");
    mr_ctx_clear(&ctx);
}

TEST(an_option_is_unknown_before_the_release_that_brought_it)
{
    mr_ctx ctx = {0};
    CHECK_HAS(refusal(&ctx, oldest, "expandable_segments:True"), "Unrecognized");
    CHECK_HAS(refusal(&ctx, old, "max_non_split_rounding_mb:30"), "Unrecognized");
    CHECK_STR(refusal(&ctx, middle, "max_non_split_rounding_mb:30"), "");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 10}, "large_segment_size_mb:40"), "Unrecognized");
    CHECK_STR(refusal(&ctx, (c10_version){2, 11}, "large_segment_size_mb:40"), "");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 11}, "throw_on_cudamalloc_oom:True"),
              "Unrecognized");
    CHECK_STR(refusal(&ctx, (c10_version){2, 12}, "throw_on_cudamalloc_oom:True"), "");
    mr_ctx_clear(&ctx);
}

TEST(blanks_in_options_are_ignored_and_numbers_end_at_the_first_letter)
{
    mr_ctx ctx = {0};
    c10_options options;
    c10_options_init(&options, newest);
    const char *text = " max_split_size_mb : 128MB , garbage_collection_threshold:0.8";
    CHECK_EQ(c10_options_parse(&ctx, newest, text, &options), MR_OK);
    CHECK_EQ(options.max_split_size, 128 * MR_MIB);
    CHECK(options.garbage_collection_threshold > 0.79
          && options.garbage_collection_threshold < 0.81);
    mr_ctx_clear(&ctx);
}

TEST(another_text_resets_some_options_and_keeps_others)
{
    mr_ctx ctx = {0};
    c10_options options;
    c10_options_init(&options, newest);
    c10_options_parse(&ctx, newest,
                      "max_split_size_mb:64,expandable_segments:True,"
                      "large_segment_size_mb:40,max_non_split_rounding_mb:60",
                      &options);
    CHECK_EQ(options.max_non_split_rounding, 60 * MR_MIB);
    CHECK_EQ(c10_options_parse(&ctx, newest, "", &options), MR_OK);
    CHECK_EQ(options.max_split_size, C10_UNLIMITED);
    CHECK(options.expandable_segments);
    CHECK_EQ(options.large_segment_size, 40 * MR_MIB);
    CHECK_EQ(options.max_non_split_rounding, 40 * MR_MIB);
    mr_ctx_clear(&ctx);
}

TEST(the_rest_of_a_division_list_overwrites_the_last_interval_before_2_9_only)
{
    mr_ctx ctx = {0};
    c10_options options;
    const char *text = "roundup_power2_divisions:[4:2,16:4,>:8]";
    c10_options_parse(&ctx, old, text, &options);
    CHECK_EQ(options.roundup_power2_divisions[0], 2);
    CHECK_EQ(options.roundup_power2_divisions[3], 0);
    CHECK_EQ(options.roundup_power2_divisions[4], 8);
    c10_options_init(&options, newest);
    c10_options_parse(&ctx, newest, text, &options);
    CHECK_EQ(options.roundup_power2_divisions[4], 4);
    CHECK_EQ(options.roundup_power2_divisions[5], 8);
    mr_ctx_clear(&ctx);
}

/* ---- sizes ------------------------------------------------------------------------------ */

static uint64_t taken(c10_version version, const char *conf, uint64_t bytes)
{
    world w;
    start(&w, version, conf);
    const uint64_t size = request(&w, bytes, 0).size;
    end(&w);
    return size;
}

TEST(sizes_are_rounded_up_to_512_or_to_divisions_of_a_power_of_two)
{
    static const struct {
        const char *conf;
        uint64_t bytes, size;
    } table[] = {
        {"", 1, 512},
        {"", 512, 512},
        {"", 513, 1024},
        {"", MR_MIB, MR_MIB},
        {"expandable_segments:True", MR_MIB + 1, MR_MIB + 512},
        {"roundup_power2_divisions:4", 2048, 2048}, /* 512 * 4 is not above the limit */
        {"roundup_power2_divisions:4", 2049, 2560},
        {"roundup_power2_divisions:4", 5000, 5120},
        {"roundup_power2_divisions:4", 4096, 4096},
        {"roundup_power2_divisions:4", 700000, 786432},
        {"roundup_power2_divisions:8", 700000, 720896},
        {"roundup_power2_divisions:1", 1500, 1536},
        {"roundup_power2_divisions:[1:2,2:8]", 600000,
         786432}, /* below 2 MiB the first entry */
        {"roundup_power2_divisions:2", 536870913, 805306368},
    };
    for (size_t i = 0; i < MR_COUNT(table); i++)
        CHECK_EQ(taken(newest, table[i].conf, table[i].bytes), table[i].size);
}

TEST(release_2_0_takes_one_division_as_no_rounding_at_all)
{
    world w;
    start(&w, oldest, "roundup_power2_divisions:1");
    const c10_lease a = request(&w, 1001, 0), b = request(&w, 5, 0), c = request(&w, 1000, 0);
    CHECK_EQ(b.address - a.address, 1001);
    CHECK_EQ(c.address - b.address, 512);
    c10_free(w.allocator, a.block);
    CHECK_EQ(request(&w, 1002, 0).address, c.address + 1000); /* one byte more does not fit */
    const c10_lease again = request(&w, 1001, 0);
    CHECK_EQ(again.address, a.address);
    c10_free(w.allocator, again.block);
    CHECK_EQ(request(&w, 600, 0).size, 1001); /* the rest would be smaller than any block */
    end(&w);
}

TEST(nothing_is_taken_for_nothing_and_two_tebibytes_are_too_much)
{
    world w;
    start(&w, newest, "");
    c10_lease lease;
    CHECK(c10_malloc(w.allocator, 0, 3, &lease));
    CHECK_EQ(lease.block, MR_NONE);
    c10_free(w.allocator, lease.block);
    c10_record_stream(w.allocator, lease.block, 4);
    w.device.capacity = 2 * C10_BLOCK_LIMIT;
    CHECK(!c10_malloc(w.allocator, C10_BLOCK_LIMIT, 0, &lease));
    CHECK(!c10_malloc(w.allocator, UINT64_MAX / 2, 0, &lease));
    CHECK_EQ(c10_statistics(w.allocator)->num_ooms, 2);
    end(&w);
}

TEST(a_memory_fraction_lies_between_zero_and_one)
{
    world w;
    start(&w, newest, "");
    CHECK_EQ(c10_set_memory_fraction(w.allocator, 1.5), MR_EINPUT);
    CHECK_STR(w.ctx.failure.text, "invalid fraction:1.5; expected 0 to 1");
    CHECK_EQ(c10_set_memory_fraction(w.allocator, 0.5), MR_OK);
    c10_lease lease;
    CHECK(!c10_malloc(w.allocator, 4 * MR_GIB + 1, 0, &lease));
    CHECK(c10_malloc(w.allocator, 4 * MR_GIB, 0, &lease));
    end(&w);
}

/* ---- best fit in large sets
 * ------------------------------------------------------------------ */

/* The block the rule names, found by looking at every one. */
static uint64_t best_by_looking(world *w, uint64_t size, bool oldest_first)
{
    mr_ctx ctx = {0};
    c10_segments segments;
    c10_snapshot(w->allocator, &ctx, &segments);
    uint64_t best = UINT64_MAX, address = 0;
    uint32_t age = UINT32_MAX;
    for (uint32_t i = 0; i < segments.n; i++) {
        const c10_segment *s = &segments.at[i];
        for (uint32_t k = 0; k < s->pieces.n; k++) {
            const c10_piece *p = &s->pieces.at[k];
            if (p->state != C10_INACTIVE || p->size < size || p->size > best) continue;
            if (p->size == best && (!oldest_first || s->order >= age)) continue;
            best = p->size;
            address = p->address;
            age = s->order;
        }
    }
    mr_ctx_clear(&ctx);
    return address;
}

static void churn(c10_version version, uint64_t kinds)
{
    enum { BLOCKS = 6000 };
    static c10_lease live[BLOCKS];
    world w;
    start(&w, version, "");
    uint64_t random = 12345;
    for (int i = 0; i < BLOCKS; i++) live[i] = request(&w, 512, 0);
    for (int i = 0; i < 40000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        c10_lease *one = &live[(random >> 33) % BLOCKS];
        if (one->block != MR_NONE) {
            c10_free(w.allocator, one->block);
            one->block = MR_NONE;
            continue;
        }
        const uint64_t bytes = 512 * (1 + (random >> 20) % kinds);
        const bool looks = i % 100 < 2;
        const uint64_t best = looks ? best_by_looking(&w, bytes, version.minor >= 15) : 0;
        *one = request(&w, bytes, 0);
        if (looks && best) CHECK_EQ(one->address, best);
    }
    end(&w);
}

TEST(among_thousands_of_free_blocks_the_best_fit_is_found)
{
    churn(old, 1);
    churn(old, 40);
    churn(newest, 1);
    churn(newest, 40);
}

/* Takes `n` segments of one size; the caller gives them back, so that a bin becomes a tree. */
static void take_many(world *w, c10_lease *taken, uint32_t n, uint64_t bytes)
{
    for (uint32_t i = 0; i < n; i++) taken[i] = request(w, bytes, 0);
}

TEST(equal_blocks_are_found_from_the_lowest_however_they_came)
{
    enum { BLOCKS = 600 };
    world w;
    c10_lease taken[BLOCKS];
    start(&w, old, "");
    take_many(&w, taken, BLOCKS, 12 * MR_MIB);
    for (uint32_t i = BLOCKS; i-- > 0;) c10_free(w.allocator, taken[i].block);
    for (uint32_t i = 0; i < BLOCKS; i++)
        CHECK_EQ(request(&w, 12 * MR_MIB, 0).address, taken[i].address);
    end(&w);
}

TEST(the_best_fit_is_found_wherever_its_size_begins)
{
    enum { LEAST = 64, MOST = 112, LARGER = 30 };
    for (uint32_t n = LEAST; n < MOST; n++) {
        world w;
        c10_lease smaller[MOST], larger[LARGER];
        start(&w, old, "");
        take_many(&w, smaller, n, 40 * MR_MIB);
        take_many(&w, larger, LARGER, 42 * MR_MIB);
        for (uint32_t i = 0; i < n; i++) c10_free(w.allocator, smaller[i].block);
        for (uint32_t i = 0; i < LARGER; i++) c10_free(w.allocator, larger[i].block);
        CHECK_EQ(request(&w, 41 * MR_MIB, 0).address, larger[0].address);
        end(&w);
    }
}

TEST(the_rest_of_a_block_is_found_among_many)
{
    enum { BLOCKS = 150 };
    world w;
    c10_lease taken[BLOCKS];
    start(&w, old, "");
    take_many(&w, taken, BLOCKS, 42 * MR_MIB);
    for (uint32_t i = 0; i < BLOCKS; i++) c10_free(w.allocator, taken[i].block);
    CHECK_EQ(request(&w, MR_MIB + 512, 0).address, taken[0].address);
    CHECK_EQ(request(&w, MR_MIB + 512, 0).address, taken[0].address + MR_MIB + 512);
    end(&w);
}

TEST(of_many_oversize_blocks_only_what_is_needed_is_released)
{
    enum { BLOCKS = 130 };
    world w;
    c10_lease taken[BLOCKS];
    start(&w, old, "max_split_size_mb:50");
    take_many(&w, taken, BLOCKS, 60 * MR_MIB);
    for (uint32_t i = 0; i < BLOCKS; i++) c10_free(w.allocator, taken[i].block);
    request(&w, 7168 * MR_MIB, 0);
    CHECK_EQ(c10_statistics(w.allocator)->num_device_free, 120);
    CHECK_EQ(c10_statistics(w.allocator)->num_alloc_retries, 0);
    for (uint32_t i = 0; i < BLOCKS - 120; i++) /* the highest went first */
        CHECK_EQ(request(&w, 60 * MR_MIB, 0).address, taken[i].address);
    end(&w);
}

/* ---- taking over
 * ----------------------------------------------------------------------------- */

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

TEST(nothing_is_served_once_the_real_one_would_have_stopped)
{
    world w;
    start(&w, old, "");
    request(&w, 1000, 0);
    CHECK_EQ(c10_pool_begin(w.allocator, 1, MR_NONE), MR_OK);
    CHECK_EQ(c10_empty_cache(w.allocator), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_EINPUT);
    CHECK_EQ(c10_pool_end(w.allocator, 1), MR_OK);
    c10_lease lease;
    CHECK(!c10_malloc(w.allocator, 1000, 0, &lease));
    end(&w);
}

TEST(what_cannot_be_done_in_a_release_is_said)
{
    world w;
    start(&w, old, "");
    CHECK_EQ(c10_pool_create(w.allocator, 1, (c10_pool_flags){false, false}), MR_EUNSUPPORTED);
    CHECK_EQ(c10_pool_empty(w.allocator, 1), MR_EUNSUPPORTED);
    CHECK_EQ(c10_set_reserve_class(w.allocator, 1, "small"), MR_EUNSUPPORTED);
    CHECK_EQ(c10_pool_end(w.allocator, 1), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_OK);
    CHECK_EQ(c10_pool_release(w.allocator, 1), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_EINPUT);
    end(&w);
}

TEST_MAIN()
