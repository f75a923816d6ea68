/* slices_find -- stretches of the forward pass that can be cut by tokens or queries. */
#include "slices.h"

#include <string.h>

static const char views[] = "view _unsafe_view reshape _reshape_alias expand transpose permute "
                            "t unsqueeze select slice"
                            " split chunk";
static const char copies[] = "clone contiguous _to_copy";
static const char activations[] = "gelu silu relu gelu_ silu_ relu_ tanh elu leaky_relu";

static void note_maker(slices *s, mr_ids made, uint32_t o)
{
    for (uint32_t k = 0; k < made.n; k++)
        if (s->maker[made.at[k]] == MR_NONE) s->maker[made.at[k]] = o;
}

/* Under autocast, which keeps the casts of parameters. */
static void find_shared(slices *s)
{
    const char *precision = s->in->about[MR_ABOUT_precision];
    s->shared = MR_NEW_N(s->ctx, bool, s->in->ops.n);
    if (!precision || strncmp(precision, "amp", 3) != 0) return;
    for (uint32_t o = 0; o < s->in->ops.n; o++) {
        const mr_op *op = &s->in->ops.at[o];
        if (op->phase != MR_FORWARD || op->in.n != 1 || !slices_is(op, "_to_copy")) continue;
        const uint32_t from = s->in->tensors.at[op->in.at[0]].storage;
        s->shared[o] = s->in->storages.at[from].role == MR_ROLE_parameter;
    }
}

void slices_begin(slices *s)
{
    const mr_trace *in = s->in;
    find_shared(s);
    s->owner = mr_none_of(s->ctx, in->ops.n);
    s->place = mr_none_of(s->ctx, in->ops.n);
    s->when = mr_none_of(s->ctx, in->ops.n);
    s->maker = mr_none_of(s->ctx, in->tensors.n);
    s->dropped = mr_none_of(s->ctx, in->tensors.n);
    s->home = mr_none_of(s->ctx, in->storages.n);
    s->number = mr_none_of(s->ctx, in->tensors.n);
    s->known = mr_none_of(s->ctx, in->tensors.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_DROP) s->dropped[event.id] = e;
        if (event.kind != MR_RUN) continue;
        s->when[event.id] = e;
        note_maker(s, in->ops.at[event.id].out, event.id);
        note_maker(s, in->ops.at[event.id].mutates, event.id);
    }
}

/* In the order of the step; what overlaps with another one is left to that. */
static void insert(slices *s, const slice_region *r)
{
    uint32_t i = s->all.n;
    while (i > 0 && s->all.at[i - 1].begin >= r->end) i--;
    if (i > 0 && s->all.at[i - 1].end > r->begin) return;
    const slice_region copy = *r;
    MR_PUSH(s->ctx, &s->all, copy);
    memmove(s->all.at + i + 1, s->all.at + i, (s->all.n - 1 - i) * sizeof copy);
    s->all.at[i] = copy;
}

void slices_add(slices *s, const char *name, uint32_t begin, uint32_t end, uint32_t rows,
                uint32_t dim, uint32_t parts)
{
    const mr_tensor *t = &s->in->tensors.at[rows];
    const uint64_t length = dim < t->rank ? t->shape[dim] : 0;
    slice_region r = {.name = name,
                      .begin = begin,
                      .end = end,
                      .rows = rows,
                      .dim = dim,
                      .back = MR_NONE,
                      .back_end = MR_NONE,
                      .result = MR_NONE,
                      .length = length,
                      .each = (length + parts - 1) / parts,
                      .parts = parts};
    if (t->rank < 3 || length < 2)
        r.refused = "what it reads has no dimension of tokens beside that of samples";
    else if ((length + r.each - 1) / r.each != parts)
        r.refused = mr_printf(s->ctx, "its %s are too few for slices of equal size",
                              mr_show_count(s->ctx, length, "row", "rows"));
    insert(s, &r);
}

/* ---- walking ----------------------------------------------------------------------------- */

static const mr_op *made_by(const slices *s, uint32_t tensor)
{
    const uint32_t o = s->maker[tensor];
    return o == MR_NONE ? NULL : &s->in->ops.at[o];
}

