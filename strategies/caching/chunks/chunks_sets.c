/* chunks_sets -- sets of free chunks by address: treaps (Seidel and Aragon, 1996).
 *
 * A tree knows the largest chunk of every subtree, so that the lowest one with enough room is
 * found on one way down.
 */
#include "chunks.h"

/* ---- trees: root 0 is none, else the number of the chunk + 1 ----------------------------- */

static chunk *get(const chunks *c, uint32_t link)
{
    return &c->all.at[link - 1];
}

static bool below(const chunk *a, const chunk *b)
{
    return a->address < b->address;
}

static uint64_t most(const chunks *c, uint32_t link)
{
    return link ? get(c, link)->most : 0;
}

static void update(const chunks *c, uint32_t link)
{
    chunk *n = get(c, link);
    const uint64_t left = most(c, n->left), right = most(c, n->right);
    const uint64_t side = left > right ? left : right;
    n->most = n->bytes > side ? n->bytes : side;
}

/* Parts the tree below `link` at the key. */
static void part(const chunks *c, uint32_t link, const chunk *key, uint32_t *low,
                 uint32_t *high)
{
    if (!link) {
        *low = *high = 0;
        return;
    }
    chunk *n = get(c, link);
    if (below(n, key)) {
        *low = link;
        part(c, n->right, key, &n->right, high);
    } else {
        *high = link;
        part(c, n->left, key, low, &n->left);
    }
    update(c, link);
}

void chunks_tree_add(chunks *c, chunks_tree *tree, uint32_t id)
{
    chunk *new = &c->all.at[id];
    uint32_t *link = &tree->root;
    while (*link && get(c, *link)->priority >= new->priority) {
        chunk *n = get(c, *link);
        if (new->bytes > n->most) n->most = new->bytes;
        link = below(n, new) ? &n->right : &n->left;
    }
    part(c, *link, new, &new->left, &new->right);
    *link = id + 1;
    new->free = true;
    update(c, id + 1);
}

/* Makes one tree of two of which all of `low` comes before all of `high`; returns its root. */
static uint32_t merge(const chunks *c, uint32_t low, uint32_t high)
{
    if (!low || !high) return low ? low : high;
    chunk *l = get(c, low), *h = get(c, high);
    const bool low_is_root = l->priority >= h->priority;
    if (low_is_root) l->right = merge(c, l->right, high);
    else h->left = merge(c, low, h->left);
    update(c, low_is_root ? low : high);
    return low_is_root ? low : high;
}

static uint32_t without(const chunks *c, uint32_t link, uint32_t gone)
{
    chunk *n = get(c, link);
    if (link == gone) return merge(c, n->left, n->right);
    if (below(n, get(c, gone))) n->right = without(c, n->right, gone);
    else n->left = without(c, n->left, gone);
    update(c, link);
    return link;
}

void chunks_tree_remove(chunks *c, chunks_tree *tree, uint32_t id)
{
    tree->root = without(c, tree->root, id + 1);
    c->all.at[id].free = false;
}

/* ---- a free chunk that grows, or gives way to another, keeps its place ------- */

void chunks_tree_replace(chunks *c, chunks_tree *tree, uint32_t old, uint32_t id)
{
    chunk *was = &c->all.at[old];
    uint32_t path[128], n = 0, *link = &tree->root;
    while (*link != old + 1) {
        if (n < MR_COUNT(path)) path[n] = *link;
        n++;
        chunk *at = get(c, *link);
        link = below(at, was) ? &at->right : &at->left;
    }
    if (n > MR_COUNT(path)) { /* hardly: a treap is not that deep */
        chunks_tree_remove(c, tree, old);
        chunks_tree_add(c, tree, id);
        return;
    }
    chunk *new = &c->all.at[id];
    *link = id + 1;
    new->left = was->left;
    new->right = was->right;
    const uint32_t priority = new->priority; /* swapped: were it copied, many would be equal */
    new->priority = was->priority;
    was->priority = priority;
    was->free = false;
    new->free = true;
    update(c, id + 1);
    while (n-- > 0) update(c, path[n]);
}

static void grow(chunks *c, chunks_tree *tree, uint32_t id)
{
    const chunk *grown = &c->all.at[id];
    for (uint32_t link = tree->root; link;) {
        chunk *at = get(c, link);
        if (grown->bytes > at->most) at->most = grown->bytes;
        if (link == id + 1) return;
        link = below(at, grown) ? at->right : at->left;
    }
}

static bool is_free(const chunks *c, uint32_t id)
{
    return id != MR_NONE && c->all.at[id].free;
}

uint32_t chunks_tree_free(chunks *c, chunks_tree *tree, uint32_t id)
{
    const uint32_t next = c->all.at[id].next, prev = c->all.at[id].prev;
    if (is_free(c, prev)) {
        if (is_free(c, next)) {
            chunks_tree_remove(c, tree, next);
            chunks_join(c, id);
        }
        chunks_join(c, prev);
        grow(c, tree, prev);
        return prev;
    }
    if (!is_free(c, next)) {
        chunks_tree_add(c, tree, id);
        return id;
    }
    chunks_tree_replace(c, tree, next, id);
    chunks_join(c, id);
    grow(c, tree, id);
    return id;
}

static uint32_t lowest(const chunks *c, uint32_t link, uint64_t bytes)
{
    if (most(c, link) < bytes) return MR_NONE;
    for (;;) {
        const chunk *n = get(c, link);
        if (most(c, n->left) >= bytes) link = n->left;
        else if (n->bytes >= bytes) return link - 1;
        else link = n->right;
    }
}

uint32_t chunks_tree_find(const chunks *c, const chunks_tree *tree, uint64_t bytes)
{
    return lowest(c, tree->root, bytes);
}
