/* pointwise -- see the header.
 *
 * A chain is a stretch of the step: its ops, and between them nothing but views of what others
 * have made.  Each op but the first reads what one before it makes, and all of them make
 * tensors of one shape.  The kernel runs where the last of them ran.  Ops of the backward pass
 * join only if what they are the gradients of has become one op too, for that op's savings are
 * let go of together.
 */
#include "pointwise.h"

#include <string.h>

static const char names[] =
    "add sub rsub mul div neg pow rsqrt sqrt exp log tanh sigmoid erf gelu relu silu elu"
    " leaky_relu hardtanh hardswish clamp clamp_min abs where masked_fill clone _to_copy"
    " native_dropout native_dropout_backward gelu_backward silu_backward threshold_backward"
    " tanh_backward sigmoid_backward elu_backward leaky_relu_backward hardtanh_backward"
    " bitwise_not logical_not eq ne ge gt le lt";

typedef struct chain {
    uint32_t first, last; /* events */
    uint32_t of;          /* of the backward pass: chain or op whose gradient it is, MR_NONE */
    uint32_t op;          /* that does it, in `out`; MR_NONE as long as it has not run */
    MR_VEC(uint32_t) ops;
} chain;

typedef struct fuser {
    mr_ctx *ctx;
    const mr_trace *in;
    mr_rewrite r;
    MR_VEC(chain) chains;
    uint32_t *owner; /* by op: chain, MR_NONE */
    bool *fixed;     /* by op: computed again, or does it, so it stays as it is */
    bool *needed;    /* by storage: somebody beside the chain that makes it needs it */
    uint32_t *seen;  /* by tensor: chain that has noted it as an input last, MR_NONE */
} fuser;

static const mr_op *op_at(const fuser *f, uint32_t o)
{
    return &f->in->ops.at[o];
}

static const mr_tensor *tensor_at(const fuser *f, uint32_t t)
{
    return &f->in->tensors.at[t];
}

static uint32_t storage_of(const fuser *f, uint32_t t)
{
    return tensor_at(f, t)->storage;
}

/* ---- one op ------------------------------------------------------------------------------ */

static const char *brief(const mr_op *op)
{
    return strncmp(op->name, "aten::", 6) ? op->name : op->name + 6;
}

static bool is_pointwise(const mr_op *op)
{
    const char *name = brief(op);
    const size_t n = strlen(name);
    for (const char *at = strstr(names, name); at; at = strstr(at + 1, name))
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool same_shape(const mr_tensor *x, const mr_tensor *y)
{
    if (x->rank != y->rank) return false;
    return !x->rank || !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape);
}

/* Makes new tensors of one shape, and nothing else? */
static bool can_join(const fuser *f, uint32_t o)
{
    const mr_op *op = op_at(f, o);
    if (f->fixed[o] || !op->out.n || op->mutates.n || !is_pointwise(op)) return false;
    for (uint32_t k = 0; k < op->out.n; k++)
        if (f->r.birth[storage_of(f, op->out.at[k])] != o
            || !same_shape(tensor_at(f, op->out.at[k]), tensor_at(f, op->out.at[0])))
            return false;
    return true;
}

/* Is it a view of what the chain does not make? */
static bool is_view_beside(const fuser *f, uint32_t index, uint32_t o)
{
    const mr_op *op = op_at(f, o);
    if (op->in.n != 1 || op->mutates.n || op->saved.n) return false;
    const uint32_t s = storage_of(f, op->in.at[0]), birth = f->r.birth[s];
    for (uint32_t k = 0; k < op->out.n; k++)
        if (storage_of(f, op->out.at[k]) != s) return false;
    return birth == MR_NONE || f->owner[birth] != index;
}

/* What its gradient is of, when chains of the forward pass are one op each. */
static uint32_t source_of(const fuser *f, const mr_op *op)
{
    if (op->of == MR_NONE) return MR_NONE;
    return f->owner[op->of] == MR_NONE ? op->of + f->chains.cap : f->owner[op->of];
}

/* ---- chains ------------------------------------------------------------------------------ */

