/* inplace_abn -- see the header. */
#include "inplace_abn.h"

#include "paths.h"

#include <string.h>

static const mr_op *op_at(const inplace_abn *a, uint32_t o)
{
    return &a->r->in->ops.at[o];
}

static uint32_t storage_of(const inplace_abn *a, uint32_t tensor)
{
    return a->r->in->tensors.at[tensor].storage;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static bool is_norm(const mr_op *op)
{
    return op->phase == MR_FORWARD && strstr(op->name, "batch_norm") && op->in.n
           && op->out.n > 2;
}

static bool is_activation(const inplace_abn *a, const mr_op *op)
{
    return !strcmp(op->name, "aten::leaky_relu") || !strcmp(op->name, "aten::elu")
           || (a->relu && !strcmp(op->name, "aten::relu"));
}

/* The one op of the forward pass that reads what a norm gives. */
static uint32_t reader_of(const inplace_abn *a, uint32_t norm)
{
    uint32_t found = MR_NONE;
    uint32_t u = a->facts->readers[storage_of(a, op_at(a, norm)->out.at[0])];
    for (; u != MR_NONE; u = a->facts->uses.at[u].next) {
        const uint32_t o = a->facts->uses.at[u].op;
        if (op_at(a, o)->phase != MR_FORWARD) continue;
        if (found != MR_NONE) return MR_NONE;
        found = o;
    }
    return found;
}

/* Who but these reads or saves a storage?  MR_NONE for nobody. */
static uint32_t other_user(const inplace_abn *a, const uint32_t *first, uint32_t storage,
                           uint32_t one, uint32_t two)
{
    for (uint32_t u = first[storage]; u != MR_NONE; u = a->facts->uses.at[u].next)
        if (a->facts->uses.at[u].op != one && a->facts->uses.at[u].op != two)
            return a->facts->uses.at[u].op;
    return MR_NONE;
}

static const char *told(const inplace_abn *a, uint32_t o, const char *what)
{
    const mr_op *op = op_at(a, o);
    return mr_printf(a->r->ctx, "%s%s%s %s", op->name, *op->module ? " of " : "", op->module,
                     what);
}

static const char *refusal(const inplace_abn *a, uint32_t norm, uint32_t activation)
{
    const uint32_t x = storage_of(a, op_at(a, norm)->in.at[0]);
    const uint32_t y = storage_of(a, op_at(a, norm)->out.at[0]);
    const uint32_t back = a->gradient[norm], back_2 = a->gradient[activation];
    if (a->facts->runs_again[norm] || op_at(a, norm)->again != MR_NONE)
        return "it runs again: inplace comes before what recomputes";
    if (back == MR_NONE || back_2 == MR_NONE) return "its gradient is not one op";
    const mr_tensor *z = &a->r->in->tensors.at[op_at(a, activation)->out.at[0]];
    if (z->bytes != a->r->in->storages.at[z->storage].bytes)
        return "what that gives is a part of something: inplace comes before skip_reuse";
    const char *why = inplace_refuse_memory(a->facts, op_at(a, norm), op_at(a, norm)->in.at[0]);
    if (why) return why;
    uint32_t other = other_user(a, a->facts->readers, x, norm, back);
    if (other != MR_NONE) return told(a, other, "reads what it normalizes");
    other = other_user(a, a->facts->savers, x, norm, norm);
    if (other != MR_NONE) return told(a, other, "saved what it normalizes");
    other = other_user(a, a->facts->readers, y, activation, back_2);
    return other == MR_NONE ? NULL : told(a, other, "reads what it gives");
}

static void pair_up(inplace_abn *a, uint32_t norm, uint32_t activation)
{
    const mr_op *op = op_at(a, norm);
    a->pairs++;
    a->replaced += !strcmp(op_at(a, activation)->name, "aten::relu");
    a->activation[norm] = activation;
    a->norm[a->gradient[norm]] = norm;
    a->skipped[activation] = a->skipped[a->gradient[activation]] = true;
    a->gone[op->out.at[0]] = true;
    for (uint32_t i = 3; i < op->out.n; i++) a->gone[op->out.at[i]] = true;
}

static void try(inplace_abn *a, uint32_t o)
{
    const uint32_t activation = reader_of(a, o);
    if (activation == MR_NONE || !is_activation(a, op_at(a, activation))) return;
    const char *why = refusal(a, o, activation);
    if (!why) pair_up(a, o, activation);
    else
        mr_rewrite_remark(a->r, "inplace does not join %s of %s with %s, because %s",
                          op_at(a, o)->name, op_at(a, o)->module, op_at(a, activation)->name,
                          why);
}

void inplace_abn_begin(inplace_abn *a, const char *module)
{
    const mr_trace *in = a->r->in;
    mr_ctx *ctx = a->r->ctx;
    a->activation = mr_none_of(ctx, in->ops.n);
    a->norm = mr_none_of(ctx, in->ops.n);
    a->gradient = mr_none_of(ctx, in->ops.n);
    a->fused = mr_none_of(ctx, in->ops.n);
    a->skipped = MR_NEW_N(ctx, bool, in->ops.n);
    a->gone = MR_NEW_N(ctx, bool, in->tensors.n);
    bool *several = MR_NEW_N(ctx, bool, in->ops.n);
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const uint32_t of = in->ops.at[o].of;
        if (of == MR_NONE) continue;
        several[of] |= a->gradient[of] != MR_NONE;
        a->gradient[of] = several[of] ? MR_NONE : o;
    }
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (is_norm(op_at(a, o)) && (!*module || mr_path_match(module, op_at(a, o)->module)))
            try(a, o);
    if (a->replaced)
        mr_rewrite_remark(a->r,
                          "inplace puts leaky_relu in place of relu %s, since relu has no"
                          " inverse: a model to be trained so",
                          mr_show_count(a->r->ctx, a->replaced, "time", "times"));
}

