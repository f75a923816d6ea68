/* replica_write -- copies into buckets, collectives, and an update that reads what they give.
 */
#include "replica.h"

#include "sharded_update.h"

#include <string.h>

typedef struct writer {
    const replica_choice *choice;
    replica_buckets buckets;
    mr_rewrite r;
    mr_where where;
    sharded_update update;
    uint32_t stream;  /* of collectives */
    uint32_t *flat;   /* by bucket: tensor of all of it */
    uint32_t *shard;  /* by bucket: tensor of the part that this device keeps; MR_NONE */
    uint32_t *slot;   /* by gradient: tensor of its place in the bucket, or in the shard */
    uint32_t updates; /* event of the first op of the update, MR_NONE */
    uint32_t last;    /* event of the last one */
    uint32_t ready;   /* op whose gradients are ready and not in their buckets yet; MR_NONE */
} writer;

static const mr_tensor *tensor_at(const writer *w, uint32_t t)
{
    return &w->r.in->tensors.at[t];
}

/* Gradients are where they were, beside their buckets. */
static bool keeps_gradients(const writer *w)
{
    return !w->choice->gradient_as_bucket_view && !w->choice->zero;
}

/* ---- new things
 * ------------------------------------------------------------------------------ */

static uint32_t tensor_on(writer *w, uint32_t like, uint32_t storage, uint64_t offset,
                          uint64_t bytes)
{
    const uint32_t t = mr_rewrite_new_tensor(&w->r, like, storage);
    mr_tensor *tensor = &w->r.out->tensors.at[t];
    tensor->name = "";
    tensor->offset = offset;
    tensor->bytes = bytes;
    return t;
}

static uint32_t flat_tensor(writer *w, const replica_bucket *b, uint64_t bytes, bool lasts)
{
    const uint32_t like = w->buckets.gradients.at[b->first].tensor;
    const uint32_t s = mr_rewrite_new_storage(&w->r, tensor_at(w, like)->storage, bytes);
    mr_storage *storage = &w->r.out->storages.at[s];
    storage->role = MR_ROLE_gradient;
    storage->per_sample = 0;
    storage->before = storage->after = lasts;
    const uint32_t t = tensor_on(w, like, s, 0, bytes);
    uint64_t *shape = MR_NEW_N(w->r.ctx, uint64_t, 1);
    const mr_tensor *g = tensor_at(w, like);
    const uint64_t elements = mr_tensor_numbers(g);
    shape[0] = g->bytes && elements ? bytes / (g->bytes / elements) : bytes;
    w->r.out->tensors.at[t].rank = 1;
    w->r.out->tensors.at[t].shape = shape;
    return t;
}

static void make_buckets(writer *w)
{
    const bool two = w->choice->zero == 2;
    w->flat = MR_NEW_N(w->r.ctx, uint32_t, w->buckets.all.n);
    w->shard = MR_NEW_N(w->r.ctx, uint32_t, w->buckets.all.n);
    w->slot = MR_NEW_N(w->r.ctx, uint32_t, w->buckets.gradients.n);
    for (uint32_t i = 0; i < w->buckets.all.n; i++) {
        const replica_bucket *b = &w->buckets.all.at[i];
        w->flat[i] = flat_tensor(w, b, b->bytes, !two);
        const uint64_t part = sharded_part(&w->update, b->bytes);
        w->shard[i] = two ? flat_tensor(w, b, part, true) : MR_NONE;
        const uint32_t home = w->r.out->tensors.at[w->flat[i]].storage;
        for (uint32_t g = b->first; g < b->first + b->n; g++) {
            const replica_gradient *one = &w->buckets.gradients.at[g];
            w->slot[g] =
                tensor_on(w, one->tensor, home, one->offset, tensor_at(w, one->tensor)->bytes);
            if (!keeps_gradients(w))
                w->update.gradient[tensor_at(w, one->tensor)->storage] =
                    two ? w->shard[i] : w->slot[g];
        }
    }
}

