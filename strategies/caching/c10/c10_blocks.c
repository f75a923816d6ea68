/* c10_blocks -- the array of blocks, and joining neighbours.
 *
 * The blocks of a segment tile it and are chained by address.  Two neighbours are never both
 * free, nor both holes: whoever becomes one joins them at once.  The record that lives on is a
 * neighbour's, because that one has its place in the ordered set already and seldom has to
 * leave it.
 */
#include "c10_internal.h"

uint32_t c10_block_new(c10_allocator *a, uint32_t set, uint64_t address, uint64_t size)
{
    uint32_t b = a->unused_block;
    if (b != MR_NONE) {
        a->unused_block = a->blocks[b].next;
    } else {
        if (a->blocks_n == a->blocks_cap)
            a->blocks =
                mr_grow(a->ctx, a->blocks, &a->blocks_cap, a->blocks_n + 1, sizeof *a->blocks);
        b = a->blocks_n++;
    }
    a->blocks[b] = (c10_block){.address = address,
                               .size = size,
                               .set = set,
                               .prev = MR_NONE,
                               .next = MR_NONE,
                               .expandable = MR_NONE,
                               .uses = MR_NONE,
                               .place = MR_NONE,
                               .state = C10_BLOCK_LIVE};
    return b;
}

uint32_t c10_block_piece(c10_allocator *a, uint32_t b, uint64_t address, uint64_t size)
{
    const uint32_t piece = c10_block_new(a, a->blocks[b].set, address, size);
    a->blocks[piece].expandable = a->blocks[b].expandable;
    a->blocks[piece].order = a->blocks[b].order;
    return piece;
}

void c10_block_drop(c10_allocator *a, uint32_t b)
{
    a->blocks[b].state = C10_BLOCK_UNUSED;
    a->blocks[b].next = a->unused_block;
    a->unused_block = b;
}

void c10_block_link(c10_allocator *a, uint32_t b, uint32_t prev, uint32_t next)
{
    a->blocks[b].prev = prev;
    a->blocks[b].next = next;
    if (prev != MR_NONE) a->blocks[prev].next = b;
    if (next != MR_NONE) a->blocks[next].prev = b;
}

static bool joins(const c10_allocator *a, uint32_t neighbour, c10_block_state state)
{
    return neighbour != MR_NONE && a->blocks[neighbour].state == state;
}

/* The block behind `b` becomes part of it. */
static void swallow_next(c10_allocator *a, uint32_t b)
{
    const uint32_t next = a->blocks[b].next, behind = a->blocks[next].next;
    a->blocks[b].next = behind;
    if (behind != MR_NONE) a->blocks[behind].prev = b;
    c10_block_drop(a, next);
}

/* The block before `b` becomes part of it. */
static void swallow_prev(c10_allocator *a, uint32_t b)
{
    const uint32_t prev = a->blocks[b].prev, before = a->blocks[prev].prev;
    a->blocks[b].prev = before;
    if (before != MR_NONE) a->blocks[before].next = b;
    c10_block_drop(a, prev);
}

static void insert(c10_allocator *a, uint32_t b, c10_block_state state)
{
    c10_set *set = &a->sets.at[a->blocks[b].set];
    if (state == C10_BLOCK_FREE) c10_bins_insert(a, &set->free, b);
    else c10_tree_insert(a, &set->holes, c10_key_of_hole(a, b));
}

static void remove_from_set(c10_allocator *a, uint32_t b, c10_block_state state)
{
    c10_set *set = &a->sets.at[a->blocks[b].set];
    if (state == C10_BLOCK_FREE) c10_bins_remove(a, &set->free, b);
    else c10_tree_remove(a, &set->holes, c10_key_of_hole(a, b));
}

void c10_block_resize(c10_allocator *a, uint32_t b, c10_block_state state, uint64_t size,
                      uint64_t address)
{
    c10_block *block = &a->blocks[b];
    c10_set *set = &a->sets.at[block->set];
    if (state == C10_BLOCK_FREE) {
        c10_bins_move(a, &set->free, b, size, address);
        return;
    }
    c10_tree_remove(a, &set->holes, c10_key_of_hole(a, b));
    block->size = size;
    block->address = address;
    c10_tree_insert(a, &set->holes, c10_key_of_hole(a, b));
}

c10_absorbed c10_block_settle(c10_allocator *a, uint32_t *b, c10_block_state state)
{
    const c10_block block = a->blocks[*b];
    const bool with_prev = joins(a, block.prev, state), with_next = joins(a, block.next, state);
    const uint64_t before = with_prev ? a->blocks[block.prev].size : 0;
    const uint64_t behind = with_next ? a->blocks[block.next].size : 0;
    const uint64_t size = before + block.size + behind;
    uint32_t whole = *b;
    if (with_prev) {
        whole = block.prev;
        if (with_next) {
            remove_from_set(a, block.next, state);
            swallow_next(a, *b);
        }
        c10_block_resize(a, whole, state, size, a->blocks[whole].address);
        swallow_next(a, whole);
    } else if (with_next) {
        whole = block.next;
        c10_block_resize(a, whole, state, size, block.address);
        swallow_prev(a, whole);
    } else {
        insert(a, whole, state);
    }
    a->blocks[whole].requested = block.requested;
    a->blocks[whole].born = c10_searches(a, block.set);
    a->blocks[whole].state = (uint8_t)state;
    *b = whole;
    return (c10_absorbed){(uint64_t)with_prev + with_next, before + behind};
}
