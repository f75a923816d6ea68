/* skips -- see the header. */
#include "skips.h"

#include <string.h>

typedef struct placer {
    mr_rewrite r;
    const mr_trace *in;
    bool *repeats;      /* by op: runs again, or does so */
    uint32_t *when;     /* by op: event */
    uint32_t *changed;  /* by storage: op that changes it in place last, MR_NONE */
    uint32_t *read;     /* by storage: event at which an op reads it last */
    bool *saved;        /* by storage: for the backward pass */
    bool *placed;       /* by storage: lies in another one now, or has another one in it */
    uint32_t skips;
    const char *why;    /* the last one stays where it is */
} placer;

typedef struct joint { /* a concatenation, with one of what it reads */
    uint32_t op, input, dim;
    uint64_t begin; /* of the input, in that dimension of the result */
} joint;

static const mr_op *op_at(const placer *p, uint32_t o)
{
    return &p->in->ops.at[o];
}

static const mr_tensor *tensor_at(const placer *p, uint32_t t)
{
    return &p->in->tensors.at[t];
}

static const mr_storage *home_of(const placer *p, uint32_t t)
{
    return &p->in->storages.at[tensor_at(p, t)->storage];
}

/* ---- looking ----------------------------------------------------------------------------- */

/* All of its storage, number by number? */
static bool fills(const placer *p, uint32_t t)
{
    const mr_tensor *x = tensor_at(p, t);
    return !x->offset && x->bytes == home_of(p, t)->bytes && mr_tensor_touched(x) == x->bytes;
}

static void look(placer *p)
{
    const mr_trace *in = p->in;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        const mr_op *op = op_at(p, o);
        p->when[o] = e;
        if (op->again != MR_NONE) p->repeats[o] = p->repeats[op->again] = true;
        for (uint32_t i = 0; i < op->in.n; i++)
            p->read[tensor_at(p, op->in.at[i])->storage] = e;
        for (uint32_t i = 0; i < op->mutates.n; i++)
            p->changed[tensor_at(p, op->mutates.at[i])->storage] = o;
        for (uint32_t i = 0; i < op->saved.n; i++)
            p->saved[tensor_at(p, op->saved.at[i].tensor)->storage] = true;
    }
}

/* Every tensor of a skip has to be seen as rows of the result: the dimensions up to the one
 * that is cut are its own. */
static bool is_seen_whole(const placer *p, const joint *j)
{
    const mr_tensor *skip = tensor_at(p, op_at(p, j->op)->in.at[j->input]);
    for (uint32_t t = 0; t < p->in->tensors.n; t++) {
        const mr_tensor *x = tensor_at(p, t);
        if (x->storage != skip->storage) continue;
        if (!fills(p, t) || x->rank <= j->dim
            || memcmp(x->shape, skip->shape, (j->dim + 1) * sizeof *x->shape) != 0)
            return false;
    }
    return true;
}

/* The dimension in which the result has more than what is read; MR_NONE when that is none. */
static uint32_t cut_dimension(const mr_tensor *whole, const mr_tensor *part)
{
    uint32_t found = MR_NONE;
    if (whole->rank != part->rank) return MR_NONE;
    for (uint32_t d = 0; d < whole->rank; d++) {
        if (whole->shape[d] == part->shape[d]) continue;
        if (found != MR_NONE) return MR_NONE;
        found = d;
    }
    return found;
}

static bool changes_after(const placer *p, uint32_t storage, uint32_t event)
{
    return p->changed[storage] != MR_NONE && p->when[p->changed[storage]] > event;
}

static const char *refusal(const placer *p, const joint *j)
{
    const mr_op *op = op_at(p, j->op);
    const uint32_t t = op->in.at[j->input], s = tensor_at(p, t)->storage;
    const uint32_t whole = tensor_at(p, op->out.at[0])->storage, birth = p->r.birth[s];
    if (p->repeats[j->op] || p->repeats[birth])
        return "it runs again: skip_reuse comes before what recomputes";
    if (p->placed[s] || p->placed[whole]) return "it is joined with others twice";
    if (home_of(p, t)->after) return "it lives after the step";
    if (!is_seen_whole(p, j)) return "it is seen in another shape, or in parts";
    if (changes_after(p, s, p->when[j->op]))
        return mr_printf(p->r.ctx, "%s changes it after that", op_at(p, p->changed[s])->name);
    if (changes_after(p, whole, p->when[j->op]))
        return mr_printf(p->r.ctx, "%s changes what it is a part of then",
                         op_at(p, p->changed[whole])->name);
    return NULL;
}

