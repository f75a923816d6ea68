/* slices_write -- the step with its regions in slices.
 *
 * What torch does: x.chunk(n, dim) are views; each slice runs alone; torch.cat joins what they
 * made, torch.stack().mean() their losses.  Backward, the last slice comes first; gradients of
 * rows are joined, summands added to each other by the engine as they come: in place, once it
 * has a sum that nobody else sees.  A slice whose rows are not next to each other in memory is
 * copied before it is seen as a matrix, and a bias is added after that product.
 */
#include "slices_writer.h"

#include <string.h>

static const mr_tensor *tensor_at(const slice_writer *w, uint32_t t)
{
    return &w->s->in->tensors.at[t];
}

static mr_tensor *made_at(slice_writer *w, uint32_t t)
{
    return &w->s->r.out->tensors.at[t];
}

/* ---- one op ------------------------------------------------------------------------------ */

/* Rows of a tensor from outside that lie apart, seen as a matrix: copied first. */
static uint32_t copy_rows(slice_writer *w, const mr_op *op)
{
    mr_rewrite *r = &w->s->r;
    const uint32_t t = op->in.at[0], from = slices_place(w, t);
    const slice_cut in = slices_cut(w->s, w->region, t);
    const slice_cut out = slices_cut(w->s, w->region, op->out.at[0]);
    if (in.kind != SLICE_ROWS || !slices_is_apart(w, t) || out.outer <= in.outer)
        return MR_NONE;
    const uint64_t bytes =
        mr_tensor_numbers(made_at(w, from)) * slices_number_bytes(tensor_at(w, t));
    const uint32_t home = mr_rewrite_new_storage(r, made_at(w, from)->storage, bytes);
    mr_storage *storage = &r->out->storages.at[home];
    storage->role = MR_ROLE_activation;
    storage->per_sample =
        slices_share(w, w->s->in->storages.at[tensor_at(w, t)->storage].per_sample);
    const uint32_t to = mr_rewrite_new_tensor(r, from, home);
    mr_op as = *op;
    as.name = "aten::clone";
    mr_rewrite_move(r, from, to, &as);
    slices_put(w, op->out.at[0], home);
    return to;
}

/* The product in a place of its own, and the bias added to it. */
static void add_bias(slice_writer *w, uint32_t o)
{
    mr_rewrite *r = &w->s->r;
    mr_op *op = &r->out->ops.at[o];
    const uint32_t sum = op->out.at[0];
    const uint32_t home =
        mr_rewrite_new_storage(r, made_at(w, sum)->storage, made_at(w, sum)->bytes);
    const uint32_t product = mr_rewrite_new_tensor(r, sum, home);
    const uint64_t bias = made_at(w, op->in.at[0])->bytes;
    op->name = "aten::mm";
    op->out = mr_ids_of(w->s->ctx, 1, &product);
    op->read -= bias < op->read ? bias : 0;
    mr_op as = *op;
    as.name = "aten::add";
    const uint32_t added = mr_rewrite_move(r, product, sum, &as);
    r->out->ops.at[added].read += bias;
    mr_rewrite_drop(r, NULL, product);
}

static void run(slice_writer *w, uint32_t o)
{
    const mr_op *op = &w->s->in->ops.at[o];
    if (w->s->shared[o]) {
        if (!w->part) mr_rewrite_run(&w->s->r, NULL, o);
        return;
    }
    const bool view = op->in.n == 1 && op->out.n == 1 && slices_is(op, "view reshape");
    const uint32_t copy = view ? copy_rows(w, op) : MR_NONE;
    mr_op part = slices_op(w, o);
    if (copy != MR_NONE) {
        part.name = "aten::_unsafe_view";
        part.in = mr_ids_of(w->s->ctx, 1, &copy);
        w->copied[op->out.at[0]] = w->part;
    }
    *slices_op_of(w, o) = mr_rewrite_new_op(&w->s->r, &part);
    if (copy != MR_NONE && w->s->dropped[op->out.at[0]] != MR_NONE)
        mr_rewrite_drop(&w->s->r, NULL, copy);
    if (slices_is(op, "addmm") && w->copied[op->in.at[1]] == w->part)
        add_bias(w, *slices_op_of(w, o));
}

/* ---- variables of the program ------------------------------------------------------------ */

