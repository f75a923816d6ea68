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
    const mr_ids made = forward->out.n ? forward->out : forward->mutates;
    return made.n && autocast_is_low(a, made.at[0]);
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

/* From here on everybody finds the gradient in the other precision. */
static void move_gradient(autocast *a, uint32_t t, bool low, const mr_op *as)
{
    const uint32_t s = storage_of(a, t), from = autocast_place(a, t);
    const uint32_t was = a->r.out->tensors.at[from].storage;
    const uint32_t cast = autocast_new(a, t, low, a->r.in->storages.at[s].role);
    autocast_cast(a, from, cast, as, MR_NONE);
    a->r.out->storages.at[was].after = false;
    a->r.out->storages.at[was].role = MR_ROLE_temporary;
    a->r.out->storages.at[a->r.out->tensors.at[cast].storage].after =
        a->r.in->storages.at[s].after;
    a->moved[s] = a->r.out->tensors.at[cast].storage;
}

/* Units that read the same cast of a parameter share its node: what they give it is added up
 * before it is cast back, once. */
static void find_shared(autocast *a)
{
    a->ends = mr_none_of(a->r.ctx, a->r.in->storages.n);
    uint32_t *first = mr_none_of(a->r.ctx, a->r.in->storages.n);
    for (uint32_t u = 0; u < a->units.n; u++) {
        const autocast_unit *unit = &a->units.at[u];
        for (uint32_t l = 0; l < unit->leaves.n && unit->back != MR_NONE; l++) {
            const uint32_t s = storage_of(a, unit->leaves.at[l].tensor);
            if (a->cached[s] != unit->leaves.at[l].cast) continue;
            if (first[s] == MR_NONE) {
                first[s] = unit->back;
                continue;
            }
            const uint32_t end = a->ends[s] == MR_NONE ? first[s] : a->ends[s];
            a->ends[s] = unit->back > end ? unit->back : end;
        }
    }
}

/* Where the gradient is now, all that was added to it included. */
static uint32_t summed(const autocast *a, uint32_t s)
{
    while (a->sum[s] != MR_NONE) s = a->sum[s];
    return s;
}

static void cast_back(autocast *a, const autocast_unit *unit, uint32_t s, const mr_op *as)
{
    move_gradient(a, a->last[s], !unit->low, as);
}

