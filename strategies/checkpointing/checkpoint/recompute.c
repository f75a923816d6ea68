/* recompute -- what torch.utils.checkpoint does to a step.
 *
 *     forward    x ──► [ a b c ] ──► y         nothing inside saves; x is held
 *     backward   ... ──► a b c again ──► c' b' a'        x is let go of after the last of these
 *
 * use_reentrant=False.  Whatever an op inside would save is a placeholder.  The first op of the
 * backward pass that asks for one has the region run again; that stops as soon as everything
 * that was saved is there again: after the last op that saves a result, but before it when it
 * saves only what it reads.  Program variables end there.  Each value is let go of with the op
 * whose gradient it serves.
 *
 * use_reentrant=True.  The region is one op to autograd: it runs again before the first
 * gradient inside, all of it, and its outputs and their gradients are held until the last; so
 * the engine cannot add to one of these in place.
 *
 * Of ops that are kept, as a selective checkpoint's policy says, the second run takes the
 * result from the first.  Random ops draw what they drew, since the state of the generator is
 * kept.
 */
#include "recompute.h"

#include "recompute_look.h"

#include <string.h>

typedef struct held { /* a gradient, as long as autograd is inside the region that got it */
    uint32_t region, tensor;
} held;

typedef struct writer {
    mr_rewrite r;
    mr_where again; /* where what was computed again is now */
    mr_where later; /* where gradients are that have been added up in a new place */
    MR_VEC(held) held;
    const looked *l;
    const recompute_how *how;
    uint32_t *held_until; /* by tensor: see looked_hold; of a cast that several regions read, the
                           * one that ran again last; MR_NONE */
    uint32_t
        *copy; /* by op of a region: the op that runs again, MR_NONE as long as it has not */
} writer;

static const mr_event *event_at(const writer *w, uint32_t e)
{
    return &w->r.in->events.at[e];
}

/* ---- one region again -------------------------------------------------------------------- */

static uint32_t storage_of(const writer *w, uint32_t tensor)
{
    return w->r.in->tensors.at[tensor].storage;
}

/* What an op makes, and behind that what it changes. */
static uint32_t result(const mr_op *op, uint32_t i)
{
    return i < op->out.n ? op->out.at[i] : op->mutates.at[i - op->out.n];
}

/* A variable inside the region ends, in its second run.  Not yet if it is a result: reentrant,
 * or one that is kept, which is the first run's and ends as that says. */
static void drop_again(writer *w, uint32_t tensor, uint32_t region)
{
    const uint32_t s = storage_of(w, tensor);
    if (w->l->born_in[s] != region) return;
    if ((w->how->reentrant || w->l->kept[s]) && w->l->outlives[s]) return;
    if (w->held_until[tensor] != MR_NONE) return;
    mr_rewrite_drop(&w->r, &w->again, tensor);
}

/* All variables end with the function. */
static void drop_all_again(writer *w, uint32_t region)
{
    const looked_region *look = &w->l->look[region];
    for (uint32_t e = w->l->regions.at[region].begin; e < look->stop; e++) {
        if (event_at(w, e)->kind != MR_RUN) continue;
        const mr_op *op = &w->r.in->ops.at[event_at(w, e)->id];
        for (uint32_t i = 0; i < op->out.n + op->mutates.n; i++)
            drop_again(w, result(op, i), region);
    }
}

/* Autocast, which is entered again, keeps its casts until it is left. */
static void drop_casts(writer *w, uint32_t region, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const mr_op *cast = &w->r.in->ops.at[w->l->look[region].casts.at[i].op];
        if (w->held_until[cast->out.at[0]] == MR_NONE)
            mr_rewrite_drop(&w->r, &w->again, cast->out.at[0]);
    }
}

static void hold(writer *w, const looked_region *look)
{
    for (uint32_t i = 0; i < look->holds.n; i++)
        w->held_until[look->holds.at[i].tensor] = MR_NONE;
    for (uint32_t i = 0; i < look->holds.n; i++) {
        const looked_hold *h = &look->holds.at[i];
        uint32_t *until = &w->held_until[h->tensor];
        if (*until == MR_NONE || *until < h->until) *until = h->until;
    }
}

