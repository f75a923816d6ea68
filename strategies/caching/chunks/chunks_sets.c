/* chunks_sets -- sets of free chunks: treaps (Seidel and Aragon, 1996) and bins of them.
 *
 * A tree by address also knows the largest chunk of every subtree, so that the lowest one with
 * enough room is found on one way down.
 */
#include "chunks.h"

#include <string.h>

/* ---- trees: root 0 is none, else the number of the chunk + 1 ----------------------------- */

static chunk *get(const chunks *c, uint32_t link)
{
    return &c->all.at[link - 1];
}

static bool below(const chunks_tree *tree, const chunk *a, const chunk *b)
{
    if (!tree->by_address && a->bytes != b->bytes) return a->bytes < b->bytes;
    return a->address < b->address;
}

static uint64_t most(const chunks *c, uint32_t link)
{
    return link ? get(c, link)->most : 0;
}

static void update(const chunks *c, const chunks_tree *tree, uint32_t link)
{
    if (!tree->by_address) return;
    chunk *n = get(c, link);
    const uint64_t left = most(c, n->left), right = most(c, n->right);
    const uint64_t side = left > right ? left : right;
    n->most = n->bytes > side ? n->bytes : side;
}

/* Parts the tree below `link` at the key. */
static void part(const chunks *c, const chunks_tree *tree, uint32_t link, const chunk *key,
                 uint32_t *low, uint32_t *high)
{
    if (!link) {
        *low = *high = 0;
        return;
    }
    chunk *n = get(c, link);
    if (below(tree, n, key)) {
        *low = link;
        part(c, tree, n->right, key, &n->right, high);
    } else {
        *high = link;
        part(c, tree, n->left, key, low, &n->left);
    }
    update(c, tree, link);
}

static void part_by_size(const chunks *c, const chunks_tree *tree, uint32_t link,
                         const chunk *key, uint32_t *low, uint32_t *high)
{
    while (link) {
        chunk *n = get(c, link);
        if (below(tree, n, key)) {
            *low = link;
            low = &n->right;
            link = n->right;
        } else {
            *high = link;
            high = &n->left;
            link = n->left;
        }
    }
    *low = *high = 0;
}

void chunks_tree_add(chunks *c, chunks_tree *tree, uint32_t id)
{
    chunk *new = &c->all.at[id];
    uint32_t *link = &tree->root;
    while (*link && get(c, *link)->priority >= new->priority) {
        chunk *n = get(c, *link);
        if (tree->by_address && new->bytes > n->most) n->most = new->bytes;
        link = below(tree, n, new) ? &n->right : &n->left;
    }
    if (tree->by_address) part(c, tree, *link, new, &new->left, &new->right);
    else part_by_size(c, tree, *link, new, &new->left, &new->right);
    *link = id + 1;
    new->free = true;
    update(c, tree, id + 1);
}

/* Makes one tree of two of which all of `low` comes before all of `high`; returns its root. */
static uint32_t merge(const chunks *c, const chunks_tree *tree, uint32_t low, uint32_t high)
{
    if (!low || !high) return low ? low : high;
    chunk *l = get(c, low), *h = get(c, high);
    const bool low_is_root = l->priority >= h->priority;
    if (low_is_root) l->right = merge(c, tree, l->right, high);
    else h->left = merge(c, tree, low, h->left);
    update(c, tree, low_is_root ? low : high);
    return low_is_root ? low : high;
}

static uint32_t without(const chunks *c, const chunks_tree *tree, uint32_t link, uint32_t gone)
{
    chunk *n = get(c, link);
    if (link == gone) return merge(c, tree, n->left, n->right);
    if (below(tree, n, get(c, gone))) n->right = without(c, tree, n->right, gone);
    else n->left = without(c, tree, n->left, gone);
    update(c, tree, link);
    return link;
}

/* In a tree by size nothing has to be known on the way back. */
static void unlink_by_size(const chunks *c, chunks_tree *tree, uint32_t gone)
{
    const chunk *old = get(c, gone);
    uint32_t *link = &tree->root;
    while (*link != gone) {
        chunk *n = get(c, *link);
        link = below(tree, n, old) ? &n->right : &n->left;
    }
    uint32_t low = old->left, high = old->right;
    while (low && high) {
        chunk *l = get(c, low), *h = get(c, high);
        if (l->priority >= h->priority) {
            *link = low;
            link = &l->right;
            low = *link;
        } else {
            *link = high;
            link = &h->left;
            high = *link;
        }
    }
    *link = low ? low : high;
}

void chunks_tree_remove(chunks *c, chunks_tree *tree, uint32_t id)
{
    if (tree->by_address) tree->root = without(c, tree, tree->root, id + 1);
    else unlink_by_size(c, tree, id + 1);
    c->all.at[id].free = false;
}

