/* chunks_sets -- sets of free chunks by address: B+ trees.
 *
 *              [ a: 9 | d: 7 ]                an entry of an inner node: lowest, largest
 *              /             \
 *     [ a: 2 | b: 9 | c: 1 ]  [ d: 7 | ... ]    an entry of a leaf: address and bytes of a chunk
 *
 * Each node knows the largest chunk below every entry, so that the lowest one with enough room
 * is found on one way down.  A chunk knows its leaf.
 */
#include "chunks.h"

#include <string.h>

enum { SPARSE = CHUNK_WIDTH / 4 };

/* ---- nodes ------------------------------------------------------------------------------- */

static chunks_node *new_node(chunks *c, uint32_t level)
{
    chunks_node *node = c->spare_node;
    if (node) c->spare_node = node->parent;
    else node = MR_NEW(c->ctx, chunks_node);
    node->n = 0;
    node->level = level;
    node->parent = NULL;
    node->top = 0;
    return node;
}

static void drop_node(chunks *c, chunks_node *node)
{
    node->parent = c->spare_node;
    c->spare_node = node;
}

/* Number of entries that lie below the address. */
static uint32_t rank(const chunks_node *node, uint64_t address)
{
    const uint64_t *at = node->address;
    uint32_t n = node->n;
    while (n > 1) {
        const uint32_t half = n / 2;
        at += at[half - 1] < address ? half : 0;
        n -= half;
    }
    return (uint32_t)(at - node->address) + (n == 1 && *at < address);
}

static uint32_t slot_of(const chunks_node *parent, const chunks_node *child)
{
    uint32_t slot = 0;
    while (parent->at[slot].node != child) slot++;
    return slot;
}

static uint64_t most_of(const chunks_node *node)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < node->n; i++) most = node->most[i] > most ? node->most[i] : most;
    return most;
}

/* Tells chunks or nodes which node holds them now. */
static void adopt(chunks *c, chunks_node *node, uint32_t from)
{
    for (uint32_t i = from; i < node->n; i++) {
        if (node->level) node->at[i].node->parent = node;
        else c->all.at[node->at[i].chunk].leaf = node;
    }
}

/* Moves the entries from one slot on to another slot, of another node perhaps. */
static void shift(chunks_node *to, uint32_t slot, const chunks_node *from, uint32_t first,
                  uint32_t n)
{
    memmove(to->address + slot, from->address + first, n * sizeof *to->address);
    memmove(to->most + slot, from->most + first, n * sizeof *to->most);
    memmove(to->at + slot, from->at + first, n * sizeof *to->at);
}

/* The entry in this slot `was` so large and is now another, or gone (0): what the nodes above
 * say of it follows.  Mostly that is nothing. */
static void refresh(chunks_node *node, uint32_t slot, uint64_t was, uint64_t now)
{
    for (;;) {
        const uint64_t old = node->top;
        if (now >= old) node->top = now;
        else if (was == old) node->top = most_of(node);
        chunks_node *up = node->parent;
        if (!up || (slot && node->top == old)) return;
        slot = slot_of(up, node);
        if (up->address[slot] == node->address[0] && node->top == old) return;
        up->address[slot] = node->address[0];
        up->most[slot] = node->top;
        was = old;
        now = node->top;
        node = up;
    }
}

/* ---- adding ------------------------------------------------------------------------------ */

typedef struct entry {
    uint64_t address, most;
    chunks_child at;
} entry;

static entry entry_of(chunks_node *node)
{
    return (entry){node->address[0], node->top, {.node = node}};
}

static void insert(chunks *c, chunks_tree *tree, chunks_node *node, uint32_t slot, entry new);

static void grow_root(chunks *c, chunks_tree *tree)
{
    chunks_node *old = tree->root;
    tree->root = new_node(c, old->level + 1);
    insert(c, tree, tree->root, 0, entry_of(old));
}

/* The upper half of a full node goes into a new one behind it, which is returned. */
static chunks_node *split_node(chunks *c, chunks_tree *tree, chunks_node *low)
{
    chunks_node *high = new_node(c, low->level);
    low->n = high->n = CHUNK_WIDTH / 2;
    shift(high, 0, low, low->n, high->n);
    adopt(c, high, 0);
    low->top = most_of(low);
    high->top = most_of(high);
    if (!low->parent) grow_root(c, tree);
    const uint32_t slot = slot_of(low->parent, low);
    low->parent->most[slot] = low->top;
    insert(c, tree, low->parent, slot + 1, entry_of(high));
    return high;
}