static mr_op beside(const mr_op *as, const char *name, uint64_t bytes)
{
    return (mr_op){.name = name,
                   .module = "",
                   .stream = as->stream,
                   .phase = as->phase,
                   .again = MR_NONE,
                   .of = MR_NONE,
                   .read = bytes,
                   .written = bytes};
}

/* ---- the backward pass
 * ----------------------------------------------------------------------- */

/* Divided by the number of devices on its way into the bucket. */
static void copy_in(writer *w, uint32_t storage, const mr_op *as)
{
    const uint32_t g = w->buckets.of[storage];
    const replica_gradient *one = &w->buckets.gradients.at[g];
    const replica_bucket *b = &w->buckets.all.at[one->bucket];
    mr_op op = beside(as, "aten::mul", tensor_at(w, one->tensor)->bytes);
    op.in = mr_ids_of(w->r.ctx, 1, &one->tensor);
    if (w->choice->zero == 2 && g == b->first) op.out = mr_ids_of(w->r.ctx, 1, &w->slot[g]);
    else op.mutates = mr_ids_of(w->r.ctx, 1, &w->slot[g]);
    mr_rewrite_new_op(&w->r, &op);
    if (!keeps_gradients(w)) w->r.out->storages.at[storage].after = false;
}

static void reduce(writer *w, uint32_t bucket, const mr_op *as)
{
    const bool two = w->choice->zero == 2;
    mr_op op = beside(as, two ? "c10d::reduce_scatter_" : "c10d::allreduce_",
                      w->buckets.all.at[bucket].bytes);
    op.stream = w->stream;
    op.engine = two ? MR_ENGINE_reduce_scatter : MR_ENGINE_all_reduce;
    op.ranks = (uint32_t)w->choice->ranks;
    op.in = mr_ids_of(w->r.ctx, 1, &w->flat[bucket]);
    op.mutates = mr_ids_of(w->r.ctx, 1, two ? &w->shard[bucket] : &w->flat[bucket]);
    if (two) op.written = sharded_part(&w->update, op.read);
    mr_rewrite_new_op(&w->r, &op);
}

/* A gradient is accumulated when the node that made it has run, and let go of what it read; the
 * engine adds up what that node gives to others before. */
static void send_ready(writer *w)
{
    if (w->ready == MR_NONE) return;
    const mr_op *op = &w->r.in->ops.at[w->ready];
    for (uint32_t s = w->buckets.first[w->ready]; s != MR_NONE; s = w->buckets.next[s]) {
        const uint32_t g = w->buckets.of[s], bucket = w->buckets.gradients.at[g].bucket;
        const replica_bucket *b = &w->buckets.all.at[bucket];
        copy_in(w, s, op);
        if (g + 1 == b->first + b->n && w->choice->ranks > 1) reduce(w, bucket, op);
    }
    w->ready = MR_NONE;
}

static bool is_engine_sum(const writer *w, const mr_op *op)
{
    if (op->phase != MR_BACKWARD || op->of != MR_NONE || !op->mutates.n) return false;
    return w->buckets.of[tensor_at(w, op->mutates.at[0])->storage] == MR_NONE;
}

/* Without views every gradient is written back from its bucket when all are summed. */
static void copy_back(writer *w, const mr_op *as)
{
    for (uint32_t g = 0; g < w->buckets.gradients.n; g++) {
        const uint32_t to = w->buckets.gradients.at[g].tensor;
        const uint32_t both[] = {to, w->slot[g]};
        mr_op op = beside(as, "aten::copy_", tensor_at(w, to)->bytes);
        op.phase = MR_BACKWARD;
        op.in = mr_ids_of(w->r.ctx, 2, both);
        op.mutates = mr_ids_of(w->r.ctx, 1, &to);
        mr_rewrite_new_op(&w->r, &op);
    }
}

/* ---- the update
 * ------------------------------------------------------------------------------ */

static bool reads_gradients(const writer *w, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (w->buckets.of[tensor_at(w, op->in.at[i])->storage] != MR_NONE) return true;
    return false;
}

