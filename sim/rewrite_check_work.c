/* rewrite_check_work -- an op of the trace after and the one of before whose work it does:
 * reads it the same, in as many parts, of the same shape?
 */
#include "rewrite_check_referee.h"

#include <inttypes.h>
#include <string.h>

enum { WHOLE = 1, ONE = 2 };

/* ---- whose work an op does --------------------------------------------------------------- */

uint32_t mr_referee_counterpart(const mr_referee *r, uint32_t o)
{
    const uint32_t n = r->before.trace->ops.n;
    const mr_op *op = &r->trace->ops.at[o];
    if (o < n) return o;
    if (op->again < n) { /* a part of an earlier rewrite is nothing new */
        const mr_op *first = &r->before.trace->ops.at[op->again];
        if (first->part == op->part && first->origin == op->origin) return op->again;
    }
    return op->part && op->origin < n ? op->origin : MR_NONE;
}

/* The part of its counterpart that an op does; 0 for all, also where that is a part itself. */
mr_value mr_referee_part(const mr_referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o], *old = &r->before.trace->ops.at[f];
    return op->part == old->part && op->origin == old->origin ? 0 : op->part;
}

/* What an op of before takes, in the batch of after. */
uint64_t mr_referee_operations(const mr_referee *r, const mr_op *old)
{
    return old->flops - old->flops_per_sample * r->had + old->flops_per_sample * r->has;
}

mr_status mr_referee_same_work(const mr_referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o], *old = &r->before.trace->ops.at[f];
    if (op->in.n != old->in.n)
        return mr_fail(r->ctx, MR_EINVARIANT, "%s reads %u tensors, expected %u as before",
                       mr_referee_named(r->ctx, r->trace, o), op->in.n, old->in.n);
    if (op->random != old->random)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s draws %s random numbers, expected the opposite as before",
                       mr_referee_named(r->ctx, r->trace, o), op->random ? "" : "no");
    if (!mr_referee_part(r, o, f) && op->flops != mr_referee_operations(r, old))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s takes %" PRIu64 " operations, expected %" PRIu64 " as before",
                       mr_referee_named(r->ctx, r->trace, o), op->flops,
                       mr_referee_operations(r, old));
    return MR_OK;
}

/* ---- what it reads and writes ------------------------------------------------------------ */

/* In another batch one dimension of what a sample adds to has another length. */
static bool same_lengths(const mr_referee *r, const mr_tensor *x, const mr_tensor *y)
{
    uint32_t others = 0;
    if (x->rank != y->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->shape[i] == y->shape[i]) continue;
        if (!r->had || x->shape[i] * r->had != y->shape[i] * r->has) return false;
        others++;
    }
    return !others || (others == 1 && r->before.trace->storages.at[y->storage].per_sample);
}

/* All of a storage before; now rows that lie apart, as it was written. */
static bool is_spread(const mr_referee *r, uint32_t tensor, const mr_tensor *y)
{
    const mr_tensor *x = &r->trace->tensors.at[tensor];
    const uint32_t by = r->wrote[x->storage];
    if (y->offset || y->bytes != r->before.trace->storages.at[y->storage].bytes
        || x->bytes < y->bytes)
        return false;
    if (r->beside[tensor] && r->under[tensor] == r->holds[x->storage]) return true;
    return by != MR_NONE && r->trace->tensors.at[by].offset == x->offset
           && r->trace->tensors.at[by].bytes == x->bytes;
}

static bool same_shape(const mr_referee *r, uint32_t tensor, const mr_tensor *y)
{
    const mr_tensor *x = &r->trace->tensors.at[tensor];
    if (!same_lengths(r, x, y)) return false;
    if (is_spread(r, tensor, y)) return true;
    if (r->had && r->before.trace->storages.at[y->storage].per_sample) return true;
    const bool cast = x->dtype != y->dtype && strcmp(x->dtype, y->dtype) != 0;
    const bool fits = x->bytes == y->bytes || (r->packed[x->storage] && x->bytes < y->bytes);
    return cast || (fits && x->offset + r->base[x->storage] == y->offset);
}