static void insert(chunks *c, chunks_tree *tree, chunks_node *node, uint32_t slot, entry new)
{
    if (node->n == CHUNK_WIDTH) {
        chunks_node *high = split_node(c, tree, node);
        if (slot > node->n) slot -= node->n, node = high;
    }
    shift(node, slot + 1, node, slot, node->n - slot);
    node->address[slot] = new.address;
    node->most[slot] = new.most;
    node->at[slot] = new.at;
    node->n++;
    if (node->level) new.at.node->parent = node;
    else c->all.at[new.at.chunk].leaf = node;
    refresh(node, slot, 0, new.most);
}

void chunks_tree_add(chunks *c, chunks_tree *tree, uint32_t id)
{
    chunk *new = &c->all.at[id];
    if (!tree->root) tree->root = new_node(c, 0);
    chunks_node *node = tree->root;
    while (node->level) {
        const uint32_t n = rank(node, new->address + 1); /* that begin at or below it */
        node = node->at[n ? n - 1 : 0].node;
    }
    new->free = true;
    insert(c, tree, node, rank(node, new->address),
           (entry){new->address, new->bytes, {.chunk = id}});
}

/* ---- removing ---------------------------------------------------------------------------- */

static void take_out(chunks *c, chunks_tree *tree, chunks_node *node, uint32_t slot);

/* Everything of the node behind comes into this one when both are sparse. */
static void join_next(chunks *c, chunks_tree *tree, chunks_node *node)
{
    chunks_node *up = node->parent;
    const uint32_t slot = slot_of(up, node), from = node->n;
    if (slot + 1 == up->n) return;
    chunks_node *behind = up->at[slot + 1].node;
    if (from + behind->n > CHUNK_WIDTH / 2) return;
    shift(node, from, behind, 0, behind->n);
    node->n += behind->n;
    adopt(c, node, from);
    up->most[slot] = node->top = most_of(node);
    take_out(c, tree, up, slot + 1);
    drop_node(c, behind);
}

static void remove_node(chunks *c, chunks_tree *tree, chunks_node *node)
{
    if (node->parent) take_out(c, tree, node->parent, slot_of(node->parent, node));
    else tree->root = NULL;
    drop_node(c, node);
}

static void take_out(chunks *c, chunks_tree *tree, chunks_node *node, uint32_t slot)
{
    const uint64_t was = node->most[slot];
    node->n--;
    shift(node, slot, node, slot + 1, node->n - slot);
    if (!node->n) {
        remove_node(c, tree, node);
    } else if (!node->parent) {
        refresh(node, slot, was, 0);
        if (!node->level || node->n > 1) return;
        tree->root = node->at[0].node; /* a root with one child is not needed */
        tree->root->parent = NULL;
        drop_node(c, node);
    } else {
        refresh(node, slot, was, 0);
        if (node->n < SPARSE) join_next(c, tree, node);
    }
}

void chunks_tree_remove(chunks *c, chunks_tree *tree, uint32_t id)
{
    chunk *old = &c->all.at[id];
    old->free = false;
    take_out(c, tree, old->leaf, rank(old->leaf, old->address));
}

/* ---- a free chunk that grows, or gives way to another, keeps its place ------- */

void chunks_tree_replace(chunks *c, uint32_t old, uint32_t id)
{
    chunk *was = &c->all.at[old], *new = &c->all.at[id];
    chunks_node *leaf = was->leaf;
    const uint32_t slot = rank(leaf, was->address);
    const uint64_t bytes = leaf->most[slot];
    was->free = false;
    new->free = true;
    new->leaf = leaf;
    leaf->address[slot] = new->address;
    leaf->most[slot] = new->bytes;
    leaf->at[slot].chunk = id;
    refresh(leaf, slot, bytes, new->bytes);
}

static bool is_free(const chunks *c, uint32_t id)
{
    return id != MR_NONE && c->all.at[id].free;
}

uint32_t chunks_tree_free(chunks *c, chunks_tree *tree, uint32_t id)
{
    const uint32_t next = c->all.at[id].next, prev = c->all.at[id].prev;
    const bool high = is_free(c, next), low = is_free(c, prev);
    if (!high && !low) {
        chunks_tree_add(c, tree, id);
        return id;
    }
    if (low && high) chunks_tree_remove(c, tree, next);
    if (high) chunks_join(c, id); /* the record of `next` tells still where it was */
    if (low) chunks_join(c, prev);
    const uint32_t whole = low ? prev : id;
    chunks_tree_replace(c, low ? prev : next, whole);
    return whole;
}

/* There is one. */
static uint32_t first_of(const chunks_node *node, uint64_t bytes)
{
    uint32_t slot = 0;
    while (node->most[slot] < bytes) slot++;
    return slot;
}

uint32_t chunks_tree_find(const chunks_tree *tree, uint64_t bytes)
{
    const chunks_node *node = tree->root;
    if (!node || node->top < bytes) return MR_NONE;
    while (node->level) node = node->at[first_of(node, bytes)].node;
    return node->at[first_of(node, bytes)].chunk;
}
