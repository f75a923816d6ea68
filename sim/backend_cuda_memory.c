/* memory -- segments of a placement as memory of a device.
 *
 * An expandable segment is a range of addresses; each of its pages is a physical allocation of
 * its own, as PyTorch makes them, so that any run of pages can be unmapped.
 */
#include <string.h>

#include "backend_cuda.h"

/* ---- the driver's part, timed ------------------------------------------------------------ */

static mr_cuda_property on_device(const mr_cuda *c)
{
    return (mr_cuda_property){.type = MR_CUDA_PINNED, .location = {MR_CUDA_ON_DEVICE, c->gpu}};
}

static uint64_t whole(const mr_cuda *c, uint64_t bytes)
{
    return (bytes + c->granularity - 1) / c->granularity * c->granularity;
}

static mr_status refused(mr_ctx *ctx, const mr_cuda *c, mr_cuda_result result, const char *what,
                         uint64_t bytes)
{
    if (!result) return MR_OK;
    const char *text = mr_printf(ctx, "%s %llu bytes while it held %llu for this replay", what,
                                 (unsigned long long)bytes, (unsigned long long)c->held);
    return mr_cuda_check(ctx, &c->driver, result, text);
}

/* What the device says is asked for only at a new height: asking takes long. */
static mr_status hold(mr_cuda *c, mr_ctx *ctx, uint64_t bytes)
{
    size_t free = 0, total = 0;
    c->held += bytes;
    if (c->held <= c->held_peak) return MR_OK;
    c->held_peak = c->held;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.info(&free, &total), "say how full it is"));
    const uint64_t taken = free < c->free_at_start ? c->free_at_start - free : 0;
    if (taken > c->seen_peak) c->seen_peak = taken;
    return MR_OK;
}

/* The call was begun at `began`. */
static void count(mr_cuda *c, uint64_t began)
{
    c->times.memory += mr_cuda_clock() - began;
}

/* ---- whole segments ---------------------------------------------------------------------- */

/* Room for the range of a recording that does not say how long it was: all of the device. */
static uint64_t length(const mr_cuda *c, const mr_segment *segment)
{
    return whole(c, segment->bytes ? segment->bytes : c->model->memory);
}

static mr_status take(mr_cuda *c, mr_ctx *ctx, uint64_t bytes, mr_cuda_segment *out)
{
    const uint64_t began = mr_cuda_clock();
    const mr_cuda_result result = c->driver.take(&out->at, bytes);
    count(c, began);
    if (result) out->at = 0;
    MR_TRY(refused(ctx, c, result, "give", bytes));
    return hold(c, ctx, whole(c, bytes));
}

mr_status mr_cuda_reserve(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    mr_cuda *c = self;
    while (c->segments.n <= index) MR_PUSH(ctx, &c->segments, (mr_cuda_segment){0});
    mr_cuda_segment *s = &c->segments.at[index];
    *s = (mr_cuda_segment){.bytes = segment->bytes, .expandable = segment->expandable};
    if (!segment->expandable) return take(c, ctx, segment->bytes, s);
    s->bytes = length(c, segment);
    const mr_cuda_result result = c->driver.range(&s->at, s->bytes, 0, 0, 0);
    if (result) s->at = 0;
    return refused(ctx, c, result, "reserve addresses for", s->bytes);
}

static mr_status drop_page(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, uint32_t i)
{
    mr_status status = MR_OK;
    mr_cuda_page page = s->pages.at[i];
    if (page.mapped)
        status = mr_cuda_first(ctx, status, c, c->driver.unmap(s->at + page.offset, page.bytes),
                               "unmap memory");
    return mr_cuda_first(ctx, status, c, c->driver.end(page.handle), "take memory back");
}

static mr_status give(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s)
{
    mr_status status = MR_OK;
    if (!s->at) return MR_OK;
    if (!s->expandable) {
        c->held -= whole(c, s->bytes);
        status = mr_cuda_first(ctx, status, c, c->driver.give(s->at), "take memory back");
    } else {
        for (uint32_t i = s->pages.n; i-- > 0;) {
            c->held -= s->pages.at[i].mapped ? s->pages.at[i].bytes : 0;
            const mr_status dropped = drop_page(c, ctx, s, i);
            if (!status) status = dropped;
        }
        s->pages.n = 0;
        status = mr_cuda_first(ctx, status, c, c->driver.end_range(s->at, s->bytes),
                               "take addresses back");
    }
    s->at = 0;
    return status;
}

/* Taking back waits for the device, which is not what it costs: that is waited for before. */
mr_status mr_cuda_release(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    (void)segment;
    mr_cuda *c = self;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    const uint64_t began = mr_cuda_clock();
    const mr_status status = give(c, ctx, &c->segments.at[index]);
    count(c, began);
    return status;
}

/* ---- stretches of an expandable segment -------------------------------------------------- */

