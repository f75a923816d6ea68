/* pool -- storages asked of a pool of the driver, one by one, in the order of their streams.
 *
 * The driver decides where they lie and when its pool grows; what the placement thinks of that
 * is the prediction.  The pool keeps what it has until the placement gives a segment back.
 */
#include "backend_cuda.h"

mr_status mr_cuda_pool_open(mr_cuda *c, mr_ctx *ctx, const mr_placement *placement)
{
    const mr_cuda_driver *d = &c->driver;
    const mr_cuda_pool_property property = {.type = MR_CUDA_PINNED,
                                            .location = {MR_CUDA_ON_DEVICE, c->gpu}};
    uint64_t all = UINT64_MAX;
    int waits = 0, has = 0;
    if (!placement || placement->pooled == MR_NOT_POOLED) return MR_OK;
    MR_TRY(mr_cuda_check(ctx, d, d->attribute(&has, MR_CUDA_HAS_POOLS, c->gpu),
                         "describe itself"));
    if (!has)
        return mr_fail(ctx, MR_EDEVICE, "%s has no pools of memory (cudaMallocAsync)", c->name);
    const mr_cuda_result result = d->pool(&c->pool, &property);
    if (result) c->pool = NULL;
    MR_TRY(mr_cuda_check(ctx, d, result, "make a pool of memory"));
    MR_TRY(mr_cuda_check(ctx, d, d->set_pool(c->pool, MR_CUDA_POOL_KEEPS, &all),
                         "let a pool keep its memory"));
    if (placement->pooled == MR_POOLED) return MR_OK; /* as it is from the beginning */
    return mr_cuda_check(ctx, d, d->set_pool(c->pool, MR_CUDA_POOL_WAITS, &waits),
                         "keep streams apart in a pool");
}

mr_status mr_cuda_pool_trim(mr_cuda *c, mr_ctx *ctx)
{
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    const uint64_t began = mr_cuda_clock();
    const mr_cuda_result result = c->driver.trim(c->pool, c->planned);
    mr_cuda_count(c, began);
    return mr_cuda_check(ctx, &c->driver, result, "trim a pool of memory");
}

/* ---- one storage ------------------------------------------------------------------------- */

/* The stream's next op, which others have to wait for. */
mr_status mr_cuda_pool_take(mr_cuda *c, mr_ctx *ctx, uint32_t storage)
{
    const mr_storage *s = &c->trace->storages.at[storage];
    mr_cuda_pointer *at = &c->home[storage].at;
    if (!s->bytes) return MR_OK;
    const uint64_t began = mr_cuda_clock();
    const mr_cuda_result result =
        c->driver.take_pooled(at, s->bytes, c->pool, c->lane[s->stream].stream);
    mr_cuda_count(c, began);
    if (result) *at = 0;
    MR_TRY(mr_cuda_refused(ctx, c, result, "give", s->bytes));
    c->held += s->bytes;
    mr_cuda_writes(c, s->stream, storage);
    return mr_cuda_issued(c, ctx, s->stream);
}

mr_status mr_cuda_pool_give(mr_cuda *c, mr_ctx *ctx)
{
    const mr_cuda_pointer at = c->passed.at;
    const mr_storage *s = &c->trace->storages.at[c->passed.storage];
    if (!at) return MR_OK;
    c->held -= s->bytes;
    MR_TRY(mr_cuda_before_give(c, ctx, s->stream, c->passed.touched));
    c->passed.at = 0;
    c->passed.block.segment = MR_NONE; /* nobody gets it as it was */
    const uint64_t began = mr_cuda_clock();
    const mr_cuda_result result = c->driver.give_pooled(at, c->lane[s->stream].stream);
    mr_cuda_count(c, began);
    return mr_cuda_check(ctx, &c->driver, result, "take memory back");
}

/* ---- all of it --------------------------------------------------------------------------- */

mr_status mr_cuda_pool_peak(mr_cuda *c, mr_ctx *ctx)
{
    uint64_t peak = 0;
    if (!c->pool) return MR_OK;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.ask_pool(c->pool, MR_CUDA_POOL_PEAK, &peak),
                         "say what a pool held"));
    if (peak > c->seen_peak) c->seen_peak = peak;
    return MR_OK;
}

/* Whoever used the memory has been waited for. */
mr_status mr_cuda_pool_close(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = MR_OK;
    if (!c->pool) return MR_OK;
    status = mr_cuda_pool_give(c, ctx);
    for (uint32_t s = 0; s < c->trace->storages.n; s++) {
        const mr_cuda_pointer at = c->home[s].at;
        mr_cuda_stream *stream = c->lane[c->trace->storages.at[s].stream].stream;
        if (!at) continue;
        c->home[s].at = 0;
        status = mr_cuda_first(ctx, status, c, c->driver.give_pooled(at, stream),
                               "take memory back");
    }
    status = mr_cuda_first(ctx, status, c, c->driver.wait(), "finish its work");
    status = mr_cuda_first(ctx, status, c, c->driver.end_pool(c->pool), "end a pool of memory");
    c->pool = NULL;
    return status;
}
