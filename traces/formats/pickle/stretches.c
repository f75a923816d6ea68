/* stretches -- a sorted array: there are few, and they change far less often than
 * blocks. */
#include "stretches.h"

#include <string.h>

/* The first stretch that ends behind the address. */
static uint32_t first_behind(const mr_stretches *stretches, uint64_t address)
{
    uint32_t low = 0, high = stretches->order.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const mr_stretch *stretch = mr_stretches_at(stretches, middle);
        if (stretch->address + stretch->bytes <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

uint32_t mr_stretches_find(const mr_stretches *stretches, uint64_t address)
{
    const uint32_t i = first_behind(stretches, address);
    return i < stretches->order.n && mr_stretches_at(stretches, i)->address <= address
               ? i
               : MR_NONE;
}

static void insert(mr_ctx *ctx, mr_stretches *stretches, uint32_t i, mr_stretch stretch)
{
    uint32_t place = stretches->pool.n;
    if (stretches->spare.n) {
        place = stretches->spare.at[--stretches->spare.n];
        stretches->pool.at[place] = stretch;
    } else {
        MR_PUSH(ctx, &stretches->pool, stretch);
    }
    MR_PUSH(ctx, &stretches->order, place);
    uint32_t *at = stretches->order.at + i;
    memmove(at + 1, at, (stretches->order.n - 1 - i) * sizeof *at);
    *at = place;
}

void mr_stretches_remove(mr_ctx *ctx, mr_stretches *stretches, uint32_t i)
{
    uint32_t *at = stretches->order.at + i;
    MR_PUSH(ctx, &stretches->spare, *at);
    memmove(at, at + 1, (stretches->order.n - 1 - i) * sizeof *at);
    stretches->order.n--;
}

bool mr_stretches_add(mr_ctx *ctx, mr_stretches *stretches, mr_stretch stretch)
{
    const uint32_t i = first_behind(stretches, stretch.address);
    if (i < stretches->order.n
        && mr_stretches_at(stretches, i)->address < stretch.address + stretch.bytes)
        return false;
    insert(ctx, stretches, i, stretch);
    return true;
}

static bool joins(const mr_stretch *a, const mr_stretch *b)
{
    return a->segment == b->segment && a->address + a->bytes == b->address;
}

bool mr_stretches_join(mr_ctx *ctx, mr_stretches *stretches, mr_stretch stretch)
{
    if (!mr_stretches_add(ctx, stretches, stretch)) return false;
    const uint32_t i = mr_stretches_find(stretches, stretch.address);
    mr_stretch *at = mr_stretches_at(stretches, i);
    if (i + 1 < stretches->order.n && joins(at, mr_stretches_at(stretches, i + 1))) {
        at->bytes += mr_stretches_at(stretches, i + 1)->bytes;
        mr_stretches_remove(ctx, stretches, i + 1);
    }
    mr_stretch *before = i ? mr_stretches_at(stretches, i - 1) : NULL;
    if (before && joins(before, at)) {
        before->bytes += at->bytes;
        mr_stretches_remove(ctx, stretches, i);
    }
    return true;
}

bool mr_stretches_cut(mr_ctx *ctx, mr_stretches *stretches, uint64_t address, uint64_t bytes,
                      uint32_t *segment)
{
    *segment = MR_NONE;
    while (bytes) {
        const uint32_t i = mr_stretches_find(stretches, address);
        if (i == MR_NONE || !mr_stretches_at(stretches, i)->expandable) return false;
        const mr_stretch whole = *mr_stretches_at(stretches, i);
        if (*segment == MR_NONE) *segment = whole.segment;
        const uint64_t behind = whole.address + whole.bytes - address;
        const uint64_t part = bytes < behind ? bytes : behind;
        mr_stretch tail = whole;
        tail.address = address + part;
        tail.bytes = behind - part;
        mr_stretches_at(stretches, i)->bytes = address - whole.address;
        if (tail.bytes) insert(ctx, stretches, i + 1, tail);
        if (address == whole.address) mr_stretches_remove(ctx, stretches, i);
        address += part;
        bytes -= part;
    }
    return true;
}
