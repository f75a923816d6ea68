/* knapsack.h -- which results are worth their memory: the most value within a weight.
 *
 * As in the memory budget of PyTorch's ahead-of-time autograd (torch/_functorch): the value of
 * an op is what computing it again would cost, its weight the bytes that keeping its result
 * takes.  Weights are whole numbers and are counted in quanta; the real thing has weights that
 * sum up to 1 at most, 10,000 quanta to 1, and rounds to the nearest, so that its choice can
 * exceed the budget.
 */
#ifndef KNAPSACK_H
#define KNAPSACK_H

#include "base.h"

typedef struct knapsack_item {
    uint64_t value, weight;
} knapsack_item;

typedef enum knapsack_rounding {
    KNAPSACK_UP,      /* weights up and the limit down: never too heavy */
    KNAPSACK_NEAREST, /* both as PyTorch does, in double precision, halves to the even number */
} knapsack_rounding;

typedef struct knapsack_problem {
    const knapsack_item *items;
    uint32_t n;
    uint64_t limit;  /* of the sum of weights */
    uint64_t whole;  /* the weight that is divided into quanta; at least 1 */
    uint32_t quanta; /* at least `whole`: a quantum is 1 and nothing is rounded */
    knapsack_rounding rounding;
} knapsack_problem;

typedef struct knapsack_choice {
    bool *taken; /* per item */
    uint64_t value, weight;
} knapsack_choice;

enum { KNAPSACK_QUANTA = 10000 };

/* Items by value per weight, the first of equals first; each that still fits is taken.
 * O(n log n); looks at weights as they are, not at quanta. */
knapsack_choice knapsack_greedy(mr_ctx *ctx, const knapsack_problem *problem);

/* The most value: dynamic programming in O(n quanta) steps, and as many bits of memory. */
knapsack_choice knapsack_table(mr_ctx *ctx, const knapsack_problem *problem);

/* The same value by divide and conquer: twice the steps, O(quanta + n) memory.
 *
 * Hirschberg, "A linear space algorithm for computing maximal common subsequences", 1975. */
knapsack_choice knapsack_halves(mr_ctx *ctx, const knapsack_problem *problem);

#endif
