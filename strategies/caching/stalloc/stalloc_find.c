/* stalloc_find -- what comes in every turn, and for how long it stays.
 *
 * The k-th request of a size in one turn is held against the k-th of that size in the next.  Of
 * the pairs as many are kept as have one order in both turns (the longest increasing
 * subsequence; Fredman, 1975); then the next turn is held against these.
 */
#include "stalloc.h"

#include <stdlib.h>

/* Is it there all the time, or but for a part of the first of several turns? */
static bool is_kept(const stalloc_plan *plan, uint32_t number)
{
    const stalloc_request *r = &plan->requests.at[number];
    return !r->turn && r->freed_in == MR_NONE && (plan->turns > 1 || number < plan->before);
}

typedef struct kind { /* a request by what it is */
    const stalloc_request *request;
    uint32_t number; /* of the request */
    uint32_t place;  /* in its row */
} kind;

typedef MR_VEC(kind) kinds;

static int by_kind(const void *left, const void *right)
{
    const stalloc_request *a = ((const kind *)left)->request, *b;
    b = ((const kind *)right)->request;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    return (a->pool > b->pool) - (a->pool < b->pool);
}

static int by_kind_then_place(const void *left, const void *right)
{
    const int order = by_kind(left, right);
    const kind *a = left, *b = right;
    return order ? order : (a->place > b->place) - (a->place < b->place);
}

static void add(mr_ctx *ctx, const stalloc_plan *plan, uint32_t number, kinds *row)
{
    MR_PUSH(ctx, row, (kind){&plan->requests.at[number], number, row->n});
}

/* Requests of a turn that ask for something and are given back.  What is there before the first
 * of several turns has come otherwise than what is there before the next. */
static kinds row_of(mr_ctx *ctx, const stalloc_plan *plan, uint32_t turn, uint32_t *next)
{
    kinds row = {0};
    for (; *next < plan->requests.n && plan->requests.at[*next].turn == turn; ++*next) {
        const stalloc_request *r = &plan->requests.at[*next];
        const bool begins = *next < plan->before && plan->turns > 1;
        if (r->bytes && !begins && !is_kept(plan, *next)) add(ctx, plan, *next, &row);
    }
    return row;
}

/* By place in `a`: the place in `b` of its partner, MR_NONE. */
static uint32_t *pairs_of(mr_ctx *ctx, kinds a, kinds b)
{
    uint32_t *partner = mr_none_of(ctx, a.n), i = 0, j = 0;
    if (!a.n || !b.n) return partner;
    qsort(a.at, a.n, sizeof *a.at, by_kind_then_place);
    qsort(b.at, b.n, sizeof *b.at, by_kind_then_place);
    while (i < a.n && j < b.n) {
        const int order = by_kind(&a.at[i], &b.at[j]);
        if (!order) partner[a.at[i].place] = b.at[j].place;
        i += order <= 0;
        j += order >= 0;
    }
    return partner;
}

/* Marks the longest row of partners that ascends. */
static bool *longest_row(mr_ctx *ctx, const uint32_t *partner, uint32_t n)
{
    bool *chosen = MR_NEW_N(ctx, bool, n);
    uint32_t *before = mr_none_of(ctx, n), *end = MR_NEW_N(ctx, uint32_t, n), length = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (partner[i] == MR_NONE) continue;
        uint32_t low = 0, high = length; /* rows of one more than `low` end with end[low] */
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (partner[end[middle]] < partner[i]) low = middle + 1;
            else high = middle;
        }
        if (low) before[i] = end[low - 1];
        end[low] = i;
        if (low == length) length++;
    }
    for (uint32_t i = length ? end[length - 1] : MR_NONE; i != MR_NONE; i = before[i])
        chosen[i] = true;
    return chosen;
}

/* By place: the number of the request in each turn so far. */
typedef struct recurring {
    MR_VEC(uint32_t) numbers; /* turn by turn, as many in each */
    uint32_t n;
} recurring;

static void hold_against(mr_ctx *ctx, const stalloc_plan *plan, const kinds *row, uint32_t turn,
                         recurring *all)
{
    kinds first = {0}, then = {0};
    for (uint32_t k = 0; k < all->n; k++) add(ctx, plan, all->numbers.at[k], &first);
    for (uint32_t k = 0; k < row->n; k++) MR_PUSH(ctx, &then, row->at[k]);
    const uint32_t *partner = pairs_of(ctx, first, then);
    const bool *chosen = longest_row(ctx, partner, all->n);
    recurring left = {0};
    for (uint32_t t = 0; t <= turn; t++)
        for (uint32_t k = 0; k < all->n; k++)
            if (chosen[k])
                MR_PUSH(ctx, &left.numbers,
                        t == turn ? row->at[partner[k]].number
                                  : all->numbers.at[t * all->n + k]);
    left.n = left.numbers.n / (turn + 1);
    *all = left;
}

static recurring find_recurring(mr_ctx *ctx, const stalloc_plan *plan)
{
    recurring all = {0};
    uint32_t next = 0;
    for (uint32_t t = 0; t < plan->turns; t++) {
        const kinds row = row_of(ctx, plan, t, &next);
        if (t) {
            hold_against(ctx, plan, &row, t, &all);
            continue;
        }
        for (uint32_t k = 0; k < row.n; k++)
            MR_PUSH(ctx, &all.numbers, row.at[k].number);
        all.n = row.n;
    }
    return all;
}

/* ---- lives ------------------------------------------------------------------------------- */

/* By request: how many static ones had come before it in its turn. */
static uint32_t *count_static(mr_ctx *ctx, const stalloc_plan *plan, const uint32_t *item_of)
{
    const uint32_t n = plan->requests.n;
    uint32_t *come = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const bool same = plan->requests.at[i + 1].turn == plan->requests.at[i].turn;
        come[i + 1] = same ? come[i] + (item_of[i] != MR_NONE) : 0;
    }
    return come;
}

