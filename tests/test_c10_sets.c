/* Best fit among large sets of free blocks, against a search without any order. */
#include "c10_world.h"

static const c10_version old = {2, 4}, newest = {2, 15};

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

/* From above a set grows at its lower end, is released at its upper end, and then one comes
 * back to the middle. */
TEST(a_block_between_others_is_found_in_its_turn)
{
    enum { BLOCKS = 98, RELEASED = 48, LATE = 25 };
    world w;
    c10_lease taken[BLOCKS];
    start(&w, old, "max_split_size_mb:50");
    take_many(&w, taken, BLOCKS, 60 * MR_MIB);
    for (uint32_t i = BLOCKS; i-- > 0;)
        if (i != LATE) c10_free(w.allocator, taken[i].block);
    request(&w, RELEASED * 60 * MR_MIB, 0);
    CHECK_EQ(c10_statistics(w.allocator)->num_device_free, RELEASED);
    c10_free(w.allocator, taken[LATE].block);
    for (uint32_t i = 0; i < BLOCKS - RELEASED; i++)
        CHECK_EQ(request(&w, 60 * MR_MIB, 0).address, taken[i].address);
    end(&w);
}

TEST_MAIN()
