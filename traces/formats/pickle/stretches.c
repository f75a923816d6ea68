/* stretches -- a sorted array: there are few, and they change a thousand times less than
 * blocks. */
#include "stretches.h"

#include <string.h>

/* The first range that ends behind the address. */
static uint32_t first_behind(const mr_stretches *ranges, uint64_t address)
{
    uint32_t low = 0, high = ranges->all.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const mr_stretch *range = &ranges->all.at[middle];
        if (range->address + range->bytes <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

uint32_t mr_stretches_find(const mr_stretches *ranges, uint64_t address)
{
    const uint32_t i = first_behind(ranges, address);
    return i < ranges->all.n && ranges->all.at[i].address <= address ? i : MR_NONE;
}

static void insert(mr_ctx *ctx, mr_stretches *ranges, uint32_t i, mr_stretch range)
{
    MR_PUSH(ctx, &ranges->all, range);
    mr_stretch *at = ranges->all.at + i;
    memmove(at + 1, at, (ranges->all.n - 1 - i) * sizeof *at);
    *at = range;
}

void mr_stretches_remove(mr_stretches *ranges, uint32_t i)
{
    mr_stretch *at = ranges->all.at + i;
    memmove(at, at + 1, (ranges->all.n - 1 - i) * sizeof *at);
    ranges->all.n--;
}

bool mr_stretches_add(mr_ctx *ctx, mr_stretches *ranges, mr_stretch range)
{
    const uint32_t i = first_behind(ranges, range.address);
    if (i < ranges->all.n && ranges->all.at[i].address < range.address + range.bytes)
        return false;
    insert(ctx, ranges, i, range);
    return true;
}

static bool joins(const mr_stretch *a, const mr_stretch *b)
{
    return a->segment == b->segment && a->address + a->bytes == b->address;
}

bool mr_stretches_join(mr_ctx *ctx, mr_stretches *ranges, mr_stretch range)
{
    if (!mr_stretches_add(ctx, ranges, range)) return false;
    const uint32_t i = mr_stretches_find(ranges, range.address);
    mr_stretch *at = ranges->all.at + i;
    if (i + 1 < ranges->all.n && joins(at, at + 1)) {
        at->bytes += at[1].bytes;
        mr_stretches_remove(ranges, i + 1);
    }
    if (i && joins(at - 1, at)) {
        at[-1].bytes += at->bytes;
        mr_stretches_remove(ranges, i);
    }
    return true;
}

bool mr_stretches_cut(mr_ctx *ctx, mr_stretches *ranges, uint64_t address, uint64_t bytes,
                      uint32_t *segment)
{
    *segment = MR_NONE;
    while (bytes) {
        const uint32_t i = mr_stretches_find(ranges, address);
        if (i == MR_NONE || !ranges->all.at[i].expandable) return false;
        const mr_stretch whole = ranges->all.at[i];
        if (*segment == MR_NONE) *segment = whole.segment;
        const uint64_t behind = whole.address + whole.bytes - address;
        const uint64_t part = bytes < behind ? bytes : behind;
        mr_stretch tail = whole;
        tail.address = address + part;
        tail.bytes = behind - part;
        ranges->all.at[i].bytes = address - whole.address;
        if (tail.bytes) insert(ctx, ranges, i + 1, tail);
        if (address == whole.address) mr_stretches_remove(ranges, i);
        address += part;
        bytes -= part;
    }
    return true;
}

uint64_t mr_stretches_bytes(const mr_stretches *ranges)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ranges->all.n; i++) sum += ranges->all.at[i].bytes;
    return sum;
}
