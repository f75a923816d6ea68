/* plan_dive -- a layout in one go: always the lowest place first.
 *
 * What is placed has an upper outline, the skyline: runs of sections of one height.  A run
 * between higher ones is a valley.  Of the boxes whose life fits into the valley the one of the
 * lowest rank is put onto its ground; when there is none, the valley is filled up to its lower
 * shore.
 *
 *          ___                          ___
 *         |   |    valley      ___     |   |  ___       ___
 *         |   |_______________|        |   |_|   |_____|
 *
 * Nothing is ever put below something else, so a layout is decided by the ranks alone.  Every
 * step places a box or removes a run: there are O(n) of them.
 *
 * A sparing dive looks at what would be lost first.  Where a section has to grow highest, all
 * its boxes and the ground lost there counted, it can least lose more; so the box must cover
 * that section, then the one of the next highest need as well, and so on as long as there are
 * such boxes; of these the rank decides.
 *
 * Boxes that are not placed are the leaves of a tree.  A box is a point of a plane, its
 * beginning one way, its end the other, and leaves follow a curve that fills the plane (Morton,
 * 1966): of the subtrees few are both inside and outside of what a valley takes.
 */
#include "plan_internal.h"

#include <stdlib.h>

typedef struct run {
    uint64_t height;
    uint32_t from, to;
    uint32_t left, right; /* neighbours, MR_NONE at the ends */
} run;

typedef struct tip {      /* of the boxes of a subtree */
    uint32_t rank;        /* the smallest */
    uint32_t from, first; /* the latest beginning and the earliest */
    uint32_t to, last;    /* the earliest end and the latest */
} tip;

struct plan_diver {
    const plan_field *field;
    run *runs;
    uint32_t used, spare; /* runs: how many were ever made; list of those that are free */
    tip *tips;            /* a tree; leaves begin at `leaves` */
    uint32_t leaves;
    uint32_t *leaf, *box; /* by box: its leaf; by leaf: its box */
    plan_need *need;      /* of a sparing dive, else NULL */
};

/* ---- a curve that fills the plane ---------------------------------------------------- */

typedef struct point {
    uint64_t along; /* the curve */
    uint32_t box;
} point;

static int by_curve(const void *left, const void *right)
{
    const point *a = left, *b = right;
    if (a->along != b->along) return a->along < b->along ? -1 : 1;
    return (a->box > b->box) - (a->box < b->box);
}

/* Its bits, with a zero before each. */
static uint64_t spread(uint64_t number)
{
    uint64_t x = number;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    return (x | x << 1) & 0x5555555555555555u;
}

static void line_up(mr_ctx *ctx, plan_diver *d)
{
    const uint32_t n = d->field->n;
    point *points = MR_NEW_N(ctx, point, n);
    for (uint32_t i = 0; i < n; i++) {
        const plan_box *b = &d->field->boxes[i];
        points[i] = (point){spread(b->from) << 1 | spread(b->to), i};
    }
    qsort(points, n, sizeof *points, by_curve);
    for (uint32_t i = 0; i < n; i++) {
        d->box[i] = points[i].box;
        d->leaf[points[i].box] = i;
    }
}

plan_diver *plan_diver_new(mr_ctx *ctx, const plan_field *field, bool sparing)
{
    plan_diver *d = MR_NEW(ctx, plan_diver);
    d->field = field;
    d->leaves = 1;
    while (d->leaves < field->n) d->leaves *= 2;
    d->tips = MR_NEW_N(ctx, tip, 2 * (size_t)d->leaves);
    d->runs = MR_NEW_N(ctx, run, 2 * (size_t)field->n + 2);
    d->leaf = MR_NEW_N(ctx, uint32_t, field->n);
    d->box = MR_NEW_N(ctx, uint32_t, field->n);
    line_up(ctx, d);
    if (sparing) d->need = plan_need_new(ctx, field);
    return d;
}

/* ---- boxes that are not placed ------------------------------------------------------- */

static const tip none = {UINT32_MAX, 0, UINT32_MAX, UINT32_MAX, 0};

static tip both(const plan_diver *d, uint32_t i)
{
    const tip *a = &d->tips[2 * i], *b = a + 1;
    return (tip){.rank = a->rank < b->rank ? a->rank : b->rank,
                 .from = a->from > b->from ? a->from : b->from,
                 .first = a->first < b->first ? a->first : b->first,
                 .to = a->to < b->to ? a->to : b->to,
                 .last = a->last > b->last ? a->last : b->last};
}

static void plant(plan_diver *d, const uint32_t *rank)
{
    for (uint32_t i = 0; i < d->leaves; i++) d->tips[d->leaves + i] = none;
    for (uint32_t i = 0; i < d->field->n; i++) {
        const plan_box *b = &d->field->boxes[i];
        d->tips[d->leaves + d->leaf[i]] = (tip){rank[i], b->from, b->from, b->to, b->to};
    }
    for (uint32_t i = d->leaves; i-- > 1;) d->tips[i] = both(d, i);
}

static void cut_down(plan_diver *d, uint32_t box)
{
    uint32_t i = d->leaves + d->leaf[box];
    d->tips[i] = none;
    while (i /= 2) d->tips[i] = both(d, i);
}

typedef struct wish {
    uint32_t from, to;    /* the box lies inside of the valley */
    uint32_t first, last; /* begins at the one section or before, ends behind the other */
    uint32_t rank, leaf;  /* best so far */
} wish;

