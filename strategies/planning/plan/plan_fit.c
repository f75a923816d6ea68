/* plan_fit -- one buffer after the other is put where it fits among those put before.
 *
 * What is placed stands on a shelf in the order of addresses: a list of boards with a limited
 * number of pieces each.  A board knows which sections its pieces cover, so one that has
 * nothing to do with a buffer's life is passed in one step.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

#define BOARD 256 /* pieces on a board at the most; it is split when it is full */

typedef struct stay { /* a placed piece */
    uint64_t low, high;
    uint32_t from, to;
} stay;

typedef struct board {
    stay at[BOARD];
    uint32_t n, from, to;
    struct board *next;
} board;

typedef struct shelf {
    mr_ctx *ctx;
    board *first;
} shelf;

/* ---- the shelf ----------------------------------------------------------------------- */

static void split(shelf *s, board *full)
{
    board *upper = MR_NEW(s->ctx, board);
    const uint32_t keep = BOARD / 2;
    upper->n = full->n - keep;
    memcpy(upper->at, full->at + keep, upper->n * sizeof *upper->at);
    upper->from = full->from; /* not exact, but no less than what is there */
    upper->to = full->to;
    upper->next = full->next;
    full->n = keep;
    full->next = upper;
}

static void put(shelf *s, const stay *piece)
{
    board *b = s->first;
    if (!b) {
        b = s->first = MR_NEW(s->ctx, board);
        b->from = UINT32_MAX;
    }
    while (b->next && b->next->at[0].low <= piece->low) b = b->next;
    uint32_t i = b->n;
    while (i && b->at[i - 1].low > piece->low) i--;
    memmove(b->at + i + 1, b->at + i, (b->n - i) * sizeof *b->at);
    b->at[i] = *piece;
    b->n++;
    if (piece->from < b->from) b->from = piece->from;
    if (piece->to > b->to) b->to = piece->to;
    if (b->n == BOARD) split(s, b);
}

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

static uint64_t hunt_on_shelf(const shelf *s, const plan_piece *piece, hunt h)
{
    for (const board *b = s->first; b; b = b->next) {
        if (b->to <= piece->from || b->from >= piece->to) continue;
        for (uint32_t i = 0; i < b->n; i++) {
            const stay *other = &b->at[i];
            if (other->to <= piece->from || other->from >= piece->to) continue;
            if (!pass(&h, other->low, other->high)) return place_of(&h);
        }
    }
    return place_of(&h);
}

/* ---- buffers of several pieces ------------------------------------------------------- */

typedef MR_VEC(stay) stays;

/* What is in the way of a piece is in the way of the whole buffer at another height. */
static void collect(mr_ctx *ctx, const shelf *s, const plan_piece *piece, uint64_t bytes,
                    stays *out)
{
    for (const board *b = s->first; b; b = b->next)
        for (uint32_t i = 0; i < b->n; i++) {
            const stay *other = &b->at[i];
            if (other->to <= piece->from || other->from >= piece->to) continue;
            if (other->high <= piece->low) continue;
            MR_PUSH(ctx, out,
                    (stay){.low = other->low + bytes - piece->high,
                           .high = other->high - piece->low});
        }
}

static int by_low(const void *left, const void *right)
{
    const stay *a = left, *b = right;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return (a->high > b->high) - (a->high < b->high);
}

static uint64_t hunt_with_gaps(const shelf *s, const plan_problem *problem,
                               const plan_buffer *buffer, hunt h, stays *scratch)
{
    scratch->n = 0;
    for (uint32_t p = 0; p < buffer->pieces; p++)
        collect(s->ctx, s, &problem->pieces.at[buffer->piece + p], buffer->bytes, scratch);
    if (scratch->n) qsort(scratch->at, scratch->n, sizeof *scratch->at, by_low);
    for (uint32_t i = 0; i < scratch->n; i++)
        if (!pass(&h, scratch->at[i].low, scratch->at[i].high)) break;
    return place_of(&h);
}

/* ---- all of them --------------------------------------------------------------------- */

static void settle(shelf *s, const plan_problem *problem, uint32_t buffer, uint64_t offset,
                   plan_layout *out)
{
    const plan_buffer *b = &problem->buffers.at[buffer];
    out->offset[buffer] = offset;
    for (uint32_t i = 0; i < b->pieces; i++) {
        const plan_piece *p = &problem->pieces.at[b->piece + i];
        put(s, &(stay){offset + p->low, offset + p->high, p->from, p->to});
    }
}

void plan_place_in_order(mr_ctx *ctx, const plan_problem *problem, const uint32_t *order,
                         plan_fit fit, plan_layout *out)
{
    shelf s = {.ctx = ctx};
    stays scratch = {0};
    const uint32_t n = problem->buffers.n;
    out->offset = MR_NEW_N(ctx, uint64_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        if (b->fixed != PLAN_ANYWHERE) settle(&s, problem, i, b->fixed, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[order[i]];
        if (b->fixed != PLAN_ANYWHERE) continue;
        const hunt h = {.bytes = b->bytes, .align = b->align, .fit = fit};
        const uint64_t at = b->gaps ? hunt_with_gaps(&s, problem, b, h, &scratch)
                                    : hunt_on_shelf(&s, &problem->pieces.at[b->piece], h);
        settle(&s, problem, order[i], at, out);
    }
    out->height = plan_height(problem, out->offset);
}
