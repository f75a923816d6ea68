/* chain_revolve -- the binomial checkpointing of equal stages.
 *
 * With room for c inputs, r runs forward over each stage reach beta(c,r) = C(c+r, c) stages.  A
 * chain of l is cut into k stages run forward now and l-k behind a new checkpoint; every k with
 *
 *     beta(c,r-2) <= k <= beta(c,r-1)   and   beta(c-1,r-1) <= l-k <= beta(c-1,r)
 *
 * costs the same.
 *
 * Griewank and Walther, "Algorithm 799: Revolve: an implementation of checkpointing for the
 * reverse or adjoint mode of computational differentiation", 2000.
 */
#include "chain.h"

/* C(c+r, c); CHAIN_NEVER when that is too much to compute, 0 for r = -1. */
static uint64_t beta(uint64_t c, int64_t r)
{
    if (r < 0) return 0;
    const uint64_t all = c + (uint64_t)r;
    const uint64_t few = c < (uint64_t)r ? c : (uint64_t)r;
    uint64_t value = 1;
    for (uint64_t i = 1; i <= few; i++) {
        const uint64_t factor = all - few + i; /* value * factor is a multiple of i */
        if (value > UINT64_MAX / factor) return CHAIN_NEVER;
        value = value * factor / i;
    }
    return value;
}

/* The least r with beta(c, r) >= l.  c = 1 would need l - 1 steps to find that out. */
static uint32_t repeats(uint32_t l, uint32_t c)
{
    if (c == 1) return l ? l - 1 : 0;
    uint32_t r = 0;
    while (beta(c, r) < l) r++;
    return r;
}

uint64_t chain_revolve_cost(uint32_t l, uint32_t c)
{
    if (!l) return 0;
    if (!c) return CHAIN_NEVER;
    if (c >= l) return l - 1; /* r = 1, and C(c+1, c+1) = 1 */
    const uint32_t r = repeats(l, c);
    return (uint64_t)r * l - beta((uint64_t)c + 1, (int64_t)r - 1);
}

/* The largest k that costs least; l >= 2, c >= 2. */
static uint32_t split(uint32_t l, uint32_t c)
{
    if (c >= l) return 1;
    const uint32_t r = repeats(l, c);
    const uint64_t most = beta(c, (int64_t)r - 1), rest = beta(c - 1, (int64_t)r - 1);
    return (uint32_t)(most < l - rest ? most : l - rest);
}

static void push(mr_ctx *ctx, chain_actions *plan, chain_kind kind, uint32_t stage)
{
    MR_PUSH(ctx, plan, (chain_action){kind, stage, 0});
}

/* Runs stages from ... to-1 forward, keeping x(from). */
static void advance(mr_ctx *ctx, uint32_t from, uint32_t to, chain_actions *plan)
{
    for (uint32_t i = from; i < to; i++)
        push(ctx, plan, i == from ? CHAIN_KEEP : CHAIN_FORWARD, i);
}

static void turn(mr_ctx *ctx, uint32_t stage, chain_actions *plan)
{
    push(ctx, plan, CHAIN_SAVE, stage);
    push(ctx, plan, CHAIN_BACKWARD, stage);
}

typedef struct part {
    uint32_t from, to, c;
} part;

void chain_revolve(mr_ctx *ctx, uint32_t l, uint32_t c, chain_actions *plan)
{
    MR_VEC(part) left = {0}; /* parts still to be reversed, the next one on top */
    if (l) MR_PUSH(ctx, &left, (part){0, l, c});
    while (left.n) {
        part p = left.at[--left.n];
        while (p.to - p.from > 1 && p.c > 1) {
            const uint32_t k = split(p.to - p.from, p.c);
            advance(ctx, p.from, p.from + k, plan);
            MR_PUSH(ctx, &left, (part){p.from, p.from + k, p.c});
            p = (part){p.from + k, p.to, p.c - 1};
        }
        for (uint32_t i = p.to; i-- > p.from;) { /* x(from) alone, again and again */
            advance(ctx, p.from, i, plan);
            turn(ctx, i, plan);
        }
    }
}
