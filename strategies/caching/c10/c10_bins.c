/* c10_bins -- the free blocks of one stream in one pool, by size.
 *
 * Sizes fall into bins, eight for each doubling; a bit for each bin says whether it is empty.
 *
 *     size     512 .. 4095 .. │ 4 KiB .. │ 4.5 KiB .. │ 5 KiB .. │      1 TiB ..
 *     bin      [b]   [ ]  ... │ [e c]    │ [ ]        │ [a]      │ ...  [ ]
 *
 * The few blocks of a bin lie in no order in a short array, so that adding, removing and
 * resizing a block, which most requests and frees do several times, are a few stores; only the
 * search for the best fit compares them.  A bin with many blocks is a tree (c10_tree), so that
 * nothing grows with the number of blocks but by its logarithm.  Recorded programs have some
 * dozens to some thousands of free blocks, mostly one to ten in a bin.  With one tree for all a
 * request and a free took two thirds longer, with sorted nodes searched by counting twice as
 * long: what costs time there are branches that cannot be foreseen.
 */
#include "c10_internal.h"

#include <string.h>

enum {
    FEW = 64,            /* blocks of a bin that is an array */
    FEW_AGAIN = FEW / 2, /* of a tree that becomes an array again */
    PER_OCTAVE = 3,      /* bits */
    UNIT = C10_MIN_BLOCK,
};

typedef struct c10_bin {
    uint32_t n;
    uint32_t few;  /* array, MR_NONE for none */
    c10_tree many; /* or tree */
} c10_bin;

struct c10_few {
    c10_key at[FEW];
    uint32_t next; /* unused one */
};

/* ---- bits ------------------------------------------------------------------------------- */

/* The exponent of the binary representation of a double, and the first bits after it: the size
 * of numbers on a scale that is as fine everywhere. */
static uint32_t scale(double n, unsigned bits)
{
    uint64_t image;
    memcpy(&image, &n, sizeof image);
    return (uint32_t)(image >> (52 - bits)) - (UINT32_C(1023) << bits);
}

static uint32_t lowest_bit(uint32_t word)
{
    return scale((double)(word & (~word + 1)), 0);
}

static uint32_t bin_of(uint64_t size)
{
    const uint64_t units = size / UNIT;
    return units < UINT32_MAX ? scale((double)(uint32_t)units, PER_OCTAVE) : C10_BINS - 1;
}

static void mark(c10_bins *bins, uint32_t i)
{
    bins->words[i / 32] |= UINT32_C(1) << i % 32;
    bins->some |= UINT32_C(1) << i / 32;
}

static void unmark(c10_bins *bins, uint32_t i)
{
    bins->words[i / 32] &= ~(UINT32_C(1) << i % 32);
    if (!bins->words[i / 32]) bins->some &= ~(UINT32_C(1) << i / 32);
}

/* The first bin from `i` on that is not empty. */
static uint32_t next_bin(const c10_bins *bins, uint32_t i)
{
    if (i >= C10_BINS) return MR_NONE;
    uint32_t word = bins->words[i / 32] & UINT32_MAX << i % 32, w = i / 32;
    if (!word) {
        const uint32_t more = bins->some & UINT32_MAX << w << 1;
        if (!more) return MR_NONE;
        w = lowest_bit(more);
        word = bins->words[w];
    }
    return w * 32 + lowest_bit(word);
}

/* ---- one bin ---------------------------------------------------------------------------- */

static bool is_tree(const c10_bin *bin)
{
    return bin->many.root != MR_NONE;
}

static c10_few *new_few(c10_allocator *a, c10_bin *bin)
{
    bin->few = a->unused_few;
    if (bin->few != MR_NONE) {
        a->unused_few = a->fews.at[bin->few].next;
    } else {
        MR_RESERVE_N(a->ctx, &a->fews, a->fews.n + 1);
        bin->few = a->fews.n++;
    }
    return &a->fews.at[bin->few];
}

static void drop_few(c10_allocator *a, c10_bin *bin)
{
    a->fews.at[bin->few].next = a->unused_few;
    a->unused_few = bin->few;
    bin->few = MR_NONE;
}

static void put(c10_allocator *a, c10_few *few, uint32_t place, c10_key key)
{
    few->at[place] = key;
    a->blocks[key.id].place = place;
}

static void become_tree(c10_allocator *a, c10_bin *bin)
{
    for (uint32_t i = 0; i < bin->n; i++)
        c10_tree_insert(a, &bin->many, a->fews.at[bin->few].at[i]);
    drop_few(a, bin);
}

static void become_few(c10_allocator *a, c10_bin *bin)
{
    c10_few *few = new_few(a, bin);
    for (uint32_t i = 0; i < bin->n; i++) {
        const uint32_t b = c10_tree_at_least(a, &bin->many, (c10_key){0, 0, 0});
        const c10_key key = c10_key_of(a, b);
        c10_tree_remove(a, &bin->many, key);
        put(a, few, i, key);
    }
}

static void add(c10_allocator *a, c10_bin *bin, c10_key key)
{
    if (bin->n == FEW && !is_tree(bin)) become_tree(a, bin);
    if (is_tree(bin)) {
        c10_tree_insert(a, &bin->many, key);
        bin->n++;
        return;
    }
    c10_few *few = bin->n ? &a->fews.at[bin->few] : new_few(a, bin);
    put(a, few, bin->n++, key);
}

