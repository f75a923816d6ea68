/* plan_large -- large boxes by a dive, then each other one into the lowest hole.
 *
 * A dive leaves no hole that a later box could fill, but what it lays first may be small and in
 * the way of something large.  First fit fills holes, but lays what is large without looking at
 * lives.  So the one does the large boxes, which decide the height, the other the rest.
 */
#include "plan_internal.h"

#include <stdlib.h>

struct plan_large {
    const plan_field *field;
    plan_field top; /* the large boxes; `buffer` is their number in the field */
    plan_diver *diver;
    const plan_life *lives; /* by box of the field */
    bool *is_large;         /* by box of the field */
    uint32_t *rank, *order;
    uint64_t *base; /* by box of `top` */
};

typedef struct size_of {
    uint64_t size;
    uint32_t box, sections;
} size_of;

static int by_size(const void *left, const void *right)
{
    const size_of *a = left, *b = right;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    if (a->sections != b->sections) return a->sections > b->sections ? -1 : 1;
    return (a->box > b->box) - (a->box < b->box);
}

static void sort_out(mr_ctx *ctx, plan_large *l, uint32_t large, uint32_t *rank)
{
    const plan_field *field = l->field;
    size_of *sizes = MR_NEW_N(ctx, size_of, field->n);
    for (uint32_t i = 0; i < field->n; i++) {
        const plan_box *b = &field->boxes[i];
        sizes[i] = (size_of){b->size, i, b->to - b->from};
    }
    qsort(sizes, field->n, sizeof *sizes, by_size);
    for (uint32_t i = 0; i < large; i++) l->is_large[sizes[i].box] = true;
    for (uint32_t i = large; i < field->n; i++) rank[sizes[i].box] = i;
}

plan_large *plan_large_new(mr_ctx *ctx, const plan_field *field, uint32_t share, uint32_t key,
                           uint32_t *rank)
{
    plan_large *l = MR_NEW(ctx, plan_large);
    const uint32_t n = field->n, large = (uint32_t)((uint64_t)n * share / 20);
    plan_box *boxes = MR_NEW_N(ctx, plan_box, large);
    *l = (plan_large){.field = field,
                      .is_large = MR_NEW_N(ctx, bool, n),
                      .rank = MR_NEW_N(ctx, uint32_t, large),
                      .order = MR_NEW_N(ctx, uint32_t, n),
                      .base = MR_NEW_N(ctx, uint64_t, large)};
    sort_out(ctx, l, large, rank);
    for (uint32_t i = 0, m = 0; i < n; i++) {
        if (!l->is_large[i]) continue;
        boxes[m] = field->boxes[i];
        boxes[m++].buffer = i;
    }
    plan_field_of_boxes(ctx, boxes, large, field->sections, &l->top);
    l->diver = plan_diver_new(ctx, &l->top, false);
    l->lives = plan_field_lives(ctx, field);
    plan_dive_key(ctx, &l->top, key, l->rank);
    for (uint32_t i = 0; i < large; i++) rank[boxes[i].buffer] = l->rank[i];
    return l;
}

uint64_t plan_large_lay(plan_large *l, const uint32_t *rank, uint64_t *base)
{
    mr_ctx scratch = {0};
    plan_shelf *shelf = plan_shelf_new(&scratch, l->lives, l->field->n, l->field->sections);
    const uint32_t n = l->field->n;
    for (uint32_t i = 0; i < n; i++) l->order[rank[i]] = i;
    for (uint32_t i = 0; i < l->top.n; i++) l->rank[i] = rank[l->top.boxes[i].buffer];
    uint64_t height = plan_dive(l->diver, l->rank, UINT64_MAX - 1, l->base);
    for (uint32_t i = 0; i < l->top.n; i++) {
        const uint32_t box = l->top.boxes[i].buffer;
        const plan_box *b = &l->field->boxes[box];
        base[box] = l->base[i];
        plan_shelf_put(shelf, box, base[box], base[box] + b->size);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t box = l->order[i];
        const plan_box *b = &l->field->boxes[box];
        if (l->is_large[box]) continue;
        const uint64_t at = base[box] = plan_first_fit(shelf, b);
        plan_shelf_put(shelf, box, at, at + b->size);
        if (at + b->size > height) height = at + b->size;
    }
    mr_ctx_clear(&scratch);
    return height;
}
