/* c10_tree -- ordered sets of blocks: a B+ tree.
 *
 *              [ 512@a | 4096@c ]            an entry of an inner node: lower bound, child
 *              /               \
 *     [512@a, 512@b, 1024@d]   [4096@c, ...]   an entry of a leaf: key, block
 *
 * Leaves are chained.  A node that runs empty is joined with the one behind it.
 */
#include "c10_internal.h"

#include <string.h>

enum { WIDTH = 32, SPARSE = WIDTH / 4 };

struct c10_node {
    uint32_t n, level;           /* level 0 is a leaf */
    uint32_t parent, prev, next; /* neighbours of the same level */
    c10_key at[WIDTH];           /* of a block in a leaf, else the lower bound of a node */
};

/* Number of entries of a node that are below the key. */
static uint32_t rank(const c10_node *node, const c10_key *key)
{
    const c10_key *at = node->at;
    uint32_t n = node->n;
    while (n > 1) {
        const uint32_t half = n / 2;
        at += c10_key_below(at + half - 1, key) ? half : 0;
        n -= half;
    }
    return (uint32_t)(at - node->at) + (n == 1 && c10_key_below(at, key));
}

static uint32_t new_node(c10_allocator *a, uint32_t level)
{
    uint32_t i = a->unused_node;
    if (i != MR_NONE) {
        a->unused_node = a->nodes[i].next;
    } else {
        if (a->nodes_n == a->nodes_cap)
            a->nodes =
                mr_grow(a->ctx, a->nodes, &a->nodes_cap, a->nodes_n + 1, sizeof *a->nodes);
        i = a->nodes_n++;
    }
    c10_node *node = &a->nodes[i];
    node->n = 0;
    node->level = level;
    node->parent = node->prev = node->next = MR_NONE;
    return i;
}

static void drop_node(c10_allocator *a, uint32_t i)
{
    a->nodes[i].next = a->unused_node;
    a->unused_node = i;
}

/* Tells nodes or blocks which node holds them now. */
static void adopt_entries(c10_allocator *a, uint32_t i, uint32_t from, uint32_t to)
{
    const c10_node *node = &a->nodes[i];
    for (uint32_t k = from; k < to; k++) {
        if (node->level) a->nodes[node->at[k].id].parent = i;
        else a->blocks[node->at[k].id].place = i;
    }
}

static void insert_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot, c10_key key);

static uint32_t slot_of_child(const c10_node *parent, uint32_t child)
{
    uint32_t slot = 0;
    while (parent->at[slot].id != child) slot++;
    return slot;
}

/* The lower bound of a node, as an entry of its parent. */
static c10_key bound_of(const c10_allocator *a, uint32_t i)
{
    c10_key bound = a->nodes[i].at[0];
    bound.id = i;
    return bound;
}

static void grow_root(c10_allocator *a, c10_tree *tree)
{
    const uint32_t root = new_node(a, a->nodes[tree->root].level + 1);
    a->nodes[root].n = 1;
    a->nodes[root].at[0] = bound_of(a, tree->root);
    a->nodes[tree->root].parent = root;
    tree->root = root;
}

/* Gives the upper half of a full node to a new one behind it. */
static uint32_t split_node(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    const uint32_t j = new_node(a, a->nodes[i].level);
    c10_node *low = &a->nodes[i], *high = &a->nodes[j];
    low->n = high->n = WIDTH / 2;
    memcpy(high->at, low->at + low->n, high->n * sizeof *high->at);
    high->prev = i;
    high->next = low->next;
    if (high->next != MR_NONE) a->nodes[high->next].prev = j;
    low->next = j;
    adopt_entries(a, j, 0, high->n);
    if (low->parent == MR_NONE) grow_root(a, tree);
    const uint32_t up = a->nodes[i].parent;
    insert_at(a, tree, up, slot_of_child(&a->nodes[up], i) + 1, bound_of(a, j));
    return j;
}

static void insert_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot, c10_key key)
{
    if (a->nodes[i].n == WIDTH) {
        const uint32_t j = split_node(a, tree, i);
        if (slot > WIDTH / 2) slot -= WIDTH / 2, i = j;
    }
    c10_node *node = &a->nodes[i];
    memmove(node->at + slot + 1, node->at + slot, (node->n - slot) * sizeof *node->at);
    node->at[slot] = key;
    node->n++;
    if (node->level) a->nodes[key.id].parent = i;
    else a->blocks[key.id].place = i;
}

