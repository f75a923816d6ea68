/* dtr_set.h -- a set of small numbers, dense where it is not empty: words of bits
 * in a window. */
#ifndef DTR_SET_H
#define DTR_SET_H

#include "base.h"

typedef struct dtr_set {
    uint64_t *words; /* bits of first * 64 and on */
    uint32_t first, n, cap;
} dtr_set;

/* Makes room for numbers from `low` to `high`. */
void dtr_set_cover(mr_ctx *ctx, dtr_set *set, uint32_t low, uint32_t high);
void dtr_set_clear(dtr_set *set);
void dtr_set_add(dtr_set *set, uint32_t i); /* which must be covered */
void dtr_set_remove(dtr_set *set, uint32_t i);
bool dtr_set_has(const dtr_set *set, uint32_t i);
void dtr_set_unite(mr_ctx *ctx, dtr_set *set, const dtr_set *other);
/* Number of the lowest bit of a word that is not 0. */
uint32_t dtr_lowest(uint64_t word);

/* for (DTR_EACH(&set, i)) visits the members, ascending.  The set must not change meanwhile. */
uint32_t dtr_set_next(const dtr_set *set, uint32_t from); /* MR_NONE: no more */
#define DTR_EACH(set, i) \
    uint32_t i = dtr_set_next(set, 0); i != MR_NONE; i = dtr_set_next(set, i + 1)

#endif
