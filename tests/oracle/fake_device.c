/* fake_device -- a device that only keeps books. */
#include "fake_device.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE (2 * MR_MIB)
#define MALLOC_BASE UINT64_C(0x700000000000)
#define MALLOC_LIMIT UINT64_C(0x780000000000)
#define RESERVE_BASE UINT64_C(0x300000000000)
#define RESERVE_LIMIT UINT64_C(0x600000000000)

static uint64_t parse_bytes(const char *text)
{
    char *end;
    const double n = strtod(text, &end);
    switch (*end) {
    case 'k':
    case 'K': return (uint64_t)(n * (double)MR_KIB);
    case 'm':
    case 'M': return (uint64_t)(n * (double)MR_MIB);
    case 'g':
    case 'G': return (uint64_t)(n * (double)MR_GIB);
    case 't':
    case 'T': return (uint64_t)(n * 1024 * (double)MR_GIB);
    default: return (uint64_t)n;
    }
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text ? text : otherwise;
}

void fake_device_init(fake_device *fake, mr_ctx *ctx)
{
    const char *policy = setting("FAKECUDA_ADDR", "");
    *fake = (fake_device){.ctx = ctx, .bump = MALLOC_BASE};
    fake->total = parse_bytes(setting("FAKECUDA_TOTAL_MEM", "80G"));
    fake->used = fake->external = parse_bytes(setting("FAKECUDA_EXTERNAL", "0"));
    fake->manual = !strcmp(setting("FAKECUDA_EVENTS", ""), "manual");
    fake->free_syncs = atoi(setting("FAKECUDA_FREE_SYNCS", "1")) != 0;
    fake->policy = !strcmp(policy, "bump")      ? FAKE_BUMP
                   : !strcmp(policy, "topdown") ? FAKE_TOP_DOWN
                                                : FAKE_FIRST_FIT;
}

static uint64_t up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- ranges ----------------------------------------------------------------------------- */

static uint32_t lower(const fake_ranges *ranges, uint64_t address)
{
    uint32_t low = 0, high = ranges->n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (ranges->at[middle].address < address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void add_range(mr_ctx *ctx, fake_ranges *ranges, fake_range range)
{
    const uint32_t i = lower(ranges, range.address);
    MR_PUSH(ctx, ranges, range);
    memmove(ranges->at + i + 1, ranges->at + i, (ranges->n - 1 - i) * sizeof range);
    ranges->at[i] = range;
}

static uint64_t remove_range(fake_ranges *ranges, uint64_t address)
{
    const uint32_t i = lower(ranges, address);
    if (i == ranges->n || ranges->at[i].address != address) abort();
    const uint64_t size = ranges->at[i].size;
    ranges->n--;
    memmove(ranges->at + i, ranges->at + i + 1, (ranges->n - i) * sizeof *ranges->at);
    return size;
}

static uint64_t lowest_hole(const fake_ranges *ranges, uint64_t base, uint64_t limit,
                            uint64_t size)
{
    uint64_t at = base;
    for (uint32_t i = 0; i < ranges->n; i++) {
        const uint64_t end = ranges->at[i].address + ranges->at[i].size;
        if (end <= at) continue;
        if (ranges->at[i].address >= at + size) break;
        at = up(end, GRANULE);
    }
    return at + size <= limit ? at : 0;
}

static uint64_t highest_hole(const fake_ranges *ranges, uint64_t base, uint64_t limit,
                             uint64_t size)
{
    uint64_t end = limit;
    for (uint32_t i = ranges->n; i-- > 0; end = ranges->at[i].address) {
        const uint64_t at = (end - size) / GRANULE * GRANULE;
        if (end >= size && at >= ranges->at[i].address + ranges->at[i].size && at >= base)
            return at;
    }
    const uint64_t at = (end - size) / GRANULE * GRANULE;
    return at >= base ? at : 0;
}

/* ---- memory ----------------------------------------------------------------------------- */

static bool charge(fake_device *fake, uint64_t bytes)
{
    if (fake->used > fake->total || bytes > fake->total - fake->used) return false;
    fake->used += bytes;
    return true;
}

static uint64_t next_address(fake_device *fake, uint64_t size)
{
    if (fake->queue_head < fake->next_addresses.n)
        return fake->next_addresses.at[fake->queue_head++];
    if (fake->policy == FAKE_TOP_DOWN)
        return highest_hole(&fake->allocs, MALLOC_BASE, MALLOC_LIMIT, size);
    if (fake->policy == FAKE_FIRST_FIT)
        return lowest_hole(&fake->allocs, MALLOC_BASE, MALLOC_LIMIT, size);
    fake->bump += size;
    return fake->bump - size;
}

static bool fake_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    (void)stream;
    fake_device *fake = self;
    const uint64_t size = up(bytes, GRANULE);
    if (fake->fail_next) {
        fake->fail_next--;
        return false;
    }
    if (!charge(fake, size)) return false;
    *address = next_address(fake, size);
    add_range(fake->ctx, &fake->allocs, (fake_range){*address, size});
    return true;
}

static void fake_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)bytes;
    fake_device *fake = self;
    fake->used -= remove_range(&fake->allocs, address);
    if (fake->free_syncs) fake_device_sync(fake);
}

