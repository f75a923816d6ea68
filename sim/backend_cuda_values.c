/* values -- what memory holds, and whether it still does.
 *
 * What an op makes is a value with a number and a pattern (kernels.h).  Whoever reads a storage
 * looks for the pattern of the value that it should hold; a value computed again, or copied, is
 * the same value.  Kernels tell of the first wrong word in a report, which is read whenever the
 * device is waited for: its words say who has written them.
 */
#include "backend_cuda.h"

/* ---- numbers ----------------------------------------------------------------------------- */

uint32_t mr_cuda_new_value(mr_cuda *c, mr_ctx *ctx, uint32_t storage, uint32_t op)
{
    MR_PUSH(ctx, &c->values, (mr_cuda_value){storage, op});
    return c->values.n;
}

mr_cuda_pointer mr_cuda_where(const mr_cuda *c, uint32_t storage)
{
    return c->home[storage].at;
}

mr_span mr_cuda_span(mr_cuda *c, mr_ctx *ctx, uint32_t storage, uint32_t mode, uint32_t op)
{
    const uint32_t value = c->home[storage].value;
    const uint32_t stride = c->manner.stride ? c->manner.stride : 1;
    if (mode == MR_SPAN_VERIFY && !value) return (mr_span){0};
    if (mode == MR_SPAN_VERIFY) MR_PUSH(ctx, &c->sites, (mr_cuda_site){storage, op, value});
    return (mr_span){.at = mr_cuda_where(c, storage),
                     .bytes = c->trace->storages.at[storage].bytes,
                     .value = value,
                     .mode = mode,
                     .stride = stride,
                     .site = c->sites.n};
}

/* ---- the report -------------------------------------------------------------------------- */

static const char *op_name(const mr_cuda *c, uint32_t op)
{
    return op == MR_NONE ? "the beginning" : c->trace->ops.at[op].name;
}

static const char *name_of(const mr_cuda *c, uint32_t storage)
{
    for (uint32_t t = 0; t < c->trace->tensors.n; t++)
        if (c->trace->tensors.at[t].storage == storage && *c->trace->tensors.at[t].name)
            return c->trace->tensors.at[t].name;
    return "no name";
}

static const char *owner(mr_ctx *ctx, const mr_cuda *c, uint32_t value)
{
    const mr_cuda_value *v = &c->values.at[value - 1];
    return mr_printf(ctx, "storage %u (%s), written by %s", v->storage, name_of(c, v->storage),
                     op_name(c, v->op));
}

static const char *culprit(mr_ctx *ctx, const mr_cuda *c, const mr_report *report)
{
    const uint32_t value = (uint32_t)report->low;
    const bool whole = report->high == mr_pattern_high(report->low);
    if (!whole || !value || value > c->values.n) return "bytes that no op wrote";
    return mr_printf(ctx, "the bytes of %s", owner(ctx, c, value));
}

static mr_status wrong(mr_cuda *c, mr_ctx *ctx, const mr_report *report)
{
    const mr_cuda_site *site = &c->sites.at[report->site - 1];
    const char *when = site->op == MR_NONE ? "when it was given back"
                                           : mr_printf(ctx, "when %s (op %u) was to read it",
                                                       op_name(c, site->op), site->op);
    return mr_fail(ctx, MR_EINVARIANT, "wrong bytes in %s: at offset %llu stood %s, %s",
                   owner(ctx, c, site->value), (unsigned long long)report->offset,
                   culprit(ctx, c, report), when);
}

mr_status mr_cuda_look(mr_cuda *c, mr_ctx *ctx)
{
    mr_report report = {0};
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    if (!c->sites.n) return MR_OK;
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.fetch(&report, c->report, sizeof report),
                         "copy a report"));
    if (report.site) return wrong(c, ctx, &report);
    c->sites.n = 0;
    return MR_OK;
}

/* ---- storages come and go ---------------------------------------------------------------- */