static void take(c10_allocator *a, c10_bin *bin, uint32_t b)
{
    bin->n--;
    if (is_tree(bin)) {
        c10_tree_remove(a, &bin->many, c10_key_of(a, b));
        if (bin->n == FEW_AGAIN) become_few(a, bin);
        return;
    }
    c10_few *few = &a->fews.at[bin->few];
    put(a, few, a->blocks[b].place, few->at[bin->n]); /* the last fills the gap */
    if (!bin->n) drop_few(a, bin);
}

/* The first block of a bin that is not below the key. */
static uint32_t first_in(const c10_allocator *a, const c10_bin *bin, const c10_key *key)
{
    if (is_tree(bin)) return c10_tree_at_least(a, &bin->many, *key);
    if (!bin->n) return MR_NONE;
    const c10_few *few = &a->fews.at[bin->few];
    c10_key best = {UINT64_MAX, UINT64_MAX, MR_NONE};
    for (uint32_t i = 0; i < bin->n; i++)
        if (!c10_key_below(&few->at[i], key) && c10_key_below(&few->at[i], &best))
            best = few->at[i];
    return best.id;
}

static uint32_t last_in(const c10_allocator *a, const c10_bin *bin, const c10_key *key)
{
    if (is_tree(bin)) return c10_tree_below(a, &bin->many, *key);
    c10_key best = {0, 0, MR_NONE};
    for (uint32_t i = 0; i < bin->n; i++) {
        const c10_key *at = &a->fews.at[bin->few].at[i];
        if (c10_key_below(at, key) && c10_key_below(&best, at)) best = *at;
    }
    return best.id;
}

/* ---- all bins --------------------------------------------------------------------------- */

void c10_bins_init(c10_allocator *a, c10_bins *bins)
{
    *bins = (c10_bins){.bins = MR_NEW_N(a->ctx, c10_bin, C10_BINS)};
    for (uint32_t i = 0; i < C10_BINS; i++) bins->bins[i] = (c10_bin){0, MR_NONE, {MR_NONE}};
}

void c10_bins_insert(c10_allocator *a, c10_bins *bins, uint32_t b)
{
    const uint32_t i = bin_of(a->blocks[b].size);
    add(a, &bins->bins[i], c10_key_of(a, b));
    mark(bins, i);
}

void c10_bins_remove(c10_allocator *a, c10_bins *bins, uint32_t b)
{
    const uint32_t i = bin_of(a->blocks[b].size);
    take(a, &bins->bins[i], b);
    if (!bins->bins[i].n) unmark(bins, i);
}

void c10_bins_move(c10_allocator *a, c10_bins *bins, uint32_t b, uint64_t size,
                   uint64_t address)
{
    c10_block *block = &a->blocks[b];
    const uint32_t i = bin_of(block->size);
    if (i == bin_of(size) && !is_tree(&bins->bins[i])) {
        block->size = size;
        block->address = address;
        a->fews.at[bins->bins[i].few].at[block->place] = c10_key_of(a, b);
        return;
    }
    c10_bins_remove(a, bins, b);
    block->size = size;
    block->address = address;
    c10_bins_insert(a, bins, b);
}

static uint32_t first_from(const c10_allocator *a, const c10_bins *bins, uint32_t i,
                           const c10_key *key)
{
    const uint32_t b = first_in(a, &bins->bins[i], key);
    if (b != MR_NONE) return b;
    const uint32_t next = next_bin(bins, i + 1);
    return next == MR_NONE ? MR_NONE : first_in(a, &bins->bins[next], key);
}

uint32_t c10_bins_at_least(const c10_allocator *a, const c10_bins *bins, uint64_t size)
{
    const c10_key key = {c10_key_size(a, size, 0), 0, 0};
    return first_from(a, bins, bin_of(size), &key);
}

uint32_t c10_bins_first(const c10_allocator *a, const c10_bins *bins)
{
    return c10_bins_at_least(a, bins, UNIT);
}

uint32_t c10_bins_after(const c10_allocator *a, const c10_bins *bins, uint32_t b)
{
    c10_key key = c10_key_of(a, b);
    key.address++;
    return first_from(a, bins, bin_of(a->blocks[b].size), &key);
}

static uint32_t last_from(const c10_allocator *a, const c10_bins *bins, uint32_t i,
                          const c10_key *key)
{
    for (uint32_t k = i + 1; k-- > 0;) {
        const uint32_t b = bins->bins[k].n ? last_in(a, &bins->bins[k], key) : MR_NONE;
        if (b != MR_NONE) return b;
    }
    return MR_NONE;
}

uint32_t c10_bins_below(const c10_allocator *a, const c10_bins *bins, uint64_t size)
{
    const c10_key key = {c10_key_size(a, size, 0), 0, 0};
    return last_from(a, bins, bin_of(size), &key);
}

uint32_t c10_bins_before(const c10_allocator *a, const c10_bins *bins, uint32_t b)
{
    const c10_key key = c10_key_of(a, b);
    return last_from(a, bins, bin_of(a->blocks[b].size), &key);
}
