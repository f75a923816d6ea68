/* kv_find -- which torch.cat makes a cache longer.
 *
 * Its first input is what a cat of the same module made, in an earlier call, and nobody reads
 * that any more afterwards; all shapes are one but for the number of tokens.
 */
#include "kv_cache.h"

#include <string.h>

typedef struct finder {
    const mr_trace *in;
    kv_caches *out;
    uint32_t *run;  /* by op: event, MR_NONE */
    uint32_t *last; /* by storage: event at which an op reads or changes it last */
    bool *changed;  /* by storage: some op works in place on it */
} finder;

static const mr_tensor *tensor_at(const finder *f, uint32_t t)
{
    return &f->in->tensors.at[t];
}

static void look(mr_ctx *ctx, finder *f)
{
    const mr_trace *in = f->in;
    f->run = mr_none_of(ctx, in->ops.n);
    f->last = MR_NEW_N(ctx, uint32_t, in->storages.n);
    f->changed = MR_NEW_N(ctx, bool, in->storages.n);
    f->out->maker = mr_none_of(ctx, in->tensors.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        const mr_op *op = &in->ops.at[o];
        f->run[o] = e;
        for (uint32_t i = 0; i < op->in.n; i++)
            f->last[tensor_at(f, op->in.at[i])->storage] = e;
        for (uint32_t i = 0; i < op->mutates.n; i++)
            f->changed[tensor_at(f, op->mutates.at[i])->storage] = true;
        for (uint32_t i = 0; i < op->out.n; i++)
            if (f->out->maker[op->out.at[i]] == MR_NONE) f->out->maker[op->out.at[i]] = o;
    }
}

/* The dimension in which two are joined that are else of one shape; MR_NONE for others. */
static uint32_t joined(const mr_tensor *a, const mr_tensor *b, const mr_tensor *whole)
{
    uint32_t dimension = MR_NONE;
    if (a->rank != whole->rank || b->rank != whole->rank || a->rank < 2) return MR_NONE;
    for (uint32_t i = 0; i < whole->rank; i++) {
        if (a->shape[i] == whole->shape[i] && b->shape[i] == whole->shape[i]) continue;
        if (dimension != MR_NONE) return MR_NONE;
        if (a->shape[i] + b->shape[i] != whole->shape[i]) return MR_NONE;
        dimension = i;
    }
    return dimension;
}

/* MR_NONE for an op that makes nothing longer. */
static uint32_t grows_in(const finder *f, uint32_t o)
{
    const mr_op *op = &f->in->ops.at[o];
    if (strcmp(op->name, "aten::cat") != 0 || op->in.n != 2 || op->out.n != 1) return MR_NONE;
    if (op->mutates.n || op->saved.n || f->run[o] == MR_NONE) return MR_NONE;
    const mr_tensor *whole = tensor_at(f, op->out.at[0]);
    const mr_storage *home = &f->in->storages.at[whole->storage];
    if (whole->offset || whole->bytes != home->bytes || home->before || home->after)
        return MR_NONE;
    if (f->changed[whole->storage]) return MR_NONE;
    return joined(tensor_at(f, op->in.at[0]), tensor_at(f, op->in.at[1]), whole);
}

/* Does the cat go on with what another one made, in another call of the module? */
static bool goes_on(const finder *f, uint32_t o, uint32_t before)
{
    const mr_op *op = &f->in->ops.at[o], *other;
    if (before == MR_NONE || f->out->grows[before] == MR_NONE) return false;
    other = &f->in->ops.at[before];
    return op->in.at[0] == other->out.at[0] && op->call > other->call
           && !strcmp(op->module, other->module) && grows_in(f, o) == grows_in(f, before)
           && f->last[tensor_at(f, op->in.at[0])->storage] == f->run[o];
}

static void add(mr_ctx *ctx, finder *f, uint32_t o)
{
    const mr_op *op = &f->in->ops.at[o];
    const uint32_t before = f->out->maker[op->in.at[0]];
    if (goes_on(f, o, before)) {
        f->out->grows[o] = f->out->grows[before];
    } else {
        const kv_cache fresh = {.first = op->in.at[0], .dimension = grows_in(f, o)};
        f->out->grows[o] = f->out->all.n;
        MR_PUSH(ctx, &f->out->all, fresh);
    }
    MR_PUSH(ctx, &f->out->all.at[f->out->grows[o]].cats, o);
}

/* Those that grow once are no caches. */
static void keep_caches(const finder *f)
{
    uint32_t kept = 0;
    for (uint32_t c = 0; c < f->out->all.n; c++) {
        kv_cache cache = f->out->all.at[c];
        const bool grows = cache.cats.n > 1;
        for (uint32_t i = 0; i < cache.cats.n; i++)
            f->out->grows[cache.cats.at[i]] = grows ? kept : MR_NONE;
        if (!grows) continue;
        const mr_op *last = &f->in->ops.at[cache.cats.at[cache.cats.n - 1]];
        const mr_tensor *whole = tensor_at(f, last->out.at[0]);
        cache.tokens = whole->shape[cache.dimension];
        cache.sequences = whole->shape[cache.dimension ? 0 : 1];
        cache.token_bytes = whole->bytes / cache.tokens / cache.sequences;
        f->out->all.at[kept++] = cache;
    }
    f->out->all.n = kept;
}

void kv_find(mr_ctx *ctx, const mr_trace *in, kv_caches *out)
{
    finder f = {.in = in, .out = out};
    *out = (kv_caches){.grows = mr_none_of(ctx, in->ops.n)};
    look(ctx, &f);
    for (uint32_t e = 0; e < in->events.n; e++)
        if (in->events.at[e].kind == MR_RUN && grows_in(&f, in->events.at[e].id) != MR_NONE)
            add(ctx, &f, in->events.at[e].id);
    keep_caches(&f);
}
