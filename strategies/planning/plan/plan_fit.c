/* plan_fit -- one buffer after the other is put where it fits among those put before. */
#include "plan_internal.h"

#include <stdlib.h>

#define STRIDE 1024 /* buffers between two reports of progress */

/* ---- looking for a place ------------------------------------------------------------- */

typedef struct hunt {
    uint64_t bytes, align;
    plan_fit fit;
    uint64_t current; /* all that came before ends here or below */
    uint64_t best, best_size;
    bool found;
} hunt;

/* [low, high) is in the way; calls come in the order of `low`.  False when nothing better
 * comes. */
static bool pass(hunt *h, uint64_t low, uint64_t high)
{
    const uint64_t at = plan_round(h->current, h->align);
    const bool fits = h->fit != PLAN_ABOVE && at + h->bytes <= low;
    if (fits && (!h->found || low - at < h->best_size)) {
        h->found = true;
        h->best = at;
        h->best_size = low - (h->fit == PLAN_BEST_TFLITE ? h->current : at);
        if (h->fit == PLAN_FIRST) return false;
    }
    if (high > h->current) h->current = high;
    return !(h->found && h->fit == PLAN_BEST_TFLITE && !h->best_size);
}

static uint64_t place_of(const hunt *h)
{
    return h->found ? h->best : plan_round(h->current, h->align);
}

static uint64_t hunt_on_shelf(plan_shelf *s, uint32_t from, uint32_t to, hunt h)
{
    plan_walk walk = plan_shelf_walk(s, from, to);
    uint64_t low, high;
    while (plan_shelf_next(&walk, &low, &high))
        if (!pass(&h, low, high)) break;
    return place_of(&h);
}

uint64_t plan_first_fit(plan_shelf *s, const plan_box *box)
{
    const hunt h = {.bytes = box->size, .align = 1, .fit = PLAN_FIRST};
    return hunt_on_shelf(s, box->from, box->to, h);
}

/* ---- buffers of several pieces ------------------------------------------------------- */

typedef struct stay { /* bytes low <= byte < high */
    uint64_t low, high;
} stay;

typedef MR_VEC(stay) stays;

/* What is in the way of a piece is in the way of the whole buffer at another height. */
static void collect(mr_ctx *ctx, plan_shelf *s, const plan_piece *piece, uint64_t bytes,
                    stays *out)
{
    plan_walk walk = plan_shelf_walk(s, piece->from, piece->to);
    uint64_t low, high;
    while (plan_shelf_next(&walk, &low, &high))
        if (high > piece->low)
            MR_PUSH(ctx, out,
                    (stay){.low = low + bytes - piece->high, .high = high - piece->low});
}

static int by_low(const void *left, const void *right)
{
    const stay *a = left, *b = right;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return (a->high > b->high) - (a->high < b->high);
}

static uint64_t hunt_with_gaps(mr_ctx *ctx, plan_shelf *s, const plan_problem *problem,
                               const plan_buffer *buffer, hunt h, stays *scratch)
{
    scratch->n = 0;
    for (uint32_t p = 0; p < buffer->pieces; p++)
        collect(ctx, s, &problem->pieces.at[buffer->piece + p], buffer->bytes, scratch);
    if (scratch->n) qsort(scratch->at, scratch->n, sizeof *scratch->at, by_low);
    for (uint32_t i = 0; i < scratch->n; i++)
        if (!pass(&h, scratch->at[i].low, scratch->at[i].high)) break;
    return place_of(&h);
}

/* ---- all of them --------------------------------------------------------------------- */

static void settle(plan_shelf *s, const plan_problem *problem, uint32_t buffer, uint64_t offset,
                   plan_layout *out)
{
    const plan_buffer *b = &problem->buffers.at[buffer];
    out->offset[buffer] = offset;
    for (uint32_t i = 0; i < b->pieces; i++) {
        const plan_piece *p = &problem->pieces.at[b->piece + i];
        plan_shelf_put(s, b->piece + i, offset + p->low, offset + p->high);
    }
}

static plan_shelf *shelf_for(mr_ctx *ctx, const plan_problem *problem)
{
    plan_life *lives = MR_NEW_N(ctx, plan_life, problem->pieces.n);
    for (uint32_t i = 0; i < problem->pieces.n; i++)
        lives[i] = (plan_life){problem->pieces.at[i].from, problem->pieces.at[i].to};
    return plan_shelf_new(ctx, lives, problem->pieces.n, problem->sections);
}

void plan_place_in_order(mr_ctx *ctx, const plan_problem *problem, const uint32_t *order,
                         plan_fit fit, plan_layout *out)
{
    plan_shelf *s = shelf_for(ctx, problem);
    stays scratch = {0};
    const uint32_t n = problem->buffers.n;
    out->offset = MR_NEW_N(ctx, uint64_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        if (b->fixed != PLAN_ANYWHERE) settle(s, problem, i, b->fixed, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[order[i]];
        if (i % STRIDE == 0) mr_progress(ctx, "placing", (double)i / n);
        if (b->fixed != PLAN_ANYWHERE) continue;
        const hunt h = {.bytes = b->bytes, .align = b->align, .fit = fit};
        const plan_piece *whole = &problem->pieces.at[b->piece];
        const uint64_t at = b->gaps ? hunt_with_gaps(ctx, s, problem, b, h, &scratch)
                                    : hunt_on_shelf(s, whole->from, whole->to, h);
        settle(s, problem, order[i], at, out);
    }
    out->height = plan_height(problem, out->offset);
}
