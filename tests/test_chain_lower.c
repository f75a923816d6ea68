/* Chains of lower sets against all chains of a small graph, and on a chain of equal ops. */
#include "graph_lower.h"
#include "test.h"

#include <time.h>

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

enum { NODES = 8 };

typedef struct problem {
    uint32_t n, readers[NODES], inputs[NODES]; /* sets of nodes, a bit each */
    uint64_t bytes[NODES], times[NODES], budget, best;
    uint32_t family[NODES + 1]; /* ancestors of each node, and everything */
} problem;

static uint64_t sum(const uint64_t *what, uint32_t set)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (set >> i & 1) all += what[i];
    return all;
}

static uint32_t joined(const uint32_t *sets, uint32_t of)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (of >> i & 1) all |= sets[i];
    return all;
}

static uint32_t boundary(const problem *p, uint32_t set)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if ((set >> i & 1) && (p->readers[i] & ~set)) out |= 1u << i;
    return out;
}

/* The paper's formulas, set by set. */
static void try_all(problem *p, uint32_t set, uint32_t kept, uint64_t time)
{
    const uint32_t all = (1u << p->n) - 1;
    if (set == all && time < p->best) p->best = time;
    for (uint32_t f = 0; f <= p->n; f++) {
        const uint32_t next = p->family[f];
        if ((set & ~next) || next == set) continue;
        const uint32_t fresh = next & ~set, edge = boundary(p, next);
        const uint32_t outside = joined(p->readers, next) & ~next;
        const uint32_t beside = joined(p->inputs, outside) & ~next;
        const uint64_t peak = sum(p->bytes, kept) + 2 * sum(p->bytes, fresh)
                              + sum(p->bytes, outside) + sum(p->bytes, beside);
        if (peak <= p->budget)
            try_all(p, next, kept | edge, time + sum(p->times, fresh & ~edge));
    }
}

static graph make(mr_ctx *ctx, problem *p, uint64_t *state)
{
    MR_VEC(graph_edge) edges = {0};
    *p = (problem){.n = 2 + draw(state) % (NODES - 1), .best = UINT64_MAX};
    for (uint32_t b = 0; b < p->n; b++) {
        p->bytes[b] = 1 + draw(state) % 9;
        p->times[b] = 1 + draw(state) % 9;
        p->family[b] = 1u << b;
        for (uint32_t a = 0; a < b; a++) {
            if (draw(state) % 100 >= 35) continue;
            MR_PUSH(ctx, &edges, (graph_edge){a, b});
            p->readers[a] |= 1u << b;
            p->inputs[b] |= 1u << a;
            p->family[b] |= p->family[a];
        }
    }
    p->family[p->n] = (1u << p->n) - 1;
    return graph_make(ctx, p->n, edges.at, edges.n);
}

TEST(no_chain_of_ancestor_sets_is_faster)
{
    uint64_t state = 1;
    uint32_t found = 0;
    for (int round = 0; round < 1000; round++) {
        mr_ctx ctx = {0};
        problem p;
        const graph g = make(&ctx, &p, &state);
        p.budget = 2 * sum(p.bytes, p.family[p.n]) * (30 + draw(&state) % 80) / 100;
        try_all(&p, 0, 0, 0);
        const graph_lower_plan plan = graph_lower(&ctx, &g, p.bytes, p.times, p.budget, 0);
        CHECK_EQ(plan.found, p.best < UINT64_MAX);
        if (plan.found) CHECK_EQ(plan.time, p.best);
        if (plan.found) CHECK(plan.peak <= p.budget);
        const graph_lower_plan rough = graph_lower(&ctx, &g, p.bytes, p.times, p.budget, 5);
        CHECK_EQ(rough.found, plan.found);
        CHECK(!rough.found || (rough.time >= plan.time && rough.peak <= p.budget));
        found += plan.found && plan.steps > 1;
        mr_ctx_clear(&ctx);
    }
    printf("%u of 1000 have more than one set\n", found);
    CHECK(found > 200);
}

TEST(a_chain_is_cut_into_segments)
{
    mr_ctx ctx = {0};
    enum { N = 100 };
    graph_edge edges[N];
    uint64_t ones[N];
    for (uint32_t i = 0; i < N; i++) {
        ones[i] = 1;
        edges[i] = (graph_edge){i, i + 1};
    }
    const graph g = graph_make(&ctx, N, edges, N - 1);
    const graph_lower_plan all = graph_lower(&ctx, &g, ones, ones, 2 * N, 0);
    CHECK_EQ(all.steps, N); /* everything is kept but the last, which nobody reads */
    CHECK_EQ(all.time, 1);
    const graph_lower_plan tight = graph_lower(&ctx, &g, ones, ones, 40, 0);
    CHECK(tight.found && tight.steps > 3);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < N; i++) kept += tight.kept[i];
    CHECK_EQ(kept, tight.steps - 1);
    CHECK_EQ(tight.time, N - kept);
    CHECK(!graph_lower(&ctx, &g, ones, ones, 10, 0).found);
    mr_ctx_clear(&ctx);
}

TEST(three_hundred_nodes_are_planned_at_once)
{
    mr_ctx ctx = {0};
    enum { N = 300 };
    uint64_t state = 2, bytes[N], times[N], all = 0;
    MR_VEC(graph_edge) edges = {0};
    for (uint32_t i = 0; i < N; i++) {
        bytes[i] = 1 + draw(&state) % 1000;
        times[i] = 1 + draw(&state) % 1000;
        all += bytes[i];
        if (i) MR_PUSH(&ctx, &edges, (graph_edge){i - 1, i});
        if (i >= 4 && i % 4 == 0) MR_PUSH(&ctx, &edges, (graph_edge){i - 4, i});
    }
    const graph g = graph_make(&ctx, N, edges.at, edges.n);
    const clock_t begin = clock();
    const graph_lower_plan plan = graph_lower(&ctx, &g, bytes, times, all / 2, 200);
    printf("300 nodes: %.1f ms, %u sets\n", 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC,
           plan.steps);
    CHECK(plan.found && plan.peak <= all / 2);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
