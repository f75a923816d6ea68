/* half_scale -- gradients of a loss that is scaled, so that small ones do not vanish in 16 bits.
 *
 * A static scale is a number of the host.  A dynamic one lives on the device; gradients are
 * looked through for infinities, and the host waits to hear of them before it updates.
 */
#include "half_model.h"

void half_scale_begin(half_model *h)
{
    if (h->scale != HALF_DYNAMIC) return;
    const uint32_t like = h->gradients.at[0];
    h->scaler.scale = mr_rewrite_new_number(&h->r, like, "float32", true);
    h->scaler.tracker = mr_rewrite_new_number(&h->r, like, "int32", true);
}

/* ---- the loss ---------------------------------------------------------------------------- */

static const mr_op *next_op(const half_model *h, uint32_t event)
{
    const mr_trace *in = h->r.in;
    for (uint32_t e = event + 1; e < in->events.n; e++)
        if (in->events.at[e].kind == MR_RUN) return &in->ops.at[in->events.at[e].id];
    return NULL;
}

/* Does the first gradient come from this op: is it the first of the backward pass after the
 * forward pass? */
static bool begins_backward(const half_model *h, uint32_t event)
{
    const mr_trace *in = h->r.in;
    if (in->ops.at[in->events.at[event].id].phase != MR_BACKWARD) return false;
    for (uint32_t e = event; e-- > 0;)
        if (in->events.at[e].kind == MR_RUN)
            return in->ops.at[in->events.at[e].id].phase == MR_FORWARD;
    return false;
}

/* The value times the scale, in a place of its own, which everybody after this reads. */
static void scale(half_model *h, uint32_t tensor, const mr_op *as)
{
    const uint32_t s = h->r.in->tensors.at[tensor].storage;
    const uint32_t from = mr_rewrite_tensor(&h->r, &h->where, tensor);
    mr_op product = *as;
    product.name = "aten::mul";
    product.module = "";
    h->where.storage[s] = mr_rewrite_new_storage(&h->r, s, h->r.in->storages.at[s].bytes);
    h->r.out->storages.at[h->where.storage[s]].role = MR_ROLE_temporary;
    const uint32_t to = mr_rewrite_tensor(&h->r, &h->where, tensor);
    const uint32_t o = mr_rewrite_move(&h->r, from, to, &product);
    const uint32_t both[] = {from, h->scaler.scale};
    if (h->scale == HALF_DYNAMIC) h->r.out->ops.at[o].in = mr_ids_of(h->r.ctx, 2, both);
}

void half_scale_after(half_model *h, uint32_t event)
{
    const mr_op *op = &h->r.in->ops.at[h->r.in->events.at[event].id], *next = next_op(h, event);
    if (h->scale == HALF_UNSCALED || !op->out.n || !next) return;
    const bool ends = op->phase == MR_FORWARD && next->phase == MR_BACKWARD;
    if (ends || begins_backward(h, event)) scale(h, op->out.at[0], op);
}

/* ---- gradients --------------------------------------------------------------------------- */

static void run_small(half_model *h, const char *name, uint32_t in, uint32_t out)
{
    mr_op op = {.name = name, .module = "", .phase = MR_UPDATE, .again = MR_NONE, .of = MR_NONE};
    if (in != MR_NONE) op.in = mr_ids_of(h->r.ctx, 1, &in), op.read = 4;
    if (out != MR_NONE) op.out = mr_ids_of(h->r.ctx, 1, &out), op.written = 4;
    mr_rewrite_new_op(&h->r, &op);
}

static void unscale(half_model *h, const char *name, uint32_t inverse)
{
    MR_VEC(uint32_t) in = {0};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < h->gradients.n; i++) {
        bytes += h->r.in->tensors.at[h->gradients.at[i]].bytes;
        MR_PUSH(h->r.ctx, &in, mr_rewrite_tensor(&h->r, &h->where, h->gradients.at[i]));
    }
    uint32_t changed = in.n;
    if (inverse != MR_NONE) {
        MR_PUSH(h->r.ctx, &in, h->scaler.found);
        changed = in.n;
        MR_PUSH(h->r.ctx, &in, inverse);
    }
    const mr_op op = {.name = name, .module = "", .phase = MR_UPDATE, .again = MR_NONE,
                      .of = MR_NONE, .read = bytes, .written = bytes, .in = {in.at, in.n},
                      .mutates = {in.at, changed}, .moves = true};
    mr_rewrite_new_op(&h->r, &op);
}

void half_unscale(half_model *h)
{
    if (h->scale == HALF_STATIC) unscale(h, "aten::_foreach_mul_", MR_NONE);
    if (h->scale != HALF_DYNAMIC) return;
    const uint32_t like = h->gradients.at[0];
    const uint32_t inverse = mr_rewrite_new_number(&h->r, like, "float32", false);
    h->scaler.found = mr_rewrite_new_number(&h->r, like, "float32", false);
    run_small(h, "aten::reciprocal", h->scaler.scale, inverse);
    run_small(h, "aten::full", MR_NONE, h->scaler.found);
    unscale(h, "aten::_amp_foreach_non_finite_check_and_unscale_", inverse);
    run_small(h, "aten::_local_scalar_dense", h->scaler.found, MR_NONE);
}

void half_scale_end(half_model *h)
{
    if (h->scale != HALF_DYNAMIC) return;
    const uint32_t in[] = {h->scaler.scale, h->scaler.tracker, h->scaler.found};
    const mr_op op = {.name = "aten::_amp_update_scale_", .module = "", .phase = MR_UPDATE,
                      .again = MR_NONE, .of = MR_NONE, .read = 12, .written = 8,
                      .in = mr_ids_of(h->r.ctx, 3, in), .mutates = mr_ids_of(h->r.ctx, 2, in)};
    mr_rewrite_new_op(&h->r, &op);
}
