/* slices_writer -- tensors, storages and ops of one slice. */
#include "slices_writer.h"

#include <string.h>

static const mr_tensor *tensor_at(const slice_writer *w, uint32_t t)
{
    return &w->s->in->tensors.at[t];
}

void slices_writer_begin(slice_writer *w, slices *s)
{
    w->s = s;
    w->region = MR_NONE;
    w->things = mr_alloc_n(s->ctx, s->all.n, sizeof *w->things);
    w->copied = mr_none_of(s->ctx, s->in->tensors.n);
    w->gone = MR_NEW_N(s->ctx, bool, s->in->tensors.n);
    w->done = MR_NEW_N(s->ctx, bool, s->in->events.n);
}

void slices_writer_take_up(slice_writer *w)
{
    slice_things *mine = &w->things[w->region];
    slices_take_up(w->s, w->region);
    if (mine->op) return;
    mine->tensor = mr_none_of(w->s->ctx, w->at->tensors.n * w->at->parts);
    mine->storage = mr_none_of(w->s->ctx, w->at->homes.n * w->at->parts);
    mine->op = mr_none_of(w->s->ctx, w->at->ops.n * w->at->parts);
    mine->join = mine->cut = mine->mean = MR_NONE;
}

slice_things *slices_around(slice_writer *w)
{
    return &w->things[w->region];
}

/* Does the region at hand write it first? */
static bool is_born(const slice_writer *w, uint32_t storage)
{
    return w->s->home[storage] != MR_NONE && w->s->owner[w->s->r.birth[storage]] == w->region;
}

/* ---- sizes ------------------------------------------------------------------------------- */

static uint64_t rows(const slice_writer *w)
{
    const uint64_t begin = w->part * w->at->each, left = w->at->length - begin;
    return left < w->at->each ? left : w->at->each;
}

uint64_t slices_share(const slice_writer *w, uint64_t whole)
{
    const uint64_t length = w->at->length;
    return whole / length * rows(w) + whole % length * rows(w) / length;
}

uint64_t slices_number_bytes(const mr_tensor *tensor)
{
    const uint64_t n = mr_tensor_numbers(tensor), width = mr_dtype_bytes(tensor->dtype);
    if (width) return width;
    return n && tensor->bytes >= n ? tensor->bytes / n : 1;
}

/* From one row to the next, if the tensor lies in memory as it is written. */
static uint64_t row_bytes(const slice_writer *w, const mr_tensor *t, slice_cut cut)
{
    uint64_t n = slices_number_bytes(t) * (t->shape[cut.dim] / cut.outer / w->at->length);
    for (uint32_t d = cut.dim + 1; d < t->rank; d++) n *= t->shape[d];
    return n;
}

bool slices_is_apart(const slice_writer *w, uint32_t tensor)
{
    const mr_tensor *t = tensor_at(w, tensor);
    const slice_cut cut = slices_cut(w->s, w->region, tensor);
    uint64_t before = cut.outer;
    if (cut.dim == MR_NONE || is_born(w, t->storage)) return false;
    for (uint32_t d = 0; d < cut.dim; d++) before *= t->shape[d];
    return before > 1;
}

static const uint64_t *shape_of(slice_writer *w, const mr_tensor *whole, slice_cut cut)
{
    if (cut.kind != SLICE_ROWS || cut.dim == MR_NONE) return whole->shape;
    uint64_t *shape = MR_NEW_N(w->s->ctx, uint64_t, whole->rank);
    memcpy(shape, whole->shape, whole->rank * sizeof *shape);
    shape[cut.dim] = shape[cut.dim] / w->at->length * rows(w);
    return shape;
}

/* ---- places ------------------------------------------------------------------------------ */

static uint32_t *tensor_of(slice_writer *w, uint32_t tensor)
{
    return &w->things[w->region].tensor[w->part * w->at->tensors.n + w->s->number[tensor]];
}

uint32_t *slices_home_of(slice_writer *w, uint32_t storage)
{
    return &w->things[w->region].storage[w->part * w->at->homes.n + w->s->home[storage]];
}

uint32_t *slices_op_of(slice_writer *w, uint32_t op)
{
    return &w->things[w->region].op[w->part * w->at->ops.n + w->s->place[op]];
}

static uint32_t home_of(slice_writer *w, uint32_t storage)
{
    uint32_t *mine = slices_home_of(w, storage);
    if (*mine != MR_NONE) return *mine;
    const mr_storage *whole = &w->s->in->storages.at[storage];
    const bool cut = w->at->homes.at[w->s->home[storage]].rows;
    *mine = mr_rewrite_new_storage(&w->s->r, storage,
                                   cut ? slices_share(w, whole->bytes) : whole->bytes);
    if (cut) w->s->r.out->storages.at[*mine].per_sample = slices_share(w, whole->per_sample);
    return *mine;
}

static mr_tensor *new_tensor(slice_writer *w, uint32_t tensor, uint32_t home)
{
    const mr_tensor *whole = tensor_at(w, tensor);
    const uint32_t made = mr_rewrite_new_tensor(&w->s->r, tensor, home);
    const slice_cut cut = slices_cut(w->s, w->region, tensor);
    *tensor_of(w, tensor) = made;
    w->s->r.out->tensors.at[made].shape = shape_of(w, whole, cut);
    return &w->s->r.out->tensors.at[made];
}

