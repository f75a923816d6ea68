/* graph_lower -- recomputation along a chain of lower sets.
 *
 * A lower set holds with a node all that the node depends on.  A plan is a chain of them, each
 * within the next, the last one everything.  Forward, the nodes between one set and the next
 * run, and of these only the boundary is kept, the nodes that somebody outside the set reads;
 * all others run again for the backward pass.  With V the nodes new in set L, and U the
 * boundaries kept before it:
 *
 *     time   of V without the boundary of L, once more
 *     bytes  U + 2 V + (readers of L outside it) + (what else those readers read)
 *
 * Of all lower sets only those are looked at that are the ancestors of one node, the node
 * included: the approximate form of the paper, n + 1 sets and O(n^2) pairs.  For each set and
 * each time there is the way that keeps the least; times are rounded up to a number of levels.
 *
 * Kusumoto et al., "A Graph Theoretic Framework of Recomputation Algorithms for
 * Memory-Efficient Backpropagation", 2019.
 */
#include "graph_lower.h"

#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
enum { BITS = 64 };

typedef struct lower {
    word *in, *boundary;
    uint32_t nodes;
    uint64_t beyond; /* bytes of outside readers, and of what else they read */
} lower;

/* A way to get to a set. */
typedef struct way {
    uint64_t time, kept, peak;
    uint32_t set, from; /* from: index of the way before it, MR_NONE for the first */
    uint32_t level;     /* its time, rounded up stretch by stretch */
} way;

typedef struct planner {
    mr_ctx *ctx;
    const graph *g;
    const uint64_t *bytes, *times;
    uint64_t budget, quantum; /* of time */
    uint32_t levels;
    size_t words;
    lower *sets; /* by rising number of nodes; the empty one first */
    uint32_t n;
    MR_VEC(way) ways;
    uint32_t *of; /* by set and level: the way that keeps the least, MR_NONE */
} planner;

static bool has(const word *set, uint32_t i)
{
    return set[i / BITS] >> i % BITS & 1;
}

static void put(word *set, uint32_t i)
{
    set[i / BITS] |= (word)1 << i % BITS;
}

/* ---- the sets
 * -------------------------------------------------------------------------------- */

/* Readers outside the set, and all they read outside it, each counted once per role. */
static uint64_t beyond(const planner *p, const lower *l, word *readers, word *read)
{
    const graph *g = p->g;
    memset(readers, 0, p->words * sizeof *readers);
    memset(read, 0, p->words * sizeof *read);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!has(l->boundary, i)) continue;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++) {
            const uint32_t r = g->out[e];
            if (has(l->in, r) || has(readers, r)) continue;
            put(readers, r);
            bytes += p->bytes[r];
        }
    }
    for (uint32_t r = 0; r < g->n; r++) {
        if (!has(readers, r)) continue;
        for (uint32_t e = g->in_first[r]; e < g->in_first[r + 1]; e++) {
            const uint32_t i = g->in[e];
            if (has(l->in, i) || has(read, i)) continue;
            put(read, i);
            bytes += p->bytes[i];
        }
    }
    return bytes;
}

static void finish(const planner *p, lower *l, word *scratch)
{
    const graph *g = p->g;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!has(l->in, i)) continue;
        l->nodes++;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
            if (!has(l->in, g->out[e])) put(l->boundary, i);
    }
    l->beyond = beyond(p, l, scratch, scratch + p->words);
}

static int fewest_first(const void *left, const void *right)
{
    const lower *a = left, *b = right;
    return (a->nodes > b->nodes) - (a->nodes < b->nodes);
}

/* The empty set, the ancestors of each node, and all nodes. */
static void find_sets(planner *p)
{
    const graph *g = p->g;
    p->words = (g->n + BITS - 1) / BITS;
    p->n = g->n + 2;
    p->sets = MR_NEW_N(p->ctx, lower, p->n);
    word *bits = MR_NEW_N(p->ctx, word, 2 * p->words * ((size_t)p->n + 1));
    for (uint32_t s = 0; s < p->n; s++) {
        p->sets[s].in = bits + 2 * p->words * s;
        p->sets[s].boundary = p->sets[s].in + p->words;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        word *in = p->sets[i + 1].in;
        put(in, i);
        put(p->sets[g->n + 1].in, i);
        for (uint32_t e = g->in_first[i]; e < g->in_first[i + 1]; e++)
            for (size_t w = 0; w < p->words; w++) in[w] |= p->sets[g->in[e] + 1].in[w];
    }
    for (uint32_t s = 0; s < p->n; s++) finish(p, &p->sets[s], bits + 2 * p->words * p->n);
    qsort(p->sets, p->n, sizeof *p->sets, fewest_first);
}

/* ---- the chain
 * ----------------------------------------------------------------------------------- */

