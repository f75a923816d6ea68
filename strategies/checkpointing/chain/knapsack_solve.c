/* knapsack_solve -- greedy, by a table, and by halves: see knapsack.h. */
#include "knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void take(const knapsack_problem *problem, knapsack_choice *choice, uint32_t i)
{
    choice->taken[i] = true;
    choice->value += problem->items[i].value;
    choice->weight += problem->items[i].weight;
}

/* ---- greedy --------------------------------------------------------------------------------
 */

typedef struct ranked {
    double density;
    uint32_t i;
} ranked;

static int densest_first(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->density != b->density) return a->density > b->density ? -1 : 1;
    return (a->i > b->i) - (a->i < b->i);
}

knapsack_choice knapsack_greedy(mr_ctx *ctx, const knapsack_problem *problem)
{
    knapsack_choice choice = {.taken = MR_NEW_N(ctx, bool, problem->n)};
    ranked *order = MR_NEW_N(ctx, ranked, problem->n);
    for (uint32_t i = 0; i < problem->n; i++) {
        const knapsack_item *item = &problem->items[i];
        const double weight = (double)item->weight;
        order[i] = (ranked){weight > 0 ? (double)item->value / weight : HUGE_VAL, i};
    }
    if (problem->n) qsort(order, problem->n, sizeof *order, densest_first);
    for (uint32_t i = 0; i < problem->n; i++)
        if (problem->items[order[i].i].weight <= problem->limit - choice.weight)
            take(problem, &choice, order[i].i);
    return choice;
}

/* ---- in quanta
 * -------------------------------------------------------------------------------- */

typedef struct quantised {
    const knapsack_problem *problem;
    uint64_t *weights; /* per item */
    uint64_t limit;
} quantised;

static uint64_t nearest(const knapsack_problem *p, uint64_t weight)
{
    return (uint64_t)nearbyint((double)weight / (double)p->whole * p->quanta);
}

/* No limit above what all items weigh together. */
static quantised quantise(mr_ctx *ctx, const knapsack_problem *p)
{
    const bool exact = p->quanta >= p->whole;
    const bool up = exact || p->rounding == KNAPSACK_UP;
    const uint64_t quantum = exact ? 1 : (p->whole - 1) / p->quanta + 1;
    quantised q = {.problem = p, .weights = MR_NEW_N(ctx, uint64_t, p->n)};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const uint64_t weight = p->items[i].weight;
        q.weights[i] = up ? weight / quantum + (weight % quantum != 0) : nearest(p, weight);
        sum += q.weights[i];
    }
    q.limit = up ? p->limit / quantum : nearest(p, p->limit);
    if (q.limit > sum) q.limit = sum;
    return q;
}

/* best[w]: the most value within w quanta.  Adds one item; `taken` (a bit per w, may be NULL)
 * says where it helped. */
static void add_item(const quantised *q, uint32_t i, uint64_t limit, uint64_t *best,
                     unsigned char *taken)
{
    const uint64_t weight = q->weights[i], value = q->problem->items[i].value;
    for (uint64_t w = limit + 1; w-- > weight;) {
        const uint64_t with = best[w - weight] + value;
        if (with <= best[w]) continue;
        best[w] = with;
        if (taken) taken[w / 8] |= (unsigned char)(1u << w % 8);
    }
}

knapsack_choice knapsack_table(mr_ctx *ctx, const knapsack_problem *problem)
{
    knapsack_choice choice = {.taken = MR_NEW_N(ctx, bool, problem->n)};
    const quantised q = quantise(ctx, problem);
    const size_t row = (size_t)(q.limit / 8) + 1;
    uint64_t *best = MR_NEW_N(ctx, uint64_t, (size_t)q.limit + 1);
    unsigned char *taken = mr_alloc_n(ctx, problem->n, row);
    for (uint32_t i = 0; i < problem->n; i++) add_item(&q, i, q.limit, best, taken + i * row);
    uint64_t w = q.limit;
    for (uint32_t i = problem->n; i-- > 0;) {
        if (!(taken[i * row + w / 8] >> w % 8 & 1)) continue;
        take(problem, &choice, i);
        w -= q.weights[i];
    }
    return choice;
}

typedef struct range {
    uint32_t from, to;
    uint64_t limit;
} range;

static void best_of(const quantised *q, uint32_t from, uint32_t to, uint64_t limit,
                    uint64_t *best)
{
    memset(best, 0, (size_t)(limit + 1) * sizeof *best);
    for (uint32_t i = from; i < to; i++) add_item(q, i, limit, best, NULL);
}

/* How much of the limit the first half of the items gets. */
static uint64_t share(const quantised *q, const range *r, uint64_t *first, uint64_t *second)
{
    const uint32_t middle = r->from + (r->to - r->from) / 2;
    best_of(q, r->from, middle, r->limit, first);
    best_of(q, middle, r->to, r->limit, second);
    uint64_t share = 0;
    for (uint64_t w = 1; w <= r->limit; w++)
        if (first[w] + second[r->limit - w] > first[share] + second[r->limit - share])
            share = w;
    return share;
}

knapsack_choice knapsack_halves(mr_ctx *ctx, const knapsack_problem *problem)
{
    knapsack_choice choice = {.taken = MR_NEW_N(ctx, bool, problem->n)};
    const quantised q = quantise(ctx, problem);
    uint64_t *first = MR_NEW_N(ctx, uint64_t, (size_t)q.limit + 1);
    uint64_t *second = MR_NEW_N(ctx, uint64_t, (size_t)q.limit + 1);
    MR_VEC(range) left = {0};
    if (problem->n) MR_PUSH(ctx, &left, (range){0, problem->n, q.limit});
    while (left.n) {
        const range r = left.at[--left.n];
        if (r.to - r.from == 1) {
            if (problem->items[r.from].value && q.weights[r.from] <= r.limit)
                take(problem, &choice, r.from);
            continue;
        }
        const uint32_t middle = r.from + (r.to - r.from) / 2;
        const uint64_t part = share(&q, &r, first, second);
        MR_PUSH(ctx, &left, (range){r.from, middle, part});
        MR_PUSH(ctx, &left, (range){middle, r.to, r.limit - part});
    }
    return choice;
}