/* What the tensor shows of the value that its storage holds. */
mr_value mr_referee_seen(const mr_referee *r, uint32_t tensor)
{
    const mr_value has = r->holds[mr_referee_storage(r->trace, tensor)];
    if (r->beside[tensor] && r->under[tensor] == has) return r->beside[tensor];
    return has >> MR_VALUE_SHIFT ? has : has | (mr_value)r->piece[tensor] << MR_VALUE_SHIFT;
}

/* In as many parts as the op itself is done? */
static bool in_as_many(const mr_referee *r, uint32_t f, uint32_t tensor, mr_value v)
{
    const uint32_t maker = r->before.maker[(uint32_t)v];
    if (r->pieces[tensor]) return r->pieces[tensor] == r->parts[f];
    return maker == MR_NONE || r->parts[maker] == r->parts[f];
}

/* Reads input i what it read before? */
mr_status mr_referee_reads(mr_referee *r, uint32_t o, uint32_t f, uint32_t i)
{
    const mr_op *op = &r->trace->ops.at[o];
    const uint32_t t = op->in.at[i], s = mr_referee_storage(r->trace, t);
    const uint32_t told_before = r->before.trace->ops.at[f].in.at[i];
    const mr_value want = r->before.read[r->before.first[f] + i], has = mr_referee_seen(r, t);
    const mr_value part = mr_referee_part(r, o, f), mine = want | part << MR_VALUE_SHIFT;
    if (has != want && has != mine)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s reads storage %u, which holds %s, expected %s",
                       mr_referee_named(r->ctx, r->trace, o), s, mr_referee_told(r, has),
                       mr_referee_told(r, mine));
    if (has != want && !in_as_many(r, f, t, want))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s is done in %u parts, expected as many as of what it reads, %s",
                       mr_referee_named(r->ctx, r->trace, o), r->parts[f],
                       mr_referee_told(r, want));
    uint8_t *ways = &r->ways[r->before.first[f] + i];
    if (part) *ways |= has == want ? WHOLE : ONE;
    if (*ways == (WHOLE | ONE))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s and other parts do not read the same of %s, expected all or a part",
                       mr_referee_named(r->ctx, r->trace, o), mr_referee_told(r, want));
    const mr_tensor *y = &r->before.trace->tensors.at[told_before];
    if (has == want && !same_shape(r, t, y))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s reads tensor %u, expected the shape and place of tensor %u",
                       mr_referee_named(r->ctx, r->trace, o), t, told_before);
    return MR_OK;
}

/* Which result of the counterpart result k is: the one at its place; where an op has come to
 * work in place, the tensor of the same number; where it no longer does, the one of as many. */
static uint32_t same_result(const mr_op *op, const mr_op *old, uint32_t k)
{
    const uint32_t n = mr_referee_results(old);
    if (op->out.n == old->out.n && op->mutates.n == old->mutates.n) return k;
    for (uint32_t j = 0; j < n; j++)
        if (mr_referee_result(old, j) == mr_referee_result(op, k)) return j;
    return mr_referee_results(op) == n && !op->mutates.n ? k : MR_NONE;
}

void mr_referee_write(mr_referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o];
    for (uint32_t k = 0; k < mr_referee_results(op); k++) {
        const uint32_t s = mr_referee_storage(r->trace, mr_referee_result(op, k));
        if (!mr_referee_writes(r->trace, op, k, r->viewed, r->event)
            || mr_referee_is_statistic(r->trace, s))
            continue;
        if (k < op->out.n) r->base[s] = r->packed[s] = 0;
        r->wrote[s] = mr_referee_result(op, k);
        uint32_t j = MR_NONE;
        if (f != MR_NONE) j = same_result(op, &r->before.trace->ops.at[f], k);
        if (j == MR_NONE) r->holds[s] = r->fresh++;
        else r->holds[s] = (r->before.made[f] + j) | mr_referee_part(r, o, f) << MR_VALUE_SHIFT;
    }
}