static bool is_within(const planner *p, const lower *a, const lower *b)
{
    if (a->nodes >= b->nodes) return false;
    for (size_t w = 0; w < p->words; w++)
        if (a->in[w] & ~b->in[w]) return false;
    return true;
}

/* Bytes of new nodes, of the boundary that is new, and the time of new nodes that are not kept.
 */
typedef struct stretch {
    uint64_t fresh, boundary, time;
} stretch;

static stretch between(const planner *p, const lower *a, const lower *b)
{
    stretch s = {0};
    for (uint32_t i = 0; i < p->g->n; i++) {
        if (!has(b->in, i) || has(a->in, i)) continue;
        s.fresh += p->bytes[i];
        if (has(b->boundary, i)) s.boundary += p->bytes[i];
        else s.time += p->times[i];
    }
    return s;
}

static uint32_t *slot(const planner *p, uint32_t set, uint32_t level)
{
    return &p->of[(size_t)set * ((size_t)p->levels + 1) + level];
}

static void add_way(planner *p, const way *w)
{
    uint32_t *best = slot(p, w->set, w->level);
    if (*best != MR_NONE && p->ways.at[*best].kept <= w->kept) return;
    *best = p->ways.n;
    MR_PUSH(p->ctx, &p->ways, *w);
}

static void extend(planner *p, uint32_t a, uint32_t b)
{
    if (!is_within(p, &p->sets[a], &p->sets[b])) return;
    const stretch s = between(p, &p->sets[a], &p->sets[b]);
    const uint64_t rise = s.time / p->quantum + (s.time % p->quantum != 0);
    for (uint64_t level = 0; level + rise <= p->levels; level++) {
        const uint32_t from = *slot(p, a, (uint32_t)level);
        if (from == MR_NONE) continue;
        const way *before = &p->ways.at[from];
        const uint64_t peak = before->kept + 2 * s.fresh + p->sets[b].beyond;
        if (peak > p->budget) continue;
        const way w = {before->time + s.time,
                       before->kept + s.boundary,
                       peak > before->peak ? peak : before->peak,
                       b,
                       from,
                       (uint32_t)(level + rise)};
        add_way(p, &w);
    }
}

static graph_lower_plan trace_back(const planner *p, uint32_t last)
{
    graph_lower_plan plan = {.found = true,
                             .time = p->ways.at[last].time,
                             .peak = p->ways.at[last].peak,
                             .step = MR_NEW_N(p->ctx, uint32_t, p->g->n),
                             .kept = MR_NEW_N(p->ctx, bool, p->g->n)};
    for (uint32_t w = last; p->ways.at[w].from != MR_NONE; w = p->ways.at[w].from) plan.steps++;
    uint32_t step = plan.steps;
    for (uint32_t w = last; p->ways.at[w].from != MR_NONE; w = p->ways.at[w].from) {
        const lower *l = &p->sets[p->ways.at[w].set];
        step--;
        for (uint32_t i = 0; i < p->g->n; i++) {
            if (has(l->in, i)) plan.step[i] = step;
            if (has(l->boundary, i)) plan.kept[i] = true;
        }
    }
    return plan;
}

/* Every stretch may be rounded up by one level, and there are at most n of them. */
static void set_levels(planner *p, uint32_t levels)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < p->g->n; i++) all += p->times[i];
    p->quantum = levels && all > levels ? (all - 1) / levels + 1 : 1;
    const uint64_t most = all / p->quantum + (p->quantum > 1 ? (uint64_t)p->g->n + 2 : 0);
    p->levels = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX - 1;
}

graph_lower_plan graph_lower(mr_ctx *ctx, const graph *g, const uint64_t *bytes,
                             const uint64_t *times, uint64_t budget, uint32_t levels)
{
    planner p = {.ctx = ctx, .g = g, .bytes = bytes, .times = times, .budget = budget};
    find_sets(&p);
    set_levels(&p, levels);
    const size_t slots = (size_t)p.n * ((size_t)p.levels + 1);
    p.of = MR_NEW_N(ctx, uint32_t, slots);
    memset(p.of, 0xff, slots * sizeof *p.of);
    add_way(&p, &(way){.from = MR_NONE});
    for (uint32_t b = 1; b < p.n; b++)
        for (uint32_t a = 0; a < b; a++) extend(&p, a, b);
    uint32_t best = MR_NONE;
    for (uint32_t level = 0; level <= p.levels; level++) {
        const uint32_t w = *slot(&p, p.n - 1, level);
        if (w != MR_NONE && (best == MR_NONE || p.ways.at[w].time < p.ways.at[best].time))
            best = w;
    }
    if (best == MR_NONE) return (graph_lower_plan){.found = false};
    return trace_back(&p, best);
}
