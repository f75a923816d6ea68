/* names.h -- names as written in a file, numbered in the order they were met. */
#ifndef MR_NAMES_H
#define MR_NAMES_H

#include "base.h"

typedef struct mr_name {
    const char *text; /* ends with 0, which is not counted */
    uint32_t n, hash;
} mr_name;

/* A hash table.  Begin with {0}. */
typedef struct mr_names {
    MR_VEC(mr_name) all;
    uint32_t *slots; /* index into all + 1, 0 for an empty slot */
    uint32_t n_slots;
    uint64_t seed;
} mr_names;

/* The number of a name, MR_NONE when it was never added. */
uint32_t mr_names_find(const mr_names *names, const void *text, size_t n);

/* The same, but adds a copy of a new name, which then has the number names->all.n - 1. */
uint32_t mr_names_add(mr_ctx *ctx, mr_names *names, const void *text, size_t n);

#endif
