/* plan_lives -- lives known beforehand are entered one after the other: which of those entered
 * meet another life?
 *
 * A tree stands over all of them in the order of their beginnings; a subtree knows the latest
 * end of those entered.  So each one that is found costs a way down the tree at the most, and
 * how many there are is known without looking for them.
 */
#include "plan_internal.h"

struct plan_lives {
    const plan_life *lives;
    uint32_t sections, leaves;
    uint32_t *first;         /* by section, and one more: lives that begin before it */
    uint32_t *place;         /* by life: in the order of beginnings */
    uint32_t *at;            /* by place */
    uint32_t *latest;        /* tree over places; leaves begin at `leaves` */
    uint32_t *begun, *ended; /* entered ones by section (Fenwick, 1994) */
};

static void sort_by_beginning(plan_lives *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) l->first[l->lives[i].from + 1]++;
    for (uint32_t s = 1; s <= l->sections; s++) l->first[s] += l->first[s - 1];
    for (uint32_t i = n; i--;) { /* from above, which leaves `first` as it was */
        const uint32_t place = l->first[l->lives[i].from + 1] - 1;
        l->first[l->lives[i].from + 1] = place;
        l->place[i] = place;
        l->at[place] = i;
    }
    for (uint32_t s = 0; s < l->sections; s++) l->first[s] = l->first[s + 1];
    l->first[l->sections] = n;
}

plan_lives *plan_lives_new(mr_ctx *ctx, const plan_life *lives, uint32_t n, uint32_t sections)
{
    plan_lives *l = MR_NEW(ctx, plan_lives);
    *l = (plan_lives){.lives = lives, .sections = sections, .leaves = 1};
    while (l->leaves < n) l->leaves *= 2;
    l->first = MR_NEW_N(ctx, uint32_t, (size_t)sections + 2);
    l->place = MR_NEW_N(ctx, uint32_t, n);
    l->at = MR_NEW_N(ctx, uint32_t, n);
    l->latest = MR_NEW_N(ctx, uint32_t, 2 * (size_t)l->leaves);
    l->begun = MR_NEW_N(ctx, uint32_t, (size_t)sections + 2);
    l->ended = MR_NEW_N(ctx, uint32_t, (size_t)sections + 2);
    sort_by_beginning(l, n);
    return l;
}

static void count(const plan_lives *l, uint32_t *tally, uint32_t section)
{
    for (uint32_t s = section + 1; s <= l->sections + 1; s += s & (0 - s)) tally[s]++;
}

/* How many sections counted are less. */
static uint32_t counted_below(const uint32_t *tally, uint32_t section)
{
    uint32_t sum = 0;
    for (uint32_t s = section; s; s -= s & (0 - s)) sum += tally[s];
    return sum;
}

void plan_lives_enter(plan_lives *l, uint32_t life)
{
    const uint32_t to = l->lives[life].to;
    for (uint32_t i = l->leaves + l->place[life]; i && l->latest[i] < to; i /= 2)
        l->latest[i] = to;
    count(l, l->begun, l->lives[life].from);
    count(l, l->ended, to);
}

uint32_t plan_lives_count(const plan_lives *l, uint32_t from, uint32_t to)
{
    return counted_below(l->begun, to) - counted_below(l->ended, from + 1);
}

typedef struct search {
    const plan_lives *lives;
    uint32_t from, end, n; /* it must end after `from` and stand before the place `end` */
    uint32_t *out;
} search;

/* The subtree stands for places [low, low + width). */
static void look(search *s, uint32_t i, uint32_t low, uint32_t width)
{
    if (low >= s->end || s->lives->latest[i] <= s->from) return;
    if (width == 1) {
        s->out[s->n++] = s->lives->at[low];
        return;
    }
    look(s, 2 * i, low, width / 2);
    look(s, 2 * i + 1, low + width / 2, width / 2);
}

uint32_t plan_lives_meet(const plan_lives *l, uint32_t from, uint32_t to, uint32_t *out)
{
    search s = {l, from, l->first[to], 0, out};
    look(&s, 1, 0, l->leaves);
    return s.n;
}
