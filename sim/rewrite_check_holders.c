/* rewrite_check_holders -- two hold a value: the program, by its tensors until their drops, and
 * autograd, from the op that saves it to the last op `of` that one.
 *
 * What the program never dropped it never had (gradients inside autograd), or keeps for ever;
 * of that nothing can be said.
 */
#include "rewrite_check_holders.h"

typedef struct holders {
    const mr_trace *trace;
    uint32_t *let_go;  /* by op: last event `of` it; 0 for none */
    uint32_t *dropped; /* by storage: the last drop of a tensor in it; 0 for none */
    uint32_t *kept;    /* by storage: how long autograd holds it, by what has run so far */
} holders;

static bool look_ahead(holders *h)
{
    bool knows = false;
    for (uint32_t e = 0; e < h->trace->events.n; e++) {
        const mr_event event = h->trace->events.at[e];
        if (event.kind == MR_DROP) h->dropped[h->trace->tensors.at[event.id].storage] = e;
        if (event.kind != MR_RUN || h->trace->ops.at[event.id].of == MR_NONE) continue;
        const uint32_t of = h->trace->ops.at[event.id].of, first = h->trace->ops.at[of].again;
        h->let_go[of] = e;
        if (first != MR_NONE)
            h->let_go[first] = e; /* it has lost what it saved, or most of it */
        knows = true;
    }
    return knows;
}

static mr_status run(mr_ctx *ctx, holders *h, uint32_t o, uint32_t event)
{
    const mr_trace *t = h->trace;
    const mr_op *op = &t->ops.at[o];
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = t->tensors.at[op->in.at[i]].storage;
        if (!h->dropped[s] || h->dropped[s] > event || h->kept[s] >= event) continue;
        if (t->storages.at[s].before || t->storages.at[s].after) continue;
        return mr_fail(
            ctx, MR_EINVARIANT,
            "op %u (%s%s%s) reads tensor %u, whose storage %u the program has dropped"
            " and autograd does not keep",
            o, op->name, *op->module ? " of " : "", op->module, op->in.at[i], s);
    }
    const uint32_t until = h->let_go[o];
    for (uint32_t i = 0; i < op->saved.n; i++) {
        uint32_t *kept = &h->kept[t->tensors.at[op->saved.at[i].tensor].storage];
        if (until > *kept) *kept = until;
    }
    return MR_OK;
}

mr_status mr_rewrite_check_holders(mr_ctx *ctx, const mr_trace *trace)
{
    holders h = {.trace = trace,
                 .let_go = MR_NEW_N(ctx, uint32_t, trace->ops.n),
                 .dropped = MR_NEW_N(ctx, uint32_t, trace->storages.n),
                 .kept = MR_NEW_N(ctx, uint32_t, trace->storages.n)};
    if (!look_ahead(&h)) return MR_OK;
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN) MR_TRY(run(ctx, &h, trace->events.at[e].id, e));
    return MR_OK;
}
