/* plan_rule_ort -- the memory pattern of ONNX Runtime: a best fit that cannot see the next
 * request.
 *
 * Allocations and frees are replayed in the order of time.  Only what is live at the moment is
 * in the way; the space between the highest live block and the highest end so far is one hole
 * more.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

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

typedef struct pattern {
    const plan_problem *problem;
    uint64_t *offset;
    uint32_t *live, n; /* buffers by offset */
    uint64_t height;
} pattern;

static uint64_t end_of(const pattern *p, uint32_t buffer)
{
    return p->offset[buffer] + p->problem->buffers.at[buffer].bytes;
}

static uint64_t best_place(const pattern *p, const plan_buffer *b)
{
    uint64_t at = 0, best = 0, waste = UINT64_MAX;
    bool found = false;
    for (uint32_t i = 0; i <= p->n; i++) {
        const uint64_t low = i < p->n ? p->offset[p->live[i]] : p->height;
        if (low >= at && low - at >= b->bytes && low - at - b->bytes < waste) {
            waste = low - at - b->bytes;
            best = at;
            found = true;
        }
        if (i < p->n && end_of(p, p->live[i]) > at)
            at = plan_round(end_of(p, p->live[i]), b->align);
    }
    return found ? best : at;
}

static void begin(pattern *p, uint32_t buffer)
{
    p->offset[buffer] = best_place(p, &p->problem->buffers.at[buffer]);
    uint32_t i = p->n;
    while (i && p->offset[p->live[i - 1]] > p->offset[buffer]) i--;
    memmove(p->live + i + 1, p->live + i, (p->n - i) * sizeof *p->live);
    p->live[i] = buffer;
    p->n++;
    if (end_of(p, buffer) > p->height) p->height = end_of(p, buffer);
}

static void end(pattern *p, uint32_t buffer)
{
    uint32_t i = 0;
    while (p->live[i] != buffer) i++;
    p->n--;
    memmove(p->live + i, p->live + i + 1, (p->n - i) * sizeof *p->live);
}

static event *list_events(mr_ctx *ctx, const plan_problem *problem)
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

void plan_rule_ort(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    const uint32_t n = problem->buffers.n;
    const event *events = list_events(ctx, problem);
    pattern p = {.problem = problem,
                 .offset = MR_NEW_N(ctx, uint64_t, n),
                 .live = MR_NEW_N(ctx, uint32_t, n)};
    for (size_t e = 0; e < 2 * (size_t)n; e++) {
        if (events[e].begins) begin(&p, events[e].buffer);
        else end(&p, events[e].buffer);
    }
    *out = (plan_layout){p.offset, p.height};
}
