/* inplace_legal -- readers and savers of every storage, in order; then one question after the
 * other. */
#include "inplace_legal.h"

#include <string.h>

/* ---- uses -------------------------------------------------------------------------------- */

static uint32_t storage_of(const inplace_facts *f, uint32_t tensor)
{
    return f->trace->tensors.at[tensor].storage;
}

static void use(inplace_facts *f, uint32_t *first, uint32_t *last, uint32_t s, uint32_t op,
                uint32_t event)
{
    const uint32_t i = f->uses.n;
    MR_PUSH(f->ctx, &f->uses, (inplace_use){op, event, MR_NONE});
    if (first[s] == MR_NONE) first[s] = i;
    else f->uses.at[last[s]].next = i;
    last[s] = i;
}

static void look_at(inplace_facts *f, uint32_t o, uint32_t event, uint32_t *last_reader,
                    uint32_t *last_saver)
{
    const mr_op *op = &f->trace->ops.at[o];
    for (uint32_t i = 0; i < op->in.n; i++)
        use(f, f->readers, last_reader, storage_of(f, op->in.at[i]), o, event);
    for (uint32_t i = 0; i < op->saved.n; i++)
        use(f, f->savers, last_saver, storage_of(f, op->saved.at[i].tensor), o, event);
    for (uint32_t i = 0; i < op->out.n; i++) f->maker[op->out.at[i]] = o;
    if (op->of == MR_NONE) return;
    f->let_go[op->of] = event;
    const uint32_t first =
        f->trace->ops.at[op->of].again; /* which has saved something, perhaps */
    if (first != MR_NONE) f->let_go[first] = event;
}

void inplace_look(mr_ctx *ctx, const mr_trace *trace, inplace_facts *out)
{
    *out = (inplace_facts){.ctx = ctx, .trace = trace};
    uint32_t *last_reader = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    uint32_t *last_saver = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    out->readers = mr_none_of(ctx, trace->storages.n);
    out->savers = mr_none_of(ctx, trace->storages.n);
    out->let_go = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    out->maker = mr_none_of(ctx, trace->tensors.n);
    out->runs_again = MR_NEW_N(ctx, bool, trace->ops.n);
    for (uint32_t o = 0; o < trace->ops.n; o++)
        if (trace->ops.at[o].again != MR_NONE) out->runs_again[trace->ops.at[o].again] = true;
    out->dropped = MR_NEW_N(ctx, bool, trace->storages.n);
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_DROP)
            out->dropped[storage_of(out, trace->events.at[e].id)] = true;
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN)
            look_at(out, trace->events.at[e].id, e, last_reader, last_saver);
}

/* ---- the memory itself ------------------------------------------------------------------- */

static bool is_broadcast(const mr_tensor *t, const mr_tensor *result)
{
    return t->bytes != result->bytes || t->rank != result->rank
           || (t->rank && memcmp(t->shape, result->shape, t->rank * sizeof *t->shape) != 0);
}

static bool is_one_of_several(const inplace_facts *f, uint32_t tensor)
{
    const uint32_t maker = f->maker[tensor];
    uint32_t n = 0;
    if (maker == MR_NONE) return false;
    const mr_ids made = f->trace->ops.at[maker].out;
    for (uint32_t i = 0; i < made.n; i++)
        n += storage_of(f, made.at[i]) == storage_of(f, tensor);
    return n > 1;
}

const char *inplace_refuse_memory(const inplace_facts *f, const mr_op *op, uint32_t input)
{
    const mr_tensor *t = &f->trace->tensors.at[input];
    const mr_tensor *result = &f->trace->tensors.at[op->out.at[0]];
    const mr_storage *s = &f->trace->storages.at[t->storage];
    if (s->before)
        return mr_printf(f->ctx, "that is one of the %s, there before the step",
                         mr_role_plural((mr_role)s->role));
    if (s->after) return "the program keeps that after the step";
    if (is_broadcast(t, result) || strcmp(t->dtype, result->dtype) != 0)
        return "its result has another shape or type than that";
    if (t->bytes != s->bytes || f->trace->storages.at[result->storage].bytes != s->bytes)
        return "that is a part of a larger memory";
    if (is_one_of_several(f, input))
        return mr_printf(f->ctx, "that is one of several views that %s made at once",
                         f->trace->ops.at[f->maker[input]].name);
    return NULL;
}