/* The casts of the event, from number `n` on; returns that of the next one. */
static uint32_t cast_again(writer *w, const looked_region *look, uint32_t n, uint32_t e)
{
    for (; n < look->casts.n && look->casts.at[n].event == e; n++)
        mr_rewrite_replay(&w->r, &w->again, look->casts.at[n].op);
    return n;
}

/* Does running again end before an op that saves what it reads? */
static bool ends_before_saver(const writer *w, uint32_t region)
{
    const uint32_t stop = w->l->look[region].stop;
    return stop < w->l->regions.at[region].end && event_at(w, stop)->kind == MR_RUN
           && w->l->only_once[event_at(w, stop)->id];
}

static void run_again(writer *w, uint32_t region)
{
    const looked_region *look = &w->l->look[region];
    uint32_t casts = 0;
    hold(w, look);
    for (uint32_t e = w->l->regions.at[region].begin; e < look->stop; e++) {
        const mr_event event = *event_at(w, e);
        casts = cast_again(w, look, casts, e);
        if (event.kind == MR_DROP) drop_again(w, event.id, region);
        if (event.kind == MR_RUN && !w->l->only_once[event.id])
            w->copy[event.id] = mr_rewrite_replay(&w->r, &w->again, event.id);
    }
    if (ends_before_saver(w, region)) casts = cast_again(w, look, casts, look->stop);
    drop_all_again(w, region);
    drop_casts(w, region, casts);
}

/* What is saved by an op that runs only once is let go of with its gradient. */
static void drop_saved(writer *w, uint32_t o, uint32_t event)
{
    const mr_op *op = &w->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (w->held_until[op->saved.at[i].tensor] == event)
            mr_rewrite_drop(&w->r, &w->again, op->saved.at[i].tensor);
}

/* What is kept for the second run, but not asked for since that stops early, goes with the
 * region. */
static void drop_kept(writer *w, uint32_t region)
{
    const uint32_t end = w->l->regions.at[region].end;
    for (uint32_t e = w->l->look[region].stop; e < end; e++) {
        if (event_at(w, e)->kind != MR_RUN) continue;
        const mr_ids made = w->r.in->ops.at[event_at(w, e)->id].out;
        for (uint32_t i = 0; i < made.n; i++)
            if (w->l->kept[storage_of(w, made.at[i])]) mr_rewrite_drop(&w->r, NULL, made.at[i]);
    }
}

/* Reentrant: what was held as long as autograd was inside. */
static void drop_results(writer *w, uint32_t region)
{
    const looked_region *look = &w->l->look[region];
    for (uint32_t e = w->l->regions.at[region].begin; e < look->stop; e++) {
        if (event_at(w, e)->kind != MR_RUN) continue;
        const mr_op *op = &w->r.in->ops.at[event_at(w, e)->id];
        for (uint32_t i = 0; i < op->out.n + op->mutates.n; i++)
            if (w->l->born_in[storage_of(w, result(op, i))] == region)
                mr_rewrite_drop(&w->r, &w->again, result(op, i));
    }
    for (uint32_t i = 0; i < look->gradients.n; i++)
        mr_rewrite_drop(&w->r, &w->later, look->gradients.at[i]);
    for (uint32_t i = 0; i < w->held.n; i++)
        if (w->held.at[i].region == region) mr_rewrite_drop(&w->r, NULL, w->held.at[i].tensor);
}

/* The sum of a gradient that is held and another one, which was added to it in place. */
static void sum_apart(writer *w, uint32_t o, uint32_t region)
{
    const mr_op *op = &w->r.in->ops.at[o];
    const uint32_t tensor = op->mutates.at[0], s = storage_of(w, tensor);
    const held given = {region, mr_rewrite_tensor(&w->r, &w->later, tensor)};
    const mr_ids in = mr_ids_of(w->r.ctx, op->in.n, op->in.at);
    for (uint32_t i = 0; i < in.n; i++)
        in.at[i] = mr_rewrite_tensor(&w->r, &w->later, in.at[i]);
    MR_PUSH(w->r.ctx, &w->held, given);
    w->later.storage[s] = w->again.storage[s] =
        mr_rewrite_new_storage(&w->r, s, w->r.in->storages.at[s].bytes);
    const uint32_t sum = mr_rewrite_tensor(&w->r, &w->later, tensor);
    mr_op *apart = &w->r.out->ops.at[o];
    apart->name = "aten::add";
    apart->in = in;
    apart->out = mr_ids_of(w->r.ctx, 1, &sum);
    apart->mutates.n = 0;
    mr_rewrite_run(&w->r, NULL, o);
}

