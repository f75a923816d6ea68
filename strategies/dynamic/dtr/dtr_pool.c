/* dtr_pool -- storages that may be evicted, and which of them goes first.
 *
 * The pool is a list in the order of entry.  It is scanned from its start, the last one of the
 * lowest score is chosen, and a score of 0 ends the scan: what simrd counts as evaluations is
 * counted here, too.
 */
#include "dtr_internal.h"

#include <math.h>

void dtr_pool_add(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (s->pooled) return;
    s->pooled = true;
    s->prev = run->pool_last;
    s->next = MR_NONE;
    if (s->prev == MR_NONE) run->pool_first = storage;
    else run->states[s->prev].next = storage;
    run->pool_last = storage;
    run->pooled++;
}

void dtr_pool_remove(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (!s->pooled) return;
    s->pooled = false;
    if (s->prev == MR_NONE) run->pool_first = s->next;
    else run->states[s->prev].next = s->next;
    if (s->next == MR_NONE) run->pool_last = s->prev;
    else run->states[s->next].prev = s->prev;
    run->pooled--;
}

void dtr_lock(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (!s->locks++) dtr_pool_remove(run, storage);
}

void dtr_unlock(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (!--s->locks) dtr_pool_add(run, storage);
}

/* With banishing, storages around are as if they had been accessed with it. */
static uint64_t banishing_cost(dtr_run *run, uint32_t storage, uint64_t *accessed)
{
    const bool both = run->options->heuristic.cost == DTR_COST_REGION;
    *accessed = run->states[storage].accessed;
    return run->states[storage].ns + dtr_banish_around(run, storage, both, accessed);
}

/* Regions are kept unless banishing searches them anew. */
static bool searches(const dtr_run *run)
{
    return run->kin && run->options->heuristic.cost >= DTR_COST_ANCESTORS;
}

static int64_t cost_of(dtr_run *run, uint32_t storage, dtr_cost cost)
{
    const int64_t own = (int64_t)run->states[storage].ns;
    switch (cost) {
    case DTR_COST_NONE: return 1;
    case DTR_COST_LOCAL: return own;
    case DTR_COST_CLASS: return own + dtr_classes_around(run, storage);
    case DTR_COST_ANCESTORS: return own + (int64_t)run->above[storage].ns;
    case DTR_COST_REGION:
        return own + (int64_t)(run->above[storage].ns + run->below[storage].ns);
    }
    return own;
}

/* Of two scores that differ by more than rounding can, the larger need not be known exactly. */
#define ROUNDING 0x1p-48

/* The next op of the program that reads the storage; one behind the last where
 * there is none. */
uint32_t dtr_next_reader(dtr_run *run, uint32_t storage)
{
    const mr_ids readers = run->program->storages.at[storage].readers;
    uint32_t *next = &run->states[storage].reader;
    while (*next < readers.n && readers.at[*next] <= run->op) ++*next;
    return *next < readers.n ? readers.at[*next] : run->program->ops.n;
}

/* What nobody reads any more, and what is only worth something for computing others again. */
#define UNREAD 0.001

/* What a score is multiplied by that knows the recording. */
static double foresight(dtr_run *run, uint32_t storage)
{
    const uint32_t next = dtr_next_reader(run, storage);
    double factor = run->options->weights ? (double)run->options->weights[storage] : 1;
    if (run->options->heuristic.ahead)
        factor /= (double)(run->begins[next] - run->begins[run->op] + 1);
    if (next == run->program->ops.n && !run->program->storages.at[storage].kept)
        factor *= UNREAD;
    return factor;
}

/* A score that need not be simrd's. */
static double free_score(dtr_run *run, uint32_t storage)
{
    const dtr_heuristic *h = &run->options->heuristic;
    const dtr_state *s = &run->states[storage];
    double divisor = 1;
    if (h->size) divisor *= (double)run->program->storages.at[storage].bytes;
    if (h->stale) divisor *= (double)(run->report->clock - s->accessed);
    if (divisor <= 0) return INFINITY;
    double score = h->rule == DTR_OLDEST ? (double)s->accessed
                                         : (double)cost_of(run, storage, h->cost);
    if (run->swap && h->rule == DTR_SCORED) score = dtr_swap_price(run, storage, score);
    return score / divisor * foresight(run, storage);
}

