/* graph_cut -- which results of the forward pass a compiled step saves for its backward pass.
 *
 * Every op is two nodes with a pipe between them, as wide as saving its result is dear.  What
 * the backward pass reads flows into the sink; what cannot or may not be run again comes from
 * the source.  The results saved are the pipes that a smallest cut goes through:
 *
 *     source ==> in -[weight]-> out ==> in -[weight]-> out ==> sink          ==> endless
 *
 * torch/_functorch/partitioners.py of PyTorch 2.x (min_cut_rematerialization_partition).
 */
#include "graph.h"
#include "knapsack.h"

#include <math.h>

const graph_bans graph_bans_default = {true, true, true, true, true};

enum {
    FARTHEST = 100,         /* steps from the backward pass that a weight takes notice of */
    LONGEST = 100,          /* ops of a fusible chain */
    UNREACHED = 1000000000, /* distance of what the backward pass does not depend on */
};

typedef struct problem {
    mr_ctx *ctx;
    const graph *g;
    const graph_op *ops;
    const graph_bans *bans;
    const bool *unban;
    uint32_t *distance; /* ops from here to the backward pass */
    bool *banned;
} problem;

static bool fused(const problem *p, uint32_t a, uint32_t b)
{
    return p->ops[a].fusible && p->ops[b].fusible;
}

static void measure_distances(problem *p)
{
    const graph *g = p->g;
    p->distance = MR_NEW_N(p->ctx, uint32_t, g->n);
    for (uint32_t i = g->n; i-- > 0;) {
        if (p->ops[i].backward) continue;
        uint32_t nearest = UNREACHED;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++) {
            const uint32_t via = p->distance[g->out[e]] + 1;
            if (via < nearest) nearest = via;
        }
        p->distance[i] = nearest;
    }
}

/* ---- bans
 * ------------------------------------------------------------------------------------- */

static bool may_be_banned(const problem *p, uint32_t i)
{
    const graph_op *op = &p->ops[i];
    return !op->backward && !op->input && !op->must_recompute && !op->view
           && !(p->unban && p->unban[i]);
}

static void ban(problem *p, uint32_t i)
{
    if (may_be_banned(p, i)) p->banned[i] = true;
}

/* Does an op of the backward pass that cannot be fused read it, be it through views? */
static bool read_whole(const problem *p, uint32_t i, uint32_t *stack, uint32_t *seen)
{
    const graph *g = p->g;
    uint32_t n = 0;
    stack[n++] = i;
    seen[i] = i + 1;
    while (n) {
        const uint32_t at = stack[--n];
        for (uint32_t e = g->out_first[at]; e < g->out_first[at + 1]; e++) {
            const uint32_t reader = g->out[e];
            if (p->ops[reader].backward && !fused(p, at, reader)) return true;
            if (p->ops[reader].backward || !p->ops[reader].view || seen[reader] == i + 1)
                continue;
            seen[reader] = i + 1;
            stack[n++] = reader;
        }
    }
    return false;
}

static bool reduces(const problem *p, uint32_t i)
{
    uint64_t read = 0;
    for (uint32_t e = p->g->in_first[i]; e < p->g->in_first[i + 1]; e++)
        read += p->ops[p->g->in[e]].bytes;
    return p->ops[i].bytes < read / 4 + (read % 4 != 0);
}

static void ban_by_op(problem *p)
{
    uint32_t *stack = MR_NEW_N(p->ctx, uint32_t, p->g->n);
    uint32_t *seen = MR_NEW_N(p->ctx, uint32_t, p->g->n);
    for (uint32_t i = 0; i < p->g->n; i++) {
        const graph_op *op = &p->ops[i];
        if (!may_be_banned(p, i)) continue;
        if ((p->bans->not_allowed ? !op->allowed : op->random || op->heavy) || op->must_save
            || (p->bans->materialised && read_whole(p, i, stack, seen))
            || (p->bans->reductions && reduces(p, i)))
            ban(p, i);
    }
}

/* The first op, in order, that reads something of the fusible group around i's readers without
 * being fusible with it; `last` when there is none up to there. */
static uint32_t first_unfusible(const problem *p, uint32_t i, uint32_t last, uint32_t *seen)
{
    const graph *g = p->g;
    /* Readers have larger numbers, so one pass in order visits a group as a queue would. */
    for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
        if (!p->ops[g->out[e]].backward) seen[g->out[e]] = i + 1;
    uint32_t first = last;
    for (uint32_t at = i + 1; at <= last && at < first; at++) {
        if (seen[at] != i + 1) continue;
        for (uint32_t e = g->out_first[at]; e < g->out_first[at + 1]; e++) {
            const uint32_t reader = g->out[e];
            if (p->ops[reader].backward) continue;
            if (fused(p, at, reader)) seen[reader] = i + 1;
            else if (reader < first) first = reader;
        }
    }
    return first;
}

