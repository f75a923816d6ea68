/* autocast_backward -- gradients in the precision of what they are gradients of.
 *
 * Whoever hands a gradient on to something with another precision casts it: a sum of two
 * precisions for one of them, a unit for what it has cast, when the last of its
 * gradients is there.
 */
#include "autocast.h"

#include <string.h>

static uint32_t storage_of(const autocast *a, uint32_t tensor)
{
    return a->r.in->tensors.at[tensor].storage;
}

static bool is_gradient(const autocast *a, uint32_t tensor)
{
    const uint32_t birth = a->r.birth[storage_of(a, tensor)];
    return birth != MR_NONE && a->r.in->ops.at[birth].phase == MR_BACKWARD
           && autocast_is_full(a, tensor);
}

/* Has the gradient 16 bits where it is now? */
static bool has_low(const autocast *a, uint32_t tensor)
{
    const uint32_t s = storage_of(a, tensor), now = autocast_home(a, tensor);
    const mr_tensor *t = &a->r.in->tensors.at[tensor];
    return now == s ? a->low[s] : a->r.out->storages.at[now].bytes < t->bytes;
}

static bool makes_low(const autocast *a, const mr_op *forward)
{
    return forward->out.n && autocast_is_low(a, forward->out.at[0]);
}

static bool reads_low(const autocast *a, const mr_op *forward)
{
    for (uint32_t i = 0; i < forward->in.n; i++)
        if (autocast_is_full(a, forward->in.at[i])
            && a->r.in->tensors.at[forward->in.at[i]].rank)
            return autocast_is_low(a, forward->in.at[i]);
    return false;
}

/* ---- before an op ------------------------------------------------------------------------ */

/* A gradient of another precision than the op works in. */
static void cast_inputs(autocast *a, const mr_op *op, bool low)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i];
        if (!is_gradient(a, t) || has_low(a, t) == low || !a->r.in->tensors.at[t].rank)
            continue;
        const uint32_t cast = autocast_new(a, t, low, MR_ROLE_temporary);
        autocast_cast(a, autocast_place(a, t), cast, op, op->of);
        a->viewed[t] = a->r.out->tensors.at[cast].storage;
    }
}

/* Results that are views of a cast; everybody else goes on reading what was cast. */
static void see_views(autocast *a, const mr_op *op, const uint32_t *was)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i], home = autocast_home(a, t);
        a->viewed[t] = was[i];
        for (uint32_t k = 0; k < op->out.n; k++)
            if (storage_of(a, op->out.at[k]) == storage_of(a, t) && is_gradient(a, t))
                a->viewed[op->out.at[k]] =
                    home == a->moved[storage_of(a, t)] ? MR_NONE : home;
    }
}

static void run_between(autocast *a, uint32_t o, bool low, const autocast_unit *unit)
{
    const mr_op *op = &a->r.in->ops.at[o];
    uint32_t *was = MR_NEW_N(a->r.ctx, uint32_t, op->in.n);
    for (uint32_t i = 0; i < op->in.n; i++) was[i] = a->viewed[op->in.at[i]];
    cast_inputs(a, op, low);
    for (uint32_t k = 0; k < op->out.n; k++)
        for (uint32_t i = 0; i < op->in.n; i++)
            if (storage_of(a, op->out.at[k]) == storage_of(a, op->in.at[i])
                && is_gradient(a, op->in.at[i]) && op->out.at[k] != op->in.at[i])
                a->viewed[op->out.at[k]] = a->viewed[op->in.at[i]];
    autocast_run(a, o, unit);
    see_views(a, op, was);
}

/* ---- after a unit ------------------------------------------------------------------------ */

static bool same_shape(const mr_tensor *x, const mr_tensor *y)
{
    if (x->rank != y->rank) return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if (x->shape[d] != y->shape[d]) return false;
    return true;
}

static void cast_back(autocast *a, const autocast_unit *unit, uint32_t s, const mr_op *as)
{
    const uint32_t t = a->last[s];
    const uint32_t from = autocast_place(a, t);
    const mr_role role = a->r.in->storages.at[s].role;
    const uint32_t cast = autocast_new(a, t, !unit->low, role);
    autocast_cast(a, from, cast, as, MR_NONE);
    a->r.out->storages.at[a->r.out->tensors.at[cast].storage].after =
        a->r.in->storages.at[s].after;
    a->r.out->storages.at[s].after = false;
    a->r.out->storages.at[s].role = MR_ROLE_temporary;
    a->moved[s] = a->r.out->tensors.at[cast].storage;
}

