/* plan_rule_climb -- TVM's hill climb: first fit in an order that changes swap by swap.
 *
 * After each layout a buffer that ends at the top is drawn, then one of its neighbours (in use
 * at the same time, earlier in the order), which changes places with another neighbour or a
 * neighbour of a neighbour.  A worse layout is taken back, but for some, of which more are kept
 * the worse they are: so it is published.  What counts in the end is the last that was kept.
 *
 * So that the layouts are TVM's, its random numbers are: glibc's rand_r, which begins with 0.
 * Offsets are multiples of the buffer's own alignment, which TVM leaves out.
 */
#include "plan_internal.h"

#include <string.h>

enum { ATTEMPTS = 500, CHANCE = 50, OF_NEIGHBOURS = 25 };

typedef struct tally { /* of numbers below n, how many are at most so large (Fenwick, 1994) */
    uint32_t *at, n;
} tally;

typedef struct climber {
    const plan_problem *problem;
    uint32_t *order, *place; /* by place: buffer; by buffer: place */
    uint64_t *now, *before;  /* offsets, of the layout at hand and of the one before it */
    uint64_t kept;           /* height of the layout that was kept last, 0 for none yet */
    uint32_t swapped[2];     /* places */
    unsigned seed;
    tally begun, ended; /* sections where neighbours begin and end */
    uint32_t *first;    /* by place, and one more: neighbours before it */
    uint64_t *second;   /* the same of neighbours of neighbours, as often as they are one */
} climber;

static unsigned draw(climber *c)
{
    static const unsigned kept[] = {2048, 1024, 1024};
    unsigned result = 0;
    for (size_t i = 0; i < MR_COUNT(kept); i++) {
        c->seed = c->seed * 1103515245u + 12345u;
        result = (result << 10) ^ (c->seed / 65536 % kept[i]);
    }
    return result;
}

/* ---- neighbours -------------------------------------------------------------------------- */

static void count(tally *t, uint32_t number)
{
    for (uint32_t i = number + 1; i <= t->n; i += i & (0 - i)) t->at[i]++;
}

static uint32_t counted_below(const tally *t, uint32_t number)
{
    uint32_t sum = 0;
    for (uint32_t i = number; i; i -= i & (0 - i)) sum += t->at[i];
    return sum;
}

static const plan_piece *life_of(const climber *c, uint32_t buffer)
{
    return &c->problem->pieces.at[c->problem->buffers.at[buffer].piece];
}

static bool are_neighbours(const climber *c, uint32_t a, uint32_t b)
{
    const plan_piece *x = life_of(c, a), *y = life_of(c, b);
    return a != b && x->from < y->to && y->from < x->to;
}

static void forget(tally *t)
{
    memset(t->at, 0, ((size_t)t->n + 1) * sizeof *t->at);
}

/* Counts for each place how often its buffer is listed, then how many are listed before it. */
static void list_neighbours(climber *c, uint32_t buffer)
{
    const uint32_t n = c->problem->buffers.n;
    forget(&c->begun);
    forget(&c->ended);
    for (uint32_t p = n; p-- > 0;) {
        const uint32_t b = c->order[p];
        const plan_piece *life = life_of(c, b);
        c->second[p + 1] =
            counted_below(&c->begun, life->to) - counted_below(&c->ended, life->from + 1);
        const bool near = are_neighbours(c, b, buffer);
        c->first[p + 1] = near && p < c->place[buffer];
        if (!near) continue;
        count(&c->begun, life->from);
        count(&c->ended, life->to);
    }
    for (uint32_t p = 0; p < n; p++) {
        c->first[p + 1] += c->first[p];
        c->second[p + 1] += c->second[p];
    }
}

/* The place of neighbour number `k`, and the same of their neighbours. */
static uint32_t first_at(const climber *c, uint32_t k)
{
    uint32_t p = 0;
    while (c->first[p + 1] <= k) p++;
    return p;
}

static uint32_t second_at(const climber *c, uint64_t k)
{
    uint32_t p = 0;
    while (c->second[p + 1] <= k) p++;
    return p;
}

/* ---- one step ---------------------------------------------------------------------------- */