/* The slice's own, if it is not what all have. */
static void drop(slice_writer *w, uint32_t tensor)
{
    if (w->s->known[tensor] != w->region || !w->gone[tensor]) return;
    const uint32_t mine = slices_place(w, tensor);
    if (mine != tensor) mr_rewrite_drop(&w->s->r, NULL, mine);
}

static bool is_result(const slice_writer *w, uint32_t tensor)
{
    const slice_region *r = w->at;
    const uint32_t storage = tensor_at(w, tensor)->storage;
    for (uint32_t i = 0; i < r->results.n; i++)
        if (tensor_at(w, r->results.at[i].tensor)->storage == storage) return true;
    return tensor_at(w, r->result)->storage == storage;
}

static void drop_those(slice_writer *w, mr_ids made, uint32_t end)
{
    for (uint32_t k = 0; k < made.n; k++) {
        const uint32_t e_drop = w->s->dropped[made.at[k]];
        if (e_drop != MR_NONE && e_drop >= end && !is_result(w, made.at[k]))
            drop(w, made.at[k]);
    }
}

/* What the program drops later, though it is the slice's: with its function. */
static void drop_late(slice_writer *w, uint32_t begin, uint32_t end)
{
    for (uint32_t e = begin; e < end; e++) {
        if (w->s->in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = w->s->in->events.at[e].id;
        if (w->s->owner[o] != w->region) continue;
        drop_those(w, w->s->in->ops.at[o].out, end);
        drop_those(w, w->s->in->ops.at[o].mutates, end);
    }
}

/* ---- cutting and joining ----------------------------------------------------------------- */

static mr_op new_op(const slice_writer *w, const char *name, mr_phase phase, uint32_t of)
{
    const mr_op *like = &w->s->in->ops.at[w->at->ops.at[w->at->ops.n - 1]];
    return (mr_op){.name = name,
                   .module = like->module,
                   .call = like->call,
                   .stream = like->stream,
                   .phase = phase,
                   .again = MR_NONE,
                   .of = of};
}

static uint32_t cut(slice_writer *w, uint32_t tensor, mr_op op)
{
    uint32_t *out = MR_NEW_N(w->s->ctx, uint32_t, w->at->parts);
    for (w->part = 0; w->part < w->at->parts; w->part++) out[w->part] = slices_place(w, tensor);
    op.in = mr_ids_of(w->s->ctx, 1, &tensor);
    op.out = (mr_ids){out, w->at->parts};
    op.cuts = true;
    return mr_rewrite_new_op(&w->s->r, &op);
}

static uint32_t join(slice_writer *w, uint32_t tensor, uint32_t to, mr_op op)
{
    uint32_t *in = MR_NEW_N(w->s->ctx, uint32_t, w->at->parts);
    for (w->part = 0; w->part < w->at->parts; w->part++) in[w->part] = slices_place(w, tensor);
    op.in = (mr_ids){in, w->at->parts};
    op.out = mr_ids_of(w->s->ctx, 1, &to);
    op.read = op.written = made_at(w, to)->bytes;
    op.joins = true;
    const uint32_t o = mr_rewrite_new_op(&w->s->r, &op);
    for (w->part = w->at->parts; w->part-- > 0;)
        if (w->s->dropped[tensor] != MR_NONE)
            mr_rewrite_drop(&w->s->r, NULL, slices_place(w, tensor));
    return o;
}

/* A tensor of as many numbers as there are slices. */
static uint32_t stack_of(slice_writer *w, uint32_t like)
{
    mr_rewrite *r = &w->s->r;
    const uint64_t bytes = made_at(w, like)->bytes * w->at->parts;
    const uint32_t t = mr_rewrite_new_tensor(
        r, like, mr_rewrite_new_storage(r, made_at(w, like)->storage, bytes));
    uint64_t *shape = MR_NEW_N(w->s->ctx, uint64_t, 1);
    shape[0] = w->at->parts;
    made_at(w, t)->rank = 1;
    made_at(w, t)->shape = shape;
    return t;
}

/* The loss: a mean of means. */
static void join_losses(slice_writer *w)
{
    const uint32_t stack = stack_of(w, w->at->result);
    slices_around(w)->join =
        join(w, w->at->result, stack, new_op(w, "aten::stack", MR_FORWARD, MR_NONE));
    const mr_op as = new_op(w, "aten::mean", MR_FORWARD, MR_NONE);
    slices_around(w)->mean = mr_rewrite_move(&w->s->r, stack, w->at->result, &as);
    mr_rewrite_drop(&w->s->r, NULL, stack);
}

/* Its gradient: a share for each. */
static void cut_loss_gradient(slice_writer *w, uint32_t tensor)
{
    mr_rewrite *r = &w->s->r;
    const uint32_t divided = stack_of(w, tensor);
    mr_op as = new_op(w, "aten::div", MR_BACKWARD, slices_around(w)->mean);
    mr_rewrite_move(r, tensor, divided, &as);
    for (w->part = 0; w->part < w->at->parts; w->part++) {
        slices_put(w, tensor, made_at(w, divided)->storage);
        made_at(w, slices_place(w, tensor))->offset = w->part * tensor_at(w, tensor)->bytes;
    }
    const uint32_t o =
        cut(w, tensor, new_op(w, "aten::select", MR_BACKWARD, slices_around(w)->join));
    r->out->ops.at[o].in = mr_ids_of(w->s->ctx, 1, &divided);
}

/* ---- gradients --------------------------------------------------------------------------- */

/* Adds the slice's summand to those of the slices behind. */
static void add_up(slice_writer *w, const slice_result *result)
{
    mr_rewrite *r = &w->s->r;
    const uint32_t mine = slices_place(w, result->tensor), last = w->at->parts - 1;
    if (w->part == last) return;
    const bool fresh = result->viewed && w->part + 1 == last;
    uint32_t both[] = {result->tensor, mine};
    mr_op add = new_op(w, fresh ? "aten::add" : "aten::add_", MR_BACKWARD, MR_NONE);
    if (fresh) {
        w->part++;
        both[0] = slices_place(w, result->tensor);
        w->part--;
        add.out = mr_ids_of(w->s->ctx, 1, &result->tensor);
    } else {
        add.mutates = mr_ids_of(w->s->ctx, 1, &result->tensor);
    }
    add.in = mr_ids_of(w->s->ctx, 2, both);
    add.read = 2 * tensor_at(w, result->tensor)->bytes;
    add.written = tensor_at(w, result->tensor)->bytes;
    add.sums = true;
    mr_rewrite_new_op(r, &add);
}

static void finish(slice_writer *w, uint32_t o)
{
    for (uint32_t i = 0; i < w->at->results.n; i++)
        if (w->at->results.at[i].last == o
            && slices_cut(w->s, w->region, w->at->results.at[i].tensor).kind == SLICE_SUMMAND)
            add_up(w, &w->at->results.at[i]);
}

/* Where nothing stands in the way, the last slice's summand is where the sum will be. */
static void place_sums(slice_writer *w)
{
    w->part = w->at->parts - 1;
    for (uint32_t i = 0; i < w->at->results.n; i++) {
        const slice_result *result = &w->at->results.at[i];
        if (slices_cut(w->s, w->region, result->tensor).kind == SLICE_SUMMAND
            && !result->viewed)
            *slices_home_of(w, tensor_at(w, result->tensor)->storage) =
                tensor_at(w, result->tensor)->storage;
    }
}

static void join_gradients(slice_writer *w)
{
    for (uint32_t i = 0; i < w->at->results.n; i++) {
        const uint32_t t = w->at->results.at[i].tensor;
        if (slices_cut(w->s, w->region, t).kind != SLICE_ROWS) continue;
        join(w, t, t, new_op(w, "aten::cat", MR_BACKWARD, slices_around(w)->cut));
    }
}

/* ---- a region ---------------------------------------------------------------------------- */

static bool is_kept(const slice_writer *w, uint32_t tensor)
{
    if (!w->gone[tensor]) return true;
    const slice_region *r = &w->s->all.at[w->s->owner[w->s->maker[tensor]]];
    if (tensor == r->result) return true;
    for (uint32_t i = 0; i < r->results.n; i++)
        if (r->results.at[i].tensor == tensor) return true;
    return false;
}

/* What others do among the gradients, as casting those that all slices have added to, they do
 * when the last of the slices gets there; variables end there too. */
static bool is_among(const slice_writer *w, uint32_t e)
{
    const mr_event event = w->s->in->events.at[e];
    if (w->part || w->at->back == MR_NONE || e < w->at->back || e >= w->at->back_end)
        return false;
    return event.kind == MR_DROP ? is_kept(w, event.id)
                                 : event.kind == MR_RUN && w->s->owner[event.id] == MR_NONE;
}

static void do_slice(slice_writer *w, uint32_t begin, uint32_t end)
{
    for (uint32_t e = begin; e < end; e++) {
        const mr_event event = w->s->in->events.at[e];
        if (is_among(w, e)) {
            mr_rewrite_keep(&w->s->r, NULL, e);
            w->done[e] = true;
            continue;
        }
        if (event.kind == MR_DROP && !is_result(w, event.id)) drop(w, event.id);
        if (event.kind != MR_RUN || w->s->owner[event.id] != w->region) continue;
        run(w, event.id);
        if (w->s->in->ops.at[event.id].phase == MR_BACKWARD) finish(w, event.id);
    }
}

static void forget_copies(slice_writer *w)
{
    for (uint32_t i = 0; i < w->at->tensors.n; i++)
        w->copied[w->at->tensors.at[i].tensor] = MR_NONE;
}

static void write_forward(slice_writer *w, regions *pieces)
{
    forget_copies(w);
    for (uint32_t i = 0; i < w->at->sliced.n; i++) {
        const uint32_t o =
            cut(w, w->at->sliced.at[i], new_op(w, "aten::split", MR_FORWARD, MR_NONE));
        if (!i) slices_around(w)->cut = o;
    }
    for (w->part = 0; w->part < w->at->parts; w->part++) {
        stretch piece = {.begin = w->s->r.out->events.n};
        do_slice(w, w->at->begin, w->at->end);
        piece.end = w->s->r.out->events.n;
        while (w->s->r.out->events.at[piece.end - 1].kind != MR_RUN) piece.end--;
        piece.name = mr_printf(w->s->ctx, "slice %u of %s", w->part + 1, w->at->name);
        MR_PUSH(w->s->ctx, pieces, piece);
        drop_late(w, w->at->begin, w->at->end);
    }
    if (slices_cut(w->s, w->region, w->at->result).kind == SLICE_SUMMAND) join_losses(w);
    else
        slices_around(w)->join =
            join(w, w->at->result, w->at->result, new_op(w, "aten::cat", MR_FORWARD, MR_NONE));
}

static void write_backward(slice_writer *w)
{
    forget_copies(w);
    for (uint32_t i = 0; i < w->at->gradients.n; i++) {
        const uint32_t t = w->at->gradients.at[i];
        if (slices_cut(w->s, w->region, t).dim == MR_NONE) cut_loss_gradient(w, t);
        else cut(w, t, new_op(w, "aten::slice", MR_BACKWARD, slices_around(w)->join));
    }
    place_sums(w);
    for (w->part = w->at->parts; w->part-- > 0;) {
        do_slice(w, w->at->back, w->at->back_end);
        drop_late(w, w->at->back, w->at->back_end);
    }
    join_gradients(w);
}

/* ---- the whole step ---------------------------------------------------------------------- */

/* Tensors that only slices have now: what others do with them, they do not. */
static void find_gone(slice_writer *w)
{
    for (uint32_t i = 0; i < w->s->all.n; i++) {
        const slice_region *r = &w->s->all.at[i];
        for (uint32_t k = 0; k < r->tensors.n && !r->refused; k++) {
            const slice_tensor *t = &r->tensors.at[k];
            const uint32_t maker = w->s->maker[t->tensor];
            const bool mine = w->s->home[tensor_at(w, t->tensor)->storage] != MR_NONE;
            if (maker == MR_NONE || w->s->owner[maker] != i) continue;
            if (mine || t->cut.kind == SLICE_ROWS) w->gone[t->tensor] = true;
        }
    }
}

static void take_up(slice_writer *w, uint32_t region)
{
    w->region = region;
    w->at = &w->s->all.at[region];
    slices_writer_take_up(w);
}

void slices_write(slices *s, regions *pieces)
{
    slice_writer *w = MR_NEW(s->ctx, slice_writer);
    slices_writer_begin(w, s);
    find_gone(w);
    for (uint32_t e = 0; e < s->in->events.n; e++) {
        const mr_event event = s->in->events.at[e];
        const uint32_t region = event.kind == MR_RUN ? s->owner[event.id] : MR_NONE;
        if (region != MR_NONE) {
            if (w->region != region) take_up(w, region);
            if (e == w->at->begin) write_forward(w, pieces);
            if (e == w->at->back) write_backward(w);
        } else if (!w->done[e] && (event.kind != MR_DROP || is_kept(w, event.id))) {
            mr_rewrite_keep(&s->r, NULL, e);
        }
    }
}
