/* ranges.h -- an ordered set of disjoint ranges: who lies at or before a place?
 *
 * A treap (Seidel and Aragon, 1996): a search tree by (segment, offset) that is a heap by
 * random priorities, so every operation takes O(log n) steps whatever the order of insertion.
 */
#ifndef MR_RANGES_H
#define MR_RANGES_H

#include "base.h"

typedef struct mr_range {
    uint64_t offset, bytes;
    uint32_t segment;
    uint32_t owner;
} mr_range;

typedef struct mr_ranges {
    struct mr_range_node *nodes;
    uint32_t n, cap, root, spare; /* spare: list of unused nodes */
    uint64_t random;
} mr_ranges;

/* The last range of the segment that begins at or before `offset`, NULL when there is none; and
 * the first that begins behind it.  Valid until the next change. */
mr_range *mr_ranges_at(mr_ranges *r, uint32_t segment, uint64_t offset);
mr_range *mr_ranges_after(mr_ranges *r, uint32_t segment, uint64_t offset);

/* Is some byte of [offset, offset + bytes) in a range of the segment?  Whose? */
const mr_range *mr_ranges_overlap(mr_ranges *r, uint32_t segment, uint64_t offset,
                                  uint64_t bytes);

void mr_ranges_add(mr_ctx *ctx, mr_ranges *r, mr_range range); /* does not look for overlaps */
bool mr_ranges_remove(mr_ranges *r, uint32_t segment, uint64_t offset); /* false: not there */

#endif
