/* part_sizes -- sizes of a part of a batch. */
#include "part_sizes.h"

#include "cost.h"

#include <string.h>

/* As torch.chunk divides: all parts have as many but the last, which has the rest.  Where it
 * would make fewer parts than asked for, none differs from another by more than one. */
static uint64_t samples(const mr_share *share)
{
    if (share->instead) return share->instead;
    const uint64_t each = (share->batch + share->parts - 1) / share->parts;
    const uint64_t before = each * (share->parts - 1);
    const bool last = share->i + 1 == share->parts;
    if (before < share->batch) return last ? share->batch - before : each;
    return share->batch / share->parts + (share->i < share->batch % share->parts);
}

/* Of an amount to which each sample adds, what the samples of the share leave. */
static uint64_t amount(const mr_share *share, uint64_t whole, uint64_t per_sample)
{
    const uint64_t scaling = per_sample * share->batch;
    return scaling > whole ? whole : whole - scaling + per_sample * samples(share);
}

uint64_t mr_share_bytes(const mr_share *share, const mr_storage *whole)
{
    return amount(share, whole->bytes, whole->per_sample);
}

/* x * part / whole without leaving 64 bits. */
static uint64_t in_proportion(uint64_t x, uint64_t part, uint64_t whole)
{
    return x / whole * part + (uint64_t)((double)(x % whole) * (double)part / (double)whole);
}

/* ---- shapes ------------------------------------------------------------------------------ */

static bool may_count(const mr_share *share, const mr_tensor *t, uint32_t d)
{
    return t->shape[d] && t->shape[d] % share->batch == 0;
}

/* The first dimension that may count samples, alone or times something: one that is as long as
 * that of something the op reads, if there is one. */
static uint32_t dimension(const mr_share *share, const mr_trace *trace, const mr_op *op,
                          const uint32_t *known, uint32_t tensor)
{
    const mr_tensor *t = &trace->tensors.at[tensor];
    uint32_t first = MR_NONE;
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!may_count(share, t, d)) continue;
        if (first == MR_NONE) first = d;
        for (uint32_t i = 0; op && i < op->in.n; i++) {
            const uint32_t at = known[op->in.at[i]];
            if (at != MR_NONE && trace->tensors.at[op->in.at[i]].shape[at] == t->shape[d])
                return d;
        }
    }
    return first;
}

uint32_t *mr_share_dimensions(mr_ctx *ctx, const mr_share *share, const mr_trace *trace)
{
    uint32_t *known = mr_none_of(ctx, trace->tensors.n);
    bool *made = MR_NEW_N(ctx, bool, trace->tensors.n);
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        const mr_ids lists[] = {op->in, op->out, op->mutates};
        for (size_t l = 0; l < MR_COUNT(lists); l++)
            for (uint32_t k = 0; k < lists[l].n; k++) {
                const uint32_t t = lists[l].at[k];
                const bool grows = trace->storages.at[trace->tensors.at[t].storage].per_sample;
                if (!made[t] && grows)
                    known[t] = dimension(share, trace, l ? op : NULL, known, t);
                made[t] = true;
            }
    }
    return known;
}

static const uint64_t *shape_of(mr_ctx *ctx, const mr_share *share, const mr_tensor *whole,
                                uint32_t dimension)
{
    if (dimension == MR_NONE) return whole->shape;
    uint64_t *shape = MR_NEW_N(ctx, uint64_t, whole->rank);
    for (uint32_t i = 0; i < whole->rank; i++) shape[i] = whole->shape[i];
    shape[dimension] = shape[dimension] / share->batch * samples(share);
    return shape;
}

mr_tensor mr_share_tensor(mr_ctx *ctx, const mr_share *share, const mr_tensor *whole,
                          uint32_t dimension, const mr_storage *home, uint64_t bytes)
{
    mr_tensor part = *whole;
    if (bytes == home->bytes) return part;
    const uint64_t behind = home->bytes - whole->offset - whole->bytes;
    part.shape = shape_of(ctx, share, whole, dimension);
    if (whole->offset < home->per_sample && behind < home->per_sample) {
        part.bytes = bytes - whole->offset - behind;
    } else {
        part.offset = in_proportion(whole->offset, bytes, home->bytes);
        part.bytes = in_proportion(whole->bytes, bytes, home->bytes);
    }
    return part;
}

