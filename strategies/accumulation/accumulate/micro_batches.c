/* micro_batches -- see the header. */
#include "micro_batches.h"

#include "accumulation.h"

#include <string.h>

/* ---- sizes
 * ------------------------------------------------------------------------------------- */

/* Gives what the part has of its own the sizes of its share. */
static void divide(accumulation *a)
{
    for (uint32_t s = 0; s < a->in->storages.n; s++)
        if (a->inside[s])
            a->out->storages.at[a->where.storage[s]].bytes =
                mr_share_bytes(&a->share, &a->in->storages.at[s]);
    for (uint32_t t = 0; t < a->in->tensors.n; t++) {
        const mr_tensor *whole = &a->in->tensors.at[t];
        const mr_storage *home = &a->in->storages.at[whole->storage];
        mr_tensor *part = &a->out->tensors.at[a->where.tensor[t]];
        if (!a->inside[whole->storage] || !home->per_sample) continue;
        const uint64_t bytes = a->out->storages.at[part->storage].bytes;
        const mr_tensor fitted =
            mr_share_tensor(a->ctx, &a->share, whole, a->dimensions[t], home, bytes);
        part->offset = fitted.offset;
        part->bytes = fitted.bytes;
        part->shape = fitted.shape;
    }
    for (uint32_t e = a->begin; e < a->end; e++)
        if (accumulation_op(a, e))
            mr_share_op(&a->share, a->in, accumulation_op(a, e),
                        &a->out->ops.at[a->where.op[a->in->events.at[e].id]]);
}

/* ---- one part
 * ------------------------------------------------------------------------------------ */

static bool is_first(const accumulation *a)
{
    return a->share.i == 0;
}

/* The gradient of this part in a place of its own, until it is added. */
static void set_aside(accumulation *a, uint32_t s)
{
    const uint32_t mine = mr_rewrite_new_storage(&a->r, s, a->in->storages.at[s].bytes);
    a->out->storages.at[mine].role = MR_ROLE_temporary;
    a->where.storage[s] = mine;
}

static void add_gradient(accumulation *a, uint32_t s)
{
    const uint32_t sum = a->final[s], mine = mr_rewrite_tensor(&a->r, &a->where, sum);
    const uint64_t bytes = a->in->tensors.at[sum].bytes;
    if (mine == sum) return; /* the first one stays where it is */
    a->out->storages.at[a->where.storage[s]].role = MR_ROLE_temporary;
    const uint32_t both[] = {sum, mine};
    const mr_op add = {
        .name = "aten::add_",
        .module = "",
        .stream = a->in->storages.at[s].stream,
        .phase = MR_BACKWARD,
        .again = MR_NONE,
        .of = MR_NONE,
        .read = 2 * bytes,
        .written = bytes,
        .in = mr_ids_of(a->ctx, 2, both),
        .mutates = mr_ids_of(a->ctx, 1, both),
        .sums = true,
    };
    mr_rewrite_new_op(&a->r, &add);
    a->where.storage[s] = s;
}

static void add_finished(accumulation *a)
{
    for (uint32_t i = 0; i < a->finished.n; i++) add_gradient(a, a->finished.at[i]);
    a->finished.n = 0;
}

/* Does the engine add the gradient that an op has given to one that it has already?  It does so
 * when the op returns; parameters get theirs after that. */
static bool is_sum_of_engine(const mr_op *op)
{
    return op->phase == MR_BACKWARD && op->of == MR_NONE && op->again == MR_NONE
           && (!strcmp(op->name, "aten::add_") || !strcmp(op->name, "aten::add"));
}

/* The tensor divided by k in a place of its own, which everybody after this reads. */
static void scale(accumulation *a, uint32_t tensor, const mr_op *as)
{
    const uint32_t s = a->in->tensors.at[tensor].storage;
    const uint32_t from = mr_rewrite_tensor(&a->r, &a->where, tensor);
    a->where.storage[s] = mr_rewrite_new_storage(&a->r, s, a->in->storages.at[s].bytes);
    mr_op division = *as;
    division.name = "aten::div";
    division.module = "";
    mr_rewrite_move(&a->r, from, mr_rewrite_tensor(&a->r, &a->where, tensor), &division);
    mr_rewrite_drop(&a->r, NULL, from);
}

static void run(accumulation *a, uint32_t event)
{
    const uint32_t o = a->in->events.at[event].id;
    const uint64_t part = a->share.i;
    if (!is_sum_of_engine(&a->in->ops.at[o])) add_finished(a);
    if (is_first(a)) mr_rewrite_run(&a->r, &a->where, o);
    else mr_rewrite_copy(&a->r, &a->where, o);
    mr_op *op = &a->out->ops.at[a->where.op[o]];
    if (a->share.parts > 1) {
        op->part = (uint32_t)part + 1;
        op->origin = o;
    }
    op->call = a->in->ops.at[o].call + (uint32_t)part * a->calls[o];
    for (uint32_t s = a->first[o]; s != MR_NONE; s = a->next[s])
        MR_PUSH(a->ctx, &a->finished, s);
    if (a->loss == MR_NONE || a->share.parts == 1) return;
    if (event == a->forward_end) scale(a, a->loss, &a->in->ops.at[o]);
    if (event == a->backward_begin) scale(a, a->in->ops.at[o].out.at[0], &a->in->ops.at[o]);
}

/* Does the tensor belong to this part, not to the whole step? */
static bool is_of_part(const accumulation *a, uint32_t tensor)
{
    return a->inside[a->in->tensors.at[tensor].storage];
}