/* ---- who needs it ------------------------------------------------------------------------ */

static const char *told(const inplace_facts *f, uint32_t o)
{
    const mr_op *op = &f->trace->ops.at[o];
    return mr_printf(f->ctx, "%s%s%s", op->name, *op->module ? " of " : "", op->module);
}

/* The op of the backward pass that reads a storage for the gradient of `saver`. */
static uint32_t gradient_reader(const inplace_facts *f, uint32_t saver, uint32_t storage)
{
    for (uint32_t u = f->readers[storage]; u != MR_NONE; u = f->uses.at[u].next)
        if (f->trace->ops.at[f->uses.at[u].op].of == saver) return f->uses.at[u].op;
    return MR_NONE;
}

static const char *saved_as(const inplace_facts *f, uint32_t saver, uint32_t storage)
{
    const mr_op *op = &f->trace->ops.at[saver];
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (storage_of(f, op->saved.at[i].tensor) == storage)
            return mr_saved_name(op->saved.at[i].as);
    return "";
}

static const char *refuse_savers(const inplace_facts *f, uint32_t o, uint32_t event,
                                 uint32_t storage)
{
    for (uint32_t u = f->savers[storage]; u != MR_NONE; u = f->uses.at[u].next) {
        const uint32_t saver = f->uses.at[u].op;
        if (saver == o || f->let_go[saver] <= event) continue;
        const uint32_t reader = gradient_reader(f, saver, storage);
        const char *who = reader == MR_NONE ? "its gradient" : told(f, reader);
        return mr_printf(f->ctx, "%s saved that as its %s, which %s reads", told(f, saver),
                         saved_as(f, saver, storage), who);
    }
    return NULL;
}

static const char *refuse_readers(const inplace_facts *f, const inplace_kind *kind, uint32_t o,
                                  uint32_t event, uint32_t storage)
{
    uint32_t u = f->readers[storage];
    while (u != MR_NONE && f->uses.at[u].event <= event) u = f->uses.at[u].next;
    for (; u != MR_NONE; u = f->uses.at[u].next) {
        const mr_op *reader = &f->trace->ops.at[f->uses.at[u].op];
        if (reader->of == o && kind->needs == INPLACE_SWITCHES) continue;
        return mr_printf(f->ctx, "%s reads that later", told(f, f->uses.at[u].op));
    }
    return NULL;
}

/* A mask is no more: only the op's own gradient may have read it. */
static const char *refuse_mask(const inplace_facts *f, uint32_t o)
{
    const mr_ids out = f->trace->ops.at[o].out;
    for (uint32_t i = 1; i < out.n; i++)
        for (uint32_t u = f->readers[storage_of(f, out.at[i])]; u != MR_NONE;
             u = f->uses.at[u].next)
            if (f->trace->ops.at[f->uses.at[u].op].of != o)
                return mr_printf(f->ctx, "%s reads its mask, of which there is none in place",
                                 told(f, f->uses.at[u].op));
    return NULL;
}

/* In place it saves something else, so it must be the only run, and its gradient must read what
 * it has saved and not a copy of that. */
static bool gives_other_values(const inplace_facts *f, const inplace_kind *kind, uint32_t o)
{
    const mr_op *op = &f->trace->ops.at[o];
    if (kind->needs != INPLACE_NOISE && kind->needs != INPLACE_SWITCHES) return false;
    if (f->runs_again[o] || op->again != MR_NONE) return true;
    return kind->needs == INPLACE_SWITCHES && f->let_go[o]
           && !*saved_as(f, o, storage_of(f, op->in.at[0]));
}

const char *inplace_refusal(const inplace_facts *f, const inplace_kind *kind, uint32_t o,
                            uint32_t event, uint32_t i)
{
    const mr_op *op = &f->trace->ops.at[o];
    const uint32_t s = storage_of(f, op->in.at[i]);
    if (kind->needs == INPLACE_COPY)
        return "its gradient needs that, and in place it would copy it first: nothing is "
               "gained";
    if (gives_other_values(f, kind, o))
        return "it runs again: inplace comes before what recomputes";
    const char *why = inplace_refuse_memory(f, op, op->in.at[i]);
    if (!why) why = refuse_savers(f, o, event, s);
    if (!why) why = refuse_readers(f, kind, o, event, s);
    if (!why && kind->needs == INPLACE_NOISE) why = refuse_mask(f, o);
    return why;
}
