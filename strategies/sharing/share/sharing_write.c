/* sharing_write -- the step with one parameter, gradient and state for all who share. */
#include "sharing.h"

#include <string.h>

typedef struct sum {   /* gradient of a parameter that stays: what has arrived so far */
    uint32_t tensor;   /* of `out`; MR_NONE: nothing */
    uint32_t gradient; /* storage of `in` that it was, before it was shared; MR_NONE */
    bool alone;        /* in memory of its own: the next one can be added in place */
} sum;

typedef struct writer {
    sharing s;
    mr_rewrite r;
    mr_where where;
    sum *sums;              /* by storage of a parameter */
    uint32_t *final;        /* by storage: last tensor of a gradient, MR_NONE */
    bool *view;             /* by storage: whether that is a view of what the first op made */
    uint32_t *first, *next; /* gradients finished by an op: the first, and for each the next */
    MR_VEC(uint32_t) left_out; /* ops */
} writer;

static const mr_tensor *tensor_at(const writer *w, uint32_t t)
{
    return &w->r.in->tensors.at[t];
}

/* ---- gradients
 * ------------------------------------------------------------------------------- */

/* The parameter that a storage belongs to after sharing, MR_NONE when nobody shares it. */
static uint32_t shared_owner(const writer *w, uint32_t storage)
{
    const uint32_t owner = w->s.owner[storage];
    if (owner == MR_NONE) return MR_NONE;
    return w->s.shared[w->s.lender[owner]] ? w->s.lender[owner] : MR_NONE;
}

static bool is_gradient(const writer *w, uint32_t storage)
{
    const mr_storage *home = &w->r.in->storages.at[storage];
    return home->role == MR_ROLE_gradient && !home->before
           && shared_owner(w, storage) != MR_NONE;
}

static void see(writer *w, uint32_t *last, mr_ids ids, uint32_t op)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = tensor_at(w, ids.at[i])->storage;
        if (!is_gradient(w, s)) continue;
        last[s] = op;
        w->final[s] = ids.at[i];
        w->view[s] = w->r.birth[s] != op;
    }
}

/* A gradient is finished by the last op of the backward pass that writes it or makes a view. */
static void find_gradients(writer *w)
{
    const mr_trace *in = w->r.in;
    uint32_t *last = mr_none_of(w->r.ctx, in->storages.n);
    w->final = mr_none_of(w->r.ctx, in->storages.n);
    w->view = MR_NEW_N(w->r.ctx, bool, in->storages.n);
    w->first = mr_none_of(w->r.ctx, in->ops.n);
    w->next = mr_none_of(w->r.ctx, in->storages.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        const mr_op *op = &in->ops.at[o];
        if (op->phase != MR_BACKWARD) continue;
        see(w, last, op->in, o);
        see(w, last, op->mutates, o);
        see(w, last, op->out, o);
    }
    for (uint32_t s = in->storages.n; s-- > 0;) {
        if (last[s] == MR_NONE) continue;
        w->next[s] = w->first[last[s]];
        w->first[last[s]] = s;
    }
}

/* As the autograd engine does: into the first one, if nobody else looks at its memory. */
static void add(writer *w, sum *held, uint32_t more, uint32_t o)
{
    const mr_op *as = &w->r.in->ops.at[o];
    const uint32_t both[] = {held->tensor, more};
    const uint64_t bytes = w->r.out->tensors.at[more].bytes;
    uint32_t to = held->tensor;
    if (!held->alone)
        to = mr_rewrite_new_tensor(
            &w->r, held->tensor,
            mr_rewrite_new_storage(&w->r, tensor_at(w, more)->storage, bytes));
    const mr_ids written = mr_ids_of(w->r.ctx, 1, &to);
    const mr_op op = {
        .name = held->alone ? "aten::add_" : "aten::add",
        .module = as->module,
        .call = as->call,
        .stream = as->stream,
        .phase = MR_BACKWARD,
        .again = MR_NONE,
        .of = MR_NONE,
        .read = 2 * bytes,
        .written = bytes,
        .in = mr_ids_of(w->r.ctx, 2, both),
        .out = held->alone ? (mr_ids){0} : written,
        .mutates = held->alone ? written : (mr_ids){0},
    };
    mr_rewrite_new_op(&w->r, &op);
    held->tensor = to;
    held->alone = true;
}

