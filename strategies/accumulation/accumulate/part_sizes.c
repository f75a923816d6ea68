/* part_sizes -- sizes of a part of a batch. */
#include "part_sizes.h"

uint64_t mr_share_bytes(const mr_share *share, const mr_storage *whole)
{
    return mr_part_bytes(whole->bytes, whole->per_sample, share->batch, share->parts, share->i);
}

static uint64_t samples(const mr_share *share)
{
    return share->batch / share->parts + (share->i < share->batch % share->parts);
}

/* x * part / whole, part <= whole, without leaving 64 bits. */
static uint64_t in_proportion(uint64_t x, uint64_t part, uint64_t whole)
{
    return x / whole * part + (uint64_t)((double)(x % whole) * (double)part / (double)whole);
}

/* The first dimension that counts samples, alone or times something, counts fewer. */
static const uint64_t *shape_of(mr_ctx *ctx, const mr_share *share, const mr_tensor *whole)
{
    for (uint32_t d = 0; d < whole->rank; d++) {
        if (!whole->shape[d] || whole->shape[d] % share->batch) continue;
        uint64_t *shape = MR_NEW_N(ctx, uint64_t, whole->rank);
        for (uint32_t i = 0; i < whole->rank; i++) shape[i] = whole->shape[i];
        shape[d] = shape[d] / share->batch * samples(share);
        return shape;
    }
    return whole->shape;
}

mr_tensor mr_share_tensor(mr_ctx *ctx, const mr_share *share, const mr_tensor *whole,
                          const mr_storage *home, uint64_t bytes)
{
    mr_tensor part = *whole;
    if (bytes == home->bytes) return part;
    const uint64_t behind = home->bytes - whole->offset - whole->bytes;
    part.shape = shape_of(ctx, share, whole);
    if (whole->offset < home->per_sample && behind < home->per_sample) {
        part.bytes = bytes - whole->offset - behind;
    } else {
        part.offset = in_proportion(whole->offset, bytes, home->bytes);
        part.bytes = in_proportion(whole->bytes, bytes, home->bytes);
    }
    return part;
}

/* Bytes of these tensors that the samples of other parts have. */
static uint64_t missing(const mr_share *share, const mr_trace *trace, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_tensor *t = &trace->tensors.at[ids.at[i]];
        const mr_storage *home = &trace->storages.at[t->storage];
        const uint64_t bytes = mr_share_bytes(share, home);
        if (bytes != home->bytes) sum += t->bytes - in_proportion(t->bytes, bytes, home->bytes);
    }
    return sum;
}

static uint64_t less(uint64_t bytes, uint64_t missing)
{
    return missing < bytes ? bytes - missing : 0;
}

void mr_share_op(const mr_share *share, const mr_trace *trace, const mr_op *whole, mr_op *part)
{
    part->flops = mr_part_bytes(whole->flops, whole->flops_per_sample, share->batch,
                                share->parts, share->i);
    part->read = less(whole->read, missing(share, trace, whole->in));
    part->written = less(whole->written, missing(share, trace, whole->out)
                                             + missing(share, trace, whole->mutates));
    part->ns = whole->ns / share->parts;
    part->workspace = whole->workspace / share->parts;
}
