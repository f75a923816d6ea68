/* attention_find -- from every product with probabilities back to what it is made of. */
#include "attention.h"

#include <string.h>

typedef struct finder {
    mr_ctx *ctx;
    const mr_trace *in;
    attentions *out;
    uint32_t *first; /* by op: where its inputs begin in ... */
    uint32_t *from;  /* ... ops that made what it reads, MR_NONE */
    uint32_t *real;  /* the same, passing over ops that only hand a tensor on */
    uint8_t *side;   /* by op: 1 + attention_side of the operand that it copies, else 0 */
    bool *of_mask;   /* by op: helps to make a mask that is left out */
} finder;

/* ---- small questions
 * ------------------------------------------------------------------------- */

static const mr_op *op_at(const finder *f, uint32_t o)
{
    return &f->in->ops.at[o];
}

static const mr_tensor *tensor_at(const finder *f, uint32_t t)
{
    return &f->in->tensors.at[t];
}

/* Is its name one of these, which stand in `words` between spaces? */
static bool is(const finder *f, uint32_t o, const char *words)
{
    if (o == MR_NONE) return false;
    const char *name = op_at(f, o)->name;
    if (!strncmp(name, "aten::", 6)) name += 6;
    const size_t n = strlen(name);
    for (const char *at = strstr(words, name); at; at = strstr(at + 1, name))
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static const char views[] = "view _unsafe_view reshape expand";

static bool same_shape(const mr_tensor *x, const mr_tensor *y)
{
    return x->rank == y->rank
           && (!x->rank || !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape));
}

static uint32_t maker(const finder *f, uint32_t o, uint32_t i)
{
    return f->from[f->first[o] + i];
}

static bool is_plain_step(const finder *f, uint32_t o)
{
    return o != MR_NONE && !op_at(f, o)->mutates.n && op_at(f, o)->in.n && op_at(f, o)->out.n;
}

/* ---- who made what
 * --------------------------------------------------------------------------- */

typedef struct latest {
    uint32_t *maker, *real; /* by tensor */
    uint32_t *writer;       /* by storage: for tensors that a rewrite has left there */
} latest;

static void note_op(finder *f, uint32_t o, latest *l)
{
    const mr_op *op = op_at(f, o);
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i], writer = l->writer[tensor_at(f, t)->storage];
        f->from[f->first[o] + i] = l->maker[t] != MR_NONE ? l->maker[t] : writer;
        f->real[f->first[o] + i] = l->real[t] != MR_NONE ? l->real[t] : writer;
    }
    for (uint32_t k = 0; k < op->out.n; k++) {
        const uint32_t t = op->out.at[k];
        l->maker[t] = o;
        if (f->out->maker[t] == MR_NONE) f->out->maker[t] = o;
        if (op->in.n == 1 && op->in.at[0] == t) continue;
        l->real[t] = o;
        l->writer[tensor_at(f, t)->storage] = o;
    }
}

static void note_makers(finder *f)
{
    const mr_trace *in = f->in;
    uint32_t reads = 0;
    f->first = MR_NEW_N(f->ctx, uint32_t, in->ops.n);
    for (uint32_t o = 0; o < in->ops.n; o++) {
        f->first[o] = reads;
        reads += in->ops.at[o].in.n;
    }
    f->from = mr_none_of(f->ctx, reads);
    f->real = mr_none_of(f->ctx, reads);
    latest l = {mr_none_of(f->ctx, in->tensors.n), mr_none_of(f->ctx, in->tensors.n),
                mr_none_of(f->ctx, in->storages.n)};
    for (uint32_t e = 0; e < in->events.n; e++)
        if (in->events.at[e].kind == MR_RUN) note_op(f, in->events.at[e].id, &l);
}

/* ---- one attention
 * --------------------------------------------------------------------------- */

static void take(finder *f, attention *a, uint32_t o)
{
    MR_PUSH(f->ctx, &a->forward, o);
}

