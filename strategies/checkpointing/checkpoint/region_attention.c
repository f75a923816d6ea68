/* region_attention -- the core of attention, found by its ops.
 *
 *     transpose expand clone ... bmm ... _softmax native_dropout ... clone bmm _unsafe_view
 *     └─ made for the product ─┘ q k        weights                      v
 *
 * It is cheap to compute for the bytes that it saves, the more so the longer the sequence.
 * Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
 */
#include "region.h"

#include <string.h>

typedef struct reader {
    const mr_trace *trace;
    MR_VEC(uint32_t) runs; /* events that run ops of the forward pass */
} reader;

static const mr_op *op_at(const reader *r, uint32_t i)
{
    return &r->trace->ops.at[r->trace->events.at[r->runs.at[i]].id];
}

static bool is_one_of(const char *name, const char *const list[])
{
    for (size_t i = 0; list[i]; i++)
        if (!strcmp(name, list[i])) return true;
    return false;
}

static bool is_product(const char *name)
{
    static const char *const list[] = {"aten::bmm", "aten::baddbmm", NULL};
    return is_one_of(name, list);
}

/* Brings tensors into the form that a product wants. */
static bool prepares(const char *name)
{
    static const char *const list[] = {"aten::transpose", "aten::expand", "aten::clone",
                                       "aten::_unsafe_view", NULL};
    return is_one_of(name, list);
}

/* From a softmax at i to the products around it; false when there are none beside it. */
static bool reach(const reader *r, uint32_t i, uint32_t *first, uint32_t *last)
{
    const uint32_t far = 16; /* ops between; masks, scales and dropout are fewer */
    uint32_t begin = i, end = i;
    while (begin > 0 && i - begin < far && !is_product(op_at(r, begin)->name)) begin--;
    while (end + 1 < r->runs.n && end - i < far && !is_product(op_at(r, end)->name)) end++;
    if (!is_product(op_at(r, begin)->name) || !is_product(op_at(r, end)->name)) return false;
    while (begin > 0 && prepares(op_at(r, begin - 1)->name)) begin--;
    if (end + 1 < r->runs.n && !strcmp(op_at(r, end + 1)->name, "aten::_unsafe_view")) end++;
    *first = begin;
    *last = end;
    return true;
}

mr_status region_find_attention(mr_ctx *ctx, const mr_trace *trace, regions *out)
{
    reader r = {.trace = trace};
    uint32_t first, last;
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &trace->ops.at[trace->events.at[e].id];
        if (op->phase == MR_FORWARD && op->again == MR_NONE) MR_PUSH(ctx, &r.runs, e);
    }
    for (uint32_t i = 0; i < r.runs.n; i++) {
        if (strcmp(op_at(&r, i)->name, "aten::_softmax") != 0) continue;
        if (!reach(&r, i, &first, &last)) continue;
        if (out->n && out->at[out->n - 1].end > r.runs.at[first]) continue;
        const char *name = mr_printf(ctx, "attention in %s", op_at(&r, i)->module);
        MR_PUSH(ctx, out, (stretch){name, r.runs.at[first], r.runs.at[last] + 1});
    }
    if (out->n) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' has no attention by its formula: no softmax between two products",
                   trace->name);
}