/* ---- placing ----------------------------------------------------------------------------- */

static uint64_t product(const uint64_t *shape, uint32_t begin, uint32_t end)
{
    uint64_t n = 1;
    for (uint32_t d = begin; d < end; d++) n *= shape[d];
    return n;
}

/* All tensors of the skip become rows of the result. */
static void place(placer *p, const joint *j)
{
    const mr_tensor *whole = tensor_at(p, op_at(p, j->op)->out.at[0]);
    const mr_tensor *skip = tensor_at(p, op_at(p, j->op)->in.at[j->input]);
    const uint64_t each = whole->bytes / mr_tensor_numbers(whole)
                          * product(whole->shape, j->dim + 1, whole->rank);
    const uint64_t outer = product(whole->shape, 0, j->dim), mine = skip->shape[j->dim] * each;
    for (uint32_t t = 0; t < p->in->tensors.n; t++) {
        mr_tensor *x = &p->r.out->tensors.at[t];
        if (x->storage != skip->storage) continue;
        x->storage = whole->storage;
        x->offset = j->begin * each;
        x->bytes = (outer - 1) * whole->shape[j->dim] * each + mine;
    }
    p->placed[skip->storage] = p->placed[whole->storage] = true;
    p->skips++;
}

/* The rest is copied behind, or before. */
static void fill(placer *p, uint32_t o, uint64_t bytes)
{
    mr_op *op = &p->r.out->ops.at[o];
    if (op->out.n) {
        op->name = "aten::copy_";
        op->mutates = op->out;
        op->out = (mr_ids){0};
    }
    op->read -= bytes < op->read ? bytes : op->read;
    op->written -= bytes < op->written ? bytes : op->written;
}

static bool is_skip(const placer *p, const joint *j)
{
    const mr_op *op = op_at(p, j->op);
    const uint32_t s = tensor_at(p, op->in.at[j->input])->storage, birth = p->r.birth[s];
    if (birth == MR_NONE || op_at(p, birth)->phase != MR_FORWARD || j->dim == MR_NONE)
        return false;
    return p->saved[s] || p->read[s] > p->when[j->op];
}

static void try_all(placer *p, uint32_t o)
{
    const mr_op *op = op_at(p, o);
    const mr_tensor *whole = tensor_at(p, op->out.at[0]);
    joint j = {.op = o};
    for (j.input = 0; j.input < op->in.n; j.input++) {
        const mr_tensor *part = tensor_at(p, op->in.at[j.input]);
        j.dim = cut_dimension(whole, part);
        const char *why = is_skip(p, &j) ? refusal(p, &j) : "";
        if (!why) {
            place(p, &j);
            fill(p, o, part->bytes);
        } else if (*why) {
            p->why = why;
            mr_rewrite_remark(&p->r, "skip_reuse leaves what %s of %s makes where it is: %s",
                              op_at(p, p->r.birth[part->storage])->name,
                              op_at(p, p->r.birth[part->storage])->module, why);
        }
        if (j.dim != MR_NONE) j.begin += part->shape[j.dim];
    }
}

static bool is_concatenation(const placer *p, uint32_t o)
{
    const mr_op *op = op_at(p, o);
    if (op->phase != MR_FORWARD || strcmp(op->name, "aten::cat") != 0) return false;
    return op->out.n == 1 && op->in.n > 1 && fills(p, op->out.at[0])
           && p->r.birth[tensor_at(p, op->out.at[0])->storage] == o;
}

mr_status skips_place(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    placer p = {.in = in};
    MR_TRY(mr_rewrite_before_host(ctx, in, "skip_reuse"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &p.r));
    p.repeats = MR_NEW_N(ctx, bool, in->ops.n);
    p.when = MR_NEW_N(ctx, uint32_t, in->ops.n);
    p.changed = mr_none_of(ctx, in->storages.n);
    p.read = MR_NEW_N(ctx, uint32_t, in->storages.n);
    p.saved = MR_NEW_N(ctx, bool, in->storages.n);
    p.placed = MR_NEW_N(ctx, bool, in->storages.n);
    look(&p);
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (is_concatenation(&p, o)) try_all(&p, o);
    if (!p.skips)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' joins nothing with aten::cat that is still needed after that and"
                       " could be made in its place%s%s",
                       in->name, p.why ? ": of the last, " : "", p.why ? p.why : "");
    for (uint32_t e = 0; e < in->events.n; e++) mr_rewrite_keep(&p.r, NULL, e);
    return MR_OK;
}