static bool goes_on(const fuser *f, const chain *c, uint32_t index, uint32_t o)
{
    const mr_op *op = op_at(f, o), *first = op_at(f, c->ops.at[0]);
    bool reads = false;
    if (op->phase != first->phase || op->stream != first->stream || op->engine != first->engine
        || !same_shape(tensor_at(f, op->out.at[0]), tensor_at(f, first->out.at[0])))
        return false;
    if (op->phase == MR_BACKWARD && source_of(f, op) != c->of) return false;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t birth = f->r.birth[storage_of(f, op->in.at[i])];
        reads |= birth != MR_NONE && f->owner[birth] == index;
    }
    return reads;
}

static void take(fuser *f, chain *c, uint32_t index, uint32_t e)
{
    const uint32_t o = f->in->events.at[e].id;
    f->owner[o] = index;
    c->last = e;
    MR_PUSH(f->ctx, &c->ops, o);
}

/* A single op is no chain. */
static void close(fuser *f, chain *c)
{
    if (c->ops.n > 1) MR_PUSH(f->ctx, &f->chains, *c);
    else if (c->ops.n) f->owner[c->ops.at[0]] = MR_NONE;
    *c = (chain){.op = MR_NONE};
}

static void find_chains(fuser *f)
{
    chain open = {.op = MR_NONE};
    MR_RESERVE_N(f->ctx, &f->chains,
                 f->in->ops.n); /* so that source_of tells ops from chains */
    for (uint32_t e = 0; e < f->in->events.n; e++) {
        const mr_event event = f->in->events.at[e];
        if (event.kind == MR_MARK || event.kind == MR_FLUSH) close(f, &open);
        if (event.kind != MR_RUN) continue;
        const bool can = can_join(f, event.id);
        if (open.ops.n && can && goes_on(f, &open, f->chains.n, event.id)) {
            take(f, &open, f->chains.n, e);
            continue;
        }
        if (open.ops.n && is_view_beside(f, f->chains.n, event.id)) continue;
        close(f, &open);
        if (!can) continue;
        open.first = e;
        open.of = source_of(f, op_at(f, event.id));
        take(f, &open, f->chains.n, e);
    }
    close(f, &open);
}

/* Does the chain read everything that the op has saved of its results? */
static bool reads_results(const fuser *f, const chain *c, const mr_op *of)
{
    for (uint32_t i = 0; i < of->saved.n; i++) {
        bool found = of->saved.at[i].as != MR_SAVED_OUTPUT;
        for (uint32_t k = 0; k < c->ops.n && !found; k++) {
            const mr_ids in = op_at(f, c->ops.at[k])->in;
            for (uint32_t j = 0; j < in.n; j++) found |= in.at[j] == of->saved.at[i].tensor;
        }
        if (!found) return false;
    }
    return true;
}

/* Chains of the backward pass are left apart that are only a part of a chain's gradient. */
static void check_gradients(fuser *f)
{
    for (uint32_t i = 0; i < f->chains.n; i++) {
        chain *c = &f->chains.at[i];
        bool all = true;
        for (uint32_t k = 0; c->of < f->chains.n && k < f->chains.at[c->of].ops.n; k++)
            all &= reads_results(f, c, op_at(f, f->chains.at[c->of].ops.at[k]));
        if (all) continue;
        for (uint32_t k = 0; k < c->ops.n; k++) f->owner[c->ops.at[k]] = MR_NONE;
        c->first = c->last; /* nothing is within */
        c->ops.n = 0;
    }
}

/* ---- what is written --------------------------------------------------------------------- */

static void need(fuser *f, uint32_t by, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = storage_of(f, ids.at[i]), birth = f->r.birth[s];
        if (birth != MR_NONE && f->owner[birth] != MR_NONE && f->owner[birth] != by)
            f->needed[s] = true;
    }
}

static void find_needed(fuser *f)
{
    for (uint32_t s = 0; s < f->in->storages.n; s++) f->needed[s] = f->in->storages.at[s].after;
    for (uint32_t o = 0; o < f->in->ops.n; o++) {
        const mr_op *op = op_at(f, o);
        need(f, f->owner[o], op->in);
        need(f, f->owner[o], op->mutates);
        for (uint32_t i = 0; i < op->saved.n; i++)
            f->needed[storage_of(f, op->saved.at[i].tensor)] = true;
    }
}

