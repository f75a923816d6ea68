/* swap_plan -- who goes, when the memory is given back, and when it comes back.
 *
 * By count (all, conv): a few may be on their way to the host; before one more goes, computing
 * waits for the oldest.  They come back in the order of their use, a few uses ahead.
 *
 * By time (interval): each goes when it fits,
 *
 *     forward   last ──copy──►· · · · · · · · ·◄──copy── use   backward
 *
 * that is, when the link can take it away and bring it back inside its interval.  Those with
 * the longest intervals, first to go and last to come back, choose first; all others have to
 * wait for the link until they are through.  Times are of no particular device: of an A100.
 */
#include "swap.h"

#include "cost.h"

#include <stdlib.h>

typedef struct planner {
    mr_ctx *ctx;
    const mr_trace *in;
    const swap_choice *choice;
    swap_items *items;
    uint64_t *begins; /* by event: ns at which it begins, and after the last one the end */
} planner;

static swap_item *item(const planner *p, uint32_t i)
{
    return &p->items->all.at[i];
}

/* ---- by count ---------------------------------------------------------------------------- */

static int by_use(const void *a, const void *b)
{
    const swap_item *x = *(swap_item *const *)a, *y = *(swap_item *const *)b;
    if (x->use != y->use) return x->use < y->use ? -1 : 1;
    return x->last > y->last ? -1 : x->last < y->last; /* the last comes back first */
}

static swap_item **in_order_of_use(const planner *p, uint32_t *n)
{
    swap_item **sorted = mr_alloc_n(p->ctx, p->items->all.n, sizeof *sorted);
    *n = 0;
    for (uint32_t i = 0; i < p->items->all.n; i++)
        if (item(p, i)->goes) sorted[(*n)++] = item(p, i);
    qsort(sorted, *n, sizeof *sorted, by_use);
    return sorted;
}

/* The first event of the backward pass that comes after the item has gone. */
static uint32_t turn_of(const planner *p, const swap_item *x)
{
    uint32_t e = x->last > p->items->backward ? x->last : p->items->backward;
    while (e < x->use
           && (p->in->events.at[e].kind != MR_RUN
               || p->in->ops.at[p->in->events.at[e].id].phase != MR_BACKWARD))
        e++;
    return e;
}

static void plan_by_count(planner *p)
{
    const uint32_t n = p->items->all.n;
    const uint32_t leaving = p->choice->keep_last < n ? n - (uint32_t)p->choice->keep_last : 0;
    uint32_t going;
    for (uint32_t i = 0; i < leaving; i++) {
        const uint64_t full = i + p->choice->stash;
        const uint32_t turn = turn_of(p, item(p, i));
        item(p, i)->goes = true;
        item(p, i)->wait = full < leaving ? item(p, (uint32_t)full)->last + 1 : turn;
        if (item(p, i)->wait > turn) item(p, i)->wait = turn;
    }
    swap_item **sorted = in_order_of_use(p, &going);
    for (uint32_t i = 0; i < going; i++) {
        const bool first = i < p->choice->prefetch;
        sorted[i]->back = first ? turn_of(p, sorted[i]) : sorted[i - p->choice->prefetch]->use;
        if (sorted[i]->back < sorted[i]->wait) sorted[i]->back = sorted[i]->wait;
        if (sorted[i]->wait >= sorted[i]->back) sorted[i]->goes = false; /* hardly gone */
    }
}

/* ---- by time ----------------------------------------------------------------------------- */

static void find_times(planner *p)
{
    const bool measured = p->in->has & MR_HAS_TIMES;
    uint64_t now = 0;
    p->begins = MR_NEW_N(p->ctx, uint64_t, p->in->events.n + 1);
    for (uint32_t e = 0; e < p->in->events.n; e++) {
        p->begins[e] = now;
        if (p->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &p->in->ops.at[p->in->events.at[e].id];
        const mr_work work = mr_work_of(p->in, op);
        now += measured ? op->ns : mr_device_ns(&mr_nominal_device, &work);
    }
    p->begins[p->in->events.n] = now;
}

/* The first event that begins at that time or later. */
static uint32_t event_at(const planner *p, uint64_t time)
{
    uint32_t low = 0, high = p->in->events.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->begins[middle] < time) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint64_t copy_ns(const planner *p, const swap_item *x)
{
    enum { LATENCY = 10000 };
    const double bytes = (double)p->in->storages.at[x->storage].bytes;
    return LATENCY + (uint64_t)(bytes / (double)p->choice->link * 1e9);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void plan_by_time(planner *p)
{
    const uint32_t n = p->items->all.n;
    const uint32_t leaving = p->choice->keep_last < n ? n - (uint32_t)p->choice->keep_last : 0;
    find_times(p);
    uint64_t out_free = 0, in_taken = p->begins[p->in->events.n];
    for (uint32_t i = 0; i < leaving; i++) {
        swap_item *x = item(p, i);
        const uint64_t ns = copy_ns(p, x), use = earlier(p->begins[x->use], in_taken);
        const uint64_t gone = later(p->begins[x->last + 1], out_free) + ns;
        if (use < gone + ns) continue;
        x->wait = event_at(p, gone);
        x->back = event_at(p, use - ns + 1) - 1; /* the last one that begins by then */
        if (x->back <= x->wait) continue;
        x->goes = true;
        out_free = gone;
        in_taken = use - ns;
    }
}

void swap_plan(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice, swap_items *items)
{
    planner p = {.ctx = ctx, .in = in, .choice = choice, .items = items};
    if (choice->policy == SWAP_INTERVAL) plan_by_time(&p);
    else plan_by_count(&p);
}
