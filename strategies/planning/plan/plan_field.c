/* plan_field -- a plain problem as boxes in a plane: sections one way, units of bytes the
 * other. */
#include "plan_internal.h"

#include <stdlib.h>

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int by_beginning(const void *left, const void *right)
{
    const plan_box *a = left, *b = right;
    const uint32_t begins_a = a->ends - a->lasts, begins_b = b->ends - b->lasts;
    if (begins_a != begins_b) return begins_a < begins_b ? -1 : 1;
    if (a->ends != b->ends) return a->ends > b->ends ? -1 : 1;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static uint64_t *section_loads(mr_ctx *ctx, const plan_field *field)
{
    uint64_t *load = MR_NEW_N(ctx, uint64_t, (size_t)field->sections + 1);
    for (uint32_t i = 0; i < field->n; i++) {
        load[field->boxes[i].from] += field->boxes[i].size;
        load[field->boxes[i].to] -= field->boxes[i].size; /* wraps, and back when it is added */
    }
    for (uint32_t s = 1; s < field->sections; s++) load[s] += load[s - 1];
    return load;
}

static uint64_t load_of(mr_ctx *ctx, const plan_field *field)
{
    const uint64_t *load = section_loads(ctx, field);
    uint64_t most = 0;
    for (uint32_t s = 0; s < field->sections; s++)
        if (load[s] > most) most = load[s];
    return most;
}

/* A tree of maxima over the sections. */
const uint64_t *plan_field_loads(mr_ctx *ctx, const plan_field *field)
{
    const uint32_t n = field->sections;
    uint64_t *most = MR_NEW_N(ctx, uint64_t, 2 * (size_t)n);
    uint64_t *out = MR_NEW_N(ctx, uint64_t, field->n);
    const uint64_t *load = section_loads(ctx, field);
    for (uint32_t s = 0; s < n; s++) most[n + s] = load[s];
    for (uint32_t i = n; i-- > 1;)
        most[i] = most[2 * i] > most[2 * i + 1] ? most[2 * i] : most[2 * i + 1];
    for (uint32_t i = 0; i < field->n; i++) {
        uint32_t from = field->boxes[i].from + n, to = field->boxes[i].to + n;
        for (; from < to; from /= 2, to /= 2) {
            if (from & 1 && most[from++] > out[i]) out[i] = most[from - 1];
            if (to & 1 && most[--to] > out[i]) out[i] = most[to];
        }
    }
    return out;
}

/* What matters of time are the moments at which most is in use: the last section before the
 * first end after a beginning.  All others hold part of what one of these holds; a box keeps
 * at least one, and so do two that meet.  Returns how many of these there are before each
 * section. */
static uint32_t *count_summits(mr_ctx *ctx, const plan_box *boxes, uint32_t n,
                               uint32_t sections)
{
    bool *begins = MR_NEW_N(ctx, bool, (size_t)sections + 1);
    bool *ends = MR_NEW_N(ctx, bool, (size_t)sections + 1);
    for (uint32_t i = 0; i < n; i++) {
        begins[boxes[i].from] = true;
        ends[boxes[i].to] = true;
    }
    uint32_t *before = MR_NEW_N(ctx, uint32_t, (size_t)sections + 1);
    bool grown = false; /* since the last end */
    for (uint32_t s = 0; s < sections; s++) {
        grown |= begins[s];
        before[s + 1] = before[s] + (grown && ends[s + 1]);
        grown &= !ends[s + 1];
    }
    return before;
}

void plan_field_of_boxes(mr_ctx *ctx, plan_box *boxes, uint32_t n, uint32_t sections,
                         plan_field *out)
{
    const uint32_t *summits = count_summits(ctx, boxes, n, sections);
    *out = (plan_field){.boxes = boxes, .n = n, .sections = summits[sections], .unit = 1};
    for (uint32_t i = 0; i < n; i++) {
        boxes[i].from = summits[boxes[i].from];
        boxes[i].to = summits[boxes[i].to];
    }
    out->first = MR_NEW_N(ctx, uint32_t, (size_t)out->sections + 1);
    for (uint32_t s = 0, i = 0; s <= out->sections; s++) {
        while (i < n && boxes[i].from < s) i++;
        out->first[s] = i;
    }
    out->load = load_of(ctx, out);
}

void plan_field_make(mr_ctx *ctx, const plan_problem *problem, plan_field *out)
{
    const uint32_t n = problem->buffers.n;
    plan_box *boxes = MR_NEW_N(ctx, plan_box, n);
    uint64_t unit = 0;
    for (uint32_t i = 0; i < n; i++) {
        const plan_piece *p = &problem->pieces.at[problem->buffers.at[i].piece];
        const uint64_t bytes = plan_round(p->high, problem->align);
        boxes[i] = (plan_box){.size = bytes,
                              .from = p->from,
                              .to = p->to,
                              .buffer = i,
                              .lasts = p->to - p->from,
                              .ends = p->to};
        unit = divisor(bytes, unit);
    }
    for (uint32_t i = 0; i < n; i++) boxes[i].size /= unit;
    qsort(boxes, n, sizeof *boxes, by_beginning);
    plan_field_of_boxes(ctx, boxes, n, problem->sections, out);
    out->unit = unit;
}

plan_life *plan_field_lives(mr_ctx *ctx, const plan_field *field)
{
    plan_life *lives = MR_NEW_N(ctx, plan_life, field->n);
    for (uint32_t i = 0; i < field->n; i++)
        lives[i] = (plan_life){field->boxes[i].from, field->boxes[i].to};
    return lives;
}

void plan_field_layout(mr_ctx *ctx, const plan_problem *problem, const plan_field *field,
                       const uint64_t *base, plan_layout *out)
{
    out->offset = MR_NEW_N(ctx, uint64_t, field->n);
    for (uint32_t i = 0; i < field->n; i++)
        out->offset[field->boxes[i].buffer] = base[i] * field->unit;
    out->height = plan_height(problem, out->offset);
}