static mr_status add_page(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, uint64_t offset,
                          uint64_t bytes)
{
    const mr_cuda_property property = on_device(c);
    mr_cuda_page page = {.offset = offset, .bytes = bytes};
    const mr_cuda_result created = c->driver.create(&page.handle, bytes, &property, 0);
    MR_TRY(refused(ctx, c, created, "give", bytes));
    uint32_t i = s->pages.n;
    MR_PUSH(ctx, &s->pages, page); /* known from now on: it is given back on every way out */
    for (; i > 0 && s->pages.at[i - 1].offset > offset; i--)
        s->pages.at[i] = s->pages.at[i - 1];
    s->pages.at[i] = page;
    MR_TRY(refused(ctx, c, c->driver.map(s->at + offset, bytes, 0, page.handle, 0), "map",
                   bytes));
    s->pages.at[i].mapped = true;
    return MR_OK;
}

static mr_status check_stretch(mr_ctx *ctx, const mr_cuda *c, const mr_segment *segment,
                               const mr_block *stretch)
{
    const uint64_t page = segment->page ? segment->page : stretch->bytes;
    if (page % c->granularity == 0 && stretch->offset % c->granularity == 0
        && stretch->bytes % page == 0)
        return MR_OK;
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "the device maps whole pages of %llu bytes, the placement maps %llu at offset"
        " %llu in pages of %llu",
        (unsigned long long)c->granularity, (unsigned long long)stretch->bytes,
        (unsigned long long)stretch->offset, (unsigned long long)page);
}

mr_status mr_cuda_map(void *self, mr_ctx *ctx, const mr_segment *segment,
                      const mr_block *stretch)
{
    mr_cuda *c = self;
    mr_cuda_segment *s = &c->segments.at[stretch->segment];
    const mr_cuda_access access = {{MR_CUDA_ON_DEVICE, c->gpu}, MR_CUDA_READ_WRITE};
    MR_TRY(check_stretch(ctx, c, segment, stretch));
    const uint64_t began = mr_cuda_clock();
    const uint64_t page = segment->page ? segment->page : stretch->bytes;
    for (uint64_t done = 0; done < stretch->bytes; done += page) {
        MR_TRY(add_page(c, ctx, s, stretch->offset + done, page));
        c->held += page;
    }
    MR_TRY(refused(ctx, c,
                   c->driver.access(s->at + stretch->offset, stretch->bytes, &access, 1),
                   "open", stretch->bytes));
    count(c, began);
    return hold(c, ctx, 0);
}

/* The driver does not wait here; what may still use the pages has to be waited for. */
mr_status mr_cuda_unmap(void *self, mr_ctx *ctx, const mr_segment *segment,
                        const mr_block *stretch)
{
    (void)segment;
    mr_cuda *c = self;
    mr_cuda_segment *s = &c->segments.at[stretch->segment];
    const uint64_t end = stretch->offset + stretch->bytes;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    const uint64_t began = mr_cuda_clock();
    mr_status status = MR_OK;
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->pages.n; i++) {
        const mr_cuda_page page = s->pages.at[i];
        if (page.offset < stretch->offset || page.offset + page.bytes > end) {
            s->pages.at[left++] = page;
            continue;
        }
        const mr_status dropped = drop_page(c, ctx, s, i);
        if (!status) status = dropped;
        c->held -= page.bytes;
    }
    s->pages.n = left;
    count(c, began);
    return status;
}

/* ---- beginning and end ------------------------------------------------------------------- */

mr_status mr_cuda_fill(mr_cuda *c, mr_ctx *ctx)
{
    size_t free = 0, total = 0;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.info(&free, &total), "say how full it is"));
    if (c->manner.limit && free < c->manner.limit)
        return mr_fail(ctx, MR_EDEVICE,
                       "%llu bytes of %s are free, which is less than the limit of %llu",
                       (unsigned long long)free, c->name, (unsigned long long)c->manner.limit);
    const uint64_t more = c->manner.limit ? free - c->manner.limit : 0;
    const uint64_t bytes = more / c->granularity * c->granularity;
    if (bytes) {
        const mr_cuda_result result = c->driver.take(&c->filler, bytes);
        if (result) c->filler = 0;
        MR_TRY(refused(ctx, c, result, "give", bytes));
    }
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.info(&free, &total), "say how full it is"));
    c->free_at_start = free;
    return MR_OK;
}

static mr_status give_hosts(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = MR_OK;
    for (uint32_t s = 0; c->home && s < c->trace->storages.n; s++) {
        if (!c->home[s].host) continue;
        status = mr_cuda_first(ctx, status, c, c->driver.give_host(c->home[s].host),
                               "take host memory back");
        c->home[s].host = NULL;
    }
    return status;
}

mr_status mr_cuda_give_all(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = give_hosts(c, ctx);
    for (uint32_t i = 0; i < c->segments.n; i++) {
        const mr_status given = give(c, ctx, &c->segments.at[i]);
        if (!status) status = given;
    }
    if (c->filler)
        status = mr_cuda_first(ctx, status, c, c->driver.give(c->filler), "take memory back");
    if (c->report)
        status = mr_cuda_first(ctx, status, c, c->driver.give(c->report), "take memory back");
    c->filler = c->report = 0;
    return status;
}

mr_status mr_cuda_first(mr_ctx *ctx, mr_status status, mr_cuda *c, mr_cuda_result result,
                        const char *what)
{
    return status ? status : mr_cuda_check(ctx, &c->driver, result, what);
}
