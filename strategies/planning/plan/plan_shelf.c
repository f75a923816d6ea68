/* plan_shelf -- pieces that have their place, in the order of addresses.
 *
 * A shelf is a list of boards with a limited number of pieces each.  A board knows which
 * sections its pieces cover, so one that has nothing to do with a life is passed in one step;
 * of the others first all pieces are compared, which a processor does several at a time, and
 * then only those looked at that are in the way.
 */
#include "plan_internal.h"

#include <string.h>

#define BOARD 128 /* pieces on a board at the most; it is split when it is full */

struct plan_board {
    uint32_t from[BOARD], to[BOARD];
    uint64_t low[BOARD], high[BOARD];
    uint32_t n, least_from, most_to;
    plan_board *next;
};

/* ---- putting ------------------------------------------------------------------------- */

static void copy(plan_board *out, uint32_t at, const plan_board *in, uint32_t first, uint32_t n)
{
    memmove(out->from + at, in->from + first, n * sizeof *in->from);
    memmove(out->to + at, in->to + first, n * sizeof *in->to);
    memmove(out->low + at, in->low + first, n * sizeof *in->low);
    memmove(out->high + at, in->high + first, n * sizeof *in->high);
}

static void split(plan_shelf *s, plan_board *full)
{
    plan_board *upper = MR_NEW(s->ctx, plan_board);
    const uint32_t keep = BOARD / 2;
    upper->n = full->n - keep;
    copy(upper, 0, full, keep, upper->n);
    upper->least_from = full->least_from; /* not exact, but no less than what is there */
    upper->most_to = full->most_to;
    upper->next = full->next;
    full->n = keep;
    full->next = upper;
}

void plan_shelf_put(plan_shelf *s, const plan_stay *piece)
{
    plan_board *b = s->first;
    if (!b) {
        b = s->first = MR_NEW(s->ctx, plan_board);
        b->least_from = UINT32_MAX;
    }
    while (b->next && b->next->low[0] <= piece->low) b = b->next;
    uint32_t i = b->n;
    while (i && b->low[i - 1] > piece->low) i--;
    copy(b, i + 1, b, i, b->n - i);
    b->from[i] = piece->from;
    b->to[i] = piece->to;
    b->low[i] = piece->low;
    b->high[i] = piece->high;
    b->n++;
    if (piece->from < b->least_from) b->least_from = piece->from;
    if (piece->to > b->most_to) b->most_to = piece->to;
    if (b->n == BOARD) split(s, b);
}

/* ---- walking ------------------------------------------------------------------------- */

/* Fills the list of pieces in the way on the board. */
static void compare(plan_walk *w, const plan_board *b)
{
    uint8_t in_the_way[BOARD];
    const uint32_t from = w->from, to = w->to;
    for (uint32_t i = 0; i < BOARD; i++)
        in_the_way[i] = (uint8_t)((b->to[i] > from) & (b->from[i] < to));
    w->n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        w->list[w->n] = (uint8_t)i;
        w->n += in_the_way[i];
    }
    w->at = 0;
}

plan_walk plan_shelf_walk(const plan_shelf *s, uint32_t from, uint32_t to)
{
    return (plan_walk){.next = s->first, .from = from, .to = to};
}

bool plan_shelf_next(plan_walk *w, uint64_t *low, uint64_t *high)
{
    while (w->at == w->n) {
        w->board = w->next;
        if (!w->board) return false;
        w->next = w->board->next;
        if (w->board->most_to > w->from && w->board->least_from < w->to) compare(w, w->board);
    }
    const uint32_t i = w->list[w->at++];
    *low = w->board->low[i];
    *high = w->board->high[i];
    return true;
}
