/* sharded_update -- see the header. */
#include "sharded_update.h"

void sharded_begin(sharded_update *u, mr_rewrite *r, uint64_t ranks)
{
    *u = (sharded_update){.r = r,
                          .ranks = ranks,
                          .wide = 1,
                          .gradient = mr_none_of(r->ctx, r->in->storages.n),
                          .sliced = MR_NEW_N(r->ctx, bool, r->in->storages.n)};
}

uint64_t sharded_part(const sharded_update *u, uint64_t bytes)
{
    return (bytes + u->ranks - 1) / u->ranks;
}

uint64_t sharded_tensor(const sharded_update *u, uint32_t tensor)
{
    const mr_tensor *t = &u->r->in->tensors.at[tensor];
    const uint64_t rows = t->rank ? t->shape[0] : 0;
    if (!u->rows || !rows || t->bytes % rows) return sharded_part(u, t->bytes);
    return sharded_part(u, rows) * (t->bytes / rows);
}

/* ---- what a device holds ----------------------------------------------------------------- */

enum { SMALL = 8 }; /* bytes of what counts steps, or such: everybody has it */

static bool is_divided(const sharded_update *u, uint32_t s, bool parameters)
{
    const mr_storage *home = &u->r->in->storages.at[s];
    const uint32_t born = u->r->birth[s];
    if (home->before && (home->role == MR_ROLE_parameter || home->role == MR_ROLE_gradient))
        return parameters;
    if (home->bytes <= SMALL) return false;
    if (home->before) return home->role == MR_ROLE_state;
    return born != MR_NONE && u->r->in->ops.at[born].phase == MR_UPDATE
           && u->gradient[s] == MR_NONE;
}

static void fit(const sharded_update *u, uint32_t t)
{
    mr_tensor *tensor = &u->r->out->tensors.at[t];
    const mr_storage *home = &u->r->out->storages.at[tensor->storage];
    tensor->offset *= u->wide;
    tensor->bytes *= u->wide;
    if (u->wide > 1) tensor->dtype = "float32";
    if (tensor->offset > home->bytes) tensor->offset = 0;
    if (tensor->bytes > home->bytes - tensor->offset)
        tensor->bytes = home->bytes - tensor->offset;
}

void sharded_slice(sharded_update *u, bool parameters)
{
    const mr_trace *in = u->r->in;
    for (uint32_t s = 0; s < in->storages.n; s++) {
        u->sliced[s] = is_divided(u, s, parameters);
        if (u->sliced[s])
            u->r->out->storages.at[s].bytes =
                u->wide * sharded_part(u, in->storages.at[s].bytes);
    }
    for (uint32_t t = in->tensors.n; t-- > 0;) { /* of several the first says what rows are */
        const uint32_t s = in->tensors.at[t].storage;
        if (u->sliced[s] && in->tensors.at[t].bytes == in->storages.at[s].bytes)
            u->r->out->storages.at[s].bytes = u->wide * sharded_tensor(u, t);
    }
    for (uint32_t t = 0; t < in->tensors.n; t++)
        if (u->sliced[in->tensors.at[t].storage]) fit(u, t);
}

/* ---- what a device does ------------------------------------------------------------------ */

static mr_ids places(const sharded_update *u, mr_ids ids)
{
    mr_ids out = mr_ids_of(u->r->ctx, ids.n, ids.at);
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t place = u->gradient[u->r->in->tensors.at[ids.at[i]].storage];
        if (place != MR_NONE) out.at[i] = place;
    }
    return out;
}

enum { MANY = 64 }; /* results: of a list of parameters, which are no views */

/* A view of what the op reads holds what that holds. */
static bool is_view(const sharded_update *u, const mr_op *op, uint32_t tensor)
{
    const mr_tensor *t = u->r->in->tensors.at;
    for (uint32_t i = 0; i < op->in.n; i++)
        if (t[op->in.at[i]].storage == t[tensor].storage) return true;
    return false;
}

/* What the op gives, and as what the input knows it.  A bucket holds many gradients, of which
 * only ops know that read them there. */
static void tell(const sharded_update *u, const mr_op *whole, mr_ids made, mr_ids known,
                 mr_stand_in *stand)
{
    const bool views = whole->out.n && known.at == whole->out.at && known.n < MANY;
    for (uint32_t i = 0; i < made.n; i++) {
        if (made.at[i] != known.at[i]) continue;
        if (views && is_view(u, whole, known.at[i])) continue;
        stand->gives.at[stand->gives.n++] = made.at[i];
        stand->holds.at[stand->holds.n++] = known.at[i];
    }
}

void sharded_run(sharded_update *u, uint32_t o)
{
    const mr_op *whole = &u->r->in->ops.at[o];
    mr_op op = *whole;
    op.in = places(u, whole->in);
    op.out = places(u, whole->out);
    op.mutates = places(u, whole->mutates);
    op.read = u->wide * sharded_part(u, whole->read);
    op.written = u->wide * sharded_part(u, whole->written);
    op.flops = sharded_part(u, whole->flops);
    op.ns = sharded_part(u, whole->ns);
    const uint32_t added = mr_rewrite_new_op(u->r, &op);
    const uint32_t n = whole->out.n + whole->mutates.n;
    mr_stand_in stand = {.op = added, .ops = mr_ids_of(u->r->ctx, 1, &o)};
    stand.gives.at = MR_NEW_N(u->r->ctx, uint32_t, n);
    stand.holds.at = MR_NEW_N(u->r->ctx, uint32_t, n);
    tell(u, whole, op.out, whole->out, &stand);
    tell(u, whole, op.mutates, whole->mutates, &stand);
    MR_PUSH(u->r->ctx, &u->r->out->stand_ins, stand);
}