/* Which child of an inner node the key belongs to. */
static uint32_t child_for(const c10_node *node, const c10_key *key)
{
    const uint32_t slot = rank(node, key);
    const bool exact = slot < node->n && !c10_key_below(key, &node->at[slot]);
    return slot - (slot > 0 && !exact);
}

static uint32_t leaf_for(const c10_allocator *a, const c10_tree *tree, const c10_key *key)
{
    uint32_t i = tree->root;
    while (a->nodes[i].level) i = a->nodes[i].at[child_for(&a->nodes[i], key)].id;
    return i;
}

void c10_tree_insert(c10_allocator *a, c10_tree *tree, c10_key key)
{
    if (tree->root == MR_NONE) tree->root = new_node(a, 0);
    uint32_t i = tree->root;
    while (a->nodes[i].level) {
        c10_key *child = &a->nodes[i].at[child_for(&a->nodes[i], &key)];
        i = child->id;
        if (!c10_key_below(&key, child)) continue;
        *child = key; /* below everything: the first child's bound goes down */
        child->id = i;
    }
    insert_at(a, tree, i, rank(&a->nodes[i], &key), key);
}

static void remove_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot);

static void remove_node(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    const c10_node *node = &a->nodes[i];
    if (node->prev != MR_NONE) a->nodes[node->prev].next = node->next;
    if (node->next != MR_NONE) a->nodes[node->next].prev = node->prev;
    const uint32_t up = node->parent;
    drop_node(a, i);
    if (up == MR_NONE) tree->root = MR_NONE;
    else remove_at(a, tree, up, slot_of_child(&a->nodes[up], i));
}

/* Moves everything from the node behind into this one when both are sparse. */
static void join_next(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    c10_node *node = &a->nodes[i];
    if (node->next == MR_NONE) return;
    const c10_node *behind = &a->nodes[node->next];
    if (behind->parent != node->parent || node->n + behind->n > WIDTH / 2) return;
    memcpy(node->at + node->n, behind->at, behind->n * sizeof *node->at);
    const uint32_t from = node->n;
    node->n += behind->n;
    adopt_entries(a, i, from, node->n);
    remove_node(a, tree, node->next);
}

static void remove_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot)
{
    c10_node *node = &a->nodes[i];
    node->n--;
    memmove(node->at + slot, node->at + slot + 1, (node->n - slot) * sizeof *node->at);
    if (!node->n) {
        remove_node(a, tree, i);
    } else if (node->parent == MR_NONE) {
        if (!node->level || node->n > 1) return;
        tree->root = node->at[0].id; /* a root with one child is not needed */
        a->nodes[tree->root].parent = MR_NONE;
        drop_node(a, i);
    } else if (node->n < SPARSE) {
        join_next(a, tree, i);
    }
}

void c10_tree_remove(c10_allocator *a, c10_tree *tree, c10_key key)
{
    const uint32_t leaf = a->blocks[key.id].place;
    remove_at(a, tree, leaf, rank(&a->nodes[leaf], &key));
}

uint32_t c10_tree_at_least(const c10_allocator *a, const c10_tree *tree, c10_key key)
{
    if (tree->root == MR_NONE) return MR_NONE;
    const c10_node *node = &a->nodes[leaf_for(a, tree, &key)];
    const uint32_t slot = rank(node, &key);
    if (slot < node->n) return node->at[slot].id;
    return node->next == MR_NONE ? MR_NONE : a->nodes[node->next].at[0].id;
}

uint32_t c10_tree_below(const c10_allocator *a, const c10_tree *tree, c10_key key)
{
    if (tree->root == MR_NONE) return MR_NONE;
    const c10_node *node = &a->nodes[leaf_for(a, tree, &key)];
    const uint32_t slot = rank(node, &key);
    if (slot) return node->at[slot - 1].id;
    if (node->prev == MR_NONE) return MR_NONE;
    node = &a->nodes[node->prev];
    return node->at[node->n - 1].id;
}
