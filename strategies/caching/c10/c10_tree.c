/* c10_tree -- ordered sets of blocks: a B+ tree whose leaves are chained.
 *
 * The allocator asks for the smallest sufficient block, among equals the first by age or address, and
 * walks on from there in both directions; every free and every split changes a set or two.  Wide
 * nodes keep that within two or three cache lines per level, with keys beside each other; a
 * block knows its leaf, so that it is found without descending, and a change of key that
 * does not leave the leaf (the usual fate of what remains after a split) moves a few entries
 * and nothing else.
 *
 *              [ 512@a | 4096@c ]              an entry of an inner node: lower bound, child
 *              /               \
 *     [512@a, 512@b, 1024@d] ⇄ [4096@c, ...]   an entry of a leaf: key, block
 */
#include "c10_internal.h"

#include <string.h>

enum { WIDTH = 32, SPARSE = WIDTH / 4 };

typedef struct entry {
    uint64_t size, address; /* the key; `size` may carry the age of the segment below the size */
    uint32_t id;            /* a block in a leaf, else a node */
} entry;

struct c10_node {
    uint32_t n, level; /* level 0 is a leaf */
    uint32_t parent, prev, next; /* neighbours of the same level */
    entry at[WIDTH];
};

static bool below(const entry *one, const entry *other)
{
    return (one->size < other->size)
           | ((one->size == other->size) & (one->address < other->address));
}

/* Number of entries of a node that are below the key. */
static uint32_t rank(const c10_node *node, const entry *key)
{
    const entry *at = node->at;
    uint32_t n = node->n;
    while (n > 1) {
        const uint32_t half = n / 2;
        at += below(at + half - 1, key) ? half : 0;
        n -= half;
    }
    return (uint32_t)(at - node->at) + (n == 1 && below(at, key));
}

/* Where the age of a segment decides between equal sizes it stands in the low half of the key:
 * sizes are multiples of 512 there, so that 33 bits hold them. */
enum { ORDER_BITS = 31, SIZE_SHIFT = 9 };

static uint64_t ranked(const c10_allocator *a, const c10_tree *tree, uint64_t size,
                       uint32_t order)
{
    if (tree->by_address) return 0;
    if (!a->quirks.oldest_segment_wins) return size;
    const uint64_t units = size >> SIZE_SHIFT;
    return units >> (64 - ORDER_BITS) ? UINT64_MAX : units << ORDER_BITS | order;
}

static entry key_of(const c10_allocator *a, const c10_tree *tree, uint32_t block)
{
    const c10_block *b = &a->blocks[block];
    return (entry){ranked(a, tree, b->size, b->order), b->address, block};
}

static uint32_t new_node(c10_allocator *a, uint32_t level)
{
    uint32_t i = a->unused_node;
    if (i != MR_NONE) {
        a->unused_node = a->nodes[i].next;
    } else {
        if (a->nodes_n == a->nodes_cap)
            a->nodes = mr_grow(a->ctx, a->nodes, &a->nodes_cap, a->nodes_n + 1, sizeof *a->nodes);
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

/* Tells blocks or nodes which node holds them now. */
static void adopt_entries(c10_allocator *a, uint32_t i, uint32_t from, uint32_t to)
{
    const c10_node *node = &a->nodes[i];
    for (uint32_t k = from; k < to; k++) {
        if (node->level) a->nodes[node->at[k].id].parent = i;
        else a->blocks[node->at[k].id].leaf = i;
    }
}

static void insert_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot, entry e);

/* Gives the upper half of a full node to a new one behind it. */
static uint32_t split_node(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    const uint32_t j = new_node(a, a->nodes[i].level);
    c10_node *low = &a->nodes[i], *high = &a->nodes[j];
    high->n = WIDTH / 2;
    low->n = WIDTH - WIDTH / 2;
    memcpy(high->at, low->at + low->n, high->n * sizeof *high->at);
    high->prev = i;
    high->next = low->next;
    if (high->next != MR_NONE) a->nodes[high->next].prev = j;
    else if (!high->level) tree->last = j;
    low->next = j;
    adopt_entries(a, j, 0, high->n);
    if (low->parent == MR_NONE) {
        const uint32_t root = new_node(a, low->level + 1);
        a->nodes[root].n = 1;
        a->nodes[root].at[0] = a->nodes[i].at[0];
        a->nodes[root].at[0].id = i;
        a->nodes[i].parent = tree->root = root;
    }
    entry bound = a->nodes[j].at[0];
    bound.id = j;
    const c10_node *parent = &a->nodes[a->nodes[i].parent];
    uint32_t slot = 0;
    while (parent->at[slot].id != i) slot++;
    insert_at(a, tree, a->nodes[i].parent, slot + 1, bound);
    return j;
}

static void insert_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot, entry e)
{
    if (a->nodes[i].n == WIDTH) {
        const uint32_t j = split_node(a, tree, i);
        if (slot > a->nodes[i].n) slot -= a->nodes[i].n, i = j;
    }
    c10_node *node = &a->nodes[i];
    memmove(node->at + slot + 1, node->at + slot, (node->n - slot) * sizeof *node->at);
    node->at[slot] = e;
    node->n++;
    if (node->level) a->nodes[e.id].parent = i;
    else a->blocks[e.id].leaf = i;
}