static uint64_t less(uint64_t bytes, uint64_t missing)
{
    return missing < bytes ? bytes - missing : 0;
}

static bool is_inside(const fuser *f, uint32_t index, uint32_t tensor)
{
    const uint32_t birth = f->r.birth[storage_of(f, tensor)];
    return birth != MR_NONE && f->owner[birth] == index;
}

/* Tensors that ops of the chain read and others have made, each once, and the bytes of them. */
static void read(fuser *f, const chain *c, uint32_t index, mr_op *fused)
{
    MR_VEC(uint32_t) in = {0};
    for (uint32_t k = 0; k < c->ops.n; k++) {
        const mr_op *op = op_at(f, c->ops.at[k]);
        uint64_t missing = 0;
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t t = op->in.at[i];
            if (is_inside(f, index, t) || f->seen[t] == index) {
                missing += tensor_at(f, t)->bytes;
                continue;
            }
            f->seen[t] = index;
            MR_PUSH(f->ctx, &in, t);
        }
        fused->read += less(op->read, missing);
    }
    fused->in = (mr_ids){in.at, in.n};
}

/* What they make for others. */
static void write(fuser *f, const chain *c, mr_op *fused)
{
    MR_VEC(uint32_t) out = {0};
    for (uint32_t k = 0; k < c->ops.n; k++) {
        const mr_op *op = op_at(f, c->ops.at[k]);
        uint64_t missing = 0;
        for (uint32_t i = 0; i < op->out.n; i++) {
            const uint32_t t = op->out.at[i];
            if (f->needed[storage_of(f, t)]) MR_PUSH(f->ctx, &out, t);
            else missing += tensor_at(f, t)->bytes;
        }
        fused->written += less(op->written, missing);
    }
    fused->out = (mr_ids){out.at, out.n};
}

static void save(fuser *f, const chain *c, mr_op *fused)
{
    MR_VEC(mr_saved) saved = {0};
    for (uint32_t k = 0; k < c->ops.n; k++) {
        const mr_op *op = op_at(f, c->ops.at[k]);
        for (uint32_t i = 0; i < op->saved.n; i++) MR_PUSH(f->ctx, &saved, op->saved.at[i]);
    }
    fused->saved.at = saved.at;
    fused->saved.n = saved.n;
}

/* As Inductor names a kernel. */
static const char *name_of(fuser *f, const chain *c)
{
    const char *name = "triton_poi_fused";
    for (uint32_t k = 0; k < c->ops.n && strlen(name) < 64; k++)
        name = mr_printf(f->ctx, "%s_%s", name, brief(op_at(f, c->ops.at[k])));
    return name;
}

/* Op of `out` that has become of one of `in`. */
static uint32_t became(const fuser *f, uint32_t o)
{
    return o == MR_NONE || f->owner[o] == MR_NONE ? o : f->chains.at[f->owner[o]].op;
}

static mr_op fused(fuser *f, const chain *c, uint32_t index)
{
    const mr_op *last = op_at(f, c->ops.at[c->ops.n - 1]);
    mr_op op = {.name = name_of(f, c),
                .module = last->module,
                .call = last->call,
                .stream = last->stream,
                .phase = last->phase,
                .engine = last->engine,
                .again = MR_NONE,
                .of = became(f, last->of)};
    uint64_t moved = 0;
    read(f, c, index, &op);
    write(f, c, &op);
    for (uint32_t k = 0; k < c->ops.n; k++) {
        const mr_op *one = op_at(f, c->ops.at[k]);
        op.random |= one->random;
        op.flops += one->flops;
        op.flops_per_sample += one->flops_per_sample;
        op.ns += one->ns;
        moved += one->read + one->written;
    }
    if (moved > op.read + op.written)
        op.ns = (uint64_t)((double)op.ns * (double)(op.read + op.written) / (double)moved);
    save(f, c, &op);
    return op;
}