/* ---- the change -------------------------------------------------------------------------- */

static void stand_in(inplace_abn *a, uint32_t op, uint32_t one, uint32_t two, mr_ids gives)
{
    const uint32_t both[] = {one, two};
    const mr_stand_in stand = {op, mr_ids_of(a->r->ctx, 2, both), gives, gives};
    MR_PUSH(a->r->ctx, &a->r->out->stand_ins, stand);
}

/* What the norm saved but for what it read, and the result. */
static void save(inplace_abn *a, const mr_op *norm, uint32_t z, mr_op *op)
{
    const uint32_t x = storage_of(a, norm->in.at[0]);
    op->saved.at = MR_NEW_N(a->r->ctx, mr_saved, norm->saved.n + 1);
    op->saved.n = 0;
    op->saved.at[op->saved.n++] = (mr_saved){z, MR_SAVED_OUTPUT};
    for (uint32_t i = 0; i < norm->saved.n; i++) {
        const uint32_t t = norm->saved.at[i].tensor;
        if (storage_of(a, t) != x && !a->gone[t])
            op->saved.at[op->saved.n++] = norm->saved.at[i];
    }
}

/* It goes twice over what it reads: for mean and deviation, then in place. */
static void run_forward(inplace_abn *a, uint32_t o)
{
    const mr_op *norm = op_at(a, o), *activation = op_at(a, a->activation[o]);
    const uint32_t x = norm->in.at[0], z = activation->out.at[0];
    const uint64_t bytes = a->r->in->tensors.at[x].bytes;
    a->home[storage_of(a, z)] = a->home[storage_of(a, x)];
    a->r->out->storages.at[a->home[storage_of(a, x)]].role = MR_ROLE_activation;
    mr_op op = *norm;
    op.name = "inplace_abn::forward";
    op.part = op.origin = 0; /* something new, whatever of it the norm was a part of */
    op.flops = norm->flops + activation->flops;
    op.flops_per_sample = norm->flops_per_sample + activation->flops_per_sample;
    op.ns = norm->ns;
    op.read = norm->read + bytes;
    op.out = mr_ids_of(a->r->ctx, 2, norm->out.at + 1);
    op.mutates.at = MR_NEW_N(a->r->ctx, uint32_t, norm->mutates.n + 1);
    op.mutates.at[0] = z;
    op.mutates.n = norm->mutates.n + 1;
    for (uint32_t i = 0; i < norm->mutates.n; i++) op.mutates.at[i + 1] = norm->mutates.at[i];
    save(a, norm, z, &op);
    a->fused[o] = mr_rewrite_new_op(a->r, &op);
    const uint32_t gives[] = {z, norm->out.at[1], norm->out.at[2]};
    stand_in(a, a->fused[o], o, a->activation[o], mr_ids_of(a->r->ctx, 3, gives));
}

/* The gradient that the activation's gradient read, in place of what that gave. */
static uint32_t incoming(const inplace_abn *a, uint32_t activation)
{
    return op_at(a, a->gradient[activation])->in.at[0];
}

/* What the gradient makes beside what the norm's made: room for its input before scale and
 * shift, which one kernel finds again from the result, and another one reads. */
static mr_ids gradients(inplace_abn *a, uint32_t x, mr_ids made)
{
    const uint64_t bytes = a->r->in->tensors.at[x].bytes;
    const uint32_t s = mr_rewrite_new_storage(a->r, storage_of(a, x), bytes);
    mr_ids out = {MR_NEW_N(a->r->ctx, uint32_t, made.n + 1), made.n + 1};
    memcpy(out.at, made.at, made.n * sizeof *made.at);
    out.at[made.n] = mr_rewrite_new_tensor(a->r, x, s);
    a->r->out->storages.at[s].role = MR_ROLE_temporary;
    return out;
}

/* Reads the result instead of what the norm read, and neither what it put aside. */
static void run_backward(inplace_abn *a, uint32_t o)
{
    const uint32_t norm = a->norm[o], activation = a->activation[norm];
    const mr_op *whole = op_at(a, o), *first = op_at(a, a->gradient[activation]);
    mr_op op = *whole;
    op.name = "inplace_abn::backward";
    op.part = op.origin = 0;
    op.of = a->fused[norm];
    op.flops = whole->flops + first->flops;
    op.in.at = MR_NEW_N(a->r->ctx, uint32_t, whole->in.n + 2);
    op.in.n = 0;
    op.in.at[op.in.n++] = op_at(a, activation)->out.at[0];
    op.in.at[op.in.n++] = incoming(a, activation);
    for (uint32_t i = 0; i < whole->in.n; i++) {
        const uint32_t t = whole->in.at[i];
        const bool mine = storage_of(a, t) == storage_of(a, op_at(a, norm)->in.at[0])
                          || storage_of(a, t) == storage_of(a, first->out.at[0]);
        if (!mine && !a->gone[t]) op.in.at[op.in.n++] = t;
    }
    const uint32_t x = op_at(a, norm)->in.at[0];
    const uint64_t bytes = a->r->in->tensors.at[x].bytes;
    op.out = gradients(a, x, whole->out);
    op.read += 2 * bytes;    /* by the other kernel: that and the gradient, ... */
    op.written += 2 * bytes; /* ... which it changes in place */
    const uint32_t added = mr_rewrite_new_op(a->r, &op);
    stand_in(a, added, a->gradient[activation], o, whole->out);
}

bool inplace_abn_run(inplace_abn *a, uint32_t o)
{
    if (a->activation[o] != MR_NONE) run_forward(a, o);
    else if (a->norm[o] != MR_NONE) run_backward(a, o);
    else return a->skipped[o];
    return true;
}
