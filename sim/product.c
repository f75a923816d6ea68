/* product -- shapes of matrix products, read off the tensors of ops. */
#include "product.h"

#include <string.h>

uint64_t mr_number_bytes(mr_number number)
{
    switch (number) {
    case MR_FLOAT32: return 4;
    case MR_FLOAT64: return 8;
    case MR_FLOAT16:
    case MR_BFLOAT16: break;
    }
    return 2;
}

static bool number_of(const mr_tensor *t, mr_number *out)
{
    static const char *const names[] = {[MR_FLOAT32] = "float32",
                                        [MR_FLOAT64] = "float64",
                                        [MR_FLOAT16] = "float16",
                                        [MR_BFLOAT16] = "bfloat16"};
    for (size_t i = 0; i < MR_COUNT(names); i++) {
        if (strcmp(t->dtype, names[i]) != 0) continue;
        *out = (mr_number)i;
        return true;
    }
    return false;
}

/* Sizes that any cuBLAS takes. */
static bool fits(const mr_product *p)
{
    const uint64_t most = INT32_MAX;
    return p->count && p->rows && p->columns && p->terms && p->count <= most && p->rows <= most
           && p->columns <= most && p->terms <= most;
}

/* Rows that are parts of longer ones, as the first word of every sentence: the tensor's bytes
 * reach from its first number to its last. */
static uint64_t lead_of(const mr_tensor *t, const mr_product *p, uint64_t rows, uint64_t columns)
{
    const uint64_t each = mr_number_bytes(p->number), reach = t->bytes / each;
    if (t->bytes == p->count * rows * columns * each) return columns;
    if (p->count > 1 || rows < 2 || reach < columns || t->bytes % each) return 0;
    const uint64_t lead = (reach - columns) / (rows - 1);
    return lead * (rows - 1) == reach - columns && lead > columns && lead <= INT32_MAX ? lead
                                                                                       : 0;
}

/* Is the tensor `count` matrices of this size, one behind the other? */
static bool is_stack(const mr_tensor *t, const mr_product *p, uint64_t rows, uint64_t columns,
                     uint64_t *lead)
{
    mr_number number;
    if (t->rank < 2 || t->shape[t->rank - 2] != rows || t->shape[t->rank - 1] != columns)
        return false;
    if (!number_of(t, &number) || number != p->number) return false;
    if (mr_tensor_numbers(t) / rows / columns != p->count) return false;
    *lead = lead_of(t, p, rows, columns);
    return *lead != 0;
}

/* The factors stand last: before them comes what is added. */
static bool find_factors(const mr_trace *trace, const mr_op *op, mr_product *p)
{
    for (uint32_t i = 1; i < op->in.n; i++) {
        const uint32_t a = op->in.at[op->in.n - i - 1], b = op->in.at[op->in.n - i];
        if (!is_stack(&trace->tensors.at[a], p, p->rows, p->terms, &p->lead_a)
            || !is_stack(&trace->tensors.at[b], p, p->terms, p->columns, &p->lead_b))
            continue;
        p->a = a;
        p->b = b;
        return true;
    }
    return false;
}

/* The result lies in memory of its own: cuBLAS writes it while it reads the factors. */
static bool is_apart(const mr_trace *trace, const mr_product *p)
{
    const uint32_t out = trace->tensors.at[p->out].storage;
    return out != trace->tensors.at[p->a].storage && out != trace->tensors.at[p->b].storage;
}

static bool of_tensors(const mr_trace *trace, const mr_op *op, const mr_work *work,
                       mr_product *p)
{
    *p = (mr_product){.count = work->products.n,
                      .rows = work->products.rows,
                      .columns = work->products.columns};
    if (!p->count || !p->rows || !p->columns) return false;
    p->terms = work->flops / 2 / p->count / p->rows / p->columns;
    p->out = op->out.at[0];
    const mr_tensor *t = &trace->tensors.at[p->out];
    if (!fits(p) || work->flops != 2 * p->count * p->rows * p->columns * p->terms) return false;
    return number_of(t, &p->number) && is_stack(t, p, p->rows, p->columns, &p->lead_out)
           && find_factors(trace, op, p) && is_apart(trace, p);
}

/* In pieces of so many pixels at the most, as kernels have a part of a picture at hand, not a
 * matrix of all of them.  Filters of one channel take as long as their bytes. */
static bool of_convolution(const mr_trace *trace, const mr_op *op, const mr_work *work,
                           mr_product *p)
{
    enum { PIXELS = 4096 };
    const mr_tensor *filter = mr_filter_of(trace, op);
    if (!filter || filter->shape[1] < 2 || !filter->shape[0]) return false;
    *p = (mr_product){.columns = filter->shape[0], .a = MR_NONE, .b = MR_NONE, .out = MR_NONE};
    p->terms = mr_tensor_numbers(filter) / filter->shape[0];
    if (!p->terms || !number_of(filter, &p->number)) return false;
    const uint64_t pixels = work->flops / 2 / p->columns / p->terms;
    p->count = pixels / PIXELS + (pixels % PIXELS != 0);
    p->rows = p->count ? pixels / p->count + (pixels % p->count != 0) : 0;
    p->lead_a = p->terms;
    p->lead_b = p->lead_out = p->columns;
    return fits(p);
}

bool mr_product_of(const mr_trace *trace, const mr_op *op, const mr_work *work, mr_product *out)
{
    if (!work->flops || work->engine != MR_ENGINE_compute) return false;
    switch (work->math) {
    case MR_MATMUL: return of_tensors(trace, op, work, out);
    case MR_CONV:
    case MR_WINOGRAD: return of_convolution(trace, op, work, out);
    case MR_ATTENTION: break;
    }
    return false;
}
