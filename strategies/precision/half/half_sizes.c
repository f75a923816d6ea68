/* half_sizes -- what has 32 bits in the recording and 16 now. */
#include "half_model.h"

#include "cost.h"

#include <string.h>

bool half_is_full(const mr_tensor *t)
{
    return !strcmp(t->dtype, "float32");
}

/* Does the op find the tensor in 16 bits?  The update has everything in 32. */
static bool is_low_for(const half_model *h, const mr_op *op, const mr_tensor *t)
{
    if (!half_is_full(t) || (h->masters && op->phase == MR_UPDATE)) return false;
    return h->low[t->storage] || h->model[t->storage] != MR_NONE;
}

static uint64_t saved_bytes(const half_model *h, const mr_op *op, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_tensor *t = &h->r.in->tensors.at[ids.at[i]];
        if (is_low_for(h, op, t)) sum += 2 * mr_tensor_numbers(t);
    }
    return sum;
}

static uint64_t less(uint64_t bytes, uint64_t by)
{
    return by < bytes ? bytes - by : 0;
}

static void halve_tensor(const half_model *h, mr_tensor *t)
{
    if (!half_is_full(t)) return;
    t->bytes /= 2;
    t->offset /= 2;
    t->dtype = h->dtype;
}

static void halve_tensors(half_model *h)
{
    const mr_trace *in = h->r.in;
    mr_trace *out = h->r.out;
    bool *is_model = MR_NEW_N(h->r.ctx, bool, out->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++)
        if (h->model[s] != MR_NONE) is_model[h->model[s]] = true;
    for (uint32_t t = 0; t < out->tensors.n; t++) {
        mr_tensor *tensor = &out->tensors.at[t];
        const bool low = t < in->tensors.n && h->low[tensor->storage];
        if (low || is_model[tensor->storage]) halve_tensor(h, tensor);
        if (t < in->tensors.n && h->model[tensor->storage] != MR_NONE)
            tensor->role = MR_ROLE_state;
    }
}

void half_sizes(half_model *h)
{
    mr_trace *out = h->r.out;
    for (uint32_t s = 0; s < h->r.in->storages.n; s++) {
        if (!h->low[s]) continue;
        out->storages.at[s].bytes /= 2;
        out->storages.at[s].per_sample /= 2;
    }
    halve_tensors(h);
    for (uint32_t o = 0; o < h->r.in->ops.n; o++) {
        const mr_op *was = &h->r.in->ops.at[o];
        mr_op *op = &out->ops.at[o];
        op->read = less(op->read, saved_bytes(h, was, was->in));
        op->written = less(op->written, saved_bytes(h, was, was->out)
                                            + saved_bytes(h, was, was->mutates));
        op->workspace = mr_workspace_for(h->r.in, out, o);
    }
}