static void ban_far_apart(problem *p)
{
    const graph *g = p->g;
    uint32_t *seen = MR_NEW_N(p->ctx, uint32_t, g->n);
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t last = 0;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
            if (!p->ops[g->out[e]].backward && g->out[e] > last) last = g->out[e];
        if (p->ops[i].backward || !last) continue;
        const uint32_t first = first_unfusible(p, i, last, seen);
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++) {
            const uint32_t reader = g->out[e];
            if (!p->ops[reader].backward && reader > first && fused(p, i, reader)
                && !p->banned[reader])
                ban(p, i);
        }
    }
}

/* Where a fusible chain that began at an op has grown too long, its last op is banned. */
static void ban_long_chains(problem *p)
{
    const graph *g = p->g;
    uint32_t *start = MR_NEW_N(p->ctx, uint32_t, g->n); /* + 1, of the chain that an op is in */
    for (uint32_t i = 0; i < g->n; i++) {
        if (p->ops[i].backward) continue;
        if (!start[i]) start[i] = i + 1;
        if (i + 1 > start[i] + LONGEST) {
            ban(p, i);
            if (p->banned[i]) continue;
        }
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++) {
            const uint32_t reader = g->out[e];
            if (p->ops[reader].backward || !fused(p, i, reader)) continue;
            if (!start[reader] || start[i] < start[reader]) start[reader] = start[i];
        }
    }
}

/* ---- the cut
 * ----------------------------------------------------------------------------------- */

static uint64_t weight_of(const problem *p, uint32_t i)
{
    const graph_op *op = &p->ops[i];
    if (op->view && !op->input) return GRAPH_ENDLESS;
    if (op->free) return 0;
    const uint32_t d = p->distance[i];
    const double near = pow(1.1, d > FARTHEST ? FARTHEST : d < 1 ? 1 : d);
    const double weight = (double)op->bytes * near;
    if (weight >= (double)(GRAPH_ENDLESS / 4)) return GRAPH_ENDLESS / 4;
    bool exists = op->input;
    for (uint32_t e = p->g->out_first[i]; !exists && e < p->g->out_first[i + 1]; e++)
        exists = !fused(p, i, p->g->out[e]);
    return exists ? (uint64_t)weight : 2 * (uint64_t)weight;
}

/* Nodes 2 i and 2 i + 1 are the two of op i; then source and sink. */
static graph_net *network(const problem *p)
{
    const graph *g = p->g;
    const uint32_t source = 2 * g->n, sink = source + 1;
    graph_net *net = graph_net_new(p->ctx, sink + 1);
    for (uint32_t i = 0; i < g->n; i++) {
        const graph_op *op = &p->ops[i];
        if (op->backward) {
            graph_net_add(net, 2 * i, sink, GRAPH_ENDLESS);
            continue;
        }
        if (op->must_recompute) graph_net_add(net, 2 * i, sink, GRAPH_ENDLESS);
        if (op->input || p->banned[i]) graph_net_add(net, source, 2 * i, GRAPH_ENDLESS);
        graph_net_add(net, 2 * i, 2 * i + 1, weight_of(p, i));
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
            graph_net_add(net, 2 * i + 1, 2 * g->out[e], GRAPH_ENDLESS);
    }
    return net;
}

/* What the backward pass reads and is not saved runs again, and so does what that needs. */
static uint64_t time_again(const problem *p, const bool *saved)
{
    bool *again = MR_NEW_N(p->ctx, bool, p->g->n);
    uint64_t time = 0;
    for (uint32_t i = p->g->n; i-- > 0;) {
        if (p->ops[i].backward || p->ops[i].input || saved[i]) continue;
        for (uint32_t e = p->g->out_first[i]; e < p->g->out_first[i + 1]; e++) {
            const uint32_t reader = p->g->out[e];
            if (p->ops[reader].backward || again[reader]) again[i] = true;
        }
        if (again[i]) time += p->ops[i].time;
    }
    return time;
}

static graph_saving saving_of(const problem *p, bool *saved)
{
    graph_saving out = {.saved = saved, .banned = p->banned};
    for (uint32_t i = 0; i < p->g->n; i++)
        if (saved[i] && !p->ops[i].free) out.bytes += p->ops[i].bytes;
    out.time = time_again(p, saved);
    return out;
}

graph_saving graph_partition(mr_ctx *ctx, const graph *g, const graph_op *ops,
                             const graph_bans *bans, const bool *unban)
{
    problem p = {ctx, g, ops, bans, unban, NULL, MR_NEW_N(ctx, bool, g->n)};
    measure_distances(&p);
    ban_by_op(&p);
    if (bans->far_apart) ban_far_apart(&p);
    if (bans->long_chains) ban_long_chains(&p);
    bool *side = MR_NEW_N(ctx, bool, 2 * (size_t)g->n + 2);
    bool *saved = MR_NEW_N(ctx, bool, g->n);
    if (graph_min_cut(network(&p), 2 * g->n, 2 * g->n + 1, side) < GRAPH_ENDLESS)
        for (uint32_t i = 0; i < g->n; i++)
            saved[i] = !ops[i].backward && !side[2 * i] && side[2 * i + 1];
    return saving_of(&p, saved);
}
