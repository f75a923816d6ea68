/* autocast_scaler -- see the header. */
#include "autocast_scaler.h"

void autocast_scaler_begin(autocast_scaler *s, autocast *a)
{
    s->last_update = MR_NONE;
    for (uint32_t e = 0; e < a->r.in->events.n; e++)
        if (a->r.in->events.at[e].kind == MR_RUN
            && a->r.in->ops.at[a->r.in->events.at[e].id].phase == MR_UPDATE)
            s->last_update = a->r.in->events.at[e].id;
    s->scale = mr_rewrite_new_number(&a->r, 0, "float32", true);
    s->tracker = mr_rewrite_new_number(&a->r, 0, "int32", true);
}

/* The value times the scale, in a place of its own, which everybody after this reads. */
static void scale(autocast_scaler *s, autocast *a, uint32_t tensor, const mr_op *as)
{
    mr_op product = *as;
    product.name = "aten::mul";
    const uint32_t from = autocast_place(a, tensor);
    const uint32_t to = autocast_new(a, tensor, false, MR_ROLE_temporary);
    const uint32_t o = mr_rewrite_move(&a->r, from, to, &product);
    const uint32_t both[] = {from, s->scale};
    a->r.out->ops.at[o].in = mr_ids_of(a->r.ctx, 2, both);
    a->r.out->ops.at[o].read += 4;
    a->moved[a->r.in->tensors.at[tensor].storage] = a->r.out->tensors.at[to].storage;
}

static void update_scale(autocast_scaler *s, autocast *a)
{
    const uint32_t in[] = {s->scale, s->tracker, s->found};
    const mr_op op = {
        .name = "aten::_amp_update_scale_",
        .module = "",
        .phase = MR_UPDATE,
        .again = MR_NONE,
        .of = MR_NONE,
        .read = 12,
        .written = 8,
        .in = mr_ids_of(a->r.ctx, 3, in),
        .mutates = mr_ids_of(a->r.ctx, 2, in),
    };
    mr_rewrite_new_op(&a->r, &op);
}

void autocast_scaler_after(autocast_scaler *s, autocast *a, uint32_t o, bool last_forward)
{
    const mr_op *op = &a->r.in->ops.at[o];
    if (last_forward && op->out.n) scale(s, a, op->out.at[0], op);
    if (op->phase == MR_BACKWARD && !s->began && op->out.n) {
        s->began = true;
        scale(s, a, op->out.at[0], op);
    }
    if (o == s->last_update && s->unscaled) update_scale(s, a);
}

/* With 64 bits, as far as it goes. */
static uint32_t invert(const autocast_scaler *s, autocast *a, const mr_op *as)
{
    const uint32_t wide = mr_rewrite_new_number(&a->r, 0, "float64", false);
    const uint32_t quotient = mr_rewrite_new_number(&a->r, 0, "float64", false);
    const uint32_t inverse = mr_rewrite_new_number(&a->r, 0, "float32", false);
    mr_op op = *as;
    op.name = "aten::reciprocal";
    op.read = op.written = 8;
    op.in = mr_ids_of(a->r.ctx, 1, &wide);
    op.out = mr_ids_of(a->r.ctx, 1, &quotient);
    mr_rewrite_move(&a->r, s->scale, wide, as);
    mr_rewrite_new_op(&a->r, &op);
    mr_rewrite_move(&a->r, quotient, inverse, as);
    return inverse;
}

/* The host waits to hear whether there is an infinity: then it would not update.  Recordings with
 * fake tensors do not show that it reads a number. */
static void wait_for_found(const autocast_scaler *s, autocast *a, const mr_op *as)
{
    mr_op op = *as;
    op.name = "aten::_local_scalar_dense";
    op.read = 4;
    op.in = mr_ids_of(a->r.ctx, 1, &s->found);
    mr_rewrite_new_op(&a->r, &op);
}

void autocast_scaler_unscale(autocast_scaler *s, autocast *a, uint32_t event)
{
    if (s->unscaled) return;
    s->unscaled = true;
    MR_VEC(uint32_t) in = {0};
    bool *seen = MR_NEW_N(a->r.ctx, bool, a->r.in->storages.n);
    uint64_t bytes = 0;
    for (uint32_t e = event; e < a->r.in->events.n; e++) {
        if (a->r.in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &a->r.in->ops.at[a->r.in->events.at[e].id];
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t t = op->in.at[i], home = a->r.in->tensors.at[t].storage;
            if (seen[home] || a->r.in->storages.at[home].role != MR_ROLE_gradient) continue;
            seen[home] = true;
            bytes += a->r.in->tensors.at[t].bytes;
            MR_PUSH(a->r.ctx, &in, autocast_place(a, t));
        }
    }
    const mr_op as = {.name = "aten::_to_copy", .module = "", .phase = MR_UPDATE,
                      .again = MR_NONE, .of = MR_NONE};
    const uint32_t inverse = invert(s, a, &as);
    const uint32_t zero = mr_rewrite_new_number(&a->r, 0, "float32", false);
    const uint32_t factor = mr_rewrite_new_number(&a->r, 0, "float32", false);
    s->found = mr_rewrite_new_number(&a->r, 0, "float32", false);
    mr_op op = as;
    op.name = "aten::full";
    op.written = 4;
    op.out = mr_ids_of(a->r.ctx, 1, &zero);
    mr_rewrite_new_op(&a->r, &op);
    mr_rewrite_move(&a->r, zero, s->found, &as); /* one for each device, of which there is one */
    mr_rewrite_move(&a->r, inverse, factor, &as);
    const uint32_t changed = in.n + 1;
    MR_PUSH(a->r.ctx, &in, s->found);
    MR_PUSH(a->r.ctx, &in, factor);
    op.name = "aten::_amp_foreach_non_finite_check_and_unscale_";
    op.out = (mr_ids){0};
    op.in = (mr_ids){in.at, in.n};
    op.mutates = (mr_ids){in.at, changed};
    op.read = bytes + 8;
    op.written = bytes + 4;
    op.moves = true;
    mr_rewrite_new_op(&a->r, &op);
    mr_rewrite_drop(&a->r, NULL, factor);
    mr_rewrite_drop(&a->r, NULL, zero);
    mr_rewrite_drop(&a->r, NULL, inverse);
    wait_for_found(s, a, &as);
}
