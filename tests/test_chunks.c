/* Sets of free chunks against a look at all of them. */
#include "chunks.h"
#include "test.h"

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The smallest that has room, of equal ones the lowest; MR_NONE. */
static uint32_t smallest(const chunks *c, uint64_t bytes)
{
    uint32_t best = MR_NONE;
    for (uint32_t i = 0; i < c->all.n; i++) {
        const chunk *at = &c->all.at[i];
        if (!at->free || at->bytes < bytes) continue;
        const chunk *old = best == MR_NONE ? at : &c->all.at[best];
        const bool lower = at->bytes == old->bytes && at->address < old->address;
        if (best == MR_NONE || at->bytes < old->bytes || lower) best = i;
    }
    return best;
}

static void add_chunk(chunks *c, uint64_t *state, uint32_t i)
{
    const uint64_t bytes = draw(state) % 2 ? 512 : 1 + draw(state) % (1u << draw(state) % 20);
    MR_PUSH(c->ctx, &c->all,
            (chunk){.bytes = bytes, .address = ((uint64_t)draw(state) << 20) + i});
}

TEST(bins_find_what_a_look_at_all_finds)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        mr_ctx ctx = {0};
        uint64_t state = seed;
        chunks c = chunks_make(&ctx);
        chunks_bins *bins = chunks_bins_new(&ctx);
        for (uint32_t i = 0; i < 1500; i++) add_chunk(&c, &state, i);
        for (uint32_t turn = 0; turn < 4000; turn++) {
            const uint32_t id = draw(&state) % c.all.n;
            if (c.all.at[id].free) chunks_bins_remove(&c, bins, id);
            else chunks_bins_add(&c, bins, id);
            const uint64_t bytes = draw(&state) % 2 ? 512 : draw(&state) % (1u << 20);
            CHECK_EQ(chunks_bins_find(bins, bytes), smallest(&c, bytes));
        }
        chunks_list all = {0};
        chunks_bins_list(&c, bins, &all);
        for (uint32_t i = 1; i < all.n; i++) {
            const chunk *a = &c.all.at[all.at[i - 1]], *b = &c.all.at[all.at[i]];
            CHECK(a->bytes < b->bytes || (a->bytes == b->bytes && a->address < b->address));
        }
        for (uint32_t i = 0; i < all.n; i++) chunks_bins_remove(&c, bins, all.at[i]);
        CHECK_EQ(chunks_bins_find(bins, 0), MR_NONE);
        mr_ctx_clear(&ctx);
    }
}

/* The lowest that has room, MR_NONE. */
static uint32_t lowest(const chunks *c, uint64_t bytes)
{
    uint32_t best = MR_NONE;
    for (uint32_t i = 0; i < c->all.n; i++) {
        const chunk *at = &c->all.at[i];
        if (!at->free || at->bytes < bytes) continue;
        if (best == MR_NONE || at->address < c->all.at[best].address) best = i;
    }
    return best;
}

/* Three levels of nodes fill, and run empty again. */
TEST(trees_find_the_lowest_that_has_room)
{
    mr_ctx ctx = {0};
    uint64_t state = 3;
    chunks c = chunks_make(&ctx);
    chunks_tree tree = {0};
    for (uint32_t i = 0; i < 3000; i++) add_chunk(&c, &state, i);
    for (uint32_t turn = 0; turn < 24000; turn++) {
        const uint32_t id = draw(&state) % c.all.n;
        const bool more = draw(&state) % 8 < (turn % 12000 < 6000 ? 7 : 1);
        if (c.all.at[id].free && !more) chunks_tree_remove(&c, &tree, id);
        if (!c.all.at[id].free && more) chunks_tree_add(&c, &tree, id);
        if (turn % 8) continue;
        const uint64_t bytes = draw(&state) % (1u << 18);
        CHECK_EQ(chunks_tree_find(&tree, bytes), lowest(&c, bytes));
    }
    for (uint32_t i = 0; i < c.all.n; i++)
        if (c.all.at[i].free) chunks_tree_remove(&c, &tree, i);
    CHECK(!tree.root);
    mr_ctx_clear(&ctx);
}

/* Memory that is cut from below, and joined with what is free on either side. */
TEST(trees_keep_the_order_of_what_is_cut_and_joined)
{
    mr_ctx ctx = {0};
    uint64_t state = 5;
    chunks c = chunks_make(&ctx);
    chunks_tree tree = {0};
    MR_VEC(uint32_t) used = {0};
    MR_PUSH(&ctx, &c.all,
            (chunk){.address = 4096, .bytes = 1 << 22, .prev = MR_NONE, .next = MR_NONE});
    chunks_tree_add(&c, &tree, 0);
    for (uint32_t turn = 0; turn < 20000; turn++) {
        const uint64_t bytes = 1 + draw(&state) % 4096;
        const uint32_t id = chunks_tree_find(&tree, bytes);
        if (turn % 16 == 0) CHECK_EQ(id, lowest(&c, bytes));
        if (id != MR_NONE && draw(&state) % 8 < (turn % 8000 < 4000 ? 6 : 2)) {
            if (c.all.at[id].bytes == bytes) chunks_tree_remove(&c, &tree, id);
            else chunks_tree_replace(&c, id, chunks_split(&c, id, bytes));
            MR_PUSH(&ctx, &used, id);
        } else if (used.n) {
            const uint32_t i = draw(&state) % used.n, gone = used.at[i];
            used.at[i] = used.at[--used.n];
            chunks_tree_free(&c, &tree, gone);
        }
    }
    while (used.n) chunks_tree_free(&c, &tree, used.at[--used.n]);
    CHECK(chunks_whole(&c, 0) && c.all.at[0].free && c.all.at[0].bytes == 1 << 22);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