static void play(accumulation *a, uint32_t event)
{
    const mr_event *e = &a->in->events.at[event];
    const bool last = a->share.i + 1 == a->share.parts;
    if (e->kind == MR_RUN) run(a, event);
    else if (e->kind != MR_DROP || last || is_of_part(a, e->id))
        mr_rewrite_keep(&a->r, &a->where, event);
}

/* What the program drops after the step's backward pass, it drops when the next part has its
 * own. */
static void drop_late(accumulation *a)
{
    for (uint32_t e = a->end; e < a->in->events.n; e++) {
        const mr_event *event = &a->in->events.at[e];
        if (event->kind != MR_DROP || !is_of_part(a, event->id)) continue;
        if (accumulation_is_gradient(a, a->in->tensors.at[event->id].storage)) continue;
        mr_rewrite_drop(&a->r, &a->where, event->id);
    }
}

/* What lives after the step is what the last part has made. */
static void live_on(accumulation *a)
{
    const bool last = a->share.i + 1 == a->share.parts;
    for (uint32_t s = 0; s < a->in->storages.n; s++)
        if (a->inside[s] && !accumulation_is_gradient(a, s))
            a->out->storages.at[a->where.storage[s]].after =
                last && a->in->storages.at[s].after;
}

static void do_part(accumulation *a, uint64_t i)
{
    a->share.i = i;
    mr_where_init(&a->r, &a->where);
    if (a->keep && !i)
        for (uint32_t g = 0; g < a->gradients.n; g++) set_aside(a, a->gradients.at[g]);
    for (uint32_t e = a->begin; e < a->end; e++) play(a, e);
    add_finished(a);
    live_on(a);
    if (i + 1 < a->share.parts) drop_late(a);
    divide(a);
}

/* ---- gradients that stay
 * --------------------------------------------------------------------------- */

/* Is it a gradient of the step before, which this one only lets go? */
static bool *find_old_gradients(accumulation *a)
{
    bool *old = MR_NEW_N(a->ctx, bool, a->in->storages.n);
    for (uint32_t s = 0; s < a->in->storages.n; s++)
        old[s] = a->in->storages.at[s].before && a->in->storages.at[s].role == MR_ROLE_gradient;
    for (uint32_t o = 0; o < a->in->ops.n; o++) {
        const mr_op *op = &a->in->ops.at[o];
        for (uint32_t i = 0; i < op->in.n; i++)
            old[a->in->tensors.at[op->in.at[i]].storage] = false;
        for (uint32_t i = 0; i < op->mutates.n; i++)
            old[a->in->tensors.at[op->mutates.at[i]].storage] = false;
    }
    return old;
}

/* The gradients of the step before are those of this one. */
static void zero_gradients(accumulation *a)
{
    uint32_t *tensors = MR_NEW_N(a->ctx, uint32_t, a->gradients.n);
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < a->gradients.n; g++) {
        const uint32_t s = a->gradients.at[g];
        a->out->storages.at[s].before = a->out->storages.at[s].after = true;
        tensors[g] = a->final[s];
        bytes += a->in->tensors.at[tensors[g]].bytes;
    }
    const mr_op zero = {
        .name = "aten::_foreach_zero_",
        .module = "",
        .again = MR_NONE,
        .of = MR_NONE,
        .written = bytes,
        .mutates = {tensors, a->gradients.n},
    };
    mr_rewrite_new_op(&a->r, &zero);
}

static void begin_step(accumulation *a)
{
    const bool *old = find_old_gradients(a);
    bool zeroed = !a->keep;
    for (uint32_t e = 0; e < a->begin; e++) {
        const mr_event *event = &a->in->events.at[e];
        const bool goes =
            a->keep && event->kind == MR_DROP && old[a->in->tensors.at[event->id].storage];
        if (!zeroed && (goes || event->kind == MR_RUN)) {
            zero_gradients(a);
            zeroed = true;
        }
        if (!goes) mr_rewrite_keep(&a->r, NULL, e);
    }
    if (!zeroed) zero_gradients(a);
    for (uint32_t s = 0; a->keep && s < a->in->storages.n; s++)
        if (old[s]) a->out->storages.at[s].before = a->out->storages.at[s].after = false;
}

/* ---- the whole ------------------------------------------------------------------- */

static void warn_of_statistics(accumulation *a)
{
    uint32_t n = 0;
    const char *one = "";
    for (uint32_t e = a->begin; e < a->end; e++) {
        const mr_op *op = accumulation_op(a, e);
        if (!op || op->phase != MR_FORWARD || !strstr(op->name, "batch_norm")) continue;
        n++;
        one = op->module;
    }
    if (n && a->share.parts > 1)
        mr_rewrite_remark(
            &a->r,
            "batch normalization sees one micro-batch at a time, so results differ"
            " from those of the whole batch: %s, such as in %s",
            mr_show_count(a->ctx, n, "time", "times"), one);
}

mr_status micro_batches(mr_ctx *ctx, const mr_trace *in, uint64_t k, bool set_to_none,
                        mr_trace *out)
{
    accumulation a = {.ctx = ctx, .in = in, .out = out};
    MR_TRY(mr_rewrite_begin(ctx, in, out, &a.r));
    MR_TRY(accumulation_look(&a, k));
    a.keep = !set_to_none && a.gradients.n;
    a.dimensions = mr_share_dimensions(ctx, &a.share, in);
    begin_step(&a);
    for (uint64_t i = 0; i < k; i++) do_part(&a, i);
    for (uint32_t e = a.end; e < in->events.n; e++) mr_rewrite_keep(&a.r, &a.where, e);
    divide(&a); /* tensors of the last part that only its drops have named */
    warn_of_statistics(&a);
    mr_share_remark(&a.r, &a.share, a.dimensions);
    return MR_OK;
}