static uint64_t fake_reserve(void *self, uint64_t bytes, uint64_t page, uint32_t stream)
{
    (void)page, (void)stream;
    fake_device *fake = self;
    const uint64_t at = lowest_hole(&fake->reserved, RESERVE_BASE, RESERVE_LIMIT, bytes);
    if (at) add_range(fake->ctx, &fake->reserved, (fake_range){at, bytes});
    return at;
}

static void fake_unreserve(void *self, uint64_t address, uint64_t bytes)
{
    (void)bytes;
    remove_range(&((fake_device *)self)->reserved, address);
}

static bool fake_map(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)address, (void)page;
    return charge(self, bytes);
}

static void fake_unmap(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)address, (void)page;
    ((fake_device *)self)->used -= bytes;
}

static uint64_t fake_available(void *self)
{
    const fake_device *fake = self;
    return fake->total > fake->used ? fake->total - fake->used : 0;
}

/* ---- streams ---------------------------------------------------------------------------- */

static fake_stream *stream_at(fake_device *fake, uint32_t stream)
{
    while (fake->streams.n <= stream) MR_PUSH(fake->ctx, &fake->streams, (fake_stream){0, 0});
    return &fake->streams.at[stream];
}

static uint64_t fake_record(void *self, uint32_t stream)
{
    fake_device *fake = self;
    fake_stream *s = stream_at(fake, stream);
    s->submitted++;
    if (!fake->manual) s->completed = s->submitted;
    return s->submitted;
}

static bool fake_done(void *self, uint32_t stream, uint64_t ticket)
{
    return stream_at(self, stream)->completed >= ticket;
}

static void fake_synchronize(void *self, uint32_t stream, uint64_t ticket)
{
    fake_stream *s = stream_at(self, stream);
    if (ticket > s->submitted) ticket = s->submitted;
    if (ticket > s->completed) s->completed = ticket;
}

static void fake_trace(void *self, c10_action action, uint64_t address, uint64_t size,
                       uint32_t stream)
{
    fake_device *fake = self;
    MR_PUSH(fake->ctx, &fake->trace, (fake_event){action, address, size, stream});
}

c10_device fake_device_calls(fake_device *fake)
{
    return (c10_device){
        .self = fake,
        .total = fake->total,
        .malloc = fake_malloc,
        .free = fake_free,
        .reserve = fake_reserve,
        .unreserve = fake_unreserve,
        .map = fake_map,
        .unmap = fake_unmap,
        .available = fake_available,
        .record = fake_record,
        .done = fake_done,
        .synchronize = fake_synchronize,
        .trace = fake_trace,
    };
}

void fake_device_external(fake_device *fake, uint64_t bytes)
{
    fake->used = fake->used - fake->external + bytes;
    fake->external = bytes;
}

void fake_device_advance(fake_device *fake, uint32_t stream, uint64_t items)
{
    fake_stream *s = stream_at(fake, stream);
    s->completed =
        items && s->completed + items < s->submitted ? s->completed + items : s->submitted;
}

void fake_device_sync(fake_device *fake)
{
    for (uint32_t i = 0; i < fake->streams.n; i++)
        fake->streams.at[i].completed = fake->streams.at[i].submitted;
}