/* How many static ones had come in the turn in which it is freed. */
static uint32_t freed_after(const stalloc_plan *plan, const stalloc_request *r,
                            const uint32_t *come, const uint32_t *item_of)
{
    if (!r->freed_at) return 0;
    const uint32_t last = r->freed_at - 1; /* the request before */
    if (plan->requests.at[last].turn != r->freed_in) return 0;
    return come[last] + (item_of[last] != MR_NONE);
}

typedef struct life { /* of item k, over all turns */
    uint32_t from, to;
    bool handed;    /* to the next turn, where it goes when so many have come: */
    uint32_t until;
} life;

/* False where it may be there when the next one comes. */
static bool extend(const stalloc_plan *plan, const stalloc_request *r, uint32_t n,
                   uint32_t after, life *l)
{
    const bool stays = r->freed_in == MR_NONE;
    if (stays ? r->turn + 1 < plan->turns : r->freed_in > r->turn + 1) return false;
    const bool in_turn = r->freed_in == r->turn;
    const uint32_t to = in_turn ? after : n;
    if (to > l->to) l->to = to;
    if (stays || in_turn || !after) return true;
    l->handed = true;
    if (after > l->until) l->until = after;
    return after <= l->from;
}

static bool live(const stalloc_plan *plan, const recurring *all, uint32_t k,
                 const uint32_t *come, const uint32_t *item_of, life *out)
{
    *out = (life){.from = k, .to = k + 1};
    for (uint32_t t = 0; t < plan->turns; t++) {
        const stalloc_request *r = &plan->requests.at[all->numbers.at[t * all->n + k]];
        const uint32_t after =
            r->freed_in == MR_NONE ? 0 : freed_after(plan, r, come, item_of);
        if (!extend(plan, r, all->n, after, out)) return false;
    }
    return true;
}

static uint32_t *number_items(mr_ctx *ctx, const stalloc_plan *plan, const recurring *all)
{
    uint32_t *item_of = mr_none_of(ctx, plan->requests.n);
    for (uint32_t i = 0; i < all->numbers.n; i++) item_of[all->numbers.at[i]] = i % all->n;
    return item_of;
}

/* Leaves out what is handed on to the next turn while its successor comes. */
static recurring without_overlaps(mr_ctx *ctx, const stalloc_plan *plan, const recurring *all)
{
    const uint32_t *item_of = number_items(ctx, plan, all);
    const uint32_t *come = count_static(ctx, plan, item_of);
    bool *fits = MR_NEW_N(ctx, bool, all->n);
    recurring left = {0};
    life l;
    for (uint32_t k = 0; k < all->n; k++) fits[k] = live(plan, all, k, come, item_of, &l);
    for (uint32_t i = 0; i < all->numbers.n; i++)
        if (fits[i % all->n]) MR_PUSH(ctx, &left.numbers, all->numbers.at[i]);
    left.n = plan->turns ? left.numbers.n / plan->turns : 0;
    return left;
}

/* May one that goes so early in the first turn have the place of an item that turns leave to
 * the next?  All such items are there together when a turn ends, so no two share a byte. */
static bool can_lend(const stalloc_item *item, uint32_t last, uint32_t after)
{
    if (item->to <= item->from) return after <= item->from;
    return item->to == last && !after;
}

/* What is there before the first turn has the place of what other turns begin with. */
static void lend(mr_ctx *ctx, stalloc_plan *plan, const recurring *all, const uint32_t *come,
                 const uint32_t *item_of)
{
    bool *lent = MR_NEW_N(ctx, bool, all->n);
    for (uint32_t i = 0; i < plan->before && plan->turns > 1; i++) {
        stalloc_request *r = &plan->requests.at[i];
        if (!r->bytes || r->freed_in) continue;
        const uint32_t after = freed_after(plan, r, come, item_of);
        for (uint32_t k = after; k < all->n && r->item == MR_NONE; k++) {
            stalloc_item *item = &plan->items.at[k];
            if (lent[k] || item->bytes != r->bytes || !can_lend(item, all->n, after)) continue;
            if (item->to < after) item->to = after;
            lent[k] = true;
            r->item = k;
        }
    }
}

static void add_item(mr_ctx *ctx, stalloc_plan *plan, uint64_t bytes, uint32_t from,
                     uint32_t to)
{
    MR_PUSH(ctx, &plan->items, (stalloc_item){.bytes = bytes, .from = from, .to = to});
}

void stalloc_find(mr_ctx *ctx, stalloc_plan *plan)
{
    const recurring found = find_recurring(ctx, plan);
    const recurring all = without_overlaps(ctx, plan, &found);
    const uint32_t *item_of = number_items(ctx, plan, &all);
    const uint32_t *come = count_static(ctx, plan, item_of);
    plan->last = all.n ? all.n : 1;
    for (uint32_t k = 0; k < all.n; k++) {
        life l;
        live(plan, &all, k, come, item_of, &l);
        const uint64_t bytes = plan->requests.at[all.numbers.at[k]].bytes;
        add_item(ctx, plan, bytes, l.from, l.handed ? l.until : l.to);
    }
    for (uint32_t i = 0; i < plan->requests.n; i++) {
        stalloc_request *r = &plan->requests.at[i];
        r->item = item_of[i];
        if (!r->bytes || !is_kept(plan, i)) continue;
        r->item = plan->items.n;
        add_item(ctx, plan, r->bytes, 0, plan->last);
    }
    lend(ctx, plan, &all, come, item_of);
}
