/* chunks -- segments cut into chunks, and sets of free ones: parts of caching allocators.
 *
 *     segment   [ chunk 4 | chunk 9, free | chunk 2 ]      prev and next: who touches whom
 *
 * The low end of a chunk that is split, and of two that are joined, keeps its number; so the
 * first chunk of a segment is the same for ever.
 */
#ifndef CHUNKS_H
#define CHUNKS_H

#include "placement.h"

typedef struct chunk {
    uint64_t address, offset, bytes;
    struct chunks_node *leaf; /* that holds it, while it is in a tree */
    uint32_t segment, prev, next;
    uint32_t stream; /* whatever its allocator wants to know: for most, who may use it */
    bool free;       /* in a set */
} chunk;

typedef struct chunks {
    mr_ctx *ctx;
    MR_VEC(chunk) all;
    uint32_t spare;                 /* unused numbers, chained by `next` */
    struct chunks_node *spare_node; /* unused ones, chained by `parent` */
} chunks;

chunks chunks_make(mr_ctx *ctx);
/* A chunk that is a whole new segment; MR_NONE when the device refuses. */
uint32_t chunks_reserve(chunks *c, mr_placer *placer, uint64_t bytes, uint32_t stream);
/* A chunk over some bytes of a segment that the allocator holds. */
uint32_t chunks_over(chunks *c, const mr_placer *placer, uint32_t segment, uint64_t offset,
                     uint64_t bytes);
void chunks_release(chunks *c, mr_placer *placer, uint32_t whole); /* the segment goes back */
uint32_t chunks_split(chunks *c, uint32_t id, uint64_t bytes);     /* returns the rest */
void chunks_join(chunks *c, uint32_t id);                          /* with the one behind it */
bool chunks_whole(const chunks *c, uint32_t id);                   /* is it all of a segment? */
mr_block chunks_block(const chunks *c, uint32_t id);
/* Fetches the chunk, then those beside it, for mr_online.near. */
void chunks_near(const chunks *c, const mr_block *block, bool closer);
/* `bytes` rounded up to a multiple of `unit`.  False when no device could have that. */
bool chunks_round(uint64_t bytes, uint64_t unit, uint64_t *rounded);

/* ---- sets ------------------------------------------------------------------------------- */

/* By address. */
enum { CHUNK_WIDTH = 32 };

typedef union chunks_child {
    struct chunks_node *node;
    uint32_t chunk; /* of a leaf */
} chunks_child;

typedef struct chunks_node {
    uint32_t n, level; /* level 0 is a leaf */
    struct chunks_node *parent;
    uint64_t top; /* the largest of `most` */
    uint64_t address[CHUNK_WIDTH], most[CHUNK_WIDTH];
    chunks_child at[CHUNK_WIDTH];
} chunks_node;

typedef struct chunks_tree {
    chunks_node *root; /* NULL when empty */
} chunks_tree;

void chunks_tree_add(chunks *c, chunks_tree *tree, uint32_t id);
void chunks_tree_remove(chunks *c, chunks_tree *tree, uint32_t id);
/* The lowest that has room. */
uint32_t chunks_tree_find(const chunks_tree *tree, uint64_t bytes);

/* `id`, which lies between the neighbours of `old` in the tree, takes its place (`id` may be
 * `old`, of another size); and a chunk in use is added, joined with its free neighbours:
 * returns what it is now. */
void chunks_tree_replace(chunks *c, uint32_t old, uint32_t id);
uint32_t chunks_tree_free(chunks *c, chunks_tree *tree, uint32_t id);

/* By size, then address: bins of their own, 32 for each doubling, of short sorted rows. */
enum { CHUNK_BINS = 2048, CHUNK_ROW = 32 };

typedef struct chunks_entry { /* what the chunk had when it was added */
    uint64_t bytes, address;
    uint32_t id;
} chunks_entry;

typedef struct chunks_row {
    uint32_t n;
    struct chunks_row *next; /* of those that are spare */
    chunks_entry at[CHUNK_ROW];
} chunks_row;

typedef MR_VEC(chunks_row *) chunks_bin;

typedef struct chunks_bins {
    chunks_bin bins[CHUNK_BINS];
    uint64_t words[CHUNK_BINS / 64]; /* a bit for each bin that is not empty */
    uint32_t some;                   /* a bit for each word that is not 0 */
    chunks_row *spare;
} chunks_bins;

typedef MR_VEC(uint32_t) chunks_list;

chunks_bins *chunks_bins_new(mr_ctx *ctx);
void chunks_bins_add(chunks *c, chunks_bins *bins, uint32_t id);
void chunks_bins_remove(chunks *c, chunks_bins *bins, uint32_t id);
/* The smallest that has room, of equal ones the lowest. */
uint32_t chunks_bins_find(const chunks_bins *bins, uint64_t bytes);
/* Appends them, the smallest first. */
void chunks_bins_list(const chunks *c, const chunks_bins *bins, chunks_list *out);

#endif
