/* table -- open addressing with linear probing, never more than half full. */
#include "table.h"

#include <string.h>

static void put(mr_table *table, mr_table_slot slot)
{
    uint32_t i = mr_table_start(table, slot.hash);
    while (table->at[i].index) i = (i + 1) & (table->cap - 1);
    table->at[i] = slot;
}

/* The old slots stay in the arena: together they are smaller than the new ones. */
static void widen(mr_ctx *ctx, mr_table *table)
{
    const mr_table old = *table;
    table->cap = old.cap ? old.cap * 2 : 64;
    table->at = MR_NEW_N(ctx, mr_table_slot, table->cap);
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.at[i].index) put(table, old.at[i]);
}

void mr_table_add(mr_ctx *ctx, mr_table *table, uint32_t hash, uint32_t index)
{
    if (table->n >= table->cap / 2) widen(ctx, table);
    put(table, (mr_table_slot){hash, index + 1});
    table->n++;
}

uint32_t mr_numbers_index(mr_ctx *ctx, mr_numbers *numbers, uint64_t number)
{
    const uint32_t hash = mr_hash(number);
    uint32_t probe = mr_table_start(&numbers->table, hash), i;
    while ((i = mr_table_next(&numbers->table, hash, &probe)) != MR_NONE)
        if (numbers->all.at[i] == number) return i;
    mr_table_add(ctx, &numbers->table, hash, numbers->all.n);
    MR_PUSH(ctx, &numbers->all, number);
    return numbers->all.n - 1;
}

static uint32_t hash_bytes(const unsigned char *text, uint32_t n)
{
    uint64_t hash = n;
    for (; n >= 8; n -= 8, text += 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, n);
    return mr_hash(hash ^ rest);
}

uint32_t mr_texts_index(mr_ctx *ctx, mr_texts *texts, const void *text, uint32_t bytes)
{
    const uint32_t hash = hash_bytes(text, bytes);
    uint32_t probe = mr_table_start(&texts->table, hash), i;
    while ((i = mr_table_next(&texts->table, hash, &probe)) != MR_NONE) {
        const mr_text known = texts->all.at[i];
        if (known.bytes == bytes && !memcmp(known.at, text, bytes)) return i;
    }
    mr_table_add(ctx, &texts->table, hash, texts->all.n);
    MR_PUSH(ctx, &texts->all, (mr_text){mr_strndup(ctx, text, bytes), bytes});
    return texts->all.n - 1;
}
