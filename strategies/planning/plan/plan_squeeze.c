/* plan_squeeze -- the squeaky wheel gets the grease (Joslin and Clements, 1999).
 *
 * Ranks decide a layout.  What ends above a mark, which is drawn anew each time between the
 * load and the best height so far, moves forward in the ranks by a random distance; then
 * everything is laid out again.  After many turns without a better layout it starts again from
 * the best.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE 200  /* turns without a better layout */
#define SPARING_KEY 4 /* the longest first */

typedef struct turn {
    uint64_t when;
    uint32_t item;
} turn;

struct plan_squeezer {
    const plan_problem *problem;
    const plan_field *field; /* NULL: first fit of the problem's buffers */
    plan_diver *diver;
    plan_large *large; /* NULL: all by one dive */
    uint32_t n, stale;
    uint64_t load, best, random;
    uint64_t *base, *best_base;
    uint32_t *rank, *best_rank;
    turn *turns;
};

static int by_turn(const void *left, const void *right)
{
    const turn *a = left, *b = right;
    if (a->when != b->when) return a->when < b->when ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

/* How many twentieths of the boxes are laid by a dive, and its key. */
static const struct {
    uint32_t share, key;
} mixed[PLAN_MIXED] = {{16, 0}, {12, 0}, {10, 0}, {8, 0}, {16, 1}, {2, 1}};

static void first_ranks(mr_ctx *ctx, plan_squeezer *q, uint32_t chain)
{
    if (q->field && chain < PLAN_DIVES) {
        plan_dive_key(ctx, q->field, chain < PLAN_KEYS ? chain : SPARING_KEY, q->rank);
    } else if (q->field) {
        q->large = plan_large_new(ctx, q->field, mixed[chain - PLAN_DIVES].share,
                                  mixed[chain - PLAN_DIVES].key, q->rank);
    } else {
        plan_key *keys = plan_keys(ctx, q->problem);
        for (uint32_t i = 0; i < q->n; i++) {
            const plan_buffer *b = &q->problem->buffers.at[i];
            const uint64_t life = b->upper - b->lower;
            keys[i].first = chain % 2 ? life : b->bytes;
            keys[i].second = chain % 2 ? b->bytes : life;
        }
        const uint32_t *order = plan_sort(ctx, keys, q->n);
        for (uint32_t i = 0; i < q->n; i++) q->rank[order[i]] = i;
        plan_disturb(ctx, q->rank, q->n, chain < PLAN_KEYS ? 0 : chain);
    }
}

plan_squeezer *plan_squeezer_new(mr_ctx *ctx, const plan_problem *problem,
                                 const plan_field *field, uint32_t chain)
{
    plan_squeezer *q = MR_NEW(ctx, plan_squeezer);
    q->problem = problem;
    q->field = field;
    q->diver = field ? plan_diver_new(ctx, field, chain == PLAN_KEYS) : NULL;
    q->n = field ? field->n : problem->buffers.n;
    q->load = field ? field->load : problem->load;
    q->best = UINT64_MAX;
    q->random = chain;
    q->base = MR_NEW_N(ctx, uint64_t, q->n);
    q->best_base = MR_NEW_N(ctx, uint64_t, q->n);
    q->rank = MR_NEW_N(ctx, uint32_t, q->n);
    q->best_rank = MR_NEW_N(ctx, uint32_t, q->n);
    q->turns = MR_NEW_N(ctx, turn, q->n);
    first_ranks(ctx, q, chain);
    return q;
}

/* ---- one turn ------------------------------------------------------------------------ */

static uint64_t lay_by_first_fit(plan_squeezer *q)
{
    mr_ctx scratch = {0};
    plan_layout layout;
    uint32_t *order = MR_NEW_N(&scratch, uint32_t, q->n);
    for (uint32_t i = 0; i < q->n; i++) order[q->rank[i]] = i;
    plan_place_in_order(&scratch, q->problem, order, PLAN_FIRST, &layout);
    memcpy(q->base, layout.offset, q->n * sizeof *q->base);
    mr_ctx_clear(&scratch);
    return layout.height;
}

static uint64_t lay(plan_squeezer *q)
{
    if (!q->field) return lay_by_first_fit(q);
    if (q->large) return plan_large_lay(q->large, q->rank, q->base);
    return plan_dive(q->diver, q->rank, UINT64_MAX - 1, q->base);
}

static uint64_t end_of(const plan_squeezer *q, uint32_t i)
{
    return q->base[i] + (q->field ? q->field->boxes[i].size : q->problem->buffers.at[i].bytes);
}

static void keep(plan_squeezer *q, uint64_t height)
{
    q->stale++;
    if (height >= q->best) return;
    q->best = height;
    q->stale = 0;
    memcpy(q->best_base, q->base, q->n * sizeof *q->base);
    memcpy(q->best_rank, q->rank, q->n * sizeof *q->rank);
}

/* Whose end is above the mark moves forward by up to a tenth of all. */
static void grease(plan_squeezer *q)
{
    const uint64_t over = q->best > q->load ? q->best - q->load : 1;
    const uint64_t mark = q->load + plan_draw(&q->random) % over;
    const uint64_t most = (uint64_t)q->n + 10; /* tenths of a rank */
    for (uint32_t i = 0; i < q->n; i++) {
        q->turns[i] = (turn){10 * (uint64_t)q->rank[i] + most, i};
        if (end_of(q, i) > mark) q->turns[i].when -= plan_draw(&q->random) % most;
    }
    qsort(q->turns, q->n, sizeof *q->turns, by_turn);
    for (uint32_t i = 0; i < q->n; i++) q->rank[q->turns[i].item] = i;
}

void plan_squeeze(plan_squeezer *q)
{
    keep(q, lay(q));
    if (q->stale > PATIENCE) {
        q->stale = 0;
        memcpy(q->rank, q->best_rank, q->n * sizeof *q->rank);
        memcpy(q->base, q->best_base, q->n * sizeof *q->base);
    }
    grease(q);
}

uint64_t plan_squeezer_height(const plan_squeezer *q)
{
    return q->best;
}

const uint64_t *plan_squeezer_bases(const plan_squeezer *q)
{
    return q->best_base;
}