static void end_unit(autocast *a, autocast_unit *unit, const mr_op *as)
{
    bool first = true;
    for (uint32_t l = unit->leaves.n; l-- > 0;) {
        const mr_tensor *leaf = &a->r.in->tensors.at[unit->leaves.at[l].tensor];
        for (uint32_t g = 0; g < unit->gradients.n; g++) {
            const uint32_t s = unit->gradients.at[g];
            if (s == MR_NONE || !same_shape(leaf, &a->r.in->tensors.at[a->last[s]])) continue;
            unit->gradients.at[g] = MR_NONE;
            if (first) cast_back(a, unit, s, as);
            else
                MR_PUSH(a->r.ctx, &a->later,
                        (autocast_leaf){s, (uint32_t)(unit - a->units.at)});
            first = false;
            break;
        }
    }
    a->later_of = as;
}

void autocast_flush(autocast *a)
{
    for (uint32_t i = 0; i < a->later.n; i++)
        cast_back(a, &a->units.at[a->later.at[i].cast], a->later.at[i].tensor, a->later_of);
    a->later.n = 0;
}

static void note_gradients(autocast *a, uint32_t o, bool low, autocast_unit *unit)
{
    const mr_op *op = &a->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(a, op->out.at[i]);
        const bool norm = strstr(op->name, "batch_norm") && i > 0;
        if (!is_gradient(a, op->out.at[i])) continue;
        a->last[s] = op->out.at[i];
        if (a->r.birth[s] != o) continue;
        a->low[s] = low && !norm;
        if (unit) MR_PUSH(a->r.ctx, &unit->gradients, s);
    }
}

/* Autograd adds to a gradient that is nobody else's, as a cast is, where that is. */
static bool adds_in_place(autocast *a, uint32_t o)
{
    const mr_op *was = &a->r.in->ops.at[o];
    if (strcmp(was->name, "aten::add") != 0 || was->in.n != 2 || was->out.n != 1) return false;
    const uint32_t from = storage_of(a, was->in.at[0]), to = storage_of(a, was->out.at[0]);
    const uint32_t home = a->moved[from];
    if (home == from || a->r.birth[to] != o || a->reader[from] != o) return false;
    mr_op *op = &a->r.out->ops.at[o];
    op->name = "aten::add_";
    op->mutates = was->out;
    op->out = (mr_ids){0};
    a->moved[to] = home;
    a->r.out->tensors.at[was->out.at[0]].storage = home;
    a->r.out->storages.at[home].after = a->r.in->storages.at[to].after;
    a->r.out->storages.at[home].role = a->r.in->storages.at[to].role;
    a->r.out->storages.at[to].after = false;
    return true;
}

static void add_up(autocast *a, uint32_t o)
{
    const mr_op *op = &a->r.in->ops.at[o];
    autocast_run(a, o, NULL);
    if (adds_in_place(a, o)) return;
    for (uint32_t i = 0; i < op->out.n; i++)
        if (a->r.birth[storage_of(a, op->out.at[i])] == o && is_gradient(a, op->out.at[i]))
            a->low[storage_of(a, op->out.at[i])] = op->in.n && has_low(a, op->in.at[0]);
}

void autocast_backward(autocast *a, uint32_t event)
{
    const uint32_t o = a->r.in->events.at[event].id;
    const mr_op *op = &a->r.in->ops.at[o];
    autocast_unit *unit = a->unit_of[o] == MR_NONE ? NULL : &a->units.at[a->unit_of[o]];
    const bool sum = op->mutates.n || op->of == MR_NONE || !strcmp(op->name, "aten::add");
    if (!sum) autocast_flush(a);
    const mr_op *forward = op->of == MR_NONE ? NULL : &a->r.in->ops.at[op->of];
    const bool reads = unit ? unit->low : forward && makes_low(a, forward);
    const bool makes = unit ? unit->low : forward && reads_low(a, forward);
    if (sum) {
        add_up(a, o);
    } else {
        note_gradients(a, o, makes, unit);
        run_between(a, o, reads, unit);
    }
    if (unit && unit->back == event) end_unit(a, unit, op);
}
