/* The knapsack's solvers against all subsets, and against each other. */
#include "knapsack.h"
#include "test.h"

#include <time.h>

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static uint64_t most_value(const knapsack_problem *p)
{
    uint64_t best = 0;
    for (uint32_t set = 0; set < 1u << p->n; set++) {
        uint64_t value = 0, weight = 0;
        for (uint32_t i = 0; i < p->n; i++)
            if (set >> i & 1) value += p->items[i].value, weight += p->items[i].weight;
        if (weight <= p->limit && value > best) best = value;
    }
    return best;
}

static void check_sums(const knapsack_problem *p, const knapsack_choice *c)
{
    uint64_t value = 0, weight = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (c->taken[i]) value += p->items[i].value, weight += p->items[i].weight;
    CHECK_EQ(c->value, value);
    CHECK_EQ(c->weight, weight);
    CHECK(weight <= p->limit);
}

static knapsack_problem random_problem(mr_ctx *ctx, uint64_t *state, uint32_t n, uint32_t heavy)
{
    knapsack_item *items = MR_NEW_N(ctx, knapsack_item, n);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        items[i] = (knapsack_item){draw(state) % 50, draw(state) % heavy};
        sum += items[i].weight;
    }
    const uint64_t limit = sum * (draw(state) % 101) / 100;
    return (knapsack_problem){items, n, limit, sum ? sum : 1, UINT32_MAX, KNAPSACK_UP};
}

TEST(both_exact_forms_find_the_most_value)
{
    uint64_t state = 1;
    for (int round = 0; round < 500; round++) {
        mr_ctx ctx = {0};
        const knapsack_problem p = random_problem(&ctx, &state, (uint32_t)round % 13, 60);
        const knapsack_choice table = knapsack_table(&ctx, &p),
                              halves = knapsack_halves(&ctx, &p);
        const knapsack_choice greedy = knapsack_greedy(&ctx, &p);
        check_sums(&p, &table);
        check_sums(&p, &halves);
        check_sums(&p, &greedy);
        CHECK_EQ(table.value, most_value(&p));
        CHECK_EQ(halves.value, table.value);
        CHECK(greedy.value <= table.value);
        mr_ctx_clear(&ctx);
    }
}

TEST(quanta_rounded_up_never_exceed_the_limit)
{
    uint64_t state = 2;
    for (int round = 0; round < 200; round++) {
        mr_ctx ctx = {0};
        knapsack_problem p = random_problem(&ctx, &state, 40, 1u << 30);
        p.quanta = 1000;
        const knapsack_choice table = knapsack_table(&ctx, &p),
                              halves = knapsack_halves(&ctx, &p);
        check_sums(&p, &table);
        check_sums(&p, &halves);
        CHECK_EQ(halves.value, table.value);
        mr_ctx_clear(&ctx);
    }
}

TEST(quanta_rounded_to_the_nearest_may_exceed_it_as_in_pytorch)
{
    mr_ctx ctx = {0};
    /* 0.00004 of 1 is no quantum at all: everything is taken. */
    const knapsack_item items[] = {{5, 4}, {5, 4}, {5, 99992}};
    knapsack_problem p = {items, 3, 0, 100000, KNAPSACK_QUANTA, KNAPSACK_NEAREST};
    CHECK_EQ(knapsack_table(&ctx, &p).weight, 8);
    p.rounding = KNAPSACK_UP;
    CHECK_EQ(knapsack_table(&ctx, &p).weight, 0);
    mr_ctx_clear(&ctx);
}

TEST(greedy_goes_by_value_per_weight)
{
    mr_ctx ctx = {0};
    const knapsack_item items[] = {{10, 10}, {6, 5}, {6, 5}, {1, 0}, {9, 6}};
    const knapsack_problem p = {items, 5, 11, 26, 26, KNAPSACK_UP};
    const knapsack_choice c = knapsack_greedy(&ctx, &p);
    CHECK(!c.taken[0] && c.taken[1] && !c.taken[2] && c.taken[3] && c.taken[4]);
    mr_ctx_clear(&ctx);
}

TEST(a_thousand_ops_in_ten_thousand_quanta)
{
    mr_ctx ctx = {0};
    uint64_t state = 3;
    knapsack_problem p = random_problem(&ctx, &state, 1000, 1u << 28);
    p.quanta = KNAPSACK_QUANTA;
    const clock_t begin = clock();
    const knapsack_choice table = knapsack_table(&ctx, &p);
    const clock_t middle = clock();
    const knapsack_choice halves = knapsack_halves(&ctx, &p);
    const clock_t end = clock();
    CHECK_EQ(table.value, halves.value);
    printf("table %.1f ms, halves %.1f ms\n", 1e3 * (double)(middle - begin) / CLOCKS_PER_SEC,
           1e3 * (double)(end - middle) / CLOCKS_PER_SEC);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
