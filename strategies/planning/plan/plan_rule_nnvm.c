/* plan_rule_nnvm -- memory planning of NNVM and MXNet: entries that are shared one after the
 * other.
 *
 * A request takes a free entry that is not much larger or smaller, the next larger one if
 * there is one; a smaller one grows.  How much is tried from equal sizes up to a factor of 16,
 * and what takes least is kept.  Entries lie beside each other.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

enum { WIDEST = 16 };

typedef struct event {
    uint32_t section, begins, buffer;
} event;

/* At equal times ends sort first. */
static int in_order(const void *left, const void *right)
{
    const event *a = left, *b = right;
    if (a->section != b->section) return a->section < b->section ? -1 : 1;
    if (a->begins != b->begins) return a->begins < b->begins ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

typedef struct pool {
    const plan_problem *problem;
    uint64_t range;
    uint64_t *bytes;     /* by entry */
    uint32_t *free;      /* entries, the smallest first, among equals the one freed first */
    uint32_t entries, n; /* how many there are, and are free */
    uint32_t *entry;     /* by buffer */
} pool;

/* The first of the free entries with so many bytes or more. */
static uint32_t lower_bound(const pool *p, uint64_t bytes)
{
    uint32_t low = 0, high = p->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->bytes[p->free[middle]] < bytes) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint32_t take(pool *p, uint32_t i)
{
    const uint32_t entry = p->free[i];
    memmove(p->free + i, p->free + i + 1, (--p->n - i) * sizeof *p->free);
    return entry;
}

static void begin(pool *p, uint32_t buffer)
{
    const uint64_t bytes = p->problem->buffers.at[buffer].bytes;
    const uint32_t larger = lower_bound(p, bytes);
    if (larger < p->n && (p->bytes[p->free[larger]] - 1) / p->range < bytes)
        p->entry[buffer] = take(p, larger);
    else if (larger && p->bytes[p->free[larger - 1]] >= bytes / p->range)
        p->entry[buffer] = take(p, larger - 1);
    else p->entry[buffer] = p->entries++;
    uint64_t *held = &p->bytes[p->entry[buffer]];
    if (*held < bytes) *held = bytes;
}

static void end(pool *p, uint32_t buffer)
{
    const uint32_t entry = p->entry[buffer], i = lower_bound(p, p->bytes[entry] + 1);
    memmove(p->free + i + 1, p->free + i, (p->n++ - i) * sizeof *p->free);
    p->free[i] = entry;
}

static const event *list_events(mr_ctx *ctx, const plan_problem *problem)
{
    event *events = MR_NEW_N(ctx, event, 2 * (size_t)problem->buffers.n), *at = events;
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_piece *piece = &problem->pieces.at[problem->buffers.at[i].piece];
        *at++ = (event){piece->from, 1, i};
        *at++ = (event){piece->to, 0, i};
    }
    qsort(events, 2 * (size_t)problem->buffers.n, sizeof *events, in_order);
    return events;
}

static plan_layout lay_out(mr_ctx *ctx, const pool *p)
{
    const plan_problem *problem = p->problem;
    uint64_t *place = MR_NEW_N(ctx, uint64_t, p->entries), height = 0, most = 1;
    plan_layout layout = {.offset = MR_NEW_N(ctx, uint64_t, problem->buffers.n)};
    for (uint32_t i = 0; i < problem->buffers.n; i++)
        if (problem->buffers.at[i].align > most) most = problem->buffers.at[i].align;
    for (uint32_t e = 0; e < p->entries; e++) {
        place[e] = plan_round(height, most);
        height = place[e] + p->bytes[e];
    }
    for (uint32_t i = 0; i < problem->buffers.n; i++) layout.offset[i] = place[p->entry[i]];
    layout.height = height;
    return layout;
}

void plan_rule_nnvm(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    const uint32_t n = problem->buffers.n;
    const event *events = list_events(ctx, problem);
    for (uint64_t range = 1; range <= WIDEST; range *= 2) {
        pool p = {.problem = problem,
                  .range = range,
                  .bytes = MR_NEW_N(ctx, uint64_t, n),
                  .free = MR_NEW_N(ctx, uint32_t, n),
                  .entry = MR_NEW_N(ctx, uint32_t, n)};
        for (size_t e = 0; e < 2 * (size_t)n; e++) {
            if (events[e].begins) begin(&p, events[e].buffer);
            else end(&p, events[e].buffer);
        }
        const plan_layout layout = lay_out(ctx, &p);
        if (range == 1 || layout.height < out->height) *out = layout;
    }
}