/* ---- by address: a free chunk that grows, or gives way to another, keeps its place ------- */

void chunks_tree_replace(chunks *c, chunks_tree *tree, uint32_t old, uint32_t id)
{
    chunk *was = &c->all.at[old];
    uint32_t path[128], n = 0, *link = &tree->root;
    while (*link != old + 1) {
        if (n < MR_COUNT(path)) path[n] = *link;
        n++;
        chunk *at = get(c, *link);
        link = below(tree, at, was) ? &at->right : &at->left;
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
    update(c, tree, id + 1);
    while (n-- > 0) update(c, tree, path[n]);
}

static void grow(chunks *c, chunks_tree *tree, uint32_t id)
{
    const chunk *grown = &c->all.at[id];
    for (uint32_t link = tree->root; link;) {
        chunk *at = get(c, link);
        if (grown->bytes > at->most) at->most = grown->bytes;
        if (link == id + 1) return;
        link = below(tree, at, grown) ? at->right : at->left;
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
    if (tree->by_address) return lowest(c, tree->root, bytes);
    uint32_t best = MR_NONE;
    for (uint32_t link = tree->root; link;) {
        const chunk *n = get(c, link);
        if (n->bytes >= bytes) best = link - 1;
        link = n->bytes >= bytes ? n->left : n->right;
    }
    return best;
}

static void list(const chunks *c, uint32_t link, chunks_list *out)
{
    if (!link) return;
    list(c, get(c, link)->left, out);
    MR_PUSH(c->ctx, out, link - 1);
    list(c, get(c, link)->right, out);
}

/* ---- bins -------------------------------------------------------------------------------- */

/* The exponent of the binary representation of a double, and the first bits after it: the size
 * of numbers on a scale that is as fine everywhere. */
static uint32_t scale(double n, unsigned bits)
{
    uint64_t image;
    memcpy(&image, &n, sizeof image);
    return (uint32_t)(image >> (52 - bits)) - (UINT32_C(1023) << bits);
}

static uint32_t bin_of(uint64_t bytes)
{
    return bytes ? scale((double)(int64_t)bytes, 5) : 0;
}

static uint32_t lowest_bit(uint64_t word)
{
    return scale((double)(word & (~word + 1)), 0); /* a power of two, which a double holds */
}

/* The first bin from `i` on that is not empty. */
static uint32_t next_bin(const chunks_bins *bins, uint32_t i)
{
    if (i >= CHUNK_BINS) return MR_NONE;
    uint32_t w = i / 64;
    uint64_t word = bins->words[w] & UINT64_MAX << i % 64;
    if (!word) {
        const uint32_t more = bins->some & UINT32_MAX << w << 1;
        if (!more) return MR_NONE;
        w = lowest_bit(more);
        word = bins->words[w];
    }
    return w * 64 + lowest_bit(word);
}

chunks_bins *chunks_bins_new(mr_ctx *ctx)
{
    return MR_NEW(ctx, chunks_bins);
}

void chunks_bins_add(chunks *c, chunks_bins *bins, uint32_t id)
{
    const uint32_t i = bin_of(c->all.at[id].bytes);
    chunks_tree tree = {.root = bins->roots[i]};
    chunks_tree_add(c, &tree, id);
    bins->roots[i] = tree.root;
    bins->words[i / 64] |= UINT64_C(1) << i % 64;
    bins->some |= UINT32_C(1) << i / 64;
}

void chunks_bins_remove(chunks *c, chunks_bins *bins, uint32_t id)
{
    const uint32_t i = bin_of(c->all.at[id].bytes);
    chunks_tree tree = {.root = bins->roots[i]};
    chunks_tree_remove(c, &tree, id);
    bins->roots[i] = tree.root;
    if (tree.root) return;
    bins->words[i / 64] &= ~(UINT64_C(1) << i % 64);
    if (!bins->words[i / 64]) bins->some &= ~(UINT32_C(1) << i / 64);
}

uint32_t chunks_bins_find(const chunks *c, const chunks_bins *bins, uint64_t bytes)
{
    uint32_t i = bin_of(bytes);
    const uint32_t found = chunks_tree_find(c, &(chunks_tree){.root = bins->roots[i]}, bytes);
    if (found != MR_NONE) return found;
    i = next_bin(bins, i + 1);
    if (i == MR_NONE) return MR_NONE;
    return chunks_tree_find(c, &(chunks_tree){.root = bins->roots[i]}, bytes);
}

void chunks_bins_list(const chunks *c, const chunks_bins *bins, chunks_list *out)
{
    for (uint32_t i = next_bin(bins, 0); i != MR_NONE; i = next_bin(bins, i + 1))
        list(c, bins->roots[i], out);
}
