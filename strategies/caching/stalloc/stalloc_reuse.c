/* stalloc_reuse -- dynamic requests in idle parts of the pool, as STAlloc's "static-reuse".
 *
 *     pool   | static, in use |      | static, comes soon |  guest  |      |
 *                              ^^^^^^                                ^^^^^^ idle
 *
 * A part is idle for a request when no static one lies in it from when the request comes to when
 * it was given back in the run that was profiled, and no other guest does now.  The smallest
 * that has room is taken, of equal ones the lowest, and the request lies at its low end.
 */
#include "stalloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct by_place {
    uint64_t offset;
    uint32_t item;
} by_place;

static int in_order(const void *left, const void *right)
{
    const by_place *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

stalloc_guests stalloc_guests_make(mr_ctx *ctx, const stalloc_plan *plan)
{
    const uint32_t n = plan->items.n;
    stalloc_guests g = {.ctx = ctx,
                        .plan = plan,
                        .order = MR_NEW_N(ctx, uint32_t, n),
                        .used = MR_NEW_N(ctx, bool, n),
                        .met = mr_none_of(ctx, n)};
    by_place *places = MR_NEW_N(ctx, by_place, n);
    for (uint32_t i = 0; i < n; i++) places[i] = (by_place){plan->items.at[i].offset, i};
    if (n) qsort(places, n, sizeof *places, in_order);
    for (uint32_t i = 0; i < n; i++) g.order[i] = places[i].item;
    return g;
}

/* Marks the items that come before the request was given back. */
static void meet(stalloc_guests *g, uint32_t number)
{
    const stalloc_request *r = &g->plan->requests.at[number];
    const uint32_t end = r->freed_in == MR_NONE ? g->plan->requests.n : r->freed_at;
    for (uint32_t i = number + 1; i < end; i++) {
        const uint32_t item = g->plan->requests.at[i].item;
        if (item != MR_NONE) g->met[item] = number;
    }
}

typedef struct sweep {
    uint64_t end; /* of what lies below */
    uint64_t want, best, offset;
} sweep;

static void pass(sweep *s, uint64_t offset, uint64_t bytes)
{
    const uint64_t room = offset > s->end ? offset - s->end : 0;
    if (room >= s->want && room < s->best) {
        s->best = room;
        s->offset = s->end;
    }
    if (offset + bytes > s->end) s->end = offset + bytes;
}

bool stalloc_guests_find(stalloc_guests *g, uint32_t number, uint64_t *offset)
{
    const stalloc_plan *plan = g->plan;
    sweep s = {.want = plan->requests.at[number].bytes, .best = UINT64_MAX};
    uint32_t next = 0; /* guest */
    if (!s.want || s.want > plan->height) return false;
    meet(g, number);
    for (uint32_t i = 0; i < plan->items.n; i++) {
        const stalloc_item *item = &plan->items.at[g->order[i]];
        if (!g->used[g->order[i]] && g->met[g->order[i]] != number) continue;
        for (; next < g->guests.n && g->guests.at[next].offset < item->offset; next++)
            pass(&s, g->guests.at[next].offset, g->guests.at[next].bytes);
        pass(&s, item->offset, item->bytes);
    }
    for (; next < g->guests.n; next++)
        pass(&s, g->guests.at[next].offset, g->guests.at[next].bytes);
    pass(&s, plan->height, 0);
    *offset = s.offset;
    return s.best != UINT64_MAX;
}

/* Index of the first guest at the offset or above. */
static uint32_t guest_at(const stalloc_guests *g, uint64_t offset)
{
    uint32_t low = 0, high = g->guests.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->guests.at[middle].offset < offset) low = middle + 1;
        else high = middle;
    }
    return low;
}

void stalloc_guests_add(stalloc_guests *g, uint64_t offset, uint64_t bytes)
{
    const uint32_t at = guest_at(g, offset);
    MR_PUSH(g->ctx, &g->guests, (stalloc_guest){offset, bytes});
    memmove(g->guests.at + at + 1, g->guests.at + at,
            (g->guests.n - 1 - at) * sizeof *g->guests.at);
    g->guests.at[at] = (stalloc_guest){offset, bytes};
}

void stalloc_guests_remove(stalloc_guests *g, uint64_t offset)
{
    const uint32_t at = guest_at(g, offset);
    g->guests.n--;
    memmove(g->guests.at + at, g->guests.at + at + 1,
            (g->guests.n - at) * sizeof *g->guests.at);
}
