/* attention_write -- the trace with fused kernels in the place of formulas.
 *
 * The kernel writes its result, and the gradients of q, k and v, with the heads of a position
 * side by side: (samples, positions, heads, width) in memory.  So copies that only brought them
 * in this order fall away; a view does.
 */
#include "attention.h"

#include <string.h>

typedef struct writer {
    const attentions *found;
    attention_kernel kernel;
    mr_rewrite r;
    mr_where where;
    uint32_t *forward;    /* by attention: the op of `out` that does it */
    uint32_t (*extra)[3]; /* by attention: log of the sums, and the state of random numbers */
    uint32_t *packed; /* by tensor of `in`: the kernel's result that it is a view of, MR_NONE */
    uint32_t *became; /* by op of `in`: the view that does its work, MR_NONE */
    uint32_t folded;  /* copy that the next op takes over, MR_NONE */
    bool *silent;     /* by tensor: its drop goes */
    uint32_t *with;   /* by tensor: another one that is dropped with it, MR_NONE */
    uint32_t *last_drop;   /* by storage: event */
    uint32_t *until;       /* by storage: event up to which a kernel still wants to read it */
    MR_VEC(uint32_t) late; /* tensors to drop when it has */
    MR_VEC(uint32_t) unneeded;
} writer;

static const mr_tensor *tensor_at(const writer *w, uint32_t t)
{
    return &w->r.in->tensors.at[t];
}

static const mr_op *op_at(const writer *w, uint32_t o)
{
    return &w->r.in->ops.at[o];
}

static const attention *owner_of(const writer *w, uint32_t o)
{
    const uint32_t i = w->found->owner[o];
    return i == MR_NONE || w->found->all.at[i].refused ? NULL : &w->found->all.at[i];
}

/* ---- the kernels
 * ----------------------------------------------------------------------------- */

static bool is_flash(const writer *w, const attention *a)
{
    return attention_is_flash(w->r.in, a, w->kernel);
}

static void stand_in(writer *w, uint32_t op, const uint32_t *ops, uint32_t n, mr_ids gives,
                     mr_ids holds)
{
    const mr_stand_in stand = {op, mr_ids_of(w->r.ctx, n, ops), gives, holds};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

/* What the kernel reads: q, k, v, and the mask where it is passed. */
static uint32_t operands(writer *w, const attention *a, uint32_t *at)
{
    uint32_t n = 0;
    for (; n < ATTENTION_SIDES; n++) at[n] = mr_rewrite_tensor(&w->r, &w->where, a->qkv[n]);
    if (a->mask != MR_NONE && !a->drops) at[n++] = mr_rewrite_tensor(&w->r, &w->where, a->mask);
    return n;
}

static void save_for_backward(writer *w, mr_op *op, const uint32_t *extra)
{
    op->saved.n = op->in.n + 4;
    op->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->in.n; i++)
        op->saved.at[n++] = (mr_saved){op->in.at[i], MR_SAVED_INPUT};
    op->saved.at[n++] = (mr_saved){op->out.at[0], MR_SAVED_OUTPUT};
    for (uint32_t i = 0; i < 3; i++) op->saved.at[n++] = (mr_saved){extra[i], MR_SAVED_OUTPUT};
}

