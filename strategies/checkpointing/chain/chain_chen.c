/* chain_chen -- segments of a chain that are kept at their ends and run again inside.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; the grid of sixty values
 * is that of the experiments of Jain et al., "Checkmate: Breaking the Memory Wall with Optimal
 * Tensor Rematerialization", 2020.
 */
#include "chain.h"

static chain_cuts no_cuts(mr_ctx *ctx, uint32_t n)
{
    return (chain_cuts){.at = MR_NEW_N(ctx, bool, n)};
}

/* Largest integer whose square is at most v. */
static uint64_t root(uint64_t v)
{
    uint64_t low = 0, high = (uint64_t)1 << 32;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (middle * middle <= v) low = middle;
        else high = middle;
    }
    return low;
}

static void measure(const chain_node *nodes, uint32_t n, chain_cuts *cuts)
{
    uint64_t segment = 0;
    for (uint32_t i = 0; i < n; i++) {
        segment += nodes[i].bytes;
        if (segment > cuts->largest) cuts->largest = segment;
        if (!cuts->at[i]) continue;
        cuts->kept += nodes[i].out;
        segment = 0;
    }
}

chain_cuts chain_chen_sqrt(mr_ctx *ctx, const chain_node *nodes, uint32_t n)
{
    chain_cuts cuts = no_cuts(ctx, n);
    uint32_t candidates = 0, seen = 0;
    for (uint32_t i = 0; i < n; i++) candidates += nodes[i].cut;
    const uint64_t k = root(candidates);
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i].cut) cuts.at[i] = ++seen % k == 0;
    measure(nodes, n, &cuts);
    return cuts;
}

chain_cuts chain_chen_pass(mr_ctx *ctx, const chain_node *nodes, uint32_t n, uint64_t bytes)
{
    chain_cuts cuts = no_cuts(ctx, n);
    uint64_t segment = 0;
    for (uint32_t i = 0; i < n; i++) {
        segment += nodes[i].bytes;
        cuts.at[i] = nodes[i].cut && segment > bytes;
        if (cuts.at[i]) segment = 0;
    }
    measure(nodes, n, &cuts);
    return cuts;
}

void chain_chen_grid(mr_ctx *ctx, const chain_node *nodes, uint32_t n,
                     uint64_t grid[CHAIN_CHEN_GRID])
{
    const chain_cuts first = chain_chen_pass(ctx, nodes, n, 0);
    const uint64_t b = root(first.kept) * root(first.largest);
    /* sqrt(2) in thousandths: a grid of six needs no more digits */
    const uint64_t low = b * 1000 / 1414, high = b * 1414 / 1000;
    for (uint32_t i = 0; i < CHAIN_CHEN_GRID; i++)
        grid[i] = low + (high - low) / (CHAIN_CHEN_GRID - 1) * i;
}

void chain_checkmate_grid(uint64_t unit, uint64_t grid[CHAIN_CHECKMATE_GRID])
{
    for (uint32_t i = 0; i < CHAIN_CHECKMATE_GRID; i++)
        grid[i] = unit / 20 * i + unit % 20 * i / 20;
}

/* ---- as plans of a chain
 * ---------------------------------------------------------------------- */

typedef struct search {
    mr_ctx *ctx;
    const chain_problem *chain;
    const chain_node *nodes;
    uint64_t budget;
    bool *kept;
    chain_outcome best;
    chain_actions plan; /* of the best */
} search;

static bool better(const search *s, const chain_outcome *a, const chain_outcome *b)
{
    const bool fits = a->called <= s->budget, other = b->called <= s->budget;
    if (fits != other) return fits;
    if (!fits || a->time == b->time) return a->called < b->called;
    return a->time < b->time;
}

static void try_plan(search *s, const chain_actions *plan)
{
    const chain_outcome out = chain_replay(s->ctx, s->chain, plan);
    if (s->plan.n && !better(s, &out, &s->best)) return;
    s->best = out;
    s->plan = *plan;
}