static double banishing_score(dtr_run *run, uint32_t storage)
{
    const dtr_heuristic *h = &run->options->heuristic;
    uint64_t accessed;
    const uint64_t ns = banishing_cost(run, storage, &accessed);
    const uint64_t size = h->size ? run->program->storages.at[storage].bytes : 1;
    const uint64_t stale = h->stale ? run->report->clock - accessed : 1;
    if ((h->size && !size) || (h->stale && !stale)) return INFINITY;
    return dtr_quotient((int64_t)ns, size, stale);
}

/* The score, or something above `best` when it is. */
static double score_of(dtr_run *run, uint32_t storage, double best)
{
    const dtr_heuristic *h = &run->options->heuristic;
    const dtr_state *s = &run->states[storage];
    if (searches(run)) return banishing_score(run, storage);
    if (run->begins) return free_score(run, storage);
    if (h->rule == DTR_OLDEST) return (double)s->accessed;
    const uint64_t size = h->size ? run->program->storages.at[storage].bytes : 1;
    const uint64_t stale = h->stale ? run->report->clock - s->accessed : 1;
    if ((h->size && !size) || (h->stale && !stale)) return INFINITY;
    const int64_t n = cost_of(run, storage, h->cost);
    if (!h->size && !h->stale) return (double)n;
    const double rough = (double)n / ((double)size * (double)stale);
    if (rough > best + fabs(best) * ROUNDING) return rough;
    return dtr_quotient(n, size, stale);
}

static uint32_t random_below(dtr_run *run, uint32_t n)
{
    run->random = run->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((run->random >> 33) % n);
}

/* What was just accessed can be lost, too. */
double dtr_loss(dtr_run *run, uint32_t storage)
{
    const dtr_heuristic *h = &run->options->heuristic;
    uint64_t accessed = run->states[storage].accessed;
    const uint64_t bytes = run->program->storages.at[storage].bytes;
    run->report->evaluations++;
    run->report->accesses++;
    if (h->rule == DTR_DRAWN) return 1 + random_below(run, 1 << 20);
    if (h->rule == DTR_OLDEST) return 1 / (double)(run->report->clock - accessed + 1);
    double loss = searches(run) ? (double)banishing_cost(run, storage, &accessed)
                                : (double)cost_of(run, storage, h->cost);
    if (h->stale) loss /= (double)(run->report->clock - accessed + 1);
    if (!h->size) loss *= (double)bytes;
    return run->begins ? loss * foresight(run, storage) : loss;
}

static uint32_t draw(dtr_run *run)
{
    uint32_t skip = random_below(run, run->pooled), s = run->pool_first;
    while (skip--) s = run->states[s].next;
    run->report->evaluations++;
    return s;
}

/* Few candidates, at distances that are drawn: up to the root of their number. */
static uint32_t choose_sampled(dtr_run *run)
{
    const uint32_t root = (uint32_t)sqrt((double)run->pooled);
    double best = INFINITY;
    uint32_t chosen = run->pool_first, at = 0, wanted = random_below(run, root);
    for (uint32_t s = run->pool_first; s != MR_NONE; s = run->states[s].next) {
        if (at++ < wanted) continue;
        wanted += 1 + random_below(run, root);
        run->report->evaluations++;
        run->report->accesses++;
        const double score = score_of(run, s, best);
        if (score <= best) best = score, chosen = s;
    }
    return chosen;
}

uint32_t dtr_choose(dtr_run *run)
{
    if (run->options->heuristic.rule == DTR_DRAWN) return draw(run);
    if (run->options->sample) return choose_sampled(run);
    double best = INFINITY;
    uint32_t chosen = MR_NONE;
    for (uint32_t s = run->pool_first; s != MR_NONE; s = run->states[s].next) {
        run->report->evaluations++;
        run->report->accesses++;
        const double score = score_of(run, s, best);
        if (score <= best) best = score, chosen = s;
        if (score == 0) break;
    }
    return chosen;
}
