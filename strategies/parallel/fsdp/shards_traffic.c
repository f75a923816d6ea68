/* shards_traffic -- buffers and collectives, as fully_shard has them.
 *
 * Parts of all devices are received in one flat buffer, in a stream of its own; from there they
 * are copied to where ops read them.  In the forward pass the buffer is held until the next one
 * is copied from, so that the next may be received meanwhile.  Gradients are copied into a flat
 * buffer that is sent in another stream, and held until the next one is filled.
 */
#include "shards_traffic.h"

#include "shards.h"

static uint32_t storage_of(const shards_traffic *t, uint32_t tensor)
{
    return t->r.in->tensors.at[tensor].storage;
}

/* `wide` times the bytes: in float32 what `like` has in 16 bits. */
static uint32_t flat_tensor(shards_traffic *t, uint32_t like, uint64_t bytes, uint64_t wide,
                            uint32_t stream, mr_role role)
{
    const uint32_t s = mr_rewrite_new_storage(&t->r, storage_of(t, like), bytes * wide);
    t->r.out->storages.at[s].stream = stream;
    t->r.out->storages.at[s].role = (uint8_t)role;
    t->r.out->storages.at[s].per_sample = 0;
    const uint32_t flat = mr_rewrite_new_tensor(&t->r, like, s);
    mr_tensor *tensor = &t->r.out->tensors.at[flat];
    const mr_tensor *one = &t->r.in->tensors.at[like];
    const uint64_t numbers = mr_tensor_numbers(one), width = numbers ? one->bytes / numbers : 1;
    uint64_t *shape = MR_NEW_N(t->r.ctx, uint64_t, 1);
    shape[0] = bytes / (width ? width : 1);
    tensor->name = "";
    if (wide > 1) tensor->dtype = "float32";
    tensor->rank = 1;
    tensor->shape = shape;
    tensor->role = (uint8_t)role;
    return flat;
}

static mr_op beside(const mr_op *as, const char *name, uint64_t read, uint64_t written)
{
    return (mr_op){.name = name, .module = "", .stream = as->stream, .phase = as->phase,
                   .again = MR_NONE, .of = MR_NONE, .read = read, .written = written};
}

void shards_drop(shards_traffic *t, uint32_t *tensor)
{
    if (*tensor != MR_NONE) mr_rewrite_drop(&t->r, NULL, *tensor);
    *tensor = MR_NONE;
}

/* ---- parameters -------------------------------------------------------------------------- */

static uint64_t parts_of(const shards_traffic *t, uint32_t unit)
{
    const shards_ids *parameters = &t->s.units.at[unit].parameters;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < parameters->n; i++)
        sum += sharded_tensor(&t->update, parameters->at[i]);
    return sum;
}

/* Parts that are kept in float32 go over the links in 16 bits. */
static uint32_t cast_parts(shards_traffic *t, uint32_t unit, const mr_op *as)
{
    const shards_ids *parameters = &t->s.units.at[unit].parameters;
    const uint64_t mine = parts_of(t, unit);
    const uint32_t cast = flat_tensor(t, parameters->at[0], mine, 1, t->gather_stream,
                                      MR_ROLE_temporary);
    mr_op op = beside(as, "aten::_foreach_copy_", mine * t->update.wide, mine);
    op.stream = t->gather_stream;
    op.in = mr_ids_of(t->r.ctx, parameters->n, parameters->at);
    op.out = mr_ids_of(t->r.ctx, 1, &cast);
    mr_rewrite_new_op(&t->r, &op);
    return cast;
}

void shards_gather(shards_traffic *t, uint32_t unit, const mr_op *as)
{
    const shards_ids *parameters = &t->s.units.at[unit].parameters;
    shards_gathered *g = &t->units[unit];
    if (g->whole || g->flat != MR_NONE || !parameters->n) return;
    const uint64_t mine = parts_of(t, unit), all = mine * t->s.choice->ranks;
    uint32_t cast = t->update.wide > 1 ? cast_parts(t, unit, as) : MR_NONE;
    g->flat = flat_tensor(t, parameters->at[0], all, 1, t->gather_stream, MR_ROLE_temporary);
    mr_op op = beside(as, "fsdp::all_gather_copy_in", mine, mine);
    op.stream = t->gather_stream;
    op.in = cast == MR_NONE ? mr_ids_of(t->r.ctx, parameters->n, parameters->at)
                            : mr_ids_of(t->r.ctx, 1, &cast);
    op.out = mr_ids_of(t->r.ctx, 1, &g->flat);
    mr_rewrite_new_op(&t->r, &op);
    op = beside(as, "c10d::_allgather_base_", mine, all);
    op.stream = t->gather_stream;
    op.engine = MR_ENGINE_all_gather;
    op.ranks = (uint32_t)t->s.choice->ranks;
    op.in = op.mutates = mr_ids_of(t->r.ctx, 1, &g->flat);
    mr_rewrite_new_op(&t->r, &op);
    shards_drop(t, &cast);
}

/* Each parameter gets its value from the parts of it, by way of the buffer, with room for the
 * rows by which the last device has fewer. */
static void copy_out(shards_traffic *t, uint32_t unit, const mr_op *as)
{
    const shards_ids *parameters = &t->s.units.at[unit].parameters;
    shards_gathered *g = &t->units[unit];
    const uint32_t n = parameters->n;
    mr_ids in = {MR_NEW_N(t->r.ctx, uint32_t, n + 1), n + 1};
    g->whole = MR_NEW_N(t->r.ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t tensor = parameters->at[i], s = storage_of(t, tensor);
        const uint64_t padded = sharded_tensor(&t->update, tensor) * t->s.choice->ranks;
        const uint32_t home = mr_rewrite_new_storage(&t->r, s, padded);
        in.at[i] = tensor;
        g->whole[i] = mr_rewrite_new_tensor(&t->r, tensor, home);
        t->r.out->tensors.at[g->whole[i]].bytes = t->r.in->tensors.at[tensor].bytes;
        t->where.storage[s] = home;
    }
    in.at[n] = g->flat;
    const uint64_t bytes = parts_of(t, unit) * t->s.choice->ranks;
    mr_op op = beside(as, "fsdp::split_with_sizes_copy", bytes, bytes);
    op.in = in;
    op.out = (mr_ids){g->whole, n};
    op.moves = true;
    mr_rewrite_new_op(&t->r, &op);
}

