/* half_masters -- masters keep the storages of the parameters, which get new ones with 16 bits.
 *
 * So nothing changes for the update but where it finds gradients: in copies with 32 bits.
 */
#include "half_model.h"

#include <string.h>

static const mr_op *op_at(const half_model *h, uint32_t event)
{
    const mr_event e = h->r.in->events.at[event];
    return e.kind == MR_RUN ? &h->r.in->ops.at[e.id] : NULL;
}

static const mr_storage *home(const half_model *h, uint32_t tensor)
{
    return &h->r.in->storages.at[h->r.in->tensors.at[tensor].storage];
}

/* ---- what the update touches ------------------------------------------------------------- */

static void see_update(half_model *h, const mr_op *op, bool *seen)
{
    const mr_tensor *t = h->r.in->tensors.at;
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const uint32_t x = op->mutates.at[i];
        if (home(h, x)->role != MR_ROLE_parameter || seen[t[x].storage] || !home(h, x)->before
            || !half_is_full(&t[x]))
            continue;
        seen[t[x].storage] = true;
        MR_PUSH(h->r.ctx, &h->changed, x);
    }
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t x = op->in.at[i];
        if (home(h, x)->role != MR_ROLE_gradient || seen[t[x].storage]) continue;
        seen[t[x].storage] = true;
        MR_PUSH(h->r.ctx, &h->gradients, x);
    }
}

mr_status half_look(half_model *h)
{
    const mr_trace *in = h->r.in;
    bool *seen = MR_NEW_N(h->r.ctx, bool, in->storages.n), late = false;
    h->update = h->last_update = MR_NONE;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_op *op = op_at(h, e);
        if (!op) continue;
        late |= op->phase != MR_UPDATE && op->phase != MR_OTHER && h->update != MR_NONE;
        if (op->phase != MR_UPDATE) continue;
        if (h->update == MR_NONE) h->update = e;
        h->last_update = e;
        see_update(h, op, seen);
    }
    if (h->changed.n && h->gradients.n && !late) return MR_OK;
    return mr_fail(h->r.ctx, MR_EUNSUPPORTED,
                   "'%s' %s, expected one step whose update reads gradients and changes"
                   " parameters in 32 bits, which get masters",
                   in->name,
                   late ? "updates parameters before its passes are over" : "has no update");
}

/* ---- parameters -------------------------------------------------------------------------- */

static void make_models(half_model *h)
{
    mr_trace *out = h->r.out;
    for (uint32_t i = 0; i < h->changed.n; i++) {
        const uint32_t master = h->r.in->tensors.at[h->changed.at[i]].storage;
        const uint32_t model =
            mr_rewrite_new_storage(&h->r, master, out->storages.at[master].bytes / 2);
        out->storages.at[model].before = out->storages.at[model].after = true;
        out->storages.at[master].role = MR_ROLE_state;
        h->model[master] = h->where.storage[master] = model;
        MR_PUSH(h->r.ctx, &out->copies, ((mr_copied){model, master}));
    }
}

/* The same value at other places, each tensor of `to` that of its place in `from`. */
static void copy(half_model *h, mr_ids from, mr_ids to, bool new)
{
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < from.n; i++)
        numbers += mr_tensor_numbers(&h->r.out->tensors.at[from.at[i]]);
    mr_op op = {.name = "aten::_foreach_copy_", .module = "", .phase = MR_UPDATE,
                .again = MR_NONE, .of = MR_NONE, .in = from, .moves = true};
    op.read = numbers * (new ? 2 : 4);
    op.written = numbers * (new ? 4 : 2);
    if (new) op.out = to;
    else op.mutates = to;
    mr_rewrite_new_op(&h->r, &op);
}

static void begin_update(half_model *h)
{
    const uint32_t n = h->gradients.n;
    mr_ids from = {h->gradients.at, n}, to = {MR_NEW_N(h->r.ctx, uint32_t, n), n};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = h->r.in->tensors.at[from.at[i]].storage;
        h->where.storage[s] = mr_rewrite_new_storage(&h->r, s, h->r.in->storages.at[s].bytes);
        h->r.out->storages.at[h->where.storage[s]].role = MR_ROLE_temporary;
        to.at[i] = mr_rewrite_tensor(&h->r, &h->where, from.at[i]);
    }
    copy(h, from, to, true);
    for (uint32_t i = 0; i < h->changed.n; i++) {
        const uint32_t s = h->r.in->tensors.at[h->changed.at[i]].storage;
        h->where.storage[s] = s;
    }
    half_unscale(h);
}

/* Copies of gradients end with the step of the optimizer. */
static void end_update(half_model *h)
{
    const uint32_t n = h->changed.n;
    for (uint32_t i = 0; i < h->gradients.n; i++)
        mr_rewrite_drop(&h->r, &h->where, h->gradients.at[i]);
    mr_ids from = {h->changed.at, n}, to = {MR_NEW_N(h->r.ctx, uint32_t, n), n};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = h->r.in->tensors.at[from.at[i]].storage;
        h->where.storage[s] = h->model[s];
        to.at[i] = mr_rewrite_tensor(&h->r, &h->where, from.at[i]);
    }
    half_scale_end(h);
    copy(h, from, to, false);
}

/* Gradients that live on are those in 16 bits. */
static void write_event(half_model *h, uint32_t e)
{
    const mr_event event = h->r.in->events.at[e];
    const mr_op *op = op_at(h, e);
    if (e == h->update) begin_update(h);
    if (event.kind == MR_DROP && home(h, event.id)->role == MR_ROLE_gradient)
        mr_rewrite_drop(&h->r, NULL, event.id);
    else mr_rewrite_keep(&h->r, &h->where, e);
    if (op && op->phase != MR_UPDATE) half_scale_after(h, e);
    if (e == h->last_update) end_update(h);
}

void half_write(half_model *h)
{
    make_models(h);
    half_scale_begin(h);
    for (uint32_t e = 0; e < h->r.in->events.n; e++) write_event(h, e);
}