static bool is_forward(const slices *s, uint32_t e)
{
    const mr_event event = s->in->events.at[e];
    return event.kind == MR_RUN && s->in->ops.at[event.id].phase == MR_FORWARD
           && s->in->ops.at[event.id].again == MR_NONE;
}

static const mr_op *op_at(const slices *s, uint32_t e)
{
    return &s->in->ops.at[s->in->events.at[e].id];
}

static bool is_product(const mr_op *op)
{
    return op && slices_is(op, "mm addmm bmm baddbmm");
}

static uint32_t left_side(const mr_op *product)
{
    return product->in.at[slices_is(product, "addmm baddbmm")];
}

/* Back over views and copies made at `begin` or later. */
static uint32_t origin(const slices *s, uint32_t tensor, uint32_t begin)
{
    const mr_op *op;
    while ((op = made_by(s, tensor)) && op->in.n == 1 && s->when[s->maker[tensor]] >= begin
           && (slices_is(op, views) || slices_is(op, copies)) && op->in.at[0] != tensor)
        tensor = op->in.at[0];
    return tensor;
}

/* From a product's event back to the first of the views around it, and of the casts of the same
 * call. */
static uint32_t before_product(const slices *s, uint32_t e)
{
    const mr_op *product = op_at(s, e);
    uint32_t begin = e;
    while (e-- > 0) {
        if (s->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = op_at(s, e);
        const bool cast = slices_is(op, "_to_copy") && op->call == product->call
                          && strcmp(op->module, product->module) == 0;
        if (!is_forward(s, e) || (!cast && !slices_is(op, "view t"))) break;
        begin = e;
    }
    return begin;
}

/* ---- attention --------------------------------------------------------------------------- */

/* Does the op make something for the product, or for what makes something for it? */
static void mark_for(const slices *s, bool *helps, uint32_t o, uint32_t begin)
{
    const mr_ids in = s->in->ops.at[o].in;
    helps[o] = true;
    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t maker = s->maker[in.at[i]];
        if (maker != MR_NONE && !helps[maker] && s->when[maker] >= begin)
            mark_for(s, helps, maker, begin);
    }
}

static void add_attention(slices *s, const stretch *found, bool *helps, uint32_t parts)
{
    uint32_t product = found->begin, begin = found->begin;
    while (s->in->events.at[product].kind != MR_RUN || !is_product(op_at(s, product)))
        product++;
    mark_for(s, helps, s->in->events.at[product].id, begin);
    while (s->in->events.at[begin].kind != MR_RUN || !helps[s->in->events.at[begin].id])
        begin++;
    const uint32_t q = origin(s, left_side(op_at(s, product)), begin);
    const uint32_t rank = s->in->tensors.at[q].rank;
    slices_add(s, found->name, begin, found->end, q, rank < 2 ? 0 : rank - 2, parts);
}

void slices_find_attention(slices *s, uint32_t parts)
{
    regions list = {0};
    bool *helps = MR_NEW_N(s->ctx, bool, s->in->ops.n);
    const mr_failure was = s->ctx->failure;
    if (region_find_attention(s->ctx, s->in, &list)) s->ctx->failure = was;
    for (uint32_t i = 0; i < list.n; i++) add_attention(s, &list.at[i], helps, parts);
}

/* ---- losses ------------------------------------------------------------------------------ */

static void add_loss(slices *s, uint32_t e, uint32_t parts)
{
    uint32_t t = op_at(s, e)->in.at[0];
    const mr_op *op;
    while ((op = made_by(s, t)) && !is_product(op) && op->in.n
           && (slices_is(op, "_log_softmax _to_copy view _unsafe_view div mul")))
        t = op->in.at[0];
    if (!is_product(op)) return;
    const uint32_t begin = before_product(s, s->when[s->maker[t]]);
    const uint32_t x = origin(s, left_side(op), begin);
    const char *name = mr_printf(s->ctx, "the loss after %s", op->module);
    slices_add(s, name, begin, e + 1, x, 1, parts);
}