void shards_take(shards_traffic *t, uint32_t unit, const mr_op *as)
{
    shards_gathered *g = &t->units[unit];
    if (g->whole || !t->s.units.at[unit].parameters.n) return;
    shards_gather(t, unit, as);
    shards_drop(t, &t->received);
    copy_out(t, unit, as);
    if (as->phase == MR_FORWARD) t->received = g->flat;
    else shards_drop(t, &g->flat);
    g->flat = MR_NONE;
}

void shards_let_go(shards_traffic *t, uint32_t unit)
{
    const shards_ids *parameters = &t->s.units.at[unit].parameters;
    shards_gathered *g = &t->units[unit];
    for (uint32_t i = 0; i < parameters->n && g->whole; i++) {
        const uint32_t s = storage_of(t, parameters->at[i]);
        mr_rewrite_drop(&t->r, NULL, g->whole[i]);
        t->where.storage[s] = s;
    }
    g->whole = NULL;
}

/* ---- gradients --------------------------------------------------------------------------- */

static uint32_t gradient_at(const shards_traffic *t, uint32_t g)
{
    return t->s.gradients.gradients.at[g].tensor;
}

static uint64_t parts_of_gradients(const shards_traffic *t, uint32_t unit)
{
    const shards_ids *gradients = &t->s.units.at[unit].gradients;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gradients->n; i++)
        sum += sharded_tensor(&t->update, gradient_at(t, gradients->at[i]));
    return sum;
}

static void make(shards_traffic *t, uint32_t unit)
{
    const shards_ids *gradients = &t->s.units.at[unit].gradients;
    if (!gradients->n) return;
    const uint32_t like = gradient_at(t, gradients->at[0]);
    const uint32_t part = flat_tensor(t, like, parts_of_gradients(t, unit), t->update.wide,
                                      t->reduce_stream, MR_ROLE_gradient);
    mr_storage *home = &t->r.out->storages.at[t->r.out->tensors.at[part].storage];
    home->after = t->r.in->storages.at[storage_of(t, like)].after;
    for (uint32_t i = 0; i < gradients->n; i++) {
        const uint32_t s = storage_of(t, gradient_at(t, gradients->at[i]));
        t->update.gradient[s] = part;
        t->r.out->storages.at[s].after = false;
    }
}

void shards_make(shards_traffic *t)
{
    for (uint32_t u = 0; u < t->s.units.n; u++) make(t, u);
}

static void send(shards_traffic *t, uint64_t bytes, uint32_t part, const mr_op *as)
{
    const uint64_t ranks = t->s.choice->ranks;
    mr_op op = beside(as, "c10d::_reduce_scatter_base_", bytes * ranks, bytes);
    op.stream = t->reduce_stream;
    op.engine = MR_ENGINE_reduce_scatter;
    op.ranks = (uint32_t)ranks;
    op.in = mr_ids_of(t->r.ctx, 1, &t->sent);
    op.out = mr_ids_of(t->r.ctx, 1, &part);
    mr_rewrite_new_op(&t->r, &op);
}

/* Gradients that were sent in 16 bits are kept in float32. */
static void widen(shards_traffic *t, uint64_t bytes, uint32_t part, uint32_t like,
                  const mr_op *as)
{
    const uint32_t low = flat_tensor(t, like, bytes, 1, t->reduce_stream, MR_ROLE_temporary);
    send(t, bytes, low, as);
    mr_op op = beside(as, "aten::_to_copy", bytes, bytes * t->update.wide);
    op.stream = t->reduce_stream;
    op.moves = true;
    op.in = mr_ids_of(t->r.ctx, 1, &low);
    op.out = mr_ids_of(t->r.ctx, 1, &part);
    mr_rewrite_new_op(&t->r, &op);
}

void shards_reduce(shards_traffic *t, uint32_t unit, const mr_op *as)
{
    const shards_ids *gradients = &t->s.units.at[unit].gradients;
    const uint64_t wide = t->s.choice->reduce_dtype ? 1 : t->update.wide;
    const uint64_t mine = parts_of_gradients(t, unit), all = mine * t->s.choice->ranks;
    mr_ids in = {MR_NEW_N(t->r.ctx, uint32_t, gradients->n), gradients->n};
    uint64_t bytes = 0;
    shards_drop(t, &t->sent);
    for (uint32_t i = 0; i < in.n; i++) {
        in.at[i] = gradient_at(t, gradients->at[i]);
        bytes += t->r.in->tensors.at[in.at[i]].bytes;
    }
    const uint32_t stream = t->r.in->storages.at[storage_of(t, in.at[0])].stream;
    t->sent = flat_tensor(t, in.at[0], all, wide, stream, MR_ROLE_temporary);
    mr_op op = beside(as, "fsdp::chunk_cat_mixed_dtype", bytes, all * wide);
    op.in = in;
    op.out = mr_ids_of(t->r.ctx, 1, &t->sent);
    mr_rewrite_new_op(&t->r, &op);
    const uint32_t part = t->update.gradient[storage_of(t, in.at[0])];
    if (wide == t->update.wide) send(t, mine * wide, part, as);
    else widen(t, mine, part, in.at[0], as);
}
