/* graph_flow -- the smallest cut of a network, by blocking flows.
 *
 * Each round measures the distance of every node to the sink and fills shortest paths until
 * none is left; a node remembers the edge it last tried.  Distances only grow, so there are at
 * most as many rounds as nodes, and on graphs of training steps about a dozen.
 *
 * Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
 * estimation", 1970.
 */
#include "graph.h"

typedef struct pipe {
    uint32_t to, next; /* next pipe out of the same node, MR_NONE */
    uint64_t capacity; /* what is left of it; the opposite one stands beside it (index ^ 1) */
} pipe;

struct graph_net {
    mr_ctx *ctx;
    uint32_t n;
    uint32_t *first, *tried; /* per node: its first pipe, the one that is tried next */
    uint32_t *distance; /* per node: pipes to the sink, MR_NONE when it cannot be reached */
    uint32_t *queue;
    MR_VEC(pipe) pipes;
};

graph_net *graph_net_new(mr_ctx *ctx, uint32_t n)
{
    graph_net *net = MR_NEW(ctx, graph_net);
    net->ctx = ctx;
    net->n = n;
    net->first = MR_NEW_N(ctx, uint32_t, n);
    net->tried = MR_NEW_N(ctx, uint32_t, n);
    net->distance = MR_NEW_N(ctx, uint32_t, n);
    net->queue = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) net->first[i] = MR_NONE;
    return net;
}

static void add_pipe(graph_net *net, uint32_t from, uint32_t to, uint64_t capacity)
{
    MR_PUSH(net->ctx, &net->pipes, (pipe){to, net->first[from], capacity});
    net->first[from] = net->pipes.n - 1;
}

void graph_net_add(graph_net *net, uint32_t from, uint32_t to, uint64_t capacity)
{
    add_pipe(net, from, to, capacity < GRAPH_ENDLESS ? capacity : GRAPH_ENDLESS);
    add_pipe(net, to, from, 0);
}

static void measure(graph_net *net, uint32_t sink)
{
    for (uint32_t i = 0; i < net->n; i++) net->distance[i] = MR_NONE;
    net->distance[sink] = 0;
    uint32_t end = 0;
    net->queue[end++] = sink;
    for (uint32_t begin = 0; begin < end; begin++) {
        const uint32_t i = net->queue[begin];
        for (uint32_t p = net->first[i]; p != MR_NONE; p = net->pipes.at[p].next) {
            const uint32_t from = net->pipes.at[p].to;
            if (!net->pipes.at[p ^ 1].capacity || net->distance[from] != MR_NONE) continue;
            net->distance[from] = net->distance[i] + 1;
            net->queue[end++] = from;
        }
    }
}

/* The next pipe out of i that has room and leads nearer to the sink. */
static uint32_t way_on(graph_net *net, uint32_t i)
{
    uint32_t p = net->tried[i];
    for (; p != MR_NONE; p = net->pipes.at[p].next) {
        const pipe *out = &net->pipes.at[p];
        if (out->capacity && net->distance[out->to] != MR_NONE
            && net->distance[out->to] + 1 == net->distance[i])
            break;
    }
    return net->tried[i] = p;
}

/* Fills the path of n pipes; returns how many of them still lead from the source. */
static uint32_t fill(graph_net *net, const uint32_t *path, uint32_t n, uint64_t *flow)
{
    uint64_t least = GRAPH_ENDLESS;
    for (uint32_t k = 0; k < n; k++)
        if (net->pipes.at[path[k]].capacity < least) least = net->pipes.at[path[k]].capacity;
    uint32_t open = n;
    for (uint32_t k = n; k-- > 0;) {
        pipe *out = &net->pipes.at[path[k]], *back = &net->pipes.at[path[k] ^ 1];
        if (out->capacity < GRAPH_ENDLESS) out->capacity -= least;
        if (back->capacity < GRAPH_ENDLESS) back->capacity += least;
        if (!out->capacity) open = k;
    }
    *flow += least;
    return open;
}

/* Paths one after the other, each beginning where the last one still has room.  False when one
 * has no limit. */
static bool block(graph_net *net, uint32_t source, uint32_t sink, uint64_t *flow)
{
    uint32_t *path = net->queue; /* pipes; the queue is free after measuring */
    uint32_t n = 0, i = source;
    for (uint32_t k = 0; k < net->n; k++) net->tried[k] = net->first[k];
    for (;;) {
        if (i == sink) {
            const uint32_t open = fill(net, path, n, flow);
            if (open == n) return false;
            i = net->pipes.at[path[open] ^ 1].to;
            n = open;
            continue;
        }
        const uint32_t p = way_on(net, i);
        if (p != MR_NONE) {
            path[n++] = p;
            i = net->pipes.at[p].to;
        } else if (n) { /* a dead end: nobody goes there again in this round */
            net->distance[i] = MR_NONE;
            i = net->pipes.at[path[--n] ^ 1].to;
        } else {
            return true;
        }
    }
}

uint64_t graph_min_cut(graph_net *net, uint32_t source, uint32_t sink, bool *sink_side)
{
    uint64_t flow = 0;
    for (;;) {
        measure(net, sink);
        if (net->distance[source] == MR_NONE) break;
        if (!block(net, source, sink, &flow)) return GRAPH_ENDLESS;
    }
    for (uint32_t i = 0; i < net->n; i++) sink_side[i] = net->distance[i] != MR_NONE;
    return flow;
}