void slices_find_losses(slices *s, uint32_t parts)
{
    for (uint32_t e = 0; e < s->in->events.n; e++)
        if (is_forward(s, e) && slices_is(op_at(s, e), "nll_loss_forward"))
            add_loss(s, e, parts);
}

/* ---- blocks ------------------------------------------------------------------------------ */

typedef struct block {
    uint32_t begin, end, down; /* events; down: the second product */
    uint32_t x, result;        /* tensors */
    bool *active;              /* by storage: made of the activation's result */
    MR_VEC(uint32_t) made;     /* such storages */
} block;

static uint32_t storage_of(const slices *s, uint32_t tensor)
{
    return s->in->tensors.at[tensor].storage;
}

/* Is it made in the block, what that begins with, or a weight? */
static bool is_at_hand(const slices *s, const block *b, uint32_t tensor)
{
    const uint32_t storage = storage_of(s, tensor), birth = s->r.birth[storage];
    if (s->in->storages.at[storage].before || storage == storage_of(s, b->x)) return true;
    return birth != MR_NONE && s->when[birth] >= b->begin;
}

static bool belongs(const slices *s, const block *b, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (!is_at_hand(s, b, op->in.at[i])) return false;
    return true;
}

static void note_active(slices *s, block *b, uint32_t tensor)
{
    const uint32_t storage = storage_of(s, tensor);
    if (b->active[storage]) return;
    b->active[storage] = true;
    MR_PUSH(s->ctx, &b->made, storage);
}

static void take(slices *s, block *b, uint32_t e)
{
    const mr_op *op = op_at(s, e);
    bool active = slices_is(op, activations);
    for (uint32_t i = 0; i < op->in.n; i++) active |= b->active[storage_of(s, op->in.at[i])];
    for (uint32_t k = 0; active && k < op->out.n; k++) note_active(s, b, op->out.at[k]);
    for (uint32_t k = 0; active && k < op->mutates.n; k++) note_active(s, b, op->mutates.at[k]);
    if (is_product(op) && b->active[storage_of(s, left_side(op))]) b->down = e;
    if (slices_is(op, "view t transpose permute select slice")) return;
    b->end = e + 1;
    if (op->out.n) b->result = op->out.at[0];
}

static void extend(slices *s, block *b)
{
    for (uint32_t e = b->begin; e < s->in->events.n; e++) {
        if (s->in->events.at[e].kind == MR_MARK) return;
        if (s->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = op_at(s, e);
        if (!is_forward(s, e) || !belongs(s, b, op)) return;
        const bool next = is_product(op) || s->shared[s->in->events.at[e].id];
        if (b->down != MR_NONE && next) return;
        take(s, b, e);
    }
}

static bool same_shape(const mr_tensor *x, const mr_tensor *y)
{
    if (x->rank != y->rank) return false;
    return !x->rank || !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape);
}

/* From an activation back to the product that it is of. */
static void add_block(slices *s, block *b, uint32_t e, uint32_t parts)
{
    const uint32_t t = origin(s, op_at(s, e)->in.at[0], 0);
    const mr_op *up = made_by(s, t);
    if (!is_product(up)) return;
    b->begin = before_product(s, s->when[s->maker[t]]);
    b->x = origin(s, left_side(up), b->begin);
    b->down = b->result = MR_NONE;
    b->made.n = 0;
    extend(s, b);
    for (uint32_t i = 0; i < b->made.n; i++) b->active[b->made.at[i]] = false;
    if (b->down == MR_NONE || b->result == MR_NONE) return;
    if (!same_shape(&s->in->tensors.at[b->x], &s->in->tensors.at[b->result])) return;
    const char *name = mr_printf(s->ctx, "the block of %s", up->module);
    slices_add(s, name, b->begin, b->end, b->x, 1, parts);
}

void slices_find_blocks(slices *s, uint32_t parts)
{
    block b = {.active = MR_NEW_N(s->ctx, bool, s->in->storages.n)};
    for (uint32_t e = 0; e < s->in->events.n; e++)
        if (is_forward(s, e) && slices_is(op_at(s, e), activations) && op_at(s, e)->in.n)
            add_block(s, &b, e, parts);
}