static void swap(climber *c, uint32_t i, uint32_t j)
{
    const uint32_t a = c->order[i], b = c->order[j];
    c->order[i] = b;
    c->order[j] = a;
    c->place[a] = j;
    c->place[b] = i;
}

/* One of the buffers that end at the top, in the order of their places. */
static uint32_t one_at_the_top(climber *c)
{
    const uint32_t n = c->problem->buffers.n;
    const uint64_t height = plan_height(c->problem, c->now);
    uint32_t tops = 0, p = 0;
    for (uint32_t i = 0; i < n; i++)
        tops += c->now[i] + c->problem->buffers.at[i].bytes == height;
    for (uint32_t k = draw(c) % tops;; p++) {
        const uint32_t b = c->order[p];
        if (c->now[b] + c->problem->buffers.at[b].bytes == height && !k--) return b;
    }
}

static void move_on(climber *c)
{
    const uint32_t n = c->problem->buffers.n;
    list_neighbours(c, one_at_the_top(c));
    const uint32_t firsts = c->first[n];
    const uint64_t seconds = c->second[n];
    if (!firsts) return;
    const uint32_t one = first_at(c, draw(c) % firsts);
    uint32_t other = one;
    do {
        if (seconds && draw(c) % 100 > OF_NEIGHBOURS) other = second_at(c, draw(c) % seconds);
        else other = first_at(c, draw(c) % firsts);
    } while (other == one && (seconds >= 2 || firsts >= 2));
    if (other == one) return;
    c->swapped[0] = one;
    c->swapped[1] = other;
    swap(c, one, other);
}

static bool is_kept(climber *c, uint64_t height, uint32_t attempt)
{
    if (!c->kept || height < c->kept) return true;
    uint64_t worse = height - c->kept;
    for (; worse > UINT64_MAX / CHANCE; worse /= 2) height /= 2;
    return draw(c) % 100 < CHANCE * worse / height / attempt;
}

/* ---- the rule ---------------------------------------------------------------------------- */

static uint64_t lay(climber *c)
{
    mr_ctx scratch = {0};
    plan_layout layout;
    plan_place_in_order(&scratch, c->problem, c->order, PLAN_FIRST, &layout);
    memcpy(c->now, layout.offset, c->problem->buffers.n * sizeof *c->now);
    mr_ctx_clear(&scratch);
    return layout.height;
}

static void exchange(climber *c)
{
    uint64_t *const now = c->now;
    c->now = c->before;
    c->before = now;
}

static climber begin(mr_ctx *ctx, const plan_problem *problem)
{
    const uint32_t n = problem->buffers.n, *order = plan_order_by_size(ctx, problem);
    climber c = {.problem = problem,
                 .order = MR_NEW_N(ctx, uint32_t, n),
                 .place = MR_NEW_N(ctx, uint32_t, n),
                 .now = MR_NEW_N(ctx, uint64_t, n),
                 .before = MR_NEW_N(ctx, uint64_t, n),
                 .begun = {MR_NEW_N(ctx, uint32_t, problem->sections + 2),
                           problem->sections + 1},
                 .ended = {MR_NEW_N(ctx, uint32_t, problem->sections + 2),
                           problem->sections + 1},
                 .first = MR_NEW_N(ctx, uint32_t, n + 1),
                 .second = MR_NEW_N(ctx, uint64_t, n + 1)};
    for (uint32_t p = 0; p < n; p++) {
        c.order[p] = order[p];
        c.place[order[p]] = p;
    }
    return c;
}

void plan_rule_tvm_hill_climb(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    climber c = begin(ctx, problem);
    out->offset = MR_NEW_N(ctx, uint64_t, problem->buffers.n);
    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        exchange(&c);
        const uint64_t height = lay(&c);
        if (is_kept(&c, height, attempt)) {
            memcpy(out->offset, c.now, problem->buffers.n * sizeof *c.now);
            out->height = c.kept = height;
            if (height <= problem->load) return;
        } else {
            swap(&c, c.swapped[1], c.swapped[0]);
            exchange(&c);
        }
        move_on(&c);
    }
}
