/* places.h -- who lives where, when all places where a block ever begins are known before.
 *
 *     mr_places_add for each of them, mr_places_number once, then
 *     mr_places_settle and mr_places_leave as blocks come and go
 *
 * Places are numbered in the order of addresses, and who lives is a set of numbers.  Six bits
 * of a number choose a bit in a word; a second layer says which words are not empty, and so on,
 * so that the nearest neighbour below and above a block is found in a few steps however many
 * there are:
 *
 *     layer 1   0 1 1 0 ...                        one bit for each word below
 *     layer 0   00000000 01000100 00000001 ...     one bit for each place
 */
#ifndef MR_PLACES_H
#define MR_PLACES_H

#include "base.h"

#define MR_PLACES_LAYERS 6 /* 64^6 is more than there are numbers */

typedef struct mr_place {
    uint64_t offset, bytes; /* of who lives there */
    uint32_t segment;
    uint32_t owner; /* MR_NONE while nobody lives there */
    uint32_t next;  /* in the list of places with the same hash, MR_NONE */
    uint32_t rank;  /* in the order of addresses */
} mr_place;

typedef struct mr_places {
    MR_VEC(mr_place) all;
    uint32_t *heads, mask; /* lists of places by hash */
    uint32_t *order;       /* place of a rank */
    uint64_t *layers[MR_PLACES_LAYERS];
} mr_places;

/* `expected` is about how many places there will be. */
void mr_places_init(mr_ctx *ctx, mr_places *places, uint32_t expected);
void mr_places_add(mr_ctx *ctx, mr_places *places, uint32_t segment, uint64_t offset);
void mr_places_number(mr_ctx *ctx, mr_places *places);

/* The index of the place, MR_NONE when it was not added. */
uint32_t mr_places_find(const mr_places *places, uint32_t segment, uint64_t offset);

/* Lets `owner` live there.  If somebody else lives in these bytes, nothing changes and who it
 * is is returned, else MR_NONE. */
uint32_t mr_places_settle(mr_places *places, uint32_t place, uint64_t bytes, uint32_t owner);
void mr_places_leave(mr_places *places, uint32_t place);

#endif