static void end_unit(autocast *a, autocast_unit *unit, const mr_op *as)
{
    bool first = true;
    if (!a->ends) find_shared(a);
    for (uint32_t l = unit->leaves.n; l-- > 0;) {
        const mr_tensor *leaf = &a->r.in->tensors.at[unit->leaves.at[l].tensor];
        const uint32_t ends = a->ends[leaf->storage];
        for (uint32_t g = 0; g < unit->gradients.n; g++) {
            const uint32_t s = unit->gradients.at[g];
            if (s == MR_NONE || !same_shape(leaf, &a->r.in->tensors.at[a->last[s]])) continue;
            unit->gradients.at[g] = MR_NONE;
            if (ends != MR_NONE && ends != unit->back) break;
            if (first && ends == MR_NONE) cast_back(a, unit, s, as);
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
        cast_back(a, &a->units.at[a->later.at[i].cast], summed(a, a->later.at[i].tensor),
                  a->later_of);
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

/* ---- sums -------------------------------------------------------------------------------- */

static bool is_sum(const mr_op *op)
{
    return op->mutates.n || op->of == MR_NONE || !strcmp(op->name, "aten::add");
}

/* The precision that the op works in, of the tensor whose gradient it reads. */
static bool gradient_is_low(const autocast *a, uint32_t o)
{
    const mr_op *op = &a->r.in->ops.at[o];
    if (a->unit_of[o] != MR_NONE) return a->units.at[a->unit_of[o]].low;
    return op->of != MR_NONE && makes_low(a, &a->r.in->ops.at[op->of]);
}

/* The precision of a tensor by the first op after its gradient's sum that reads that; leaves
 * have 32 bits. */
static bool sum_is_low(const autocast *a, uint32_t event)
{
    const mr_op *op = &a->r.in->ops.at[a->r.in->events.at[event].id];
    const uint32_t s = storage_of(a, (op->out.n ? op->out : op->mutates).at[0]);
    for (uint32_t e = event + 1; e < a->r.in->events.n; e++) {
        if (a->r.in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = a->r.in->events.at[e].id;
        const mr_op *reader = &a->r.in->ops.at[o];
        for (uint32_t i = 0; i < reader->in.n && !is_sum(reader); i++)
            if (storage_of(a, reader->in.at[i]) == s) return gradient_is_low(a, o);
    }
    return false;
}

/* Are gradients of two precisions added, each of all its memory? */
static bool is_mixed(const autocast *a, const mr_op *op)
{
    if (op->in.n != 2 || op->out.n + op->mutates.n != 1) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const mr_tensor *t = &a->r.in->tensors.at[op->in.at[i]];
        if (!is_gradient(a, op->in.at[i]) || t->bytes != a->r.in->storages.at[t->storage].bytes)
            return false;
    }
    return has_low(a, op->in.at[0]) != has_low(a, op->in.at[1]);
}

/* Autograd adds to a gradient that is nobody else's, as a cast is, where that is. */
static bool adds_in_place(autocast *a, uint32_t o, bool fresh)
{
    const mr_op *was = &a->r.in->ops.at[o];
    if (strcmp(was->name, "aten::add") != 0 || was->in.n != 2 || was->out.n != 1) return false;
    const uint32_t from = storage_of(a, was->in.at[0]), to = storage_of(a, was->out.at[0]);
    const uint32_t home = fresh ? autocast_home(a, was->in.at[0]) : a->moved[from];
    if (home == from || a->r.birth[to] != o || (!fresh && a->reader[from] != o)) return false;
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

/* The one that has not the precision of the tensor is cast before. */
static void add_mixed(autocast *a, uint32_t event)
{
    const uint32_t o = a->r.in->events.at[event].id;
    const mr_op *op = &a->r.in->ops.at[o];
    const uint32_t x = op->in.at[0], y = op->in.at[1];
    const uint32_t was[] = {a->viewed[x], a->viewed[y]};
    const bool low = sum_is_low(a, event), fresh = has_low(a, x) != low;
    if (fresh && op->mutates.n) {
        move_gradient(a, x, low, op);
        a->viewed[x] = MR_NONE;
    }
    cast_inputs(a, op, low);
    autocast_run(a, o, NULL);
    if (!adds_in_place(a, o, fresh) && op->out.n) a->low[storage_of(a, op->out.at[0])] = low;
    if (!op->mutates.n) a->viewed[x] = was[0];
    a->viewed[y] = was[1];
}

static void note_sum(autocast *a, const mr_op *op)
{
    if (op->in.n != 2 || op->out.n + op->mutates.n != 1) return;
    const uint32_t to = (op->out.n ? op->out : op->mutates).at[0];
    a->last[storage_of(a, to)] = to;
    for (uint32_t i = 0; i < 2; i++)
        if (storage_of(a, op->in.at[i]) != storage_of(a, to))
            a->sum[storage_of(a, op->in.at[i])] = storage_of(a, to);
}

static void add_up(autocast *a, uint32_t o)
{
    const mr_op *op = &a->r.in->ops.at[o];
    note_sum(a, op);
    autocast_run(a, o, NULL);
    if (adds_in_place(a, o, false)) return;
    for (uint32_t i = 0; i < op->out.n; i++)
        if (a->r.birth[storage_of(a, op->out.at[i])] == o && is_gradient(a, op->out.at[i]))
            a->low[storage_of(a, op->out.at[i])] = op->in.n && has_low(a, op->in.at[0]);
}

/* ---- any op of the backward pass --------------------------------------------------------- */

void autocast_backward(autocast *a, uint32_t event)
{
    const uint32_t o = a->r.in->events.at[event].id;
    const mr_op *op = &a->r.in->ops.at[o];
    autocast_unit *unit = a->unit_of[o] == MR_NONE ? NULL : &a->units.at[a->unit_of[o]];
    const bool sum = is_sum(op);
    if (!sum) autocast_flush(a);
    const mr_op *forward = op->of == MR_NONE ? NULL : &a->r.in->ops.at[op->of];
    const bool reads = gradient_is_low(a, o);
    const bool makes = unit ? unit->low : forward && reads_low(a, forward);
    if (sum) {
        if (is_mixed(a, op)) add_mixed(a, event);
        else add_up(a, o);
    } else {
        note_gradients(a, o, makes, unit);
        run_between(a, o, reads, unit);
    }
    if (unit && unit->back == event) end_unit(a, unit, op);
}
