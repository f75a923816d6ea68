/* places -- a set of numbers in layers of bits. */
#include "places.h"

#include <stdlib.h>

static uint32_t bucket(const mr_places *places, uint32_t segment, uint64_t offset)
{
    return (uint32_t)((offset + segment) * UINT64_C(0xd6e8feb86659fd93) >> 32) & places->mask;
}

uint32_t mr_places_find(const mr_places *places, uint32_t segment, uint64_t offset)
{
    uint32_t p = places->heads[bucket(places, segment, offset)];
    while (p != MR_NONE
           && (places->all.at[p].segment != segment || places->all.at[p].offset != offset))
        p = places->all.at[p].next;
    return p;
}

void mr_places_init(mr_ctx *ctx, mr_places *places, uint32_t expected)
{
    uint32_t most = 64;
    while (most < expected && most < UINT32_MAX / 2) most *= 2;
    *places = (mr_places){.heads = MR_NEW_N(ctx, uint32_t, most), .mask = most - 1};
    for (uint32_t i = 0; i < most; i++) places->heads[i] = MR_NONE;
}

void mr_places_add(mr_ctx *ctx, mr_places *places, uint32_t segment, uint64_t offset)
{
    if (mr_places_find(places, segment, offset) != MR_NONE) return;
    uint32_t *head = &places->heads[bucket(places, segment, offset)];
    const mr_place p = {
        .offset = offset, .segment = segment, .owner = MR_NONE, .next = *head};
    *head = places->all.n;
    MR_PUSH(ctx, &places->all, p);
}

typedef struct key {
    uint64_t offset;
    uint32_t segment, place;
} key;

static int by_address(const void *left, const void *right)
{
    const key *a = left, *b = right;
    if (a->segment != b->segment) return a->segment < b->segment ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

void mr_places_number(mr_ctx *ctx, mr_places *places)
{
    const uint32_t n = places->all.n;
    key *keys = MR_NEW_N(ctx, key, n);
    for (uint32_t p = 0; p < n; p++)
        keys[p] = (key){places->all.at[p].offset, places->all.at[p].segment, p};
    if (n) qsort(keys, n, sizeof *keys, by_address);
    places->order = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t r = 0; r < n; r++) {
        places->order[r] = keys[r].place;
        places->all.at[keys[r].place].rank = r;
    }
    uint32_t words = n;
    for (int l = 0; l < MR_PLACES_LAYERS; l++) {
        words = words / 64 + 1;
        places->layers[l] = MR_NEW_N(ctx, uint64_t, words);
    }
}

/* ---- who lives ------------------------------------------------------------------------- */

static unsigned lowest(uint64_t word)
{
    unsigned bit = 0;
    for (unsigned half = 32; half; half /= 2)
        if (!(word & ((UINT64_C(1) << half) - 1))) word >>= half, bit += half;
    return bit;
}

static unsigned highest(uint64_t word)
{
    unsigned bit = 0;
    for (unsigned half = 32; half; half /= 2)
        if (word >> half) word >>= half, bit += half;
    return bit;
}

static void put(mr_places *places, uint32_t rank)
{
    for (int l = 0; l < MR_PLACES_LAYERS; l++, rank /= 64) {
        uint64_t *word = &places->layers[l][rank / 64];
        const bool was_empty = !*word;
        *word |= UINT64_C(1) << rank % 64;
        if (!was_empty) return;
    }
}

static void take(mr_places *places, uint32_t rank)
{
    for (int l = 0; l < MR_PLACES_LAYERS; l++, rank /= 64) {
        uint64_t *word = &places->layers[l][rank / 64];
        *word &= ~(UINT64_C(1) << rank % 64);
        if (*word) return;
    }
}

/* Who lives nearest above or below, NULL when nobody does. */
static const mr_place *nearest(const mr_places *places, uint32_t rank, bool above)
{
    for (int l = 0; l < MR_PLACES_LAYERS; l++, rank /= 64) {
        const unsigned bit = rank % 64;
        uint64_t word = places->layers[l][rank / 64];
        word &= above ? ~(((UINT64_C(1) << bit) - 1) | UINT64_C(1) << bit)
                      : (UINT64_C(1) << bit) - 1;
        if (!word) continue;
        rank = rank / 64 * 64 + (above ? lowest(word) : highest(word));
        while (l-- > 0) {
            word = places->layers[l][rank];
            rank = rank * 64 + (above ? lowest(word) : highest(word));
        }
        return &places->all.at[places->order[rank]];
    }
    return NULL;
}

uint32_t mr_places_settle(mr_places *places, uint32_t place, uint64_t bytes, uint32_t owner)
{
    mr_place *here = &places->all.at[place];
    if (here->owner != MR_NONE) return here->owner;
    const mr_place *below = nearest(places, here->rank, false);
    if (below && below->segment == here->segment && here->offset - below->offset < below->bytes)
        return below->owner;
    const mr_place *above = nearest(places, here->rank, true);
    if (above && above->segment == here->segment && above->offset - here->offset < bytes)
        return above->owner;
    here->bytes = bytes;
    here->owner = owner;
    put(places, here->rank);
    return MR_NONE;
}

void mr_places_leave(mr_places *places, uint32_t place)
{
    mr_place *here = &places->all.at[place];
    here->owner = MR_NONE;
    take(places, here->rank);
}
