/* attention_kernel -- which kernel PyTorch takes, and what it has beside the result. */
#include "attention.h"

#include <string.h>

static const mr_tensor *tensor_at(const mr_rewrite *r, uint32_t t)
{
    return &r->in->tensors.at[t];
}

static bool is_half(const mr_tensor *t)
{
    return !strcmp(t->dtype, "float16") || !strcmp(t->dtype, "bfloat16");
}

bool attention_is_flash(const mr_trace *in, const attention *a, attention_kernel kernel)
{
    if (kernel != ATTENTION_AUTO) return kernel == ATTENTION_FLASH;
    return is_half(&in->tensors.at[a->out]) && (a->mask == MR_NONE || a->drops);
}

/* Of all elements; q, k and v may be strewn over a larger storage. */
uint64_t attention_bytes(const mr_rewrite *r, const attention *a, const uint32_t *tensors,
                         uint32_t n)
{
    const mr_tensor *out = tensor_at(r, a->out);
    const uint64_t each = out->bytes / mr_tensor_numbers(out);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mr_tensor *t = &r->out->tensors.at[tensors[i]];
        sum += strcmp(t->dtype, out->dtype) ? t->bytes : each * mr_tensor_numbers(t);
    }
    return sum;
}

/* A result that no formula has: as large as its shape says. */
static uint32_t new_result(mr_rewrite *r, const attention *a, const char *dtype, uint64_t width,
                           uint32_t rank, const uint64_t *shape)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < rank; d++) n *= shape[d];
    const uint32_t like = tensor_at(r, a->out)->storage;
    const uint32_t s = mr_rewrite_new_storage(r, like, n * width);
    const uint32_t t = mr_rewrite_new_tensor(r, a->out, s);
    mr_storage *storage = &r->out->storages.at[s];
    mr_tensor *tensor = &r->out->tensors.at[t];
    uint64_t *kept = MR_NEW_N(r->ctx, uint64_t, rank);
    if (rank) memcpy(kept, shape, rank * sizeof *kept);
    tensor->name = "";
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->shape = kept;
    storage->per_sample = storage->per_sample && rank > 2 ? n * width / shape[0] : 0;
    return t;
}

/* Results of a kernel beside the one of the formula, in its order: how many. */
uint32_t attention_extra(mr_rewrite *r, const attention *a, bool flash, uint32_t *out)
{
    const uint64_t *q = tensor_at(r, a->qkv[ATTENTION_Q])->shape;
    const uint64_t positions = a->backward.n ? q[2] : 0;
    if (flash) {
        out[0] = new_result(r, a, "float32", 4, 3, (uint64_t[]){q[0], q[1], q[2]});
        out[1] = new_result(r, a, "uint64", 8, 1, (uint64_t[]){2});
        out[2] = new_result(r, a, "uint64", 8, 0, NULL);
        out[3] = new_result(r, a, tensor_at(r, a->out)->dtype, 0, 1, (uint64_t[]){0});
        return 4;
    }
    out[0] =
        new_result(r, a, "float32", 4, 3, (uint64_t[]){q[0], q[1], (positions + 31) / 32 * 32});
    out[1] = new_result(r, a, "int64", 8, 0, NULL);
    out[2] = new_result(r, a, "int64", 8, 0, NULL);
    return 3;
}
