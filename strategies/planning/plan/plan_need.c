/* plan_need -- how high each section must grow: all its boxes, and the ground that was lost.
 *
 * A tree over the sections knows where the need is greatest.
 */
#include "plan_internal.h"

#include <string.h>

struct plan_need {
    uint32_t sections, leaves;
    uint64_t *most; /* by node: greatest need, without what was added above the node */
    uint64_t *added;
    uint64_t *load; /* by section */
};

plan_need *plan_need_new(mr_ctx *ctx, const plan_field *field)
{
    plan_need *t = MR_NEW(ctx, plan_need);
    *t = (plan_need){.sections = field->sections, .leaves = 1};
    while (t->leaves < field->sections) t->leaves *= 2;
    t->most = MR_NEW_N(ctx, uint64_t, 2 * (size_t)t->leaves);
    t->added = MR_NEW_N(ctx, uint64_t, 2 * (size_t)t->leaves);
    t->load = MR_NEW_N(ctx, uint64_t, (size_t)field->sections + 1);
    for (uint32_t i = 0; i < field->n; i++) {
        t->load[field->boxes[i].from] += field->boxes[i].size;
        t->load[field->boxes[i].to] -= field->boxes[i].size; /* wraps, and back below */
    }
    for (uint32_t s = 1; s < field->sections; s++) t->load[s] += t->load[s - 1];
    return t;
}

static void sum_up(plan_need *t, uint32_t i)
{
    const uint64_t left = t->most[2 * i], right = t->most[2 * i + 1];
    t->most[i] = (left > right ? left : right) + t->added[i];
}

void plan_need_begin(plan_need *t)
{
    memset(t->most, 0, 2 * (size_t)t->leaves * sizeof *t->most);
    memset(t->added, 0, 2 * (size_t)t->leaves * sizeof *t->added);
    memcpy(t->most + t->leaves, t->load, t->sections * sizeof *t->load);
    for (uint32_t i = t->leaves; i-- > 1;) sum_up(t, i);
}

static void add(plan_need *t, uint32_t i, uint32_t low, uint32_t width, const plan_life *to,
                uint64_t lost)
{
    if (low >= to->to || low + width <= to->from) return;
    if (low >= to->from && low + width <= to->to) {
        t->most[i] += lost;
        t->added[i] += lost;
        return;
    }
    add(t, 2 * i, low, width / 2, to, lost);
    add(t, 2 * i + 1, low + width / 2, width / 2, to, lost);
    sum_up(t, i);
}

void plan_need_lose(plan_need *t, uint32_t from, uint32_t to, uint64_t lost)
{
    add(t, 1, 0, t->leaves, &(plan_life){from, to}, lost);
}

typedef struct find {
    uint32_t from, to, section;
    uint64_t most;
} find;

/* `above`: what was added to nodes above this one. */
static void look(const plan_need *t, find *f, uint32_t i, uint32_t low, uint32_t width,
                 uint64_t above)
{
    if (low >= f->to || low + width <= f->from || t->most[i] + above <= f->most) return;
    if (width == 1) {
        f->most = t->most[i] + above;
        f->section = low;
        return;
    }
    look(t, f, 2 * i, low, width / 2, above + t->added[i]);
    look(t, f, 2 * i + 1, low + width / 2, width / 2, above + t->added[i]);
}

uint32_t plan_need_most(const plan_need *t, uint32_t from, uint32_t to, uint64_t *most)
{
    find f = {from, to, MR_NONE, *most};
    if (from < to) look(t, &f, 1, 0, t->leaves, 0);
    *most = f.most;
    return f.section;
}
