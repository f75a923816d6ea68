/* rewrite_check_holders -- two hold a value: the program, by its tensors until their drops, and
 * autograd, from the op that saves it to the last op `of` that one.
 *
 * What the program never dropped it never had (gradients inside autograd), or keeps for ever;
 * of that nothing can be said.  Nor is it known who holds what an op of the recording reads
 * behind its drop, as the gradient of an op that ran again does: somebody, until that op.
 */
#include "rewrite_check_holders.h"

typedef struct holders {
    const mr_trace *trace;
    uint32_t *let_go;  /* by op: last event `of` it; 0 for none */
    uint32_t *dropped; /* by storage: the last drop of a tensor in it; 0 for none */
    uint32_t *kept;    /* by storage: how long others hold it, by what has run so far */
} holders;

static bool look_ahead(holders *h)
{
    bool knows = false;
    for (uint32_t e = 0; e < h->trace->events.n; e++) {
        const mr_event event = h->trace->events.at[e];
        if (event.kind == MR_DROP) h->dropped[h->trace->tensors.at[event.id].storage] = e;
        if (event.kind != MR_RUN || h->trace->ops.at[event.id].of == MR_NONE) continue;
        const mr_op *ops = h->trace->ops.at;
        const uint32_t of = ops[event.id].of;
        h->let_go[of] = e;
        /* Those that it repeats have lost what they saved, or most of it. */
        for (uint32_t o = of; ops[o].again < o; o = ops[o].again) h->let_go[ops[o].again] = e;
        knows = true;
    }
    return knows;
}

static bool is_held(const holders *h, uint32_t s, uint32_t event)
{
    const mr_storage *storage = &h->trace->storages.at[s];
    return !h->dropped[s] || h->dropped[s] > event || h->kept[s] >= event || storage->before
           || storage->after;
}

static void save(holders *h, uint32_t o)
{
    const mr_op *op = &h->trace->ops.at[o];
    const uint32_t until = h->let_go[o];
    for (uint32_t i = 0; i < op->saved.n; i++) {
        uint32_t *kept = &h->kept[h->trace->tensors.at[op->saved.at[i].tensor].storage];
        if (until > *kept) *kept = until;
    }
}

static holders holders_of(mr_ctx *ctx, const mr_trace *trace)
{
    return (holders){.trace = trace,
                     .let_go = MR_NEW_N(ctx, uint32_t, trace->ops.n),
                     .dropped = MR_NEW_N(ctx, uint32_t, trace->storages.n),
                     .kept = MR_NEW_N(ctx, uint32_t, trace->storages.n)};
}

/* ---- before ------------------------------------------------------------------------------ */

/* By op and input: reads it what nobody holds?  NULL for an op that does not. */
static bool **find_loose(mr_ctx *ctx, const mr_trace *trace)
{
    holders h = holders_of(ctx, trace);
    bool **loose = mr_alloc_n(ctx, trace->ops.n, sizeof *loose);
    if (!look_ahead(&h)) return loose;
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = trace->events.at[e].id;
        const mr_ids in = trace->ops.at[o].in;
        for (uint32_t i = 0; i < in.n; i++) {
            if (is_held(&h, trace->tensors.at[in.at[i]].storage, e)) continue;
            if (!loose[o]) loose[o] = MR_NEW_N(ctx, bool, in.n);
            loose[o][i] = true;
        }
        save(&h, o);
    }
    return loose;
}

/* ---- after ------------------------------------------------------------------------------- */

/* The op of the trace before whose work it does, all or in part; MR_NONE for none. */
static uint32_t counterpart(const mr_trace *before, const mr_trace *after, uint32_t o)
{
    const mr_op *op = &after->ops.at[o];
    const bool part = op->part && op->origin != MR_NONE; /* not one of an earlier rewrite */
    const uint32_t of = o < before->ops.n ? o : part ? op->origin : op->again;
    return of < before->ops.n && before->ops.at[of].in.n == op->in.n ? of : MR_NONE;
}

static mr_status run(mr_ctx *ctx, const holders *h, uint32_t o, const bool *loose,
                     uint32_t event)
{
    const mr_trace *t = h->trace;
    const mr_op *op = &t->ops.at[o];
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = t->tensors.at[op->in.at[i]].storage;
        if (is_held(h, s, event) || (loose && loose[i])) continue;
        return mr_fail(
            ctx, MR_EINVARIANT,
            "op %u (%s%s%s) reads tensor %u, whose storage %u the program has dropped"
            " and autograd does not keep",
            o, op->name, *op->module ? " of " : "", op->module, op->in.at[i], s);
    }
    return MR_OK;
}

/* Who held what the op read behind its drop holds it until then. */
static void hold_loose(holders *h, const mr_op *op, const bool *loose, uint32_t event)
{
    for (uint32_t i = 0; loose && i < op->in.n; i++) {
        uint32_t *kept = &h->kept[h->trace->tensors.at[op->in.at[i]].storage];
        if (loose[i] && event > *kept) *kept = event;
    }
}

mr_status mr_rewrite_check_holders(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    holders h = holders_of(ctx, after);
    if (!look_ahead(&h)) return MR_OK;
    bool *const *loose = find_loose(ctx, before);
    for (uint32_t e = 0; e < after->events.n; e++) {
        const uint32_t o = after->events.at[e].id;
        if (after->events.at[e].kind == MR_RUN && o < before->ops.n)
            hold_loose(&h, &after->ops.at[o], loose[o], e);
    }
    for (uint32_t e = 0; e < after->events.n; e++) {
        if (after->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = after->events.at[e].id, f = counterpart(before, after, o);
        MR_TRY(run(ctx, &h, o, f == MR_NONE ? NULL : loose[f], e));
        save(&h, o);
    }
    return MR_OK;
}