static void try_cuts(search *s, const chain_cuts *cuts)
{
    for (uint32_t i = 1; i < s->chain->n; i++) s->kept[i] = cuts->at[i - 1];
    chain_actions plan = {0};
    chain_segments(s->ctx, s->chain, s->kept, &plan);
    try_plan(s, &plan);
}

static void try_grid(search *s, const uint64_t *grid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const chain_cuts cuts = chain_chen_pass(s->ctx, s->nodes, s->chain->n, grid[i]);
        try_cuts(s, &cuts);
    }
}

static const chain_node *nodes_of(mr_ctx *ctx, const chain_problem *chain)
{
    chain_node *nodes = MR_NEW_N(ctx, chain_node, chain->n);
    for (uint32_t i = 0; i < chain->n; i++) {
        const chain_stage *stage = &chain->stages[i];
        nodes[i] = (chain_node){stage->options[0].saved, stage->out, true};
    }
    return nodes;
}

bool chain_chen_greedy(mr_ctx *ctx, const chain_problem *chain, uint64_t budget,
                       chain_actions *plan)
{
    search s = {.ctx = ctx,
                .chain = chain,
                .nodes = nodes_of(ctx, chain),
                .budget = budget,
                .kept = MR_NEW_N(ctx, bool, chain->n + 1)};
    chain_actions all = {0};
    chain_all(ctx, chain, &all);
    try_plan(&s, &all);
    if (chain->n) {
        const chain_cuts cuts = chain_chen_sqrt(ctx, s.nodes, chain->n);
        uint64_t six[CHAIN_CHEN_GRID], sixty[CHAIN_CHECKMATE_GRID];
        chain_chen_grid(ctx, s.nodes, chain->n, six);
        chain_checkmate_grid(cuts.kept + cuts.largest, sixty);
        try_cuts(&s, &cuts);
        try_grid(&s, six, CHAIN_CHEN_GRID);
        try_grid(&s, sixty, CHAIN_CHECKMATE_GRID);
    }
    *plan = s.plan;
    return s.best.called <= budget;
}

typedef struct part {
    uint32_t from, to;
} part;

/* Runs forward to the last of the part's `parts` pieces, keeping the input of each. */
static void enter(mr_ctx *ctx, const part *p, uint32_t parts, chain_actions *plan)
{
    const uint64_t n = p->to - p->from;
    for (uint32_t piece = 0; piece + 1 < parts; piece++) {
        const uint32_t from = p->from + (uint32_t)(n * piece / parts);
        const uint32_t to = p->from + (uint32_t)(n * (piece + 1) / parts);
        for (uint32_t i = from; i < to; i++)
            MR_PUSH(ctx, plan, (chain_action){i == from ? CHAIN_KEEP : CHAIN_FORWARD, i, 0});
    }
}

void chain_chen_recursive(mr_ctx *ctx, const chain_problem *chain, uint32_t k,
                          chain_actions *plan)
{
    MR_VEC(part) left = {0}; /* the next one on top */
    if (chain->n) MR_PUSH(ctx, &left, (part){0, chain->n});
    while (left.n) {
        const part p = left.at[--left.n];
        const uint64_t n = p.to - p.from;
        if (n == 1) {
            MR_PUSH(ctx, plan, (chain_action){CHAIN_SAVE, p.from, 0});
            MR_PUSH(ctx, plan, (chain_action){CHAIN_BACKWARD, p.from, 0});
            continue;
        }
        const uint32_t parts = k < n - 1 ? k + 1 : (uint32_t)n;
        enter(ctx, &p, parts, plan);
        for (uint32_t i = 0; i < parts; i++)
            MR_PUSH(ctx, &left,
                    (part){p.from + (uint32_t)(n * i / parts),
                           p.from + (uint32_t)(n * (i + 1) / parts)});
    }
}
