/* autocast_tensors -- tensors with half their bits, in their own storage or in a cast's. */
#include "autocast.h"

#include <string.h>

static const mr_tensor *old(const autocast *a, uint32_t tensor)
{
    return &a->r.in->tensors.at[tensor];
}

bool autocast_is_full(const autocast *a, uint32_t tensor)
{
    return !strcmp(old(a, tensor)->dtype, "float32");
}

bool autocast_is_low(const autocast *a, uint32_t tensor)
{
    return autocast_is_full(a, tensor) && a->low[old(a, tensor)->storage];
}

uint32_t autocast_new(autocast *a, uint32_t tensor, bool low, mr_role role)
{
    const mr_tensor *t = old(a, tensor);
    const uint64_t width = low ? 2 : 4;
    const mr_storage *home = &a->r.in->storages.at[t->storage];
    const uint32_t s = mr_rewrite_new_storage(&a->r, t->storage, mr_tensor_numbers(t) * width);
    const uint32_t n = mr_rewrite_new_tensor(&a->r, tensor, s);
    mr_storage *storage = &a->r.out->storages.at[s];
    storage->role = (uint8_t)role;
    storage->per_sample = home->bytes ? storage->bytes * home->per_sample / home->bytes : 0;
    a->r.out->tensors.at[n].role = (uint8_t)role;
    a->r.out->tensors.at[n].name = "";
    a->r.out->tensors.at[n].dtype = low ? a->dtype : "float32";
    return n;
}

static const autocast_leaf *leaf_of(const autocast *a, const autocast_unit *unit,
                                    uint32_t tensor)
{
    const mr_tensor *t = old(a, tensor);
    const autocast_leaf *found = NULL;
    for (uint32_t i = 0; i < unit->leaves.n; i++) {
        const mr_tensor *l = old(a, unit->leaves.at[i].tensor);
        if (l->storage != t->storage) continue;
        const bool inside = t->offset >= l->offset && t->offset < l->offset + l->bytes;
        if (unit->leaves.at[i].tensor == tensor) return &unit->leaves.at[i];
        if (inside || !found) found = &unit->leaves.at[i];
    }
    return found;
}

/* A tensor of `in` as a view of one of the unit's casts, MR_NONE when it is of none. */
static uint32_t in_unit(autocast *a, const autocast_unit *unit, uint32_t tensor)
{
    const autocast_leaf *leaf = leaf_of(a, unit, tensor);
    if (!leaf || !autocast_is_full(a, tensor)) return MR_NONE;
    if (leaf->tensor == tensor) return leaf->cast;
    const uint32_t home = a->r.out->tensors.at[leaf->cast].storage;
    if (a->placed[tensor] != MR_NONE && a->r.out->tensors.at[a->placed[tensor]].storage == home)
        return a->placed[tensor];
    const uint32_t n = mr_rewrite_new_tensor(&a->r, leaf->cast, home);
    mr_tensor *t = &a->r.out->tensors.at[n];
    const uint64_t bytes = mr_tensor_numbers(old(a, tensor)) * (unit->low ? 2 : 4);
    t->rank = old(a, tensor)->rank;
    t->shape = old(a, tensor)->shape;
    if (bytes < t->bytes) t->bytes = bytes;
    return a->placed[tensor] = n;
}

uint32_t autocast_home(const autocast *a, uint32_t tensor)
{
    return a->viewed[tensor] != MR_NONE ? a->viewed[tensor] : a->moved[old(a, tensor)->storage];
}

uint32_t autocast_place(autocast *a, uint32_t tensor)
{
    const mr_tensor *t = old(a, tensor);
    const uint32_t home = autocast_home(a, tensor);
    if (home == t->storage) return tensor;
    if (a->placed[tensor] != MR_NONE && a->r.out->tensors.at[a->placed[tensor]].storage == home)
        return a->placed[tensor];
    const uint32_t n = mr_rewrite_new_tensor(&a->r, tensor, home);
    const uint64_t had = a->r.in->storages.at[t->storage].bytes;
    const uint64_t bytes = a->r.out->storages.at[home].bytes;
    const bool low = bytes < mr_tensor_numbers(t) * 4;
    mr_tensor *placed = &a->r.out->tensors.at[n];
    placed->name = "";
    if (autocast_is_full(a, tensor)) placed->dtype = low ? a->dtype : "float32";
    if (bytes == had || bytes == had / 2) { /* all of its memory is there, and nothing else */
        placed->offset = bytes == had ? t->offset : t->offset / 2;
        placed->bytes = bytes == had ? t->bytes : t->bytes / 2;
    }
    return a->placed[tensor] = n;
}

void autocast_cast(autocast *a, uint32_t from, uint32_t to, const mr_op *as, uint32_t of)
{
    mr_op cast = *as;
    cast.name = "aten::_to_copy";
    cast.of = of;
    const uint32_t o = mr_rewrite_move(&a->r, from, to, &cast);
    const mr_tensor *t = &a->r.out->tensors.at[from];
    const bool full = strcmp(a->r.out->tensors.at[to].dtype, "float32") != 0;
    a->r.out->ops.at[o].read = mr_tensor_numbers(t) * (full ? 4 : 2);
}

/* The list as it is now; `extra` are tensors of this op alone. */
static mr_ids placed(autocast *a, mr_ids ids, const autocast_unit *unit)
{
    mr_ids out = mr_ids_of(a->r.ctx, ids.n, ids.at);
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t mine = unit ? in_unit(a, unit, ids.at[i]) : MR_NONE;
        out.at[i] = mine != MR_NONE ? mine : autocast_place(a, ids.at[i]);
    }
    return out;
}

void autocast_run(autocast *a, uint32_t o, const autocast_unit *unit)
{
    mr_op op = a->r.in->ops.at[o];
    op.in = placed(a, op.in, unit);
    op.out = placed(a, op.out, unit);
    op.mutates = placed(a, op.mutates, unit);
    mr_saved *saved = MR_NEW_N(a->r.ctx, mr_saved, op.saved.n);
    for (uint32_t i = 0; i < op.saved.n; i++) {
        const uint32_t t = op.saved.at[i].tensor;
        const uint32_t mine = unit ? in_unit(a, unit, t) : MR_NONE;
        saved[i] = (mr_saved){mine != MR_NONE ? mine : autocast_place(a, t), op.saved.at[i].as};
    }
    op.saved.at = saved;
    a->r.out->ops.at[o] = op;
    mr_rewrite_run(&a->r, NULL, o);
}
