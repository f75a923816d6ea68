/* autocast_forward -- casts before the ops that want them, and the precision of results. */
#include "autocast.h"

#include <string.h>

static const mr_storage *home(const autocast *a, uint32_t tensor)
{
    return &a->r.in->storages.at[a->r.in->tensors.at[tensor].storage];
}

/* ---- casts ------------------------------------------------------------------------------- */

static bool is_leaf(const autocast *a, const autocast_unit *unit, uint32_t tensor)
{
    if (!autocast_is_full(a, tensor) || autocast_is_low(a, tensor) == unit->low) return false;
    for (uint32_t i = 0; i < unit->leaves.n; i++)
        if (unit->leaves.at[i].tensor == tensor) return false;
    return true;
}

/* Whose view it is, as far as the unit itself has made it; so with 16 bits what
 * makes it clones. */
static uint32_t argument(const autocast *a, const autocast_unit *unit, uint32_t tensor)
{
    for (uint32_t e = unit->last; e-- > unit->first;) {
        if (a->r.in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &a->r.in->ops.at[a->r.in->events.at[e].id];
        if (op->out.n && op->in.n && op->out.at[0] == tensor) tensor = op->in.at[0];
    }
    return tensor;
}

static void cast_one(autocast *a, autocast_unit *unit, uint32_t tensor)
{
    const uint32_t s = a->r.in->tensors.at[tensor].storage;
    const bool parameter = home(a, tensor)->role == MR_ROLE_parameter
                           && home(a, tensor)->bytes == a->r.in->tensors.at[tensor].bytes;
    if (!is_leaf(a, unit, tensor)) return;
    uint32_t cast = parameter ? a->cached[s] : MR_NONE;
    if (cast == MR_NONE) {
        cast = autocast_new(a, tensor, unit->low, MR_ROLE_activation);
        autocast_cast(a, autocast_place(a, tensor), cast, &a->r.in->ops.at[unit->op], MR_NONE);
    }
    if (parameter) a->cached[s] = cast;
    MR_PUSH(a->r.ctx, &unit->leaves, (autocast_leaf){tensor, cast});
}

/* Arguments are cast from the last to the first: bias, weight, input. */
static void cast_arguments(autocast *a, autocast_unit *unit)
{
    const mr_op *op = &a->r.in->ops.at[unit->op];
    const bool bias_first = strstr(op->name, "addmm") != NULL && op->in.n == 3;
    if (bias_first) cast_one(a, unit, argument(a, unit, op->in.at[0]));
    for (uint32_t i = op->in.n; i-- > (bias_first ? 1 : 0);)
        cast_one(a, unit, argument(a, unit, op->in.at[i]));
}

/* ---- results ----------------------------------------------------------------------------- */

/* Without numbers to read an op makes what it was recorded to make. */
static bool widest_is_low(const autocast *a, const mr_op *op)
{
    bool any = false;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i];
        if (!autocast_is_full(a, t) || !a->r.in->tensors.at[t].rank) continue;
        if (!autocast_is_low(a, t)) return false;
        any = true;
    }
    return any;
}

static bool result_is_low(const autocast *a, uint32_t event, uint32_t i, bool unit)
{
    const mr_op *op = &a->r.in->ops.at[a->r.in->events.at[event].id];
    switch (autocast_class_of(op->name)) {
    case AUTOCAST_LOW: return !i || !strstr(op->name, "scaled_dot_product"); /* its sums */
    case AUTOCAST_FULL: return false;
    case AUTOCAST_DIRECT: return autocast_is_of_cross_entropy(a, event) && widest_is_low(a, op);
    case AUTOCAST_PROMOTE: return widest_is_low(a, op);
    case AUTOCAST_NORM: return i == 0 && autocast_is_low(a, op->in.at[0]);
    default: return unit || (strcmp(op->name, "aten::_to_copy") && widest_is_low(a, op));
    }
}

static void note_results(autocast *a, uint32_t event)
{
    const uint32_t o = a->r.in->events.at[event].id;
    const mr_op *op = &a->r.in->ops.at[o];
    const bool unit = a->unit_of[o] != MR_NONE;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = a->r.in->tensors.at[op->out.at[i]].storage;
        if (a->r.birth[s] == o && autocast_is_full(a, op->out.at[i]))
            a->low[s] = result_is_low(a, event, i, unit);
    }
}

void autocast_forward(autocast *a, uint32_t event)
{
    const uint32_t o = a->r.in->events.at[event].id;
    autocast_unit *unit = a->unit_of[o] == MR_NONE ? NULL : &a->units.at[a->unit_of[o]];
    if (unit && autocast_class_of(a->r.in->ops.at[o].name) == AUTOCAST_PROMOTE)
        unit->low = widest_is_low(a, &a->r.in->ops.at[o]);
    if (unit && unit->first == event) cast_arguments(a, unit);
    note_results(a, event);
    autocast_run(a, o, unit);
}
