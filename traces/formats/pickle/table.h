/* table.h -- finds a thing again by its contents: hashes beside the indexes of an array.
 *
 * The table knows no contents, so whoever looks compares:
 *
 *     uint32_t probe = mr_table_start(table, hash), i;
 *     while ((i = mr_table_next(table, hash, &probe)) != MR_NONE)
 *         if (things[i] is it) return i;
 *     mr_table_add(ctx, table, hash, n);
 */
#ifndef MR_TABLE_H
#define MR_TABLE_H

#include "base.h"

typedef struct mr_table_slot {
    uint32_t hash;
    uint32_t index; /* plus 1; 0 for an empty slot */
} mr_table_slot;

typedef struct mr_table {
    mr_table_slot *at;
    uint32_t n, cap; /* cap is a power of two, at least twice n */
} mr_table;

/* Spreads the bits of a number, upper half of the product over all. */
static inline uint32_t mr_hash(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(number >> 32);
}

static inline uint32_t mr_table_start(const mr_table *table, uint32_t hash)
{
    return hash & (table->cap - 1);
}

/* The next index with this hash, MR_NONE when there is none. */
static inline uint32_t mr_table_next(const mr_table *table, uint32_t hash, uint32_t *probe)
{
    if (!table->cap) return MR_NONE;
    for (;; *probe = (*probe + 1) & (table->cap - 1)) {
        const mr_table_slot slot = table->at[*probe];
        if (!slot.index) return MR_NONE;
        if (slot.hash != hash) continue;
        *probe = (*probe + 1) & (table->cap - 1);
        return slot.index - 1;
    }
}

void mr_table_add(mr_ctx *ctx, mr_table *table, uint32_t hash, uint32_t index);

/* Distinct numbers in the order they were first seen. */
typedef struct mr_numbers {
    MR_VEC(uint64_t) all;
    mr_table table;
} mr_numbers;

uint32_t mr_numbers_index(mr_ctx *ctx, mr_numbers *numbers, uint64_t number);

/* Distinct texts; each ends with a NUL that does not count in `bytes`. */
typedef struct mr_text {
    const char *at;
    uint32_t bytes;
} mr_text;

typedef struct mr_texts {
    MR_VEC(mr_text) all;
    mr_table table;
} mr_texts;

uint32_t mr_texts_index(mr_ctx *ctx, mr_texts *texts, const void *text, uint32_t bytes);

#endif
