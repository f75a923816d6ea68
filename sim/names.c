/* names -- a hash table with open addressing that only grows.
 *
 * The seed differs from run to run, so nobody can write a file whose names all collide; what is
 * found does not depend on it.
 */
#include "names.h"

#include <string.h>

static uint64_t mixed(uint64_t x) /* the finaliser of splitmix64, Steele et al. 2014 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t hash_of(const mr_names *names, const unsigned char *text, size_t n)
{
    uint64_t hash = mixed(names->seed + n), word;
    for (; n >= sizeof word; n -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = mixed(hash ^ word);
    }
    word = 0;
    memcpy(&word, text, n);
    return (uint32_t)mixed(hash ^ word);
}

/* The slot that holds the name, or the empty one where it belongs. */
static uint32_t slot_of(const mr_names *names, const void *text, size_t n, uint32_t hash)
{
    const uint32_t mask = names->n_slots - 1;
    for (uint32_t slot = hash & mask;; slot = (slot + 1) & mask) {
        if (!names->slots[slot]) return slot;
        const mr_name *name = &names->all.at[names->slots[slot] - 1];
        if (name->hash == hash && name->n == n && !memcmp(name->text, text, n)) return slot;
    }
}

static void grow(mr_ctx *ctx, mr_names *names)
{
    if (!names->seed) names->seed = mixed((uintptr_t)names) | 1;
    const uint32_t first = 64, mask = (names->n_slots ? 2 * names->n_slots : first) - 1;
    names->n_slots = mask + 1;
    names->slots = MR_NEW_N(ctx, uint32_t, names->n_slots);
    for (uint32_t i = 0; i < names->all.n; i++) {
        uint32_t slot = names->all.at[i].hash & mask;
        while (names->slots[slot]) slot = (slot + 1) & mask;
        names->slots[slot] = i + 1;
    }
}

uint32_t mr_names_find(const mr_names *names, const void *text, size_t n)
{
    if (!names->n_slots) return MR_NONE;
    const uint32_t slot = slot_of(names, text, n, hash_of(names, text, n));
    return names->slots[slot] ? names->slots[slot] - 1 : MR_NONE;
}

uint32_t mr_names_add(mr_ctx *ctx, mr_names *names, const void *text, size_t n)
{
    if (names->all.n >= names->n_slots / 2) grow(ctx, names);
    const uint32_t hash = hash_of(names, text, n), slot = slot_of(names, text, n, hash);
    if (!names->slots[slot]) {
        const mr_name name = {mr_strndup(ctx, text, n), (uint32_t)n, hash};
        MR_PUSH(ctx, &names->all, name);
        names->slots[slot] = names->all.n;
    }
    return names->slots[slot] - 1;
}