static uint32_t leaf_for(const c10_allocator *a, const c10_tree *tree, const entry *key)
{
    uint32_t i = tree->root;
    while (a->nodes[i].level) {
        const c10_node *node = &a->nodes[i];
        uint32_t slot = rank(node, key);
        if (slot == node->n || below(key, &node->at[slot])) slot -= slot > 0;
        i = node->at[slot].id;
    }
    return i;
}

void c10_tree_insert(c10_allocator *a, c10_tree *tree, uint32_t block)
{
    const entry key = key_of(a, tree, block);
    if (tree->root == MR_NONE) tree->root = tree->first = tree->last = new_node(a, 0);
    const uint32_t leaf = leaf_for(a, tree, &key);
    insert_at(a, tree, leaf, rank(&a->nodes[leaf], &key), key);
}

static void remove_at(c10_allocator *a, c10_tree *tree, uint32_t i, uint32_t slot);

static void remove_node(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    const c10_node *node = &a->nodes[i];
    if (node->prev != MR_NONE) a->nodes[node->prev].next = node->next;
    else if (!node->level) tree->first = node->next;
    if (node->next != MR_NONE) a->nodes[node->next].prev = node->prev;
    else if (!node->level) tree->last = node->prev;
    const uint32_t up = node->parent;
    drop_node(a, i);
    if (up == MR_NONE) {
        tree->root = tree->first = tree->last = MR_NONE;
        return;
    }
    uint32_t slot = 0;
    while (a->nodes[up].at[slot].id != i) slot++;
    remove_at(a, tree, up, slot);
}

/* Moves everything from the node behind into this one when both are sparse. */
static void join_next(c10_allocator *a, c10_tree *tree, uint32_t i)
{
    c10_node *node = &a->nodes[i];
    if (node->next == MR_NONE) return;
    c10_node *behind = &a->nodes[node->next];
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

void c10_tree_remove(c10_allocator *a, c10_tree *tree, uint32_t block)
{
    const entry key = key_of(a, tree, block);
    const uint32_t leaf = a->blocks[block].leaf;
    remove_at(a, tree, leaf, rank(&a->nodes[leaf], &key));
}

void c10_tree_move(c10_allocator *a, c10_tree *tree, uint32_t block, uint64_t size,
                   uint64_t address)
{
    const entry old = key_of(a, tree, block);
    const entry key = {ranked(a, tree, size, a->blocks[block].order), address, block};
    const uint32_t leaf = a->blocks[block].leaf;
    c10_node *node = &a->nodes[leaf];
    const uint32_t from = rank(node, &old);
    uint32_t to = rank(node, &key);
    a->blocks[block].size = size;
    a->blocks[block].address = address;
    if ((to == 0 && node->prev != MR_NONE) || (to == node->n && node->next != MR_NONE)) {
        remove_at(a, tree, leaf, from);
        c10_tree_insert(a, tree, block);
        return;
    }
    if (to > from) {
        to--;
        memmove(node->at + from, node->at + from + 1, (to - from) * sizeof *node->at);
    } else {
        memmove(node->at + to + 1, node->at + to, (from - to) * sizeof *node->at);
    }
    node->at[to] = key;
}

c10_cursor c10_tree_first(const c10_tree *tree)
{
    return (c10_cursor){tree->first, 0};
}

c10_cursor c10_tree_at_least(const c10_allocator *a, const c10_tree *tree, uint64_t size)
{
    if (tree->root == MR_NONE) return (c10_cursor){MR_NONE, 0};
    const entry key = {ranked(a, tree, size, 0), 0, 0};
    const uint32_t leaf = leaf_for(a, tree, &key);
    const c10_node *node = &a->nodes[leaf];
    const uint32_t slot = rank(node, &key);
    return slot < node->n ? (c10_cursor){leaf, slot} : (c10_cursor){node->next, 0};
}

c10_cursor c10_tree_below(const c10_allocator *a, const c10_tree *tree, uint64_t size)
{
    const c10_cursor at = c10_tree_at_least(a, tree, size);
    if (at.node != MR_NONE) return c10_tree_previous(a, at);
    if (tree->last == MR_NONE) return at;
    return (c10_cursor){tree->last, a->nodes[tree->last].n - 1};
}

c10_cursor c10_tree_next(const c10_allocator *a, c10_cursor at)
{
    const c10_node *node = &a->nodes[at.node];
    if (at.slot + 1 < node->n) return (c10_cursor){at.node, at.slot + 1};
    return (c10_cursor){node->next, 0};
}

c10_cursor c10_tree_previous(const c10_allocator *a, c10_cursor at)
{
    if (at.slot) return (c10_cursor){at.node, at.slot - 1};
    const uint32_t before = a->nodes[at.node].prev;
    return (c10_cursor){before, before == MR_NONE ? 0 : a->nodes[before].n - 1};
}

uint32_t c10_tree_block(const c10_allocator *a, c10_cursor at)
{
    return at.node == MR_NONE ? MR_NONE : a->nodes[at.node].at[at.slot].id;
}
