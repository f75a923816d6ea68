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
 */
#include "plan_internal.h"

typedef struct run {
    uint64_t height;
    uint32_t from, to;
    uint32_t left, right; /* neighbours, MR_NONE at the ends */
} run;

typedef struct tip { /* of a subtree: smallest rank and end of the boxes that are not placed */
    uint32_t rank, to;
} tip;

struct plan_diver {
    const plan_field *field;
    run *runs;
    uint32_t used, spare; /* runs: how many were ever made; list of those that are free */
    tip *tips;            /* a tree over the boxes in their order; leaves begin at `leaves` */
    uint32_t leaves;
};

plan_diver *plan_diver_new(mr_ctx *ctx, const plan_field *field)
{
    plan_diver *d = MR_NEW(ctx, plan_diver);
    d->field = field;
    d->leaves = 1;
    while (d->leaves < field->n) d->leaves *= 2;
    d->tips = MR_NEW_N(ctx, tip, 2 * (size_t)d->leaves);
    d->runs = MR_NEW_N(ctx, run, 2 * (size_t)field->n + 2);
    return d;
}

/* ---- boxes that are not placed ------------------------------------------------------- */

static tip lower_of(tip a, tip b)
{
    return (tip){a.rank < b.rank ? a.rank : b.rank, a.to < b.to ? a.to : b.to};
}

static void plant(plan_diver *d, const uint32_t *rank)
{
    const tip none = {UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < d->leaves; i++)
        d->tips[d->leaves + i] = i < d->field->n ? (tip){rank[i], d->field->boxes[i].to} : none;
    for (uint32_t i = d->leaves; i-- > 1;)
        d->tips[i] = lower_of(d->tips[2 * i], d->tips[2 * i + 1]);
}

static void cut_down(plan_diver *d, uint32_t box)
{
    uint32_t i = d->leaves + box;
    d->tips[i] = (tip){UINT32_MAX, UINT32_MAX};
    while (i /= 2) d->tips[i] = lower_of(d->tips[2 * i], d->tips[2 * i + 1]);
}

typedef struct wish {
    uint32_t first, end; /* boxes that begin in the valley */
    uint32_t to;         /* and must end in it */
    uint32_t rank, box;  /* best so far */
} wish;

/* The subtree stands for boxes [low, low + width). */
static void look(const plan_diver *d, wish *w, uint32_t i, uint32_t low, uint32_t width)
{
    if (low >= w->end || low + width <= w->first) return;
    if (d->tips[i].to > w->to || d->tips[i].rank >= w->rank) return;
    if (width == 1) {
        w->rank = d->tips[i].rank;
        w->box = low;
        return;
    }
    const uint32_t half = width / 2;
    const bool left_first = d->tips[2 * i].rank < d->tips[2 * i + 1].rank;
    if (left_first) look(d, w, 2 * i, low, half);
    look(d, w, 2 * i + 1, low + half, half);
    if (!left_first) look(d, w, 2 * i, low, half);
}

static uint32_t best_in(const plan_diver *d, const run *valley)
{
    wish w = {d->field->first[valley->from], d->field->first[valley->to], valley->to,
              UINT32_MAX, MR_NONE};
    if (w.first < w.end) look(d, &w, 1, 0, d->leaves);
    return w.box;
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
    d->runs[i].height = left < right ? left : right;
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
    d->used = 0;
    d->spare = MR_NONE;
    uint32_t at = new_run(d, &(run){0, 0, field->sections, MR_NONE, MR_NONE});
    for (uint32_t left = field->n; left;) {
        at = descend(d, at);
        const uint32_t box = best_in(d, &d->runs[at]);
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
