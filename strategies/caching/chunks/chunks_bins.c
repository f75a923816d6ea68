/* chunks_bins -- sets of free chunks by size, then address: rows of entries in bins.
 *
 * A row is a short sorted array that holds all that is compared, so a chunk is found or put in
 * its place without a look at another chunk; those lie far apart.  A bin has as many rows as it
 * needs, each below the next.
 */
#include "chunks.h"

#include <string.h>

/* ---- which bin --------------------------------------------------------------------------- */

/* The exponent of the binary representation of a double, and the first bits after it: the size
 * of numbers on a scale that is as fine everywhere. */
static uint32_t scale(double n, unsigned bits)
{
    uint64_t image;
    memcpy(&image, &n, sizeof image);
    return (uint32_t)(image >> (52 - bits)) - (UINT32_C(1023) << bits);
}

static uint32_t bin_of(uint64_t bytes)
{
    return bytes ? scale((double)(int64_t)bytes, 5) : 0;
}

static uint32_t lowest_bit(uint64_t word)
{
    return scale((double)(word & (~word + 1)), 0); /* a power of two, which a double holds */
}

/* The first bin from `i` on that is not empty. */
static uint32_t next_bin(const chunks_bins *bins, uint32_t i)
{
    if (i >= CHUNK_BINS) return MR_NONE;
    uint32_t w = i / 64;
    uint64_t word = bins->words[w] & UINT64_MAX << i % 64;
    if (!word) {
        const uint32_t more = bins->some & UINT32_MAX << w << 1;
        if (!more) return MR_NONE;
        w = lowest_bit(more);
        word = bins->words[w];
    }
    return w * 64 + lowest_bit(word);
}

static void mark(chunks_bins *bins, uint32_t i)
{
    bins->words[i / 64] |= UINT64_C(1) << i % 64;
    bins->some |= UINT32_C(1) << i / 64;
}

static void unmark(chunks_bins *bins, uint32_t i)
{
    bins->words[i / 64] &= ~(UINT64_C(1) << i % 64);
    if (!bins->words[i / 64]) bins->some &= ~(UINT32_C(1) << i / 64);
}

/* ---- rows -------------------------------------------------------------------------------- */

static bool is_below(const chunks_entry *e, uint64_t bytes, uint64_t address)
{
    return (e->bytes < bytes) | ((e->bytes == bytes) & (e->address < address));
}

/* The first row of the bin that ends with the key or above, or else the last: most bins have
 * but one. */
static uint32_t row_for(const chunks_bin *bin, uint64_t bytes, uint64_t address)
{
    uint32_t low = 0, high = bin->n - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const chunks_row *r = bin->at[middle];
        if (is_below(&r->at[r->n - 1], bytes, address)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Number of entries that are below the key; without branches, which nobody could foresee. */
static uint32_t entry_for(const chunks_row *row, uint64_t bytes, uint64_t address)
{
    const chunks_entry *at = row->at;
    uint32_t n = row->n;
    while (n > 1) {
        const uint32_t half = n / 2;
        at += is_below(at + half - 1, bytes, address) ? half : 0;
        n -= half;
    }
    return (uint32_t)(at - row->at) + (n == 1 && is_below(at, bytes, address));
}

static chunks_row *insert_row(chunks *c, chunks_bins *bins, chunks_bin *bin, uint32_t at)
{
    chunks_row *row = bins->spare;
    if (row) bins->spare = row->next;
    else row = MR_NEW(c->ctx, chunks_row);
    row->n = 0;
    MR_PUSH(c->ctx, bin, row);
    memmove(bin->at + at + 1, bin->at + at, (bin->n - 1 - at) * sizeof *bin->at);
    bin->at[at] = row;
    return row;
}

static void remove_row(chunks_bins *bins, chunks_bin *bin, uint32_t at)
{
    chunks_row *row = bin->at[at];
    row->next = bins->spare;
    bins->spare = row;
    memmove(bin->at + at, bin->at + at + 1, (bin->n - 1 - at) * sizeof *bin->at);
    bin->n--;
}

/* The upper half of a full row goes into a new one behind it. */
static void split_row(chunks *c, chunks_bins *bins, chunks_bin *bin, uint32_t at)
{
    chunks_row *upper = insert_row(c, bins, bin, at + 1), *lower = bin->at[at];
    upper->n = lower->n / 2;
    lower->n -= upper->n;
    memcpy(upper->at, lower->at + lower->n, upper->n * sizeof *upper->at);
}

/* ---- sets -------------------------------------------------------------------------------- */

chunks_bins *chunks_bins_new(mr_ctx *ctx)
{
    return MR_NEW(ctx, chunks_bins);
}

void chunks_bins_add(chunks *c, chunks_bins *bins, uint32_t id)
{
    chunk *new = &c->all.at[id];
    const uint32_t i = bin_of(new->bytes);
    chunks_bin *bin = &bins->bins[i];
    new->free = true;
    if (!bin->n) {
        mark(bins, i);
        insert_row(c, bins, bin, 0);
    }
    uint32_t r = row_for(bin, new->bytes, new->address);
    if (bin->at[r]->n == CHUNK_ROW) {
        split_row(c, bins, bin, r);
        const chunks_row *lower = bin->at[r];
        r += is_below(&lower->at[lower->n - 1], new->bytes, new->address);
    }
    chunks_row *row = bin->at[r];
    const uint32_t e = entry_for(row, new->bytes, new->address);
    memmove(row->at + e + 1, row->at + e, (row->n - e) * sizeof *row->at);
    row->at[e] = (chunks_entry){new->bytes, new->address, id};
    row->n++;
}

void chunks_bins_remove(chunks *c, chunks_bins *bins, uint32_t id)
{
    chunk *old = &c->all.at[id];
    const uint32_t i = bin_of(old->bytes);
    chunks_bin *bin = &bins->bins[i];
    const uint32_t r = row_for(bin, old->bytes, old->address);
    chunks_row *row = bin->at[r];
    const uint32_t e = entry_for(row, old->bytes, old->address);
    old->free = false;
    memmove(row->at + e, row->at + e + 1, (row->n - 1 - e) * sizeof *row->at);
    if (--row->n) return;
    remove_row(bins, bin, r);
    if (!bin->n) unmark(bins, i);
}

uint32_t chunks_bins_find(const chunks_bins *bins, uint64_t bytes)
{
    uint32_t i = bin_of(bytes);
    const chunks_bin *bin = &bins->bins[i];
    if (bin->n) {
        const chunks_row *row = bin->at[row_for(bin, bytes, 0)];
        const uint32_t e = entry_for(row, bytes, 0);
        if (e < row->n) return row->at[e].id;
    }
    i = next_bin(bins, i + 1);
    return i == MR_NONE ? MR_NONE : bins->bins[i].at[0]->at[0].id;
}

void chunks_bins_list(const chunks *c, const chunks_bins *bins, chunks_list *out)
{
    for (uint32_t i = next_bin(bins, 0); i != MR_NONE; i = next_bin(bins, i + 1))
        for (uint32_t r = 0; r < bins->bins[i].n; r++)
            for (uint32_t e = 0; e < bins->bins[i].at[r]->n; e++)
                MR_PUSH(c->ctx, out, bins->bins[i].at[r]->at[e].id);
}