/* From the product with v back to the softmax; MR_NONE when there is none. */
static uint32_t find_softmax(finder *f, attention *a)
{
    uint32_t o = maker(f, a->core, 0);
    while (is(f, o, "view _unsafe_view reshape expand native_dropout _to_copy")
           && is_plain_step(f, o)) {
        take(f, a, o);
        o = maker(f, o, 0);
    }
    return is(f, o, "_softmax") ? o : MR_NONE;
}

/* The input that carries the scores: the first of the output's shape that is no truth value. */
static uint32_t scores_of(const finder *f, uint32_t o)
{
    const mr_op *op = op_at(f, o);
    if (op->in.n == 1) return 0;
    for (uint32_t i = 0; i < op->in.n; i++)
        if (same_shape(tensor_at(f, op->in.at[i]), tensor_at(f, op->out.at[0]))
            && strcmp(tensor_at(f, op->in.at[i])->dtype, "bool") != 0)
            return i;
    return MR_NONE;
}

/* From the softmax back to q k^T; the mask is found on the way. */
static uint32_t find_scores(finder *f, attention *a)
{
    uint32_t o = maker(f, a->softmax, 0);
    while (
        is(f, o, "div mul add sub masked_fill where view _unsafe_view reshape expand _to_copy")
        && is_plain_step(f, o)) {
        const mr_op *op = op_at(f, o);
        const uint32_t follow = scores_of(f, o);
        if (follow == MR_NONE) return MR_NONE;
        for (uint32_t i = 0; i < op->in.n; i++) {
            if (i == follow) continue;
            if (a->mask != MR_NONE && a->mask != op->in.at[i])
                a->refused = "it has more than one mask, or other tensors in its scores";
            a->mask = op->in.at[i];
        }
        take(f, a, o);
        o = maker(f, o, follow);
    }
    return is(f, o, "bmm") ? o : MR_NONE;
}

/* What torch.matmul has made of an operand, back to the operand: four dimensions. */
static void find_operand(finder *f, attention *a, uint32_t o, uint32_t i, attention_side side)
{
    static const char *const steps[] = {"view _unsafe_view reshape", "clone", "expand",
                                        "transpose"};
    for (uint32_t s = 0; s < (side == ATTENTION_K ? 4 : 3); s++) {
        const uint32_t m = maker(f, o, i);
        if (!is(f, m, steps[s])) continue;
        take(f, a, m);
        f->side[m] = (uint8_t)(1 + side);
        o = m;
        i = 0;
    }
    const uint32_t t = op_at(f, o)->in.at[i];
    a->qkv[side] = t;
    if (tensor_at(f, t)->rank != 4)
        a->refused = "its heads are folded into the batch, the fused kernel takes them apart";
    else if (side == ATTENTION_K && !is(f, o, "transpose"))
        a->refused = "its keys are not transposed next to the product";
}

static bool look_at(finder *f, uint32_t core, attention *a)
{
    *a = (attention){.core = core, .mask = MR_NONE, .out = MR_NONE, .gradient = MR_NONE};
    a->last = a->back = MR_NONE;
    memset(a->gradients, 0xff, sizeof a->gradients);
    take(f, a, core);
    a->softmax = find_softmax(f, a);
    if (a->softmax == MR_NONE || op_at(f, a->softmax)->mutates.n) return false;
    take(f, a, a->softmax);
    a->scores = find_scores(f, a);
    if (a->scores == MR_NONE) return false;
    take(f, a, a->scores);
    find_operand(f, a, a->scores, 0, ATTENTION_Q);
    find_operand(f, a, a->scores, 1, ATTENTION_K);
    find_operand(f, a, a->core, 1, ATTENTION_V);
    return true;
}

/* Two that share an op are none that could be fused. */
static void own(finder *f, attention *a, uint32_t o)
{
    uint32_t *owner = &f->out->owner[o];
    if (*owner != MR_NONE && *owner != f->out->all.n)
        a->refused = f->out->all.at[*owner].refused = "its probabilities are used twice";
    *owner = f->out->all.n;
}