static void arrive(writer *w, uint32_t s, uint32_t o)
{
    sum *held = &w->sums[shared_owner(w, s)];
    if (w->s.owner[s] == shared_owner(w, s)) held->gradient = s;
    w->r.out->storages.at[s].after = false;
    if (held->tensor != MR_NONE) {
        add(w, held, w->final[s], o);
        return;
    }
    held->tensor = w->final[s];
    held->alone = !w->view[s];
}

/* When the backward pass is over, the sum is the gradient of the parameter that stays. */
static void settle_sums(writer *w)
{
    for (uint32_t p = 0; p < w->r.in->storages.n; p++) {
        const sum *held = &w->sums[p];
        if (held->tensor == MR_NONE || held->gradient == MR_NONE) continue;
        const uint32_t home = w->r.out->tensors.at[held->tensor].storage;
        w->where.storage[held->gradient] = home;
        w->r.out->storages.at[home].after = w->r.in->storages.at[held->gradient].after;
        w->r.out->storages.at[home].role = MR_ROLE_gradient;
    }
}

/* ---- the update
 * ------------------------------------------------------------------------------ */

static bool concerns(const writer *w, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (shared_owner(w, tensor_at(w, ids.at[i])->storage) != MR_NONE) return true;
    return false;
}

/* Without what is gone; `old` gets the same tensors as the input knows them. */
static mr_ids without(writer *w, mr_ids ids, mr_ids *old, uint64_t *bytes)
{
    mr_ids left = {MR_NEW_N(w->r.ctx, uint32_t, ids.n), 0};
    *old = (mr_ids){MR_NEW_N(w->r.ctx, uint32_t, ids.n), 0};
    for (uint32_t i = 0; i < ids.n; i++) {
        if (sharing_is_gone(&w->s, tensor_at(w, ids.at[i])->storage)) {
            *bytes += tensor_at(w, ids.at[i])->bytes;
            continue;
        }
        old->at[old->n++] = ids.at[i];
        left.at[left.n++] = mr_rewrite_tensor(&w->r, &w->where, ids.at[i]);
    }
    return left;
}

static mr_ids joined(mr_ctx *ctx, mr_ids x, mr_ids y)
{
    mr_ids both = {MR_NEW_N(ctx, uint32_t, x.n + y.n), x.n + y.n};
    if (x.n) memcpy(both.at, x.at, x.n * sizeof *x.at);
    if (y.n) memcpy(both.at + x.n, y.at, y.n * sizeof *y.at);
    return both;
}

static uint64_t less(uint64_t bytes, uint64_t missing)
{
    return missing < bytes ? bytes - missing : 0;
}