static void run_forward(writer *w, const attention *a)
{
    uint32_t in[4], out[5];
    const uint32_t n = operands(w, a, in), index = (uint32_t)(a - w->found->all.at);
    const mr_op *scores = op_at(w, a->scores), *core = op_at(w, a->core);
    out[0] = a->out;
    const uint32_t results = 1 + attention_extra(&w->r, a, is_flash(w, a), out + 1);
    memcpy(w->extra[index], out + 1, sizeof w->extra[index]);
    mr_op op = {
        .name = is_flash(w, a) ? "aten::_scaled_dot_product_flash_attention"
                               : "aten::_scaled_dot_product_efficient_attention",
        .module = scores->module,
        .call = scores->call,
        .stream = scores->stream,
        .phase = scores->phase,
        .random = true,
        .again = MR_NONE,
        .of = MR_NONE,
        .flops = scores->flops + core->flops,
        .flops_per_sample = scores->flops_per_sample + core->flops_per_sample,
        .read = attention_bytes(&w->r, a, in, n),
        .written = attention_bytes(&w->r, a, out, results),
        .in = mr_ids_of(w->r.ctx, n, in),
        .out = mr_ids_of(w->r.ctx, results, out),
    };
    if (a->backward.n) save_for_backward(w, &op, out + 1);
    w->forward[index] = mr_rewrite_new_op(&w->r, &op);
    w->packed[a->out] = a->out;
    const mr_ids made = mr_ids_of(w->r.ctx, 1, out);
    stand_in(w, w->forward[index], a->forward.at, a->forward.n, made, made);
    for (uint32_t i = results; i-- > 1;) mr_rewrite_drop(&w->r, NULL, out[i]);
}

/* Five products: scores again, gradients of probabilities and of v, of q and of k. */
static void run_backward(writer *w, const attention *a)
{
    uint32_t in[9], out[ATTENTION_SIDES], n = 0, results = 0;
    const uint32_t index = (uint32_t)(a - w->found->all.at);
    const mr_op *scores = op_at(w, a->scores), *core = op_at(w, a->core);
    in[n++] = mr_rewrite_tensor(&w->r, &w->where, a->gradient);
    w->silent[a->gradient] = true; /* held by autograd alone */
    n += operands(w, a, in + n);
    in[n++] = a->out;
    for (uint32_t i = 0; i < 3; i++) in[n++] = w->extra[index][i];
    for (uint32_t i = 0; i < ATTENTION_SIDES; i++)
        if (a->gradients[i] != MR_NONE) out[results++] = a->gradients[i];
    for (uint32_t i = 0; i < results; i++) w->packed[out[i]] = out[i];
    const mr_op op = {
        .name = is_flash(w, a) ? "aten::_scaled_dot_product_flash_attention_backward"
                               : "aten::_scaled_dot_product_efficient_attention_backward",
        .module = scores->module,
        .call = scores->call,
        .stream = scores->stream,
        .phase = MR_BACKWARD,
        .random = !is_flash(w, a),
        .again = MR_NONE,
        .of = w->forward[index],
        .flops = 3 * scores->flops + 2 * core->flops,
        .flops_per_sample = 3 * scores->flops_per_sample + 2 * core->flops_per_sample,
        .read = attention_bytes(&w->r, a, in, n),
        .written = attention_bytes(&w->r, a, out, results),
        .in = mr_ids_of(w->r.ctx, n, in),
        .out = mr_ids_of(w->r.ctx, results, out),
    };
    const uint32_t o = mr_rewrite_new_op(&w->r, &op);
    stand_in(w, o, a->backward.at, a->backward.n, op.out, op.out);
}

/* ---- copies that fall away
 * ------------------------------------------------------------------- */

static bool is_view(const writer *w, uint32_t o)
{
    const mr_op *op = op_at(w, o);
    return op->in.n == 1 && op->out.n && !op->mutates.n
           && tensor_at(w, op->in.at[0])->storage == tensor_at(w, op->out.at[0])->storage;
}

/* Does the shape name positions before heads, or join what is side by side? */
static bool is_in_order(const mr_tensor *t, const mr_tensor *result)
{
    const uint64_t order[] = {result->shape[0], result->shape[2], result->shape[1],
                              result->shape[3]};
    uint32_t d = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint64_t size = 1;
        while (d < 4 && size < t->shape[i]) size *= order[d++];
        if (size != t->shape[i]) return false;
    }
    return d == 4;
}

/* The op that runs after this event, MR_NONE at the end. */
static uint32_t next_op(const writer *w, uint32_t event)
{
    for (uint32_t e = event + 1; e < w->r.in->events.n; e++)
        if (w->r.in->events.at[e].kind == MR_RUN) return w->r.in->events.at[e].id;
    return MR_NONE;
}

