/* plan_rule_breadth -- shared objects of TensorFlow Lite's GPU delegate: greedy by breadth.
 *
 * The moment with the most bytes in use comes first, then the next; at each the buffers that
 * are not assigned yet, largest first.  A buffer goes to the smallest object that is large
 * enough and free during its life, else to the largest free one, which grows; else it gets an
 * object of its own.  Objects lie behind each other.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the busiest moment of every life ------------------------------------------------ */

typedef struct moments {
    uint64_t *load; /* by section */
    uint32_t
        *busiest; /* segment tree: section with the largest load, the earliest of equal ones */
    uint32_t n;
} moments;

static uint32_t busier(const moments *m, uint32_t a, uint32_t b)
{
    if (a == MR_NONE || b == MR_NONE) return a == MR_NONE ? b : a;
    if (m->load[a] != m->load[b]) return m->load[a] > m->load[b] ? a : b;
    return a < b ? a : b;
}

static moments find_moments(mr_ctx *ctx, const plan_problem *problem)
{
    const uint32_t n = problem->sections;
    moments m = {MR_NEW_N(ctx, uint64_t, n + 1), MR_NEW_N(ctx, uint32_t, 2 * (size_t)n), n};
    for (uint32_t i = 0; i < problem->pieces.n; i++) {
        const plan_piece *p = &problem->pieces.at[i];
        m.load[p->from] += p->high - p->low;
        m.load[p->to] -= p->high - p->low;
    }
    for (uint32_t s = 1; s < n; s++) m.load[s] += m.load[s - 1];
    for (uint32_t s = 0; s < n; s++) m.busiest[n + s] = s;
    for (uint32_t i = n; i-- > 1;)
        m.busiest[i] = busier(&m, m.busiest[2 * i], m.busiest[2 * i + 1]);
    return m;
}

static uint32_t busiest_in(const moments *m, uint32_t from, uint32_t to)
{
    uint32_t best = MR_NONE;
    for (from += m->n, to += m->n; from < to; from /= 2, to /= 2) {
        if (from & 1) best = busier(m, best, m->busiest[from++]);
        if (to & 1) best = busier(m, best, m->busiest[--to]);
    }
    return best;
}

typedef struct turn {
    uint64_t load, bytes;
    uint32_t section, buffer;
} turn;

static int in_turn(const void *left, const void *right)
{
    const turn *a = left, *b = right;
    if (a->load != b->load) return a->load > b->load ? -1 : 1;
    if (a->section != b->section) return a->section < b->section ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static turn *take_turns(mr_ctx *ctx, const plan_problem *problem)
{
    const uint32_t n = problem->buffers.n;
    const moments m = find_moments(ctx, problem);
    turn *turns = MR_NEW_N(ctx, turn, n);
    for (uint32_t i = 0; i < n; i++) {
        const plan_piece *p = &problem->pieces.at[problem->buffers.at[i].piece];
        const uint32_t section = busiest_in(&m, p->from, p->to);
        turns[i] = (turn){m.load[section], problem->buffers.at[i].bytes, section, i};
    }
    qsort(turns, n, sizeof *turns, in_turn);
    return turns;
}

/* ---- objects ------------------------------------------------------------------------- */

typedef struct use {
    uint32_t from, to;
} use;

typedef struct object {
    uint64_t bytes;
    MR_VEC(use) uses; /* ascending and disjoint */
} object;

typedef MR_VEC(object) objects;

/* Index of the first use that ends after `section`. */
static uint32_t first_after(const object *o, uint32_t section)
{
    uint32_t low = 0, high = o->uses.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (o->uses.at[middle].to <= section) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool is_free(const object *o, const plan_piece *p)
{
    const uint32_t i = first_after(o, p->from);
    return i == o->uses.n || o->uses.at[i].from >= p->to;
}

/* Is an object of `a` bytes the better one for a buffer than one of `b` bytes? */
static bool better(uint64_t a, uint64_t b, uint64_t bytes)
{
    if (a >= bytes) return b < bytes || a < b;
    return b < bytes && a > b;
}

static uint32_t choose(const objects *all, const plan_piece *p, uint64_t bytes)
{
    uint32_t best = MR_NONE;
    for (uint32_t i = 0; i < all->n; i++)
        if ((best == MR_NONE || better(all->at[i].bytes, all->at[best].bytes, bytes))
            && is_free(&all->at[i], p))
            best = i;
    return best;
}

static void take(mr_ctx *ctx, object *o, const plan_piece *p, uint64_t bytes)
{
    const uint32_t i = first_after(o, p->from);
    MR_PUSH(ctx, &o->uses, (use){0});
    memmove(o->uses.at + i + 1, o->uses.at + i, (o->uses.n - 1 - i) * sizeof *o->uses.at);
    o->uses.at[i] = (use){p->from, p->to};
    if (bytes > o->bytes) o->bytes = bytes;
}

/* ---- the rule ------------------------------------------------------------------------ */

static void stack_up(mr_ctx *ctx, const plan_problem *problem, const objects *all,
                     const uint32_t *of, plan_layout *out)
{
    uint64_t *base = MR_NEW_N(ctx, uint64_t, all->n), at = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        base[i] = at;
        at += plan_round(all->at[i].bytes, problem->align);
    }
    out->offset = MR_NEW_N(ctx, uint64_t, problem->buffers.n);
    for (uint32_t i = 0; i < problem->buffers.n; i++) out->offset[i] = base[of[i]];
    out->height = plan_height(problem, out->offset);
}

void plan_rule_breadth(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    const uint32_t n = problem->buffers.n;
    const turn *turns = take_turns(ctx, problem);
    uint32_t *of = MR_NEW_N(ctx, uint32_t, n);
    objects all = {0};
    for (uint32_t t = 0; t < n; t++) {
        const plan_piece *p = &problem->pieces.at[problem->buffers.at[turns[t].buffer].piece];
        uint32_t best = choose(&all, p, turns[t].bytes);
        if (best == MR_NONE) {
            best = all.n;
            MR_PUSH(ctx, &all, (object){0});
        }
        take(ctx, &all.at[best], p, turns[t].bytes);
        of[turns[t].buffer] = best;
    }
    stack_up(ctx, problem, &all, of, out);
}