/* ---- the step ---------------------------------------------------------------------------- */

static void run_chain(fuser *f, uint32_t index)
{
    chain *c = &f->chains.at[index];
    const mr_op op = fused(f, c, index);
    c->op = mr_rewrite_new_op(&f->r, &op);
    const mr_stand_in stand = {c->op, {c->ops.at, c->ops.n}, op.out, op.out};
    MR_PUSH(f->ctx, &f->r.out->stand_ins, stand);
}

/* Drops of what the kernel reads wait for it; what it only hands on is never held. */
static void drop(fuser *f, uint32_t e, uint32_t tensor)
{
    const uint32_t birth = f->r.birth[storage_of(f, tensor)];
    const bool inside = birth != MR_NONE && f->owner[birth] != MR_NONE;
    if (!inside || f->needed[storage_of(f, tensor)]) mr_rewrite_keep(&f->r, NULL, e);
}

static void write_events(fuser *f)
{
    uint32_t open = 0;
    for (uint32_t e = 0; e < f->in->events.n; e++) {
        const mr_event event = f->in->events.at[e];
        while (open < f->chains.n && f->chains.at[open].last < e) open++;
        const bool within = open < f->chains.n && f->chains.at[open].first < e;
        const uint32_t index = event.kind == MR_RUN ? f->owner[event.id] : MR_NONE;
        if (event.kind == MR_DROP && within) continue; /* below */
        if (event.kind == MR_DROP) drop(f, e, event.id);
        else if (index == MR_NONE) mr_rewrite_keep(&f->r, NULL, e);
        if (index == MR_NONE && event.kind == MR_RUN)
            f->r.out->ops.at[event.id].of = became(f, op_at(f, event.id)->of);
        if (index == MR_NONE || f->chains.at[index].last != e) continue;
        run_chain(f, index);
        for (uint32_t d = f->chains.at[index].first; d < e; d++)
            if (f->in->events.at[d].kind == MR_DROP) drop(f, d, f->in->events.at[d].id);
    }
}

/* What saves a parameter that is updated inside the backward pass stays apart: its gradient has
 * to be through before that, and would wait for others. */
static void find_changed(fuser *f)
{
    bool *changed = MR_NEW_N(f->ctx, bool, f->in->storages.n);
    uint32_t last = 0;
    for (uint32_t e = 0; e < f->in->events.n; e++)
        if (f->in->events.at[e].kind == MR_RUN
            && op_at(f, f->in->events.at[e].id)->phase == MR_BACKWARD)
            last = e;
    for (uint32_t e = 0; e < last; e++) {
        if (f->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = op_at(f, f->in->events.at[e].id);
        for (uint32_t i = 0; i < op->mutates.n && op->phase == MR_UPDATE; i++)
            changed[storage_of(f, op->mutates.at[i])] = true;
    }
    for (uint32_t o = 0; o < f->in->ops.n; o++)
        for (uint32_t i = 0; i < op_at(f, o)->saved.n; i++)
            f->fixed[o] |= changed[storage_of(f, op_at(f, o)->saved.at[i].tensor)];
}

static void find_fixed(fuser *f)
{
    for (uint32_t o = 0; o < f->in->ops.n; o++) {
        const uint32_t again = op_at(f, o)->again;
        if (again == MR_NONE) continue;
        f->fixed[o] = f->fixed[again] = true;
    }
    find_changed(f);
}

mr_status pointwise_fuse(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    fuser *f = MR_NEW(ctx, fuser);
    f->ctx = ctx;
    f->in = in;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &f->r));
    f->owner = mr_none_of(ctx, in->ops.n);
    f->fixed = MR_NEW_N(ctx, bool, in->ops.n);
    f->needed = MR_NEW_N(ctx, bool, in->storages.n);
    f->seen = mr_none_of(ctx, in->tensors.n);
    find_fixed(f);
    find_chains(f);
    if (!f->chains.n)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' has no two ops one after another that work number by number and"
                       " are not computed again (fuse before checkpoint)",
                       in->name);
    check_gradients(f);
    find_needed(f);
    write_events(f);
    return MR_OK;
}
