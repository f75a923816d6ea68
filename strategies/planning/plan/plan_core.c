/* plan_core -- what is hard of a problem; the rest follows by itself.
 *
 * Four things can be done to a field without loss, again and again until nothing changes:
 *
 *     time is told by the moments that count alone (plan_field);
 *     a box that is in use all the time goes to the bottom;
 *     a box is set aside when those it meets, wherever they lie below the height, cannot be in
 *     the way at all places: each is in the way at as many as both sizes together, less one;
 *     where nothing is in use across a border, the field falls into parts.
 *
 * What was set aside last finds a place first, by first fit.
 */
#include "plan_internal.h"

#include <string.h>

#define WORTH 128 /* one more pass over the boxes must set aside one of so many */

typedef struct piece { /* of the field, not yet a part */
    plan_box *boxes;
    uint32_t n, sections;
    uint64_t floor;
} piece;

typedef struct carver {
    mr_ctx *ctx;
    uint64_t height;
    plan_core *out;
    MR_VEC(piece) pieces; /* to be looked at */
} carver;

/* ---- to the bottom ------------------------------------------------------------------- */

static bool sink(carver *c, const plan_field *field, piece *p)
{
    const uint32_t before = p->n;
    p->n = 0;
    for (uint32_t i = 0; i < before; i++) {
        const plan_box *b = &field->boxes[i];
        if (b->from || b->to < field->sections) {
            p->boxes[p->n++] = *b;
            continue;
        }
        c->out->base[b->buffer] = p->floor;
        p->floor += b->size;
    }
    return p->n < before;
}

/* ---- setting aside ------------------------------------------------------------------- */

typedef struct sums { /* by section: of boxes that begin before it; that end in it or before */
    uint64_t *begun, *ended;
    uint32_t *begun_n, *ended_n;
} sums;

static sums sum_up(mr_ctx *ctx, const plan_field *field)
{
    const size_t n = (size_t)field->sections + 2;
    sums s = {MR_NEW_N(ctx, uint64_t, n), MR_NEW_N(ctx, uint64_t, n),
              MR_NEW_N(ctx, uint32_t, n), MR_NEW_N(ctx, uint32_t, n)};
    for (uint32_t i = 0; i < field->n; i++) {
        const plan_box *b = &field->boxes[i];
        s.begun[b->from + 1] += b->size;
        s.begun_n[b->from + 1]++;
        s.ended[b->to] += b->size;
        s.ended_n[b->to]++;
    }
    for (uint32_t i = 1; i < n; i++) {
        s.begun[i] += s.begun[i - 1];
        s.begun_n[i] += s.begun_n[i - 1];
        s.ended[i] += s.ended[i - 1];
        s.ended_n[i] += s.ended_n[i - 1];
    }
    return s;
}

static bool always_fits(const sums *s, const plan_box *b, uint64_t height)
{
    const uint64_t met = s->begun[b->to] - s->ended[b->from]; /* itself included */
    const uint64_t others = s->begun_n[b->to] - s->ended_n[b->from] - 1;
    if (met > height) return false;
    return !others || b->size - 1 <= (height - met) / others;
}

/* Those set aside in one pass were counted by each other, so their order does not matter. */
static bool set_aside(carver *c, const plan_field *field, piece *p)
{
    mr_ctx scratch = {0};
    const sums s = sum_up(&scratch, field);
    const uint32_t before = p->n;
    p->n = 0;
    for (uint32_t i = 0; i < before; i++) {
        const plan_box *b = &field->boxes[i];
        if (always_fits(&s, b, c->height - p->floor))
            MR_PUSH(c->ctx, &c->out->aside, b->buffer);
        else p->boxes[p->n++] = *b;
    }
    mr_ctx_clear(&scratch);
    return before - p->n > before / WORTH;
}

/* ---- parts --------------------------------------------------------------------------- */

/* Boxes are in the order of their beginnings. */
static bool fall_apart(carver *c, const piece *p)
{
    const uint32_t pieces = c->pieces.n;
    uint32_t first = 0, end = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const plan_box *b = &p->boxes[i];
        if (i > first && b->from >= end) {
            MR_PUSH(c->ctx, &c->pieces,
                    (piece){p->boxes + first, i - first, p->sections, p->floor});
            first = i;
        }
        if (b->to > end) end = b->to;
    }
    if (c->pieces.n == pieces) return false;
    MR_PUSH(c->ctx, &c->pieces, (piece){p->boxes + first, p->n - first, p->sections, p->floor});
    return true;
}

static void carve(carver *c, piece p)
{
    while (p.n) {
        plan_field field;
        mr_ctx scratch = {0};
        plan_field_of_boxes(&scratch, p.boxes, p.n, p.sections, &field);
        p.sections = field.sections;
        const bool changed = sink(c, &field, &p) || set_aside(c, &field, &p);
        const bool apart = !changed && fall_apart(c, &p);
        mr_ctx_clear(&scratch);
        if (apart) return;
        if (changed) continue;
        plan_part part = {.floor = p.floor};
        plan_field_of_boxes(c->ctx, p.boxes, p.n, p.sections, &part.field);
        MR_PUSH(c->ctx, &c->out->parts, part);
        return;
    }
}

void plan_core_make(mr_ctx *ctx, const plan_field *whole, uint64_t height, plan_core *out)
{
    carver c = {.ctx = ctx, .height = height, .out = out};
    piece all = {.n = whole->n, .sections = whole->sections};
    *out = (plan_core){.base = MR_NEW_N(ctx, uint64_t, whole->n)};
    all.boxes = MR_NEW_N(ctx, plan_box, whole->n);
    memcpy(all.boxes, whole->boxes, whole->n * sizeof *all.boxes);
    for (uint32_t i = 0; i < whole->n; i++) all.boxes[i].buffer = i;
    MR_PUSH(ctx, &c.pieces, all);
    while (c.pieces.n) carve(&c, c.pieces.at[--c.pieces.n]);
}

void plan_core_finish(mr_ctx *ctx, const plan_field *whole, plan_core *core)
{
    plan_shelf *shelf =
        plan_shelf_new(ctx, plan_field_lives(ctx, whole), whole->n, whole->sections);
    bool *waits = MR_NEW_N(ctx, bool, whole->n);
    for (uint32_t i = 0; i < core->aside.n; i++) waits[core->aside.at[i]] = true;
    for (uint32_t i = 0; i < whole->n; i++) {
        const plan_box *b = &whole->boxes[i];
        const uint64_t base = core->base[i];
        if (!waits[i]) plan_shelf_put(shelf, i, base, base + b->size);
    }
    for (uint32_t i = core->aside.n; i--;) {
        const uint32_t box = core->aside.at[i];
        const plan_box *b = &whole->boxes[box];
        const uint64_t base = core->base[box] = plan_first_fit(shelf, b);
        plan_shelf_put(shelf, box, base, base + b->size);
    }
}