static void find_cores(finder *f)
{
    for (uint32_t o = 0; o < f->in->ops.n; o++) {
        attention a;
        const mr_op *op = op_at(f, o);
        if (!is(f, o, "bmm") || op->of != MR_NONE || op->in.n != 2 || !look_at(f, o, &a))
            continue;
        for (uint32_t i = 0; i < a.forward.n; i++) own(f, &a, a.forward.at[i]);
        MR_PUSH(f->ctx, &f->out->all, a);
    }
}

/* ---- who else reads what is in it
 * ------------------------------------------------------------ */

static attention *owner_of(const finder *f, uint32_t o)
{
    if (o == MR_NONE || f->out->owner[o] == MR_NONE) return NULL;
    return &f->out->all.at[f->out->owner[o]];
}

/* Op o, which is no part of it, reads what a part of it has made. */
static void read_outside(finder *f, attention *a, uint32_t o, uint32_t i, uint32_t part)
{
    const uint32_t t = op_at(f, o)->in.at[i];
    const uint8_t side = f->side[part];
    const bool backward = op_at(f, part)->of != MR_NONE;
    if (t == a->out) return;
    if (backward && side) {
        uint32_t *gradient = &a->gradients[side - 1];
        if (*gradient == MR_NONE || *gradient == t) {
            *gradient = t;
            return;
        }
    }
    a->refused = mr_printf(f->ctx, "op %u (%s) reads what is inside", o, op_at(f, o)->name);
}

static void look_at_reads(finder *f, uint32_t o)
{
    for (uint32_t i = 0; i < op_at(f, o)->in.n; i++) {
        const uint32_t part = f->real[f->first[o] + i];
        attention *a = owner_of(f, part);
        if (a && a != owner_of(f, o)) read_outside(f, a, o, i, part);
    }
}

/* The gradient that comes in is what the backward pass has made elsewhere. */
static void join_backward(finder *f, attention *a, uint32_t o, uint32_t event)
{
    const mr_op *op = op_at(f, o);
    f->out->owner[o] = f->out->owner[op->of];
    f->side[o] = f->side[op->of];
    MR_PUSH(f->ctx, &a->backward, o);
    if (a->back == MR_NONE) a->back = event;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t m = f->real[f->first[o] + i];
        if (m == MR_NONE || op_at(f, m)->phase != MR_BACKWARD || owner_of(f, m) == a) continue;
        if (a->gradient != MR_NONE && a->gradient != op->in.at[i])
            a->refused = "its backward pass begins with more than one gradient";
        a->gradient = op->in.at[i];
    }
}

static void join(finder *f, uint32_t o, uint32_t event)
{
    const mr_op *op = op_at(f, o);
    attention *a = op->of != MR_NONE ? owner_of(f, op->of) : NULL;
    if (a) join_backward(f, a, o, event);
    a = op->of == MR_NONE && op->in.n == 1 ? owner_of(f, maker(f, o, 0)) : NULL;
    if (a && a->out == MR_NONE && maker(f, o, 0) == a->core && is(f, o, views)) {
        f->out->owner[o] = f->out->owner[a->core];
        a->out = op->out.at[0];
        take(f, a, o);
    }
    a = owner_of(f, o);
    if (a && op->of == MR_NONE) a->last = event;
    look_at_reads(f, o);
}

static void join_all(finder *f)
{
    for (uint32_t e = 0; e < f->in->events.n; e++)
        if (f->in->events.at[e].kind == MR_RUN) join(f, f->in->events.at[e].id, e);
    for (uint32_t i = 0; i < f->out->all.n; i++) {
        attention *a = &f->out->all.at[i];
        if (a->out == MR_NONE || tensor_at(f, a->out)->rank != 4)
            a->refused =
                "its heads are folded into the batch, the fused kernel takes them apart";
        if (a->backward.n && a->gradient == MR_NONE)
            a->refused = "no gradient comes into its backward pass";
        for (uint32_t k = 0; k < a->forward.n && !a->refused; k++) {
            const mr_ids made = op_at(f, a->forward.at[k])->out;
            for (uint32_t j = 0; j < made.n; j++)
                if (made.at[j] != a->out
                    && f->in->storages.at[tensor_at(f, made.at[j])->storage].after
                    && f->out->maker[made.at[j]] == a->forward.at[k])
                    a->refused = "what is inside lives on after the step";
        }
    }
}