static bool falls_away(const writer *w, uint32_t o, uint32_t event)
{
    const mr_op *op = op_at(w, o);
    if (strcmp(op->name, "aten::clone") != 0 || op->in.n != 1 || op->out.n != 1) return false;
    const uint32_t result = w->packed[op->in.at[0]], next = next_op(w, event);
    if (result == MR_NONE || next == MR_NONE || owner_of(w, next) || !is_view(w, next))
        return false;
    return op_at(w, next)->in.at[0] == op->out.at[0]
           && is_in_order(tensor_at(w, op->in.at[0]), tensor_at(w, result));
}

static void fold(writer *w, uint32_t copy)
{
    const mr_op *op = op_at(w, copy);
    const uint32_t from = tensor_at(w, op->in.at[0])->storage;
    w->where.storage[tensor_at(w, op->out.at[0])->storage] = w->where.storage[from];
    w->packed[op->out.at[0]] = w->packed[op->in.at[0]];
    w->silent[op->in.at[0]] = w->silent[op->out.at[0]] = true;
    w->folded = copy;
}

/* The view after a copy becomes a view of what was copied. */
static void take_over(writer *w, uint32_t o)
{
    const mr_op *copy = op_at(w, w->folded), *view = op_at(w, o);
    mr_op op = *view;
    const uint32_t in = mr_rewrite_tensor(&w->r, &w->where, copy->in.at[0]);
    const uint32_t out = mr_rewrite_tensor(&w->r, &w->where, view->out.at[0]);
    op.name = "aten::view";
    op.part = op.origin = 0; /* not the same work */
    op.in = mr_ids_of(w->r.ctx, 1, &in);
    op.out = mr_ids_of(w->r.ctx, 1, &out);
    if (op.of != MR_NONE && w->became[op.of] != MR_NONE) op.of = w->became[op.of];
    const uint32_t both[] = {w->folded, o};
    const uint32_t made = mr_rewrite_new_op(&w->r, &op);
    stand_in(w, made, both, 2, op.out, mr_ids_of(w->r.ctx, 1, view->out.at));
    w->became[w->folded] = w->became[o] = made;
    if (op.phase != MR_BACKWARD) w->with[view->out.at[0]] = copy->in.at[0];
    w->folded = MR_NONE;
}

/* ---- event by event
 * -------------------------------------------------------------------------- */

static void pass_order_on(writer *w, uint32_t o)
{
    const mr_op *op = op_at(w, o);
    if (!is_view(w, o) || w->packed[op->in.at[0]] == MR_NONE) return;
    for (uint32_t k = 0; k < op->out.n; k++) w->packed[op->out.at[k]] = w->packed[op->in.at[0]];
}

static void drop_late(writer *w, uint32_t event)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < w->late.n; i++) {
        const uint32_t t = w->late.at[i];
        if (w->until[tensor_at(w, t)->storage] > event) w->late.at[left++] = t;
        else mr_rewrite_drop(&w->r, &w->where, t);
    }
    w->late.n = left;
}

static void run(writer *w, uint32_t o, uint32_t event)
{
    const attention *a = owner_of(w, o);
    if (w->found->unneeded[o]) {
        MR_PUSH(w->r.ctx, &w->unneeded, o);
    } else if (a) {
        if (a->last == event) {
            run_forward(w, a);
            drop_late(w, event);
        }
        if (a->back == event) run_backward(w, a);
    } else if (w->folded != MR_NONE) {
        take_over(w, o);
        pass_order_on(w, o);
    } else if (falls_away(w, o, event)) {
        fold(w, o);
    } else {
        const uint32_t of = op_at(w, o)->of;
        if (of != MR_NONE && w->became[of] != MR_NONE) w->r.out->ops.at[o].of = w->became[of];
        mr_rewrite_run(&w->r, &w->where, o);
        pass_order_on(w, o);
    }
}

/* Has the tensor gone with the op that made it? */
static bool is_gone(const writer *w, uint32_t t)
{
    const uint32_t o = w->found->maker[t];
    if (w->silent[t]) return true;
    if (o == MR_NONE) return false;
    if (w->found->unneeded[o]) return true;
    const attention *a = owner_of(w, o);
    if (!a || t == a->out) return false;
    for (uint32_t i = 0; i < ATTENTION_SIDES; i++)
        if (t == a->gradients[i]) return false;
    return true;
}

