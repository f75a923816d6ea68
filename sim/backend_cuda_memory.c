/* memory -- segments of a placement as memory of a device. */
#include "backend_cuda.h"

/* ---- the driver's part, timed ------------------------------------------------------------ */

static uint64_t whole(const mr_cuda *c, uint64_t bytes)
{
    return (bytes + c->granularity - 1) / c->granularity * c->granularity;
}

mr_status mr_cuda_refused(mr_ctx *ctx, const mr_cuda *c, mr_cuda_result result,
                          const char *what, uint64_t bytes)
{
    if (!result) return MR_OK;
    const char *text = mr_printf(ctx, "%s %llu bytes while it held %llu for this replay", what,
                                 (unsigned long long)bytes, (unsigned long long)c->held);
    return mr_cuda_check(ctx, &c->driver, result, text);
}

/* What the device says is asked for only at a new height: asking takes long. */
mr_status mr_cuda_hold(mr_cuda *c, mr_ctx *ctx, uint64_t bytes)
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

void mr_cuda_count(mr_cuda *c, uint64_t began)
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
    mr_cuda_count(c, began);
    if (result) out->at = 0;
    MR_TRY(mr_cuda_refused(ctx, c, result, "give", bytes));
    return mr_cuda_hold(c, ctx, whole(c, bytes));
}

mr_status mr_cuda_reserve(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    mr_cuda *c = self;
    while (c->segments.n <= index) MR_PUSH(ctx, &c->segments, (mr_cuda_segment){0});
    mr_cuda_segment *s = &c->segments.at[index];
    *s = (mr_cuda_segment){.bytes = segment->bytes, .expandable = segment->expandable};
    if (c->pool) {
        c->planned += segment->bytes;
        return mr_cuda_pool_give(c, ctx);
    }
    if (!segment->expandable) return take(c, ctx, segment->bytes, s);
    s->bytes = length(c, segment);
    const mr_cuda_result result = c->driver.range(&s->at, s->bytes, 0, 0, 0);
    if (result) s->at = 0;
    return mr_cuda_refused(ctx, c, result, "reserve addresses for", s->bytes);
}

static mr_status give(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s)
{
    mr_status status = MR_OK;
    if (!s->at) return MR_OK;
    if (!s->expandable) {
        c->held -= whole(c, s->bytes);
        status = mr_cuda_first(ctx, status, c, c->driver.give(s->at), "take memory back");
    } else {
        status = mr_cuda_drop_pages(c, ctx, s, 0, s->bytes);
        status = mr_cuda_first(ctx, status, c, c->driver.end_range(s->at, s->bytes),
                               "take addresses back");
    }
    s->at = 0;
    return status;
}

/* Taking back waits for the device, which is not what it costs: that is waited for before. */
mr_status mr_cuda_release(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index)
{
    mr_cuda *c = self;
    if (c->pool) {
        c->planned -= segment->bytes;
        MR_TRY(mr_cuda_pool_give(c, ctx));
        return mr_cuda_pool_trim(c, ctx);
    }
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    const uint64_t began = mr_cuda_clock();
    const mr_status status = give(c, ctx, &c->segments.at[index]);
    mr_cuda_count(c, began);
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
        MR_TRY(mr_cuda_refused(ctx, c, result, "give", bytes));
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
    mr_status status = mr_cuda_pool_close(c, ctx);
    const mr_status hosts = give_hosts(c, ctx);
    if (!status) status = hosts;
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