/* ---- masks
 * ----------------------------------------------------------------------------------- */

/* A triangle made of nothing: the kernel has it built in. */
static bool is_causal(const finder *f, uint32_t mask)
{
    bool triangle = false;
    uint32_t o = f->out->maker[mask];
    while (o != MR_NONE) {
        triangle |= is(f, o, "triu tril");
        if (!op_at(f, o)->in.n) return triangle;
        if (op_at(f, o)->in.n > 1) return false;
        o = f->real[f->first[o]];
    }
    return false;
}

static void mark_makers(finder *f, uint32_t mask)
{
    MR_VEC(uint32_t) left = {0};
    MR_PUSH(f->ctx, &left, f->out->maker[mask]);
    while (left.n) {
        const uint32_t o = left.at[--left.n];
        if (o == MR_NONE || f->of_mask[o] || op_at(f, o)->mutates.n) continue;
        if (op_at(f, o)->phase != MR_FORWARD) continue; /* loading the batch */
        f->of_mask[o] = true;
        for (uint32_t i = 0; i < op_at(f, o)->in.n; i++) MR_PUSH(f->ctx, &left, maker(f, o, i));
    }
}

/* Does the op make only what nobody reads any more? */
static bool is_unneeded(const finder *f, const bool *used, uint32_t o)
{
    if (!f->of_mask[o] || used[o] || owner_of(f, o)) return false;
    for (uint32_t k = 0; k < op_at(f, o)->out.n; k++) {
        const mr_storage *s =
            &f->in->storages.at[tensor_at(f, op_at(f, o)->out.at[k])->storage];
        if (s->after && !s->before) return false;
    }
    return true;
}

static void leave_masks_out(finder *f)
{
    bool *used = MR_NEW_N(f->ctx, bool, f->in->ops.n);
    for (uint32_t e = f->in->events.n; e-- > 0;) {
        if (f->in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = f->in->events.at[e].id;
        const attention *a = owner_of(f, o);
        f->out->unneeded[o] = is_unneeded(f, used, o);
        if (f->out->unneeded[o]) continue;
        for (uint32_t i = 0; i < op_at(f, o)->in.n; i++) {
            const uint32_t m = maker(f, o, i), real = f->real[f->first[o] + i];
            if (a && !a->refused && a->drops && op_at(f, o)->in.at[i] == a->mask) continue;
            if (m != MR_NONE) used[m] = true;
            if (real != MR_NONE) used[real] = true;
        }
    }
}

static void find_masks(finder *f, bool without_mask)
{
    for (uint32_t i = 0; i < f->out->all.n; i++) {
        attention *a = &f->out->all.at[i];
        if (a->refused || a->mask == MR_NONE || f->out->maker[a->mask] == MR_NONE) continue;
        a->drops = without_mask || is_causal(f, a->mask);
        if (a->drops) mark_makers(f, a->mask);
    }
    leave_masks_out(f);
}

void attention_find(mr_ctx *ctx, const mr_trace *in, bool without_mask, attentions *out)
{
    finder f = {.ctx = ctx, .in = in, .out = out};
    *out = (attentions){.in = in};
    out->owner = mr_none_of(ctx, in->ops.n);
    out->unneeded = MR_NEW_N(ctx, bool, in->ops.n);
    out->maker = mr_none_of(ctx, in->tensors.n);
    f.side = MR_NEW_N(ctx, uint8_t, in->ops.n);
    f.of_mask = MR_NEW_N(ctx, bool, in->ops.n);
    note_makers(&f);
    find_cores(&f);
    join_all(&f);
    find_masks(&f, without_mask);
}