void slices_put(slice_writer *w, uint32_t tensor, uint32_t storage)
{
    mr_tensor *t = new_tensor(w, tensor, storage);
    t->bytes = slices_number_bytes(tensor_at(w, tensor)) * mr_tensor_numbers(t);
}

/* In the slice's own storage. */
static void lie_at_home(slice_writer *w, uint32_t tensor, uint32_t home)
{
    const mr_tensor *whole = tensor_at(w, tensor);
    const slice_cut cut = slices_cut(w->s, w->region, tensor);
    mr_tensor *t = new_tensor(w, tensor, home);
    const uint64_t room = w->s->r.out->storages.at[home].bytes;
    t->offset = whole->offset;
    t->bytes = whole->bytes;
    if (cut.kind != SLICE_ROWS || cut.dim == MR_NONE) return;
    t->bytes = slices_share(w, whole->bytes);
    if (whole->offset >= row_bytes(w, whole, cut)) t->offset = slices_share(w, whole->offset);
    if (t->offset + t->bytes > room) t->bytes = t->offset < room ? room - t->offset : 0;
}

/* Rows of what is outside. */
static void lie_outside(slice_writer *w, uint32_t tensor)
{
    const mr_tensor *whole = tensor_at(w, tensor);
    const slice_cut cut = slices_cut(w->s, w->region, tensor);
    const uint64_t row = row_bytes(w, whole, cut), missing = (w->at->length - rows(w)) * row;
    mr_tensor *t = new_tensor(w, tensor, whole->storage);
    t->offset = whole->offset + w->part * w->at->each * row;
    t->bytes = whole->bytes > missing ? whole->bytes - missing : 0;
}

uint32_t slices_place(slice_writer *w, uint32_t tensor)
{
    const uint32_t storage = tensor_at(w, tensor)->storage;
    const slice_cut cut = slices_cut(w->s, w->region, tensor);
    if (w->s->known[tensor] != w->region) return tensor;
    if (*tensor_of(w, tensor) != MR_NONE) return *tensor_of(w, tensor);
    const bool born = is_born(w, storage);
    if (born && home_of(w, storage) == storage) *tensor_of(w, tensor) = tensor;
    else if (born) lie_at_home(w, tensor, home_of(w, storage));
    else if (cut.kind == SLICE_ROWS) lie_outside(w, tensor);
    else *tensor_of(w, tensor) = tensor;
    return *tensor_of(w, tensor);
}

/* ---- ops --------------------------------------------------------------------------------- */

static mr_ids placed(slice_writer *w, mr_ids ids, uint64_t *missing)
{
    mr_ids out = mr_ids_of(w->s->ctx, ids.n, ids.at);
    for (uint32_t i = 0; i < ids.n; i++) {
        out.at[i] = slices_place(w, ids.at[i]);
        *missing += mr_tensor_touched(&w->s->in->tensors.at[ids.at[i]])
                    - mr_tensor_touched(&w->s->r.out->tensors.at[out.at[i]]);
    }
    return out;
}

/* Results that share memory with an input go where that has gone. */
static void follow_inputs(slice_writer *w, const mr_op *op)
{
    for (uint32_t k = 0; k < op->out.n; k++)
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t out = op->out.at[k], home = tensor_at(w, out)->storage;
            if (tensor_at(w, op->in.at[i])->storage != home || *tensor_of(w, out) != MR_NONE)
                continue;
            const uint32_t mine = slices_place(w, op->in.at[i]);
            const uint32_t gone = w->s->r.out->tensors.at[mine].storage;
            if (gone != home && !is_born(w, home)) slices_put(w, out, gone);
        }
}

static bool has_rows(const slice_writer *w, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (slices_cut(w->s, w->region, op->in.at[i]).kind == SLICE_ROWS) return true;
    for (uint32_t k = 0; k < op->out.n; k++)
        if (slices_cut(w->s, w->region, op->out.at[k]).kind == SLICE_ROWS) return true;
    return false;
}

static uint64_t less(uint64_t bytes, uint64_t missing)
{
    return missing < bytes ? bytes - missing : 0;
}

mr_op slices_op(slice_writer *w, uint32_t o)
{
    mr_op op = w->s->in->ops.at[o];
    uint64_t unread = 0, unwritten = 0;
    follow_inputs(w, &op);
    op.in = placed(w, op.in, &unread);
    op.out = placed(w, op.out, &unwritten);
    op.mutates = placed(w, op.mutates, &unwritten);
    mr_saved *saved = MR_NEW_N(w->s->ctx, mr_saved, op.saved.n);
    for (uint32_t i = 0; i < op.saved.n; i++)
        saved[i] = (mr_saved){slices_place(w, op.saved.at[i].tensor), op.saved.at[i].as};
    op.saved.at = saved;
    op.read = less(op.read, unread);
    op.written = less(op.written, unwritten);
    if (has_rows(w, &w->s->in->ops.at[o])) {
        op.flops = slices_share(w, op.flops);
        op.flops_per_sample = slices_share(w, op.flops_per_sample);
        op.ns = slices_share(w, op.ns);
        op.workspace = slices_share(w, op.workspace);
    }
    if (op.of != MR_NONE && w->s->owner[op.of] == w->region) op.of = *slices_op_of(w, op.of);
    op.part = w->part + 1;
    op.origin = o;
    return op;
}