/* Each device has brought its part of all parameters up to date. */
static void gather(writer *w)
{
    const mr_trace *in = w->r.in;
    MR_VEC(uint32_t) all = {0};
    bool *seen = MR_NEW_N(w->r.ctx, bool, in->storages.n);
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *op = &in->ops.at[o];
        for (uint32_t i = 0; i < op->mutates.n && op->phase == MR_UPDATE; i++) {
            const mr_tensor *t = tensor_at(w, op->mutates.at[i]);
            if (in->storages.at[t->storage].role != MR_ROLE_parameter || seen[t->storage])
                continue;
            seen[t->storage] = true;
            bytes += t->bytes;
            MR_PUSH(w->r.ctx, &all, op->mutates.at[i]);
        }
    }
    mr_op op = beside(&in->ops.at[in->events.at[w->last].id], "c10d::allgather_", bytes);
    op.stream = w->stream;
    op.engine = MR_ENGINE_all_gather;
    op.ranks = (uint32_t)w->choice->ranks;
    op.read = sharded_part(&w->update, bytes);
    op.in = op.mutates = mr_ids_of(w->r.ctx, all.n, all.at);
    mr_rewrite_new_op(&w->r, &op);
}

/* ---- what a device holds
 * --------------------------------------------------------------------- */

/* Gradients of the step before lie in the buckets, where they are not their own. */
static bool is_old_gradient(const writer *w, uint32_t storage)
{
    const mr_storage *home = &w->r.in->storages.at[storage];
    return !keeps_gradients(w) && home->before && home->role == MR_ROLE_gradient;
}

static void run(writer *w, uint32_t o, uint32_t event)
{
    const mr_op *op = &w->r.in->ops.at[o];
    if (!is_engine_sum(w, op)) send_ready(w);
    if (event == w->updates && keeps_gradients(w)) copy_back(w, op);
    if (op->phase == MR_UPDATE && (w->choice->zero || reads_gradients(w, op))) {
        sharded_run(&w->update, o);
    } else {
        mr_rewrite_run(&w->r, &w->where, o);
    }
    if (w->buckets.first[o] != MR_NONE) w->ready = o;
    if (event == w->last && w->choice->zero && w->choice->ranks > 1) gather(w);
}

static void tell_dealt(writer *w)
{
    const double part = replica_dealt(w->r.ctx, w->r.in, &w->buckets, w->choice->ranks);
    mr_rewrite_remark(&w->r,
                      "states are divided evenly; ZeroRedundancyOptimizer gives each parameter"
                      " to one device, and %.1f %% of all to the first",
                      100 * part);
}

mr_status replica_rewrite(mr_ctx *ctx, const mr_trace *in, const replica_choice *choice,
                          mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    w->choice = choice;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    MR_TRY(replica_fill(ctx, in, choice, &w->buckets));
    mr_where_init(&w->r, &w->where);
    MR_PUSH(ctx, &out->streams, out->streams.at[out->streams.n - 1] + 1);
    w->stream = out->streams.n - 1;
    out->ranks = (uint32_t)choice->ranks;
    sharded_begin(&w->update, &w->r, choice->zero ? choice->ranks : 1);
    w->updates = w->last = w->ready = MR_NONE;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind != MR_RUN || in->ops.at[event.id].phase != MR_UPDATE) continue;
        if (w->updates == MR_NONE) w->updates = e;
        w->last = e;
    }
    make_buckets(w);
    if (choice->zero) sharded_slice(&w->update, false);
    if (choice->zero == 1) tell_dealt(w);
    for (uint32_t s = 0; s < in->storages.n; s++)
        if (is_old_gradient(w, s))
            out->storages.at[s].before = out->storages.at[s].after = false;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_MARK) send_ready(w);
        if (event.kind == MR_RUN) run(w, event.id, e);
        else if (event.kind != MR_DROP || !is_old_gradient(w, tensor_at(w, event.id)->storage))
            mr_rewrite_keep(&w->r, &w->where, e);
    }
    return MR_OK;
}
