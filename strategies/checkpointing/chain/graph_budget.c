/* graph_budget -- a saving between the least and the most that a smallest cut would save.
 *
 * torch/_functorch/partitioners.py of PyTorch 2.x (choose_saved_values_set).
 */
#include "graph.h"
#include "knapsack.h"

enum { WHOLE = 1000 };

typedef struct problem {
    mr_ctx *ctx;
    const graph *g;
    const graph_op *ops;
    uint64_t least, most; /* bytes saved with budget 0 and 1000 */
    uint64_t limit;
} problem;

/* Saves every input that something needed in the backward pass comes from, and nothing else. */
static graph_saving inputs_alone(const problem *p)
{
    const graph *g = p->g;
    bool *needed = MR_NEW_N(p->ctx, bool, g->n);
    graph_saving out = {.saved = MR_NEW_N(p->ctx, bool, g->n),
                        .banned = MR_NEW_N(p->ctx, bool, g->n)};
    for (uint32_t i = g->n; i-- > 0;) {
        const graph_op *op = &p->ops[i];
        if (op->backward) continue;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
            if (p->ops[g->out[e]].backward || needed[g->out[e]]) needed[i] = true;
        if (!needed[i]) continue;
        out.saved[i] = op->input;
        if (!op->input) out.time += op->time;
        else if (!op->free) out.bytes += op->bytes;
    }
    return out;
}

/* Of the ops still banned, those worth their bytes stay so. */
static graph_saving by_knapsack(const problem *p, const graph_bans *bans,
                                const graph_saving *fewest)
{
    const graph *g = p->g;
    knapsack_item *items = MR_NEW_N(p->ctx, knapsack_item, g->n);
    uint32_t *op_of = MR_NEW_N(p->ctx, uint32_t, g->n), n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!fewest->banned[i]) continue;
        op_of[n] = i;
        items[n++] = (knapsack_item){p->ops[i].time ? p->ops[i].time : 1, p->ops[i].bytes};
    }
    const uint64_t whole = p->most - p->least;
    const knapsack_problem sack = {.items = items,
                                   .n = n,
                                   .limit = p->limit - p->least,
                                   .whole = whole ? whole : 1,
                                   .quanta = KNAPSACK_QUANTA,
                                   .rounding = KNAPSACK_NEAREST};
    const knapsack_choice choice = knapsack_table(p->ctx, &sack);
    bool *unban = MR_NEW_N(p->ctx, bool, g->n);
    for (uint32_t k = 0; k < n; k++) unban[op_of[k]] = !choice.taken[k];
    return graph_partition(p->ctx, g, p->ops, bans, unban);
}

graph_saving graph_partition_within(mr_ctx *ctx, const graph *g, const graph_op *ops,
                                    const graph_bans *full, uint32_t budget)
{
    problem p = {.ctx = ctx, .g = g, .ops = ops};
    const graph_saving least = inputs_alone(&p);
    if (!budget) return least;
    const graph_saving most = graph_partition(ctx, g, ops, full, NULL);
    if (budget >= WHOLE || most.bytes <= least.bytes) return most;
    p.least = least.bytes;
    p.most = most.bytes;
    p.limit = least.bytes + (most.bytes - least.bytes) / WHOLE * budget
              + (most.bytes - least.bytes) % WHOLE * budget / WHOLE;
    graph_bans bans = {.not_allowed = full->not_allowed, .reductions = full->reductions};
    const graph_saving fewer = graph_partition(ctx, g, ops, &bans, NULL);
    if (fewer.bytes <= p.limit) return fewer;
    bans.not_allowed = false;
    const graph_saving fewest = graph_partition(ctx, g, ops, &bans, NULL);
    if (fewest.bytes <= p.limit) return fewest;
    return by_knapsack(&p, &bans, &fewest);
}
