/* graph_make -- neighbours of a node, side by side; and the nodes that hold a graph together.
 */
#include "graph.h"

/* Neighbours grouped by node: those reached from `key` of each edge. */
static const uint32_t *group(mr_ctx *ctx, uint32_t n, const graph_edge *edges, uint32_t m,
                             bool out, const uint32_t **neighbours)
{
    uint32_t *first = MR_NEW_N(ctx, uint32_t, (size_t)n + 2), *at = MR_NEW_N(ctx, uint32_t, m);
    for (uint32_t e = 0; e < m; e++) first[(out ? edges[e].from : edges[e].to) + 2]++;
    for (uint32_t i = 2; i < n + 2; i++) first[i] += first[i - 1];
    for (uint32_t e = 0; e < m; e++) {
        const graph_edge *edge = &edges[e];
        at[first[(out ? edge->from : edge->to) + 1]++] = out ? edge->to : edge->from;
    }
    *neighbours = at;
    return first;
}

graph graph_make(mr_ctx *ctx, uint32_t n, const graph_edge *edges, uint32_t m)
{
    graph g = {.n = n};
    g.out_first = group(ctx, n, edges, m, true, &g.out);
    g.in_first = group(ctx, n, edges, m, false, &g.in);
    return g;
}

typedef struct visit {
    uint32_t found, low; /* when it was first seen, counted from 1; earliest seen from below */
    uint32_t parent, next, children;
} visit;

/* The k-th neighbour, readers first; MR_NONE behind the last. */
static uint32_t neighbour(const graph *g, uint32_t i, uint32_t k)
{
    const uint32_t readers = g->out_first[i + 1] - g->out_first[i];
    if (k < readers) return g->out[g->out_first[i] + k];
    k += g->in_first[i] - readers;
    return k < g->in_first[i + 1] ? g->in[k] : MR_NONE;
}

/* Back from i to its parent. */
static void leave(visit *v, uint32_t i, bool *points)
{
    const uint32_t parent = v[i].parent;
    if (parent == MR_NONE) {
        points[i] = v[i].children > 1;
        return;
    }
    if (v[i].low < v[parent].low) v[parent].low = v[i].low;
    if (v[parent].parent != MR_NONE && v[i].low >= v[parent].found) points[parent] = true;
}

static void walk(const graph *g, visit *v, uint32_t root, uint32_t *clock, bool *points)
{
    v[root] = (visit){++*clock, *clock, MR_NONE, 0, 0};
    for (uint32_t i = root; i != MR_NONE;) {
        const uint32_t next = neighbour(g, i, v[i].next++);
        if (next == MR_NONE) {
            leave(v, i, points);
            i = v[i].parent;
        } else if (!v[next].found) {
            v[i].children++;
            v[next] = (visit){++*clock, *clock, i, 0, 0};
            i = next;
        } else if (v[next].found < v[i].low) {
            v[i].low = v[next].found;
        }
    }
}

bool *graph_points(mr_ctx *ctx, const graph *g)
{
    bool *points = MR_NEW_N(ctx, bool, g->n);
    visit *v = MR_NEW_N(ctx, visit, g->n);
    uint32_t clock = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (!v[i].found) walk(g, v, i, &clock, points);
    return points;
}
