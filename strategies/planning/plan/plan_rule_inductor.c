/* plan_rule_inductor -- memory planning of PyTorch Inductor: one pool, a tree of splits.
 *
 *     temporal   children share addresses and are never live together
 *     spatial    left and right lie behind each other
 *
 * Buffers come by size, longest life first among equals.  A temporal split takes a buffer that
 * meets none of its children, or hands it to the only child that it meets; what is left of a
 * slot becomes a spatial split with an empty right side.  The last slot of the pool may grow;
 * what finds no place goes behind everything.
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct life {
    uint32_t from, to;
} life;

typedef enum kind { BLOCK, EMPTY, TEMPORAL, SPATIAL } kind;

typedef struct node {
    kind role;
    uint32_t buffer; /* of a BLOCK */
    uint64_t bytes;
    MR_VEC(life) lives; /* moments at which something in it is live: ascending, disjoint */
    MR_VEC(struct node *) children; /* of SPATIAL: left, right */
} node;

typedef struct pool {
    mr_ctx *ctx;
    const plan_problem *problem;
    node *root;
} pool;

/* ---- lives --------------------------------------------------------------------------- */

static uint32_t first_after(const node *n, uint32_t section)
{
    uint32_t low = 0, high = n->lives.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (n->lives.at[middle].to <= section) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool meets(const node *n, const life *l)
{
    const uint32_t i = first_after(n, l->from);
    return i < n->lives.n && n->lives.at[i].from < l->to;
}

/* Unites the life with those it touches. */
static void live(pool *p, node *n, life l)
{
    uint32_t first = first_after(n, l.from), end;
    if (first && n->lives.at[first - 1].to == l.from) first--;
    for (end = first; end < n->lives.n && n->lives.at[end].from <= l.to; end++) {
        if (n->lives.at[end].from < l.from) l.from = n->lives.at[end].from;
        if (n->lives.at[end].to > l.to) l.to = n->lives.at[end].to;
    }
    if (first == end) MR_PUSH(p->ctx, &n->lives, (life){0});
    const uint32_t rest = n->lives.n - (first == end ? end + 1 : end);
    memmove(n->lives.at + first + 1, n->lives.at + end, rest * sizeof *n->lives.at);
    if (first != end) n->lives.n -= end - first - 1;
    n->lives.at[first] = l;
}

static void live_like(pool *p, node *n, const node *child)
{
    for (uint32_t i = 0; i < child->lives.n; i++) live(p, n, child->lives.at[i]);
}

/* ---- nodes --------------------------------------------------------------------------- */

static void measure(pool *p, node *n)
{
    if (n->role == SPATIAL) {
        n->bytes =
            plan_round(n->children.at[0]->bytes, p->problem->align) + n->children.at[1]->bytes;
        return;
    }
    n->bytes = 0;
    for (uint32_t i = 0; i < n->children.n; i++)
        if (n->children.at[i]->bytes > n->bytes) n->bytes = n->children.at[i]->bytes;
}

static node *new_node(pool *p, kind role, node *left, node *right)
{
    node *n = MR_NEW(p->ctx, node);
    n->role = role;
    MR_PUSH(p->ctx, &n->children, left);
    live_like(p, n, left);
    if (right) {
        MR_PUSH(p->ctx, &n->children, right);
        live_like(p, n, right);
    }
    measure(p, n);
    return n;
}

static node *temporal(pool *p, node *only)
{
    return new_node(p, TEMPORAL, only, NULL);
}

/* The node with so many bytes more behind it. */
static node *extended(pool *p, node *left, uint64_t extra)
{
    node *empty = MR_NEW(p->ctx, node);
    empty->role = EMPTY;
    empty->bytes = extra;
    return new_node(p, SPATIAL, temporal(p, left), temporal(p, empty));
}

static node *block_of(pool *p, uint32_t buffer, life l)
{
    node *n = MR_NEW(p->ctx, node);
    n->role = BLOCK;
    n->buffer = buffer;
    n->bytes = plan_round(p->problem->buffers.at[buffer].bytes, p->problem->align);
    live(p, n, l);
    return n;
}

/* ---- allocation ---------------------------------------------------------------------- */

static bool allocate(pool *p, node *n, node *block, bool last);

/* The slot is free for the whole life of the block. */
static void move_in(pool *p, node *n, node *block)
{
    const uint64_t slot = n->bytes;
    if (n->children.n == 1 && n->children.at[0]->role == EMPTY) n->children.n = 0;
    for (uint32_t i = 0; slot < block->bytes && i < n->children.n; i++)
        n->children.at[i] = extended(p, n->children.at[i], block->bytes - slot);
    MR_PUSH(p->ctx, &n->children,
            slot > block->bytes ? extended(p, block, slot - block->bytes) : block);
}

static bool allocate_temporal(pool *p, node *n, node *block, bool last)
{
    if (!last && block->bytes > n->bytes) return false;
    node *met = NULL;
    for (uint32_t i = 0; i < n->children.n; i++) {
        if (!meets(n->children.at[i], &block->lives.at[0])) continue;
        if (met) return false;
        met = n->children.at[i];
    }
    if (met) return allocate(p, met, block, last);
    move_in(p, n, block);
    return true;
}

static bool allocate(pool *p, node *n, node *block, bool last)
{
    const bool done = n->role == TEMPORAL  ? allocate_temporal(p, n, block, last)
                      : n->role == SPATIAL ? allocate(p, n->children.at[0], block, false)
                                                 || allocate(p, n->children.at[1], block, last)
                                           : false;
    if (!done) return false;
    live(p, n, block->lives.at[0]);
    measure(p, n);
    return true;
}

static void assign(const pool *p, const node *n, uint64_t offset, uint64_t *out)
{
    if (n->role == BLOCK) out[n->buffer] = offset;
    for (uint32_t i = 0; i < n->children.n; i++) {
        const bool right = n->role == SPATIAL && i == 1;
        const uint64_t skip =
            right ? plan_round(n->children.at[0]->bytes, p->problem->align) : 0;
        assign(p, n->children.at[i], offset + skip, out);
    }
}

/* ---- the rule ------------------------------------------------------------------------ */

static const uint32_t *by_size(mr_ctx *ctx, const plan_problem *problem)
{
    plan_key *keys = plan_keys(ctx, problem);
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        keys[i].first = b->bytes;
        keys[i].second = b->upper - b->lower;
    }
    return plan_sort(ctx, keys, problem->buffers.n);
}

void plan_rule_inductor(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    const uint32_t *order = by_size(ctx, problem);
    pool p = {ctx, problem, NULL};
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_piece *piece = &problem->pieces.at[problem->buffers.at[order[i]].piece];
        node *block = block_of(&p, order[i], (life){piece->from, piece->to});
        if (!p.root) p.root = temporal(&p, block);
        else if (!allocate(&p, p.root, block, true))
            p.root = temporal(&p, new_node(&p, SPATIAL, p.root, temporal(&p, block)));
    }
    out->offset = MR_NEW_N(ctx, uint64_t, problem->buffers.n);
    assign(&p, p.root, 0, out->offset);
    out->height = plan_height(problem, out->offset);
}