/* `bytes` for these tensors, less what they had and more what they have. */
static uint64_t exchanged(const mr_share *share, const mr_trace *trace, mr_ids ids,
                          uint64_t bytes)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_tensor *t = &trace->tensors.at[ids.at[i]];
        const mr_storage *home = &trace->storages.at[t->storage];
        const uint64_t now = mr_share_bytes(share, home);
        if (now == home->bytes) continue;
        bytes += in_proportion(mr_tensor_touched(t), now, home->bytes);
        bytes = mr_tensor_touched(t) < bytes ? bytes - mr_tensor_touched(t) : 0;
    }
    return bytes;
}

/* What cuBLAS takes for a product is of one size; temporaries of other ops have that of what
 * they work on. */
static uint64_t workspace(const mr_share *share, const mr_trace *trace, const mr_op *whole)
{
    const mr_work work = mr_work_of(trace, whole);
    if (work.math == MR_MATMUL && work.products.n) return whole->workspace;
    if (!share->instead) return whole->workspace / share->parts;
    return in_proportion(whole->workspace, share->instead, share->batch);
}

void mr_share_op(const mr_share *share, const mr_trace *trace, const mr_op *whole, mr_op *part)
{
    part->flops = amount(share, whole->flops, whole->flops_per_sample);
    part->read = exchanged(share, trace, whole->in, whole->read);
    part->written = exchanged(share, trace, whole->out, whole->written);
    part->written = exchanged(share, trace, whole->mutates, part->written);
    part->ns = whole->ns / share->parts;
    part->workspace = workspace(share, trace, whole);
    if (share->instead) part->ns = in_proportion(whole->ns, share->instead, share->batch);
}

/* ---- one sample -------------------------------------------------------------------------- */

/* Lengths of a tensor of one sample, without those that are 1; returns how many. */
static uint32_t lengths(const mr_share *share, const mr_tensor *t, uint32_t dimension,
                        uint64_t *out)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint64_t length = d == dimension ? t->shape[d] / share->batch : t->shape[d];
        if (length != 1) out[n++] = length;
    }
    return n;
}

/* torch.reshape copies when it cannot join dimensions: `clone`, seen as `_unsafe_view`.  Where
 * both have the same lengths but for that of the samples, one sample leaves nothing to join. */
static bool is_spared(mr_ctx *ctx, const mr_share *share, const mr_trace *trace,
                      const uint32_t *dimensions, const mr_op *copy, const mr_op *view)
{
    if (strcmp(copy->name, "aten::clone") != 0 || strcmp(view->name, "aten::_unsafe_view") != 0
        || copy->out.n != 1 || view->in.n != 1 || view->in.at[0] != copy->out.at[0]
        || dimensions[copy->out.at[0]] == MR_NONE || dimensions[view->out.at[0]] == MR_NONE)
        return false;
    const mr_tensor *x = &trace->tensors.at[copy->out.at[0]];
    const mr_tensor *y = &trace->tensors.at[view->out.at[0]];
    uint64_t *a = MR_NEW_N(ctx, uint64_t, x->rank + 1), *b = MR_NEW_N(ctx, uint64_t, y->rank + 1);
    const uint32_t n = lengths(share, x, dimensions[copy->out.at[0]], a);
    return n == lengths(share, y, dimensions[view->out.at[0]], b)
           && !memcmp(a, b, n * sizeof *a);
}

void mr_share_remark(mr_rewrite *r, const mr_share *share, const uint32_t *dimensions)
{
    mr_share last = *share;
    last.i = share->parts - 1;
    if (share->batch < 2 || samples(&last) != 1) return;
    uint32_t n = 0;
    const mr_op *one = NULL;
    for (uint32_t o = 0; o + 1 < r->in->ops.n; o++) {
        const mr_op *copy = &r->in->ops.at[o];
        if (!is_spared(r->ctx, share, r->in, dimensions, copy, copy + 1)) continue;
        if (!one) one = copy;
        n++;
    }
    if (n)
        mr_rewrite_remark(r,
                          "PyTorch joins dimensions of a single sample without the copy that more"
                          " samples need; here copies stay, in each part %s, such as in %s",
                          mr_show_count(r->ctx, n, "copy", "copies"), one->module);
}