static mr_status alone(mr_cuda *c, mr_ctx *ctx, uint32_t storage, uint32_t mode)
{
    const uint32_t lane = c->trace->storages.at[storage].stream;
    const mr_span span = mr_cuda_span(c, ctx, storage, mode, MR_NONE);
    mr_job job = {0};
    if (!span.bytes) return MR_OK;
    if (mode == MR_SPAN_WRITE) MR_TRY(mr_cuda_before_write(c, ctx, lane, storage));
    else MR_TRY(mr_cuda_before_read(c, ctx, lane, storage));
    MR_TRY(mr_cuda_add(c, ctx, lane, &job, &span));
    MR_TRY(mr_cuda_launch(c, ctx, lane, &job));
    if (mode == MR_SPAN_WRITE) mr_cuda_writes(c, lane, storage);
    else mr_cuda_reads(c, lane, storage);
    return mr_cuda_issued(c, ctx, lane);
}

static bool same_place(const mr_block *a, const mr_block *b)
{
    return a->segment == b->segment && a->offset == b->offset && a->bytes == b->bytes;
}

/* Where the placement says, or where a pool has room; what was there just now may stay. */
static mr_status settle_down(mr_cuda *c, mr_ctx *ctx, uint32_t storage, bool stays)
{
    mr_cuda_home *home = &c->home[storage];
    if (!c->pool) {
        if (home->block.segment != MR_NONE)
            home->at = c->segments.at[home->block.segment].at + home->block.offset;
        return MR_OK;
    }
    if (!stays) {
        MR_TRY(mr_cuda_pool_give(c, ctx));
        return mr_cuda_pool_take(c, ctx, storage);
    }
    home->at = c->passed.at;
    home->touched = c->passed.touched;
    c->passed.at = 0;
    return MR_OK;
}

/* What is there before the step has a value from the beginning, and so have batches that come
 * later, and the storages of a recording without ops, which nobody else would write. */
mr_status mr_cuda_bind(void *self, mr_ctx *ctx, uint32_t storage, const mr_block *block)
{
    mr_cuda *c = self;
    mr_cuda_home *home = &c->home[storage];
    const mr_storage *storages = c->trace->storages.at;
    const mr_storage *was = &storages[c->passed.storage];
    const bool passed = same_place(block, &c->passed.block)
                        && was->bytes == storages[storage].bytes
                        && was->stream == storages[storage].stream;
    mr_cuda_enter(c, ctx, storage, block);
    MR_TRY(settle_down(c, ctx, storage, passed && c->passed.at));
    if (!c->manner.verify) return MR_OK;
    if (c->trace->ops.n && passed) { /* perhaps from one iteration to the next */
        home->value = c->passed.value;
        home->writer = c->passed.writer;
        home->written = c->passed.written;
        c->passed.block.segment = MR_NONE;
        return MR_OK;
    }
    const bool batch = storages[storage].role == MR_ROLE_input;
    if (c->trace->ops.n && !storages[storage].before && !batch) return MR_OK;
    home->value = mr_cuda_new_value(c, ctx, storage, MR_NONE);
    return alone(c, ctx, storage, MR_SPAN_WRITE);
}

mr_status mr_cuda_unbind(void *self, mr_ctx *ctx, uint32_t storage)
{
    mr_cuda *c = self;
    const mr_cuda_home *home = &c->home[storage];
    if (c->manner.verify && !c->trace->ops.n) MR_TRY(alone(c, ctx, storage, MR_SPAN_VERIFY));
    MR_TRY(mr_cuda_pool_give(c, ctx));
    c->passed.block = home->block;
    c->passed.at = c->pool ? home->at : 0;
    c->passed.touched = home->touched;
    c->passed.storage = storage;
    c->passed.value = home->value;
    c->passed.writer = home->writer;
    c->passed.written = home->written;
    mr_cuda_leave(c, ctx, storage);
    return MR_OK;
}

mr_status mr_cuda_verify_all(mr_cuda *c, mr_ctx *ctx)
{
    for (uint32_t s = 0; c->manner.verify && s < c->trace->storages.n; s++)
        if (c->home[s].block.segment != MR_NONE) MR_TRY(alone(c, ctx, s, MR_SPAN_VERIFY));
    return mr_cuda_look(c, ctx);
}
