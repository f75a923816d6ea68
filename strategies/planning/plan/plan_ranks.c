/* plan_ranks -- which box goes first: keys, and keys disturbed. */
#include "plan_internal.h"

#include <stdlib.h>

/* W: sections covered.  A: area.  T: largest load met.  S: size.  E: ends late. */
static const char names[PLAN_KEYS][4] = {"TWA", "TAW", "WAT", "STW", "WTA", "ATW",
                                         "AWT", "TSW", "SWT", "WST", "TEA", "TES"};

uint64_t plan_draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

typedef struct weight {
    uint64_t key[3];
    uint32_t box;
} weight;

static int heaviest(const void *left, const void *right)
{
    const weight *a = left, *b = right;
    for (int k = 0; k < 3; k++)
        if (a->key[k] != b->key[k]) return a->key[k] > b->key[k] ? -1 : 1;
    return (a->box > b->box) - (a->box < b->box);
}

static uint64_t key_of(const plan_box *b, uint64_t met, char letter)
{
    switch (letter) {
    case 'W': return b->lasts;
    case 'A': return b->lasts * b->size;
    case 'T': return met;
    case 'S': return b->size;
    default: return b->ends;
    }
}

void plan_dive_key(mr_ctx *ctx, const plan_field *field, uint32_t k, uint32_t *rank)
{
    const uint64_t *met = plan_field_loads(ctx, field);
    weight *weights = MR_NEW_N(ctx, weight, field->n);
    for (uint32_t i = 0; i < field->n; i++) {
        weights[i].box = i;
        for (int j = 0; j < 3; j++)
            weights[i].key[j] = key_of(&field->boxes[i], met[i], names[k][j]);
    }
    qsort(weights, field->n, sizeof *weights, heaviest);
    for (uint32_t i = 0; i < field->n; i++) rank[weights[i].box] = i;
}

void plan_disturb(mr_ctx *ctx, uint32_t *rank, uint32_t n, uint64_t seed)
{
    if (!seed) return;
    weight *weights = MR_NEW_N(ctx, weight, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t push = n < 10 ? plan_draw(&seed) % 10 : plan_draw(&seed) % n;
        weights[i] = (weight){{UINT64_MAX - 10 * (uint64_t)rank[i] - push, 0, 0}, i};
    }
    qsort(weights, n, sizeof *weights, heaviest);
    for (uint32_t i = 0; i < n; i++) rank[weights[i].box] = i;
}
