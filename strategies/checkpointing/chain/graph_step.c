/* graph_step -- the graph of a recorded step, and what is known of its ops by their names. */
#include "graph_step.h"

#include "chain_time.h"
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

/* Parts of names: matrix products, convolutions and attention are worth more than their memory.
 */
static const char *const heavy[] = {"mm",
                                    "convolution",
                                    "conv1d",
                                    "conv2d",
                                    "conv3d",
                                    "linear",
                                    "scaled_dot_product",
                                    "_flash_attention",
                                    "matmul",
                                    "einsum",
                                    "lstm",
                                    "gru",
                                    "_cudnn_rnn"};
/* What a compiler does not join with its neighbours, and what may not be run again lightly. */
static const char *const apart[] = {"embedding", "gather",  "scatter", "index", "sort",
                                    "topk",      "nonzero", "cumsum",  "pool",  "upsample"};

static bool named(const mr_op *op, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(op->name, words[i])) return true;
    return false;
}

typedef struct builder {
    mr_ctx *ctx;
    graph_step *step;
    uint32_t *node; /* by storage, MR_NONE */
    uint32_t n;
    MR_VEC(graph_edge) edges;
    bool fused, measured;
} builder;

static uint32_t storage_of(const graph_step *step, uint32_t tensor)
{
    return step->trace->tensors.at[tensor].storage;
}

static bool is_result(const graph_step *step, uint32_t s)
{
    const uint32_t birth = step->lives.at[s].birth;
    return birth != MR_NONE && birth >= step->lives.begin && birth < step->lives.turn;
}

/* ---- nodes
 * ------------------------------------------------------------------------------------ */

typedef struct completed {
    uint32_t event, storage;
} completed;

static int by_event(const void *left, const void *right)
{
    const completed *a = left, *b = right;
    if (a->event != b->event) return a->event < b->event ? -1 : 1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

static void number_nodes(builder *b)
{
    graph_step *step = b->step;
    const mr_trace *t = step->trace;
    completed *order = MR_NEW_N(b->ctx, completed, t->storages.n);
    b->node = MR_NEW_N(b->ctx, uint32_t, t->storages.n);
    for (uint32_t s = 0; s < t->storages.n; s++) {
        b->node[s] = MR_NONE;
        if (is_result(step, s)) order[b->n++] = (completed){step->lives.at[s].changed, s};
    }
    if (b->n) qsort(order, b->n, sizeof *order, by_event);
    const size_t most = (size_t)b->n + t->ops.n;
    step->ops = MR_NEW_N(b->ctx, graph_op, most);
    step->storage = MR_NEW_N(b->ctx, uint32_t, most);
    memset(step->storage, 0xff, most * sizeof *step->storage);
    for (uint32_t i = 0; i < b->n; i++) {
        step->storage[i] = order[i].storage;
        b->node[order[i].storage] = i;
        step->ops[i].bytes = t->storages.at[order[i].storage].bytes;
    }
}

/* Held by the program into the backward pass or read behind it; or changed in the backward
 * pass. */
static void pin(builder *b)
{
    graph_step *step = b->step;
    for (uint32_t s = 0; s < step->trace->storages.n; s++) {
        const chain_life *life = &step->lives.at[s];
        if (!is_result(step, s)) continue;
        step->pinned[s] = step->pinned[s]
                          || (life->drop >= step->lives.turn || life->death >= step->lives.end
                              || life->changed >= step->lives.turn);
        step->ops[b->node[s]].free = step->pinned[s];
    }
}

/* ---- edges
 * -------------------------------------------------------------------------------------- */

static void link_result(builder *b, uint32_t from, uint32_t to, uint32_t event)
{
    graph_step *step = b->step;
    if (from == to || b->node[from] == MR_NONE || b->node[to] == MR_NONE) return;
    /* What was read before it was changed, or as it was, cannot be read like that again. */
    if (step->lives.at[from].changed >= event) step->ops[b->node[to]].must_save = true;
    else if (b->node[from] < b->node[to])
        MR_PUSH(b->ctx, &b->edges, (graph_edge){b->node[from], b->node[to]});
}

static void describe(builder *b, const mr_op *op, uint32_t s, bool largest)
{
    if (b->node[s] == MR_NONE) return;
    graph_op *node = &b->step->ops[b->node[s]];
    node->time += largest ? chain_time(op, b->measured) : 0;
    node->random = node->random || op->random;
    node->heavy = node->heavy || named(op, heavy, MR_COUNT(heavy));
    node->allowed = !node->heavy && !node->random && !named(op, apart, MR_COUNT(apart));
    node->fusible = b->fused && node->allowed;
}

/* Is the storage new with this op, or changed by it? */
static bool writes(const builder *b, const mr_op *op, uint32_t event, uint32_t k, uint32_t *s)
{
    const uint32_t t = k < op->out.n ? op->out.at[k] : op->mutates.at[k - op->out.n];
    *s = storage_of(b->step, t);
    return k >= op->out.n || b->step->lives.at[*s].birth == event;
}

static void add_forward(builder *b, const mr_op *op, uint32_t event)
{
    uint32_t largest = MR_NONE, s;
    const mr_trace *t = b->step->trace;
    for (uint32_t k = 0; k < op->out.n + op->mutates.n; k++) {
        if (!writes(b, op, event, k, &s)) continue;
        if (largest == MR_NONE || t->storages.at[s].bytes > t->storages.at[largest].bytes)
            largest = s;
        for (uint32_t i = 0; i < op->in.n; i++)
            link_result(b, storage_of(b->step, op->in.at[i]), s, event);
    }
    for (uint32_t k = 0; k < op->out.n + op->mutates.n; k++)
        if (writes(b, op, event, k, &s)) describe(b, op, s, s == largest);
}

static void add_backward(builder *b, const mr_op *op)
{
    const uint32_t node = b->n++;
    b->step->ops[node].backward = true;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t from = b->node[storage_of(b->step, op->in.at[i])];
        if (from != MR_NONE) MR_PUSH(b->ctx, &b->edges, (graph_edge){from, node});
    }
}