static void drop(writer *w, uint32_t t, uint32_t event)
{
    if (is_gone(w, t)) return;
    const uint32_t s = tensor_at(w, t)->storage;
    if (w->until[s] > event && w->last_drop[s] < w->until[s]) MR_PUSH(w->r.ctx, &w->late, t);
    else mr_rewrite_drop(&w->r, &w->where, t);
    if (w->with[t] != MR_NONE) mr_rewrite_drop(&w->r, &w->where, w->with[t]);
}

static void look_ahead(writer *w)
{
    for (uint32_t i = 0; i < w->found->all.n; i++) {
        const attention *a = &w->found->all.at[i];
        if (a->refused) continue;
        for (uint32_t k = 0; k < ATTENTION_SIDES; k++) {
            uint32_t *until = &w->until[tensor_at(w, a->qkv[k])->storage];
            if (a->last > *until) *until = a->last;
        }
    }
    for (uint32_t e = 0; e < w->r.in->events.n; e++) {
        const mr_event event = w->r.in->events.at[e];
        if (event.kind == MR_DROP) w->last_drop[tensor_at(w, event.id)->storage] = e;
    }
}

static void remark(writer *w)
{
    for (uint32_t i = 0; i < w->found->all.n; i++) {
        const attention *a = &w->found->all.at[i];
        if (a->refused)
            mr_rewrite_remark(&w->r, "the attention in %s stays as it is: %s",
                              op_at(w, a->scores)->module, a->refused);
    }
}

static mr_status check_there_is_one(mr_ctx *ctx, const attentions *found)
{
    for (uint32_t o = 0; o < found->in->ops.n; o++) {
        const uint32_t first = found->in->ops.at[o].again;
        if (first == MR_NONE || found->owner[first] == MR_NONE) continue;
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' recomputes a part of its attention (op %u): fuse it before"
                       " checkpointing, as in sdpa+checkpoint",
                       found->in->name, o);
    }
    const char *why = "no bmm, softmax and bmm follow each other";
    for (uint32_t i = 0; i < found->all.n; i++) {
        if (!found->all.at[i].refused) return MR_OK;
        why = found->all.at[i].refused;
    }
    return mr_fail(ctx, MR_EUNSUPPORTED, "'%s' has no attention that could be fused: %s",
                   found->in->name, why);
}

mr_status attention_fuse(mr_ctx *ctx, const mr_trace *in, attention_kernel kernel,
                         bool without_mask, mr_trace *out)
{
    attentions found;
    writer *w = MR_NEW(ctx, writer);
    MR_TRY(mr_rewrite_before_host(ctx, in, "sdpa"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    attention_find(ctx, in, without_mask, &found);
    MR_TRY(check_there_is_one(ctx, &found));
    w->found = &found;
    w->kernel = kernel;
    w->folded = MR_NONE;
    w->forward = mr_none_of(ctx, found.all.n);
    w->extra = mr_alloc_n(ctx, found.all.n, sizeof *w->extra);
    w->packed = mr_none_of(ctx, in->tensors.n);
    w->became = mr_none_of(ctx, in->ops.n);
    w->with = mr_none_of(ctx, in->tensors.n);
    w->silent = MR_NEW_N(ctx, bool, in->tensors.n);
    w->last_drop = MR_NEW_N(ctx, uint32_t, in->storages.n);
    w->until = MR_NEW_N(ctx, uint32_t, in->storages.n);
    mr_where_init(&w->r, &w->where);
    look_ahead(w);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_RUN) run(w, event.id, e);
        else if (event.kind == MR_DROP) drop(w, event.id, e);
        else mr_rewrite_keep(&w->r, &w->where, e);
    }
    stand_in(w, MR_NONE, w->unneeded.at, w->unneeded.n, (mr_ids){0}, (mr_ids){0});
    remark(w);
    return MR_OK;
}
