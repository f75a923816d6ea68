/* chain_rotor -- the fastest plan for a chain of unequal stages within a budget.
 *
 * best(i,j,m) is the least time to get from x(i) and y(j+1) to y(i), with m slots for all but
 * x(i).  Either x(i) is kept and stages i ... k-1 only run forward, or stage i saves:
 *
 *     time(i) + ... + time(k-1) + best(k, j, m - x(k)) + best(i, k-1, m)     i < k <= j
 *     forward(i,o) + backward(i,o) + best(i+1, j, m - xbar(i+1,o))           option o
 *
 * In the second case an x(i) that only passes is free again behind stage i, and an x(i+1) that
 * does is held on top of xbar(i+1).
 *
 * A choice needs room for what happens before it calls another: y(j+1) is there while a stage
 * runs forward, y(i+1) while stage i runs backward.  (The published programs ask for y(i+1) in
 * both cases, so with y(j+1) larger and a temporary their plans may not fit.)
 *
 * The values of one (i,j) lie side by side, so that a choice is one walk over three arrays.
 * Choices are not stored: those on the way of a plan are found again.
 *
 * Beaumont et al., 2019; with several options per stage, Zhao et al., 2023: see chain.h.
 */
#include "chain.h"

/* Sizes in slots. */
typedef struct sized {
    uint64_t saved, forward_tmp, backward_tmp;
} sized;

typedef struct cell {
    uint64_t *time; /* for every number of slots */
    uint32_t first; /* smallest number with a plan; slots + 1 when there is none */
} cell;

struct chain_table {
    const chain_problem *chain;
    uint64_t slot; /* bytes */
    uint32_t n, slots;
    uint64_t *x, *y, *tmp; /* n + 1 and n */
    sized **options;       /* per stage */
    uint64_t *until;       /* time of stages 0 ... i-1 that save nothing */
    cell *cells;           /* (i,j), i <= j, by row */
};

static cell *cell_of(const chain_table *t, uint32_t i, uint32_t j)
{
    const size_t row =
        (size_t)i * t->n - (size_t)i * (i + 1) / 2; /* minus i: row begins at i */
    return &t->cells[row + j];
}