static void list_changes(builder *b)
{
    graph_step *step = b->step;
    const mr_trace *t = step->trace;
    step->changes = MR_NEW_N(b->ctx, uint32_t, t->storages.n);
    step->next = MR_NEW_N(b->ctx, uint32_t, t->ops.n);
    memset(step->changes, 0xff, t->storages.n * sizeof *step->changes);
    for (uint32_t e = step->lives.turn; e-- > step->lives.begin;) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id;
        step->next[o] = MR_NONE;
        /* An op that changes several storages at once is listed with the first. */
        for (uint32_t i = 0; i < t->ops.at[o].mutates.n && i < 1; i++) {
            const uint32_t s = storage_of(step, t->ops.at[o].mutates.at[i]);
            step->next[o] = step->changes[s];
            step->changes[s] = o;
        }
        for (uint32_t i = 1; i < t->ops.at[o].mutates.n; i++) {
            const uint32_t s = storage_of(step, t->ops.at[o].mutates.at[i]);
            step->pinned[s] = true;
        }
    }
}

mr_status graph_step_of(mr_ctx *ctx, const mr_trace *trace, bool fused, graph_step *step)
{
    *step = (graph_step){.trace = trace};
    MR_TRY(mr_rewrite_before_host(ctx, trace, "checkpointing"));
    MR_TRY(chain_lives_of(ctx, trace, &step->lives));
    builder b = {.ctx = ctx, .step = step, .fused = fused, .measured = chain_measured(trace)};
    step->pinned = MR_NEW_N(ctx, bool, trace->storages.n);
    number_nodes(&b);
    list_changes(&b);
    pin(&b);
    for (uint32_t e = step->lives.begin; e < step->lives.end; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &trace->ops.at[trace->events.at[e].id];
        if (e < step->lives.turn) add_forward(&b, op, e);
        else add_backward(&b, op);
    }
    step->graph = graph_make(ctx, b.n, b.edges.at, b.edges.n);
    return MR_OK;
}