static void look(const plan_diver *d, wish *w, uint32_t i)
{
    const tip *t = &d->tips[i];
    if (t->rank >= w->rank || t->to > w->to || t->from < w->from) return;
    if (t->first > w->first || t->last <= w->last) return;
    if (i >= d->leaves) {
        w->rank = t->rank;
        w->leaf = i - d->leaves;
        return;
    }
    const uint32_t right_first = d->tips[2 * i + 1].rank < d->tips[2 * i].rank;
    look(d, w, 2 * i + right_first);
    look(d, w, 2 * i + 1 - right_first);
}

static uint32_t best_in(const plan_diver *d, const run *valley, uint32_t first, uint32_t last)
{
    wish w = {valley->from, valley->to, first, last, UINT32_MAX, MR_NONE};
    look(d, &w, 1);
    return w.leaf == MR_NONE ? MR_NONE : d->box[w.leaf];
}

static uint32_t neediest(const plan_need *need, const run *valley, uint32_t first,
                         uint32_t last)
{
    uint64_t most = 0;
    const uint32_t before = plan_need_most(need, valley->from, first, &most);
    const uint32_t behind = plan_need_most(need, last, valley->to, &most);
    return behind == MR_NONE ? before : behind;
}

static uint32_t sparing_in(const plan_diver *d, const run *valley)
{
    uint32_t best = MR_NONE, first = valley->to, last = valley->to;
    for (;;) {
        const uint32_t section = neediest(d->need, valley, first, last);
        if (section == MR_NONE) return best;
        const bool none_yet = first == last;
        if (none_yet || section < first) first = section;
        if (none_yet || section >= last) last = section + 1;
        const uint32_t box = best_in(d, valley, first, last - 1);
        if (box == MR_NONE && best != MR_NONE) return best;
        if (box == MR_NONE) return best_in(d, valley, valley->to, 0);
        best = box;
    }
}

/* ---- the skyline --------------------------------------------------------------------- */

static uint32_t new_run(plan_diver *d, const run *r)
{
    const uint32_t i = d->spare == MR_NONE ? d->used++ : d->spare;
    if (d->spare != MR_NONE) d->spare = d->runs[i].right;
    d->runs[i] = *r;
    if (r->left != MR_NONE) d->runs[r->left].right = i;
    if (r->right != MR_NONE) d->runs[r->right].left = i;
    return i;
}

static uint64_t height_of(const plan_diver *d, uint32_t i)
{
    return i == MR_NONE ? UINT64_MAX : d->runs[i].height;
}

/* Takes a neighbour of the same height into the run. */
static void swallow(plan_diver *d, uint32_t into, uint32_t neighbour)
{
    run *r = &d->runs[into], *n = &d->runs[neighbour];
    if (r->right == neighbour) {
        r->to = n->to;
        r->right = n->right;
        if (r->right != MR_NONE) d->runs[r->right].left = into;
    } else {
        r->from = n->from;
        r->left = n->left;
        if (r->left != MR_NONE) d->runs[r->left].right = into;
    }
    n->right = d->spare;
    d->spare = neighbour;
}

static void unite(plan_diver *d, uint32_t i)
{
    const uint32_t left = d->runs[i].left, right = d->runs[i].right;
    if (left != MR_NONE && d->runs[left].height == d->runs[i].height) swallow(d, i, left);
    if (right != MR_NONE && d->runs[right].height == d->runs[i].height) swallow(d, i, right);
}

static void fill_up(plan_diver *d, uint32_t i)
{
    const uint64_t left = height_of(d, d->runs[i].left), right = height_of(d, d->runs[i].right);
    const uint64_t height = left < right ? left : right;
    run *r = &d->runs[i];
    if (d->need) plan_need_lose(d->need, r->from, r->to, height - r->height);
    r->height = height;
    unite(d, i);
}

static void lay(plan_diver *d, uint32_t i, const plan_box *box)
{
    const run whole = d->runs[i];
    if (whole.from < box->from)
        new_run(d, &(run){whole.height, whole.from, box->from, whole.left, i});
    if (box->to < whole.to) new_run(d, &(run){whole.height, box->to, whole.to, i, whole.right});
    d->runs[i].height = whole.height + box->size;
    d->runs[i].from = box->from;
    d->runs[i].to = box->to;
    unite(d, i);
}

/* From a run downhill to a valley. */
static uint32_t descend(const plan_diver *d, uint32_t i)
{
    for (;;) {
        const uint32_t left = d->runs[i].left, right = d->runs[i].right;
        if (height_of(d, left) < d->runs[i].height) i = left;
        else if (height_of(d, right) < d->runs[i].height) i = right;
        else return i;
    }
}

uint64_t plan_dive(plan_diver *d, const uint32_t *rank, uint64_t limit, uint64_t *base)
{
    const plan_field *field = d->field;
    uint64_t height = 0;
    plant(d, rank);
    if (d->need) plan_need_begin(d->need);
    d->used = 0;
    d->spare = MR_NONE;
    uint32_t at = new_run(d, &(run){0, 0, field->sections, MR_NONE, MR_NONE});
    for (uint32_t left = field->n; left;) {
        at = descend(d, at);
        const run *valley = &d->runs[at];
        const uint32_t box =
            d->need ? sparing_in(d, valley) : best_in(d, valley, valley->to, 0);
        if (box == MR_NONE) {
            fill_up(d, at);
            continue;
        }
        base[box] = d->runs[at].height;
        cut_down(d, box);
        lay(d, at, &field->boxes[box]);
        left--;
        if (base[box] + field->boxes[box].size > height)
            height = base[box] + field->boxes[box].size;
        if (height > limit) return UINT64_MAX;
    }
    return height;
}