static uint64_t slots_of(const chain_table *t, uint64_t bytes)
{
    return bytes / t->slot + (bytes % t->slot != 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* best[m] = min(best[m], add + a[m] + b[m]) for `n` values of m. */
static void relax(uint64_t *restrict best, const uint64_t *restrict a,
                  const uint64_t *restrict b, uint64_t add, size_t n)
{
    for (size_t m = 0; m < n; m++) {
        const uint64_t time = add + a[m] + b[m];
        best[m] = time < best[m] ? time : best[m];
    }
}

/* ---- the two kinds of choices ---------------------------------------------------------------
 */

/* Slots needed while stage i ... k-1 run forward, for one more stage k - 1 than before. */
static uint64_t need_forward(const chain_table *t, uint32_t i, uint32_t j, uint32_t k,
                             uint64_t before)
{
    const uint32_t s = k - 1;
    const uint64_t input = s == i ? 0 : t->x[s];
    return larger(before, t->y[j + 1] + input + t->x[s + 1] + t->tmp[s]);
}

/* Slots of an x(i) that no backward pass reads. */
static uint64_t passed(const chain_table *t, uint32_t i)
{
    return i < t->n && t->chain->stages[i].passing ? t->x[i] : 0;
}

/* What y(i) needs is asked for by whoever reads it; nobody reads y(0), which takes x(0)'s
 * place. */
static uint64_t need_save(const chain_table *t, uint32_t i, uint32_t j, uint32_t o)
{
    const sized *option = &t->options[i][o];
    const uint64_t freed = passed(t, i);
    const uint64_t back = t->y[i + 1] + option->saved + option->backward_tmp;
    const uint64_t left = !i && t->y[0] > t->x[0] ? t->y[0] - t->x[0] : 0;
    return larger(left, larger(t->y[j + 1] + option->saved + option->forward_tmp,
                               back > freed ? back - freed : 0));
}

/* Slots by which the rest has less than stage i had; at most `freed` more than it. */
static uint64_t cost_save(const chain_table *t, uint32_t i, uint32_t o)
{
    return t->options[i][o].saved + passed(t, i + 1);
}

static uint64_t time_save(const chain_table *t, uint32_t i, uint32_t o)
{
    const chain_option *option = &t->chain->stages[i].options[o];
    return option->forward_time + option->backward_time;
}

static void try_forward(const chain_table *t, cell *c, uint32_t i, uint32_t j)
{
    uint64_t need = 0;
    for (uint32_t k = i + 1; k <= j; k++) {
        const cell *rest = cell_of(t, k, j), *part = cell_of(t, i, k - 1);
        need = need_forward(t, i, j, k, need);
        const uint64_t from = larger(larger(need, part->first), t->x[k] + rest->first);
        if (from > t->slots) continue;
        relax(c->time + from, rest->time + (from - t->x[k]), part->time + from,
              t->until[k] - t->until[i], t->slots + 1 - from);
        if (from < c->first) c->first = (uint32_t)from;
    }
}

/* Slots that are left for what comes after stage i has saved; more than all there are is all.
 */
static uint64_t rest_of(const chain_table *t, uint64_t m, uint32_t i, uint32_t o)
{
    const uint64_t rest = m + passed(t, i) - cost_save(t, i, o);
    return rest < t->slots ? rest : t->slots;
}

static void try_save(const chain_table *t, cell *c, uint32_t i, uint32_t j)
{
    for (uint32_t o = 0; o < t->chain->stages[i].n; o++) {
        const uint64_t cost = cost_save(t, i, o), time = time_save(t, i, o);
        const cell *rest = i < j ? cell_of(t, i + 1, j) : NULL;
        const uint64_t first = rest ? cost + rest->first : 0, freed = passed(t, i);
        const uint64_t from = larger(need_save(t, i, j, o), first > freed ? first - freed : 0);
        if (rest && rest->first > t->slots) continue;
        for (uint64_t m = from; m <= t->slots; m++) {
            const uint64_t all = time + (rest ? rest->time[rest_of(t, m, i, o)] : 0);
            if (all < c->time[m]) c->time[m] = all;
        }
        if (from < c->first) c->first = (uint32_t)from;
    }
}

/* ---- the table
 * ------------------------------------------------------------------------------- */

static void round_sizes(mr_ctx *ctx, chain_table *t)
{
    const chain_problem *chain = t->chain;
    t->x = MR_NEW_N(ctx, uint64_t, t->n + 1);
    t->y = MR_NEW_N(ctx, uint64_t, t->n + 1);
    t->tmp = MR_NEW_N(ctx, uint64_t, t->n);
    t->until = MR_NEW_N(ctx, uint64_t, t->n + 1);
    t->options = MR_NEW_N(ctx, sized *, t->n);
    for (uint32_t i = 0; i <= t->n; i++) {
        t->x[i] = slots_of(t, chain_size(chain, i));
        t->y[i] = slots_of(t, chain_back(chain, i));
    }
    for (uint32_t i = 0; i < t->n; i++) {
        const chain_stage *stage = &chain->stages[i];
        t->tmp[i] = slots_of(t, stage->tmp);
        t->until[i + 1] = t->until[i] + stage->time;
        t->options[i] = MR_NEW_N(ctx, sized, stage->n);
        for (uint32_t o = 0; o < stage->n; o++) {
            const chain_option *in = &stage->options[o];
            t->options[i][o] = (sized){slots_of(t, in->saved), slots_of(t, in->forward_tmp),
                                       slots_of(t, in->backward_tmp)};
        }
    }
}

static void fill(const chain_table *t, uint32_t i, uint32_t j)
{
    cell *c = cell_of(t, i, j);
    for (uint32_t m = 0; m <= t->slots; m++) c->time[m] = CHAIN_NEVER;
    c->first = t->slots + 1;
    try_forward(t, c, i, j);
    try_save(t, c, i, j);
}

const chain_table *chain_rotor(mr_ctx *ctx, const chain_problem *chain, uint64_t budget,
                               uint32_t slots)
{
    chain_table *t = MR_NEW(ctx, chain_table);
    *t = (chain_table){.chain = chain, .n = chain->n};
    t->slot = budget / slots + (budget % slots != 0);
    if (!t->slot) t->slot = 1;
    t->slots = (uint32_t)(budget / t->slot);
    round_sizes(ctx, t);
    const size_t pairs = (size_t)t->n * (t->n + 1) / 2;
    t->cells = MR_NEW_N(ctx, cell, pairs);
    for (size_t p = 0; p < pairs; p++)
        t->cells[p].time = MR_NEW_N(ctx, uint64_t, (size_t)t->slots + 1);
    for (uint32_t i = t->n; i-- > 0;)
        for (uint32_t j = i; j < t->n; j++) fill(t, i, j);
    return t;
}

/* Slots for all but x(0); false when not even that fits. */
static bool room(const chain_table *t, uint64_t budget, uint64_t *m)
{
    const uint64_t slots = budget / t->slot < t->slots ? budget / t->slot : t->slots;
    if (slots < t->x[0]) return false;
    *m = slots - t->x[0];
    return true;
}

uint64_t chain_rotor_time(const chain_table *t, uint64_t budget)
{
    uint64_t m;
    if (!t->n) return 0;
    return room(t, budget, &m) ? cell_of(t, 0, t->n - 1)->time[m] : CHAIN_NEVER;
}

uint64_t chain_rotor_least(const chain_table *t)
{
    if (!t->n) return t->x[0] * t->slot;
    const uint64_t slots = cell_of(t, 0, t->n - 1)->first + t->x[0];
    return slots > t->slots ? UINT64_MAX : slots * t->slot;
}

/* ---- the plan
 * ---------------------------------------------------------------------------------- */

/* Something still to be done: the part i ... j with m slots, or, with i > j, one backward pass.
 */
typedef struct work {
    uint32_t i, j, option;
    uint64_t m;
} work;

typedef struct agenda {
    MR_VEC(work) left; /* the next one on top */
} agenda;

static bool is_time(const chain_table *t, const work *w, uint64_t time)
{
    return time == cell_of(t, w->i, w->j)->time[w->m];
}

/* Keeps x(i), if that is how the part reaches its time. */
static bool plan_forward(mr_ctx *ctx, const chain_table *t, const work *w, agenda *next,
                         chain_actions *plan)
{
    uint64_t need = 0;
    for (uint32_t k = w->i + 1; k <= w->j; k++) {
        need = need_forward(t, w->i, w->j, k, need);
        if (need > w->m || t->x[k] > w->m) continue;
        const uint64_t rest = cell_of(t, k, w->j)->time[w->m - t->x[k]];
        const uint64_t part = cell_of(t, w->i, k - 1)->time[w->m];
        if (!is_time(t, w, t->until[k] - t->until[w->i] + rest + part)) continue;
        for (uint32_t s = w->i; s < k; s++)
            MR_PUSH(ctx, plan, (chain_action){s == w->i ? CHAIN_KEEP : CHAIN_FORWARD, s, 0});
        MR_PUSH(ctx, &next->left, (work){w->i, k - 1, 0, w->m});
        MR_PUSH(ctx, &next->left, (work){k, w->j, 0, w->m - t->x[k]});
        return true;
    }
    return false;
}

static void plan_save(mr_ctx *ctx, const chain_table *t, const work *w, agenda *next,
                      chain_actions *plan)
{
    for (uint32_t o = 0; o < t->chain->stages[w->i].n; o++) {
        const bool more = w->i < w->j;
        if (need_save(t, w->i, w->j, o) > w->m) continue;
        if (more && w->m + passed(t, w->i) < cost_save(t, w->i, o)) continue;
        const uint64_t left = rest_of(t, w->m, w->i, o);
        const uint64_t rest = more ? cell_of(t, w->i + 1, w->j)->time[left] : 0;
        if (!is_time(t, w, time_save(t, w->i, o) + rest)) continue;
        MR_PUSH(ctx, plan, (chain_action){CHAIN_SAVE, w->i, o});
        MR_PUSH(ctx, &next->left, (work){w->i + 1, w->i, o, 0});
        if (more) MR_PUSH(ctx, &next->left, (work){w->i + 1, w->j, 0, left});
        return;
    }
}

bool chain_rotor_plan(mr_ctx *ctx, const chain_table *t, uint64_t budget, chain_actions *plan)
{
    uint64_t m;
    if (chain_rotor_time(t, budget) >= CHAIN_NEVER) return false;
    if (!t->n || !room(t, budget, &m)) return true;
    agenda next = {0};
    MR_PUSH(ctx, &next.left, (work){0, t->n - 1, 0, m});
    while (next.left.n) {
        const work w = next.left.at[--next.left.n];
        if (w.i > w.j) MR_PUSH(ctx, plan, (chain_action){CHAIN_BACKWARD, w.j, w.option});
        else if (!plan_forward(ctx, t, &w, &next, plan)) plan_save(ctx, t, &w, &next, plan);
    }
    return true;
}
