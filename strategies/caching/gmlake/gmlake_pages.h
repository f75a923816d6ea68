/* gmlake_pages -- memory in pages of 2 MiB, behind ranges of addresses that share them.
 *
 *     block      pages next to each other in the range that they were made for; may be split
 *     stitched   a range of its own, onto whose addresses several blocks are mapped
 *
 * A block is free, or in use by itself or through one stitched range; a stitched range is free
 * while all its blocks are.  Both are chunks, told apart by `kinds`.
 */
#ifndef GMLAKE_PAGES_H
#define GMLAKE_PAGES_H

#include "chunks.h"

#define GMLAKE_PAGE (2 * MR_MIB)

typedef enum gmlake_kind { GMLAKE_SMALL, GMLAKE_BLOCK, GMLAKE_STITCHED } gmlake_kind;

typedef struct gmlake_part {
    gmlake_kind kind;
    chunks_list of; /* of a block: the stitched ranges it is in; of such a range: its blocks */
    uint32_t at;    /* of a block: where its pages are mapped, itself or a stitched range */
    uint32_t busy;  /* of a stitched range: how many of its blocks are in use */
} gmlake_part;

typedef struct gmlake_stream {
    chunks_bins *small, *blocks, *stitched; /* free ones */
} gmlake_stream;

typedef struct gmlake_pages {
    chunks chunks;
    MR_VEC(gmlake_part) parts;      /* by chunk */
    MR_VEC(gmlake_stream) streams;
    MR_VEC(uint32_t) blocks;        /* by segment: blocks that were made in it and are there */
} gmlake_pages;

gmlake_stream *gmlake_of(gmlake_pages *p, uint32_t stream);
void gmlake_mark(gmlake_pages *p, uint32_t id, gmlake_kind kind); /* what a new chunk is */

/* MR_NONE when there is none; else in use, and mapped where it says. */
uint32_t gmlake_reuse_block(gmlake_pages *p, mr_placer *placer, uint64_t bytes,
                            uint32_t stream);
uint32_t gmlake_reuse_stitched(gmlake_pages *p, mr_placer *placer, uint64_t bytes,
                               uint64_t most, uint32_t stream);
uint32_t gmlake_new_block(gmlake_pages *p, mr_placer *placer, uint64_t bytes, uint32_t stream);
/* Free blocks of the stream, the largest first, become one range.  With `more` new pages make
 * up for what they lack. */
uint32_t gmlake_stitch(gmlake_pages *p, mr_placer *placer, uint64_t bytes, bool more,
                       uint32_t stream);
void gmlake_free(gmlake_pages *p, uint32_t id);
/* Gives the pages of all free blocks back, and ends the ranges they were stitched into. */
bool gmlake_release(gmlake_pages *p, mr_placer *placer, uint32_t stream);

#endif
