/* dtr_set -- sets of storages.  What lies near each other in the step has numbers near each
 * other, so that a window of words is short although there are many storages. */
#include "dtr_set.h"

#include <string.h>

uint32_t dtr_lowest(uint64_t word)
{
    /* Multiplied by a de Bruijn sequence, each power of two has other top bits. */
    static const uint8_t place[64] = {
        0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
        22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
        23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
    return place[((word & (~word + 1)) * UINT64_C(0x022fdd63cc95386d)) >> 58];
}

static void move_window(mr_ctx *ctx, dtr_set *set, uint32_t first, uint32_t end)
{
    const uint32_t n = end - first;
    uint64_t *words = set->words;
    if (n > set->cap) {
        set->cap = n + n / 2;
        words = MR_NEW_N(ctx, uint64_t, set->cap);
    }
    if (set->n) memmove(words + (set->first - first), set->words, set->n * sizeof *words);
    if (!set->n) memset(words, 0, n * sizeof *words);
    else {
        memset(words, 0, (set->first - first) * sizeof *words);
        memset(words + (set->first + set->n - first), 0,
               (end - set->first - set->n) * sizeof *words);
    }
    set->words = words;
    set->first = first;
    set->n = n;
}

void dtr_set_cover(mr_ctx *ctx, dtr_set *set, uint32_t low, uint32_t high)
{
    uint32_t first = low / 64, end = high / 64 + 1;
    if (set->n) {
        if (set->first < first) first = set->first;
        if (set->first + set->n > end) end = set->first + set->n;
        if (first == set->first && end == set->first + set->n) return;
    }
    move_window(ctx, set, first, end);
}

void dtr_set_clear(dtr_set *set)
{
    set->n = 0;
}

void dtr_set_add(dtr_set *set, uint32_t i)
{
    set->words[i / 64 - set->first] |= (uint64_t)1 << i % 64;
}

void dtr_set_remove(dtr_set *set, uint32_t i)
{
    const uint32_t w = i / 64;
    if (w >= set->first && w - set->first < set->n)
        set->words[w - set->first] &= ~((uint64_t)1 << i % 64);
}

bool dtr_set_has(const dtr_set *set, uint32_t i)
{
    const uint32_t w = i / 64;
    return w >= set->first && w - set->first < set->n
           && set->words[w - set->first] >> i % 64 & 1;
}

void dtr_set_unite(mr_ctx *ctx, dtr_set *set, const dtr_set *other)
{
    if (!other->n) return;
    dtr_set_cover(ctx, set, other->first * 64, (other->first + other->n) * 64 - 1);
    uint64_t *into = set->words + (other->first - set->first);
    for (uint32_t w = 0; w < other->n; w++) into[w] |= other->words[w];
}

uint32_t dtr_set_next(const dtr_set *set, uint32_t from)
{
    uint32_t w = from / 64;
    if (w < set->first) w = set->first, from = 0;
    if (w >= set->first + set->n) return MR_NONE;
    uint64_t word = set->words[w - set->first] >> from % 64 << from % 64;
    while (!word) {
        if (++w >= set->first + set->n) return MR_NONE;
        word = set->words[w - set->first];
    }
    return w * 64 + dtr_lowest(word);
}