/* A shorter op in its place; none where all it works on is gone. */
static void update(writer *w, uint32_t o)
{
    const mr_op *whole = &w->r.in->ops.at[o];
    mr_op op = *whole;
    mr_ids in, out, mutates;
    uint64_t read = 0, made = 0, changed = 0;
    op.in = without(w, whole->in, &in, &read);
    op.out = without(w, whole->out, &out, &made);
    op.mutates = without(w, whole->mutates, &mutates, &changed);
    if ((whole->out.n || whole->mutates.n) && !op.out.n && !op.mutates.n) {
        MR_PUSH(w->r.ctx, &w->left_out, o);
        return;
    }
    op.read = less(whole->read, read);
    op.written = less(whole->written, made + changed);
    const uint32_t added = mr_rewrite_new_op(&w->r, &op);
    const mr_stand_in stand = {added, mr_ids_of(w->r.ctx, 1, &o),
                               joined(w->r.ctx, op.out, op.mutates),
                               joined(w->r.ctx, out, mutates)};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

/* ---- event by event
 * -------------------------------------------------------------------------- */

static void run(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    if (op->phase == MR_UPDATE
        && (concerns(w, op->in) || concerns(w, op->out) || concerns(w, op->mutates))) {
        update(w, o);
        return;
    }
    mr_rewrite_run(&w->r, &w->where, o);
    for (uint32_t s = w->first[o]; s != MR_NONE; s = w->next[s]) arrive(w, s, o);
}

static mr_status check(writer *w, uint32_t *last)
{
    const mr_trace *in = w->r.in;
    bool updated = false;
    *last = 0;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        const char *why = NULL;
        updated |= op->phase == MR_UPDATE;
        if (op->phase == MR_BACKWARD) *last = e;
        if (op->phase == MR_BACKWARD && updated)
            why = "updates parameters before all gradients are there";
        if (op->part) why = "is done in parts: share parameters before that";
        for (uint32_t i = 0; i < op->in.n && op->phase == MR_UPDATE; i++) {
            const uint32_t s = tensor_at(w, op->in.at[i])->storage;
            if (in->storages.at[s].before && in->storages.at[s].role == MR_ROLE_gradient)
                why = "keeps gradients from one step to the next";
        }
        if (why)
            return mr_fail(w->r.ctx, MR_EUNSUPPORTED,
                           "'%s' %s, expected a step whose update reads gradients of its own"
                           " backward pass",
                           in->name, why);
    }
    return MR_OK;
}

/* What is gone is not there before the step either. */
static void take_away(writer *w)
{
    for (uint32_t s = 0; s < w->r.in->storages.n; s++) {
        mr_storage *home = &w->r.out->storages.at[s];
        if (!sharing_is_gone(&w->s, s)) continue;
        const uint32_t lender = w->s.lender[w->s.owner[s]];
        if (w->s.owner[s] == s) w->where.storage[s] = lender;
        home->before = home->after = false;
    }
}

/* State of a parameter that is gone is that of the one that stays, in the order of their names.
 */
static void tell_the_referee(writer *w)
{
    const uint32_t n = w->r.in->storages.n;
    uint32_t *count = MR_NEW_N(w->r.ctx, uint32_t, n), *last = mr_none_of(w->r.ctx, n);
    uint32_t *before = mr_none_of(w->r.ctx, n); /* the one before among those of an owner */
    uint32_t *place = MR_NEW_N(w->r.ctx, uint32_t, n);
    for (uint32_t s = 0; s < n; s++) {
        const uint32_t owner = w->s.owner[s];
        if (owner == MR_NONE || !w->r.in->storages.at[s].before) continue;
        before[s] = last[owner];
        place[s] = count[owner]++;
        last[owner] = s;
    }
    for (uint32_t p = 0; p < n; p++) {
        if (w->s.lender[p] == p) continue;
        uint32_t kept = last[w->s.lender[p]], gone = last[p];
        while (kept != MR_NONE && gone != MR_NONE) {
            const mr_shared pair = {kept, gone};
            MR_PUSH(w->r.ctx, &w->r.out->shared, pair);
            kept = before[kept];
            gone = before[gone];
        }
    }
}

mr_status sharing_rewrite(mr_ctx *ctx, const mr_trace *in, const sharing_choice *choice,
                          mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    uint32_t last;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    mr_where_init(&w->r, &w->where);
    w->s.ctx = ctx;
    w->s.in = in;
    MR_TRY(sharing_find(&w->s, choice));
    sharing_own(&w->s);
    MR_TRY(check(w, &last));
    find_gradients(w);
    w->sums = MR_NEW_N(ctx, sum, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++) w->sums[s] = (sum){MR_NONE, MR_NONE, false};
    take_away(w);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        const bool drops = event.kind == MR_DROP;
        if (event.kind == MR_RUN) run(w, event.id);
        else if (!drops || !sharing_is_gone(&w->s, tensor_at(w, event.id)->storage))
            mr_rewrite_keep(&w->r, &w->where, e);
        if (e == last) settle_sums(w);
    }
    const mr_stand_in nobody = {.op = MR_NONE, .ops = {w->left_out.at, w->left_out.n}};
    if (w->left_out.n) MR_PUSH(ctx, &out->stand_ins, nobody);
    tell_the_referee(w);
    return MR_OK;
}