/* ---- the whole step ---------------------------------------------------------------------- */

/* The program's variables inside a region end with it, even if autograd's hold on a view made
 * their recorded end later. */
static void end_forward(writer *w, uint32_t region)
{
    const looked_region *look = &w->l->look[region];
    for (uint32_t i = 0; i < look->late_drops.n; i++)
        mr_rewrite_drop(&w->r, NULL, look->late_drops.at[i]);
}

/* An op that computes a gradient inside a region. */
static void run_gradient(writer *w, uint32_t region, uint32_t e)
{
    const looked_region *look = &w->l->look[region];
    const uint32_t o = event_at(w, e)->id, of = w->r.in->ops.at[o].of;
    if (look->trigger == e) run_again(w, region);
    mr_rewrite_run(&w->r, &w->again, o);
    /* From here on what the second run of `of` saved is let go; what the first one did, later.
     */
    if (w->copy[of] != MR_NONE && e <= w->l->inside_end[of])
        w->r.out->ops.at[o].of = w->copy[of];
    if (w->l->only_once[of]) drop_saved(w, of, e);
}

static void write_run(writer *w, uint32_t e)
{
    const uint32_t o = event_at(w, e)->id, of = w->r.in->ops.at[o].of;
    const uint32_t forward = w->l->region_of[o];
    const uint32_t region = of == MR_NONE ? MR_NONE : w->l->region_of[of];
    if (w->l->apart[e] != MR_NONE) sum_apart(w, o, w->l->apart[e]);
    else if (region != MR_NONE) run_gradient(w, region, e);
    else mr_rewrite_keep(&w->r, &w->later, e);
    if (forward != MR_NONE && w->l->regions.at[forward].end == e + 1) end_forward(w, forward);
}

static void write_events(writer *w)
{
    for (uint32_t e = 0; e < w->r.in->events.n; e++) {
        const uint32_t ends = w->l->ends[e];
        if (event_at(w, e)->kind == MR_RUN) write_run(w, e);
        else if (!w->l->moved_drop[e]) mr_rewrite_keep(&w->r, &w->later, e);
        if (ends == MR_NONE) continue;
        if (!w->how->reentrant) {
            drop_kept(w, ends);
            continue;
        }
        w->r.out->ops.at[event_at(w, e)->id].of = w->l->look[ends].holder;
        drop_results(w, ends);
    }
}

/* Autograd keeps nothing of what is inside, but what the region reads, until its end: that is
 * what the op saves whose gradient comes last. */
static void change_savers(writer *w)
{
    const mr_trace *in = w->r.in;
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (w->l->region_of[o] != MR_NONE) w->r.out->ops.at[o].saved.n = 0;
    for (uint32_t i = 0; i < w->l->regions.n; i++) {
        const looked_region *look = &w->l->look[i];
        if (look->holder == MR_NONE) continue;
        mr_op *op = &w->r.out->ops.at[look->holder];
        op->saved.at = MR_NEW_N(w->r.ctx, mr_saved, look->inputs.n);
        op->saved.n = look->inputs.n;
        for (uint32_t t = 0; t < look->inputs.n; t++)
            op->saved.at[t] = (mr_saved){look->inputs.at[t], MR_SAVED_INPUT};
    }
}

mr_status recompute(mr_ctx *ctx, const mr_trace *in, const regions *list,
                    const recompute_how *how, mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    looked l;
    w->how = how;
    w->l = &l;
    MR_TRY(mr_rewrite_before_host(ctx, in, "checkpoint"));
    MR_TRY(mr_rewrite_before_evictions(ctx, in, "checkpoint"));
    MR_TRY(mr_rewrite_not_beside(ctx, in, "checkpoint"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    MR_TRY(recompute_look(&w->r, list, how, &l));
    mr_where_init(&w->r, &w->again);
    mr_where_init(&w->r, &w->later);
    w->copy = mr_none_of(ctx, in->ops.n);
    w->held_until = mr_none_of(ctx, in->tensors.n);
    write_events(w);
    change_savers(w);
    return MR_OK;
}
