/* The treap against a plain array, on random sequences. */
#include "ranges.h"
#include "test.h"

#include <stdlib.h>

#define SPAN 200

/* owner + 1 of every byte, 0 for nobody */
typedef struct plain {
    uint32_t byte[2][SPAN];
} plain;

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static uint32_t owner_in(const plain *p, uint32_t segment, uint32_t at, uint32_t n)
{
    for (uint32_t i = at; i < at + n; i++)
        if (p->byte[segment][i]) return p->byte[segment][i];
    return 0;
}

static void set(plain *p, uint32_t segment, uint32_t at, uint32_t n, uint32_t value)
{
    for (uint32_t i = at; i < at + n; i++) p->byte[segment][i] = value;
}

static void one_step(mr_ctx *ctx, mr_ranges *r, plain *p, uint64_t *state)
{
    const uint32_t segment = draw(state) % 2, at = draw(state) % (SPAN - 20);
    const uint32_t n = 1 + draw(state) % 20;
    const mr_range *found = mr_ranges_overlap(r, segment, at, n);
    CHECK_EQ(found ? found->owner : 0, owner_in(p, segment, at, n));
    if (!found) {
        const uint32_t owner = 1 + draw(state) % 1000000;
        mr_ranges_add(ctx, r, (mr_range){at, n, segment, owner});
        set(p, segment, at, n, owner);
    } else if (draw(state) % 2) {
        const mr_range gone = *found;
        CHECK(mr_ranges_remove(r, segment, gone.offset));
        set(p, segment, (uint32_t)gone.offset, (uint32_t)gone.bytes, 0);
    }
}

TEST(overlaps_are_those_of_a_plain_array)
{
    mr_ctx ctx = {0};
    uint64_t state = 1;
    for (int round = 0; round < 50; round++) {
        mr_ranges r = {0};
        plain p = {0};
        for (int i = 0; i < 2000; i++) one_step(&ctx, &r, &p, &state);
    }
    mr_ctx_clear(&ctx);
}

TEST(neighbours_are_found_within_one_segment_only)
{
    mr_ctx ctx = {0};
    mr_ranges r = {0};
    mr_ranges_add(&ctx, &r, (mr_range){100, 10, 0, 1});
    mr_ranges_add(&ctx, &r, (mr_range){0, 10, 2, 2});
    CHECK(!mr_ranges_at(&r, 0, 99));
    CHECK_EQ(mr_ranges_at(&r, 0, 100)->owner, 1);
    CHECK_EQ(mr_ranges_at(&r, 0, UINT64_MAX)->owner, 1);
    CHECK(!mr_ranges_at(&r, 1, UINT64_MAX));
    CHECK(!mr_ranges_after(&r, 0, 100));
    CHECK_EQ(mr_ranges_after(&r, 0, 50)->owner, 1);
    CHECK(!mr_ranges_remove(&r, 0, 101));
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
