/* shards_write -- the whole step: who enters and leaves a unit when. */
#include "shards_traffic.h"

#include <string.h>

typedef struct spans { /* visits that begin, or end, at an event: the first, and the next */
    uint32_t *first, *next;
} spans;

typedef struct writer {
    shards_traffic t;
    spans begin, end, back_begin, back_end;
    uint32_t *place; /* by visit: its place in the order of the backward pass */
} writer;

/* ---- before and after a visit ------------------------------------------------------------ */

static bool reshards(const writer *w, uint32_t unit)
{
    switch ((shards_reshard)w->t.s.choice->reshard) {
    case SHARDS_BUT_ROOT: return unit != SHARDS_ROOT;
    case SHARDS_ALL: return true;
    case SHARDS_NONE: return false;
    }
    return true;
}

/* Units that come after one in the same pass are on their way before it is computed. */
static void prefetch_forward(writer *w, uint32_t v, const mr_op *as)
{
    const shards *s = &w->t.s;
    uint64_t left = s->choice->limit_all_gathers ? s->choice->forward_prefetch : UINT64_MAX;
    for (uint32_t next = v + 1; next < s->visits.n && left--; next++) {
        if (s->visits.at[next].unit == SHARDS_ROOT) return; /* the next pass */
        shards_gather(&w->t, s->visits.at[next].unit, as);
    }
}

static void prefetch_backward(writer *w, uint32_t v, const mr_op *as)
{
    const shards *s = &w->t.s;
    uint64_t left = s->choice->limit_all_gathers ? s->choice->prefetch : UINT64_MAX;
    for (uint32_t i = w->place[v] + 1; i < s->backward.n && left--; i++) {
        const uint32_t unit = s->visits.at[s->backward.at[i]].unit;
        if (unit == SHARDS_ROOT) return;
        if (reshards(w, unit)) shards_gather(&w->t, unit, as);
    }
}

static void enter(writer *w, uint32_t v, bool forward, const mr_op *as)
{
    const shards_visit *visit = &w->t.s.visits.at[v];
    shards_gathered *g = &w->t.units[visit->unit];
    g->open++;
    if (forward && visit->back_end != MR_NONE) g->waiting++;
    shards_take(&w->t, visit->unit, as);
    if (forward) prefetch_forward(w, v, as);
    else prefetch_backward(w, v, as);
}

static void leave(writer *w, uint32_t v, bool forward)
{
    const shards_visit *visit = &w->t.s.visits.at[v];
    shards_gathered *g = &w->t.units[visit->unit];
    g->open--;
    if (!forward) g->waiting--;
    if (!g->open && (!g->waiting || reshards(w, visit->unit)))
        shards_let_go(&w->t, visit->unit);
    if (forward && visit->unit == SHARDS_ROOT) shards_drop(&w->t, &w->t.received);
}

/* ---- events ------------------------------------------------------------------------------ */

static spans chain(mr_ctx *ctx, const shards *s, const uint32_t *at)
{
    const spans all = {mr_none_of(ctx, s->in->events.n), mr_none_of(ctx, s->visits.n)};
    for (uint32_t v = s->visits.n; v-- > 0;) {
        if (at[v] == MR_NONE) continue;
        all.next[v] = all.first[at[v]];
        all.first[at[v]] = v;
    }
    return all;
}

static void chain_all(mr_ctx *ctx, writer *w)
{
    const uint32_t n = w->t.s.visits.n;
    uint32_t *at = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t v = 0; v < n; v++) at[v] = w->t.s.visits.at[v].begin;
    w->begin = chain(ctx, &w->t.s, at);
    for (uint32_t v = 0; v < n; v++) at[v] = w->t.s.visits.at[v].end;
    w->end = chain(ctx, &w->t.s, at);
    for (uint32_t v = 0; v < n; v++) at[v] = w->t.s.visits.at[v].back_begin;
    w->back_begin = chain(ctx, &w->t.s, at);
    for (uint32_t v = 0; v < n; v++) at[v] = w->t.s.visits.at[v].back_end;
    w->back_end = chain(ctx, &w->t.s, at);
}

/* Autograd knows parameters by name: it does not hold what was gathered. */
static void forget_saved(writer *w, uint32_t o)
{
    mr_op *op = &w->t.r.out->ops.at[o];
    mr_saved *kept = MR_NEW_N(w->t.r.ctx, mr_saved, op->saved.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (w->t.s.owner[w->t.r.in->tensors.at[op->saved.at[i].tensor].storage] == MR_NONE)
            kept[n++] = op->saved.at[i];
    op->saved.at = kept;
    op->saved.n = n;
}

static void run(writer *w, uint32_t o, uint32_t e)
{
    const mr_op *op = &w->t.r.in->ops.at[o];
    if (op->phase == MR_UPDATE) {
        sharded_run(&w->t.update, o);
        return;
    }
    for (uint32_t v = w->begin.first[e]; v != MR_NONE; v = w->begin.next[v])
        enter(w, v, true, op);
    for (uint32_t v = w->back_begin.first[e]; v != MR_NONE; v = w->back_begin.next[v])
        enter(w, v, false, op);
    forget_saved(w, o);
    mr_rewrite_run(&w->t.r, &w->t.where, o);
    for (uint32_t v = w->end.first[e]; v != MR_NONE; v = w->end.next[v]) leave(w, v, true);
    for (uint32_t v = w->back_end.first[e]; v != MR_NONE; v = w->back_end.next[v])
        leave(w, v, false);
}

/* Parameters and gradients end with their units. */
static bool is_ended_otherwise(const writer *w, uint32_t tensor)
{
    const uint32_t s = w->t.r.in->tensors.at[tensor].storage;
    return w->t.s.owner[s] != MR_NONE || w->t.s.gradients.of[s] != MR_NONE;
}

static void write(writer *w, const uint32_t *reduced, const uint32_t *next)
{
    const mr_trace *in = w->t.r.in;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_RUN) run(w, event.id, e);
        else if (event.kind != MR_DROP || !is_ended_otherwise(w, event.id))
            mr_rewrite_keep(&w->t.r, &w->t.where, e);
        for (uint32_t u = reduced[e]; u != MR_NONE; u = next[u])
            shards_reduce(&w->t, u, &in->ops.at[event.id]);
    }
}

static void write_all(writer *w)
{
    mr_ctx *ctx = w->t.r.ctx;
    const shards *s = &w->t.s;
    uint32_t *reduced = mr_none_of(ctx, s->in->events.n);
    uint32_t *next = mr_none_of(ctx, s->units.n);
    for (uint32_t u = 0; u < s->units.n; u++) { /* the root last */
        const uint32_t e = s->units.at[u].reduced;
        if (e == MR_NONE) continue;
        next[u] = reduced[e];
        reduced[e] = u;
    }
    w->place = MR_NEW_N(ctx, uint32_t, s->visits.n);
    for (uint32_t i = 0; i < s->backward.n; i++) w->place[s->backward.at[i]] = i;
    chain_all(ctx, w);
    write(w, reduced, next);
}

static uint32_t new_stream(mr_ctx *ctx, mr_trace *out)
{
    const uint64_t handle = out->streams.at[out->streams.n - 1] + 1;
    MR_PUSH(ctx, &out->streams, handle);
    return out->streams.n - 1;
}

/* Where a policy says in what the step computes, it has to; parts are in float32 then. */
static mr_status choose_dtypes(writer *w)
{
    static const char *const names[] = {"float32", "bfloat16", "float16"};
    const shards *s = &w->t.s;
    const uint64_t computes = s->choice->param_dtype, sends = s->choice->reduce_dtype;
    const char *wanted = names[computes];
    if (sends != SHARDS_FLOAT32 && sends != computes)
        return mr_fail(s->ctx, MR_EUSAGE,
                       "fsdp has reduce_dtype=%s, expected float32 or what param_dtype says",
                       names[sends]);
    if (computes == SHARDS_FLOAT32) return MR_OK;
    for (uint32_t t = 0; t < s->in->tensors.n; t++) {
        const mr_tensor *tensor = &s->in->tensors.at[t];
        if (s->owner[tensor->storage] == MR_NONE || !strcmp(tensor->dtype, wanted)) continue;
        return mr_fail(s->ctx, MR_EUSAGE,
                       "'%s' has a parameter of %s, expected %s: half makes it so, as in"
                       " half:%s+fsdp:param_dtype=%s",
                       s->in->name, tensor->dtype, wanted, wanted, wanted);
    }
    w->t.update.wide = sizeof(float) / 2;
    return MR_OK;
}

mr_status shards_rewrite(mr_ctx *ctx, const mr_trace *in, const shards_choice *choice,
                         mr_trace *out)
{
    const replica_choice one = {.ranks = choice->ranks};
    writer *w = MR_NEW(ctx, writer);
    shards *s = &w->t.s;
    *s = (shards){.ctx = ctx, .in = in, .choice = choice};
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->t.r));
    MR_TRY(replica_fill(ctx, in, &one, &s->gradients));
    MR_TRY(shards_find_units(s));
    MR_TRY(shards_find_visits(s));
    shards_find_owners(s);
    mr_where_init(&w->t.r, &w->t.where);
    out->ranks = (uint32_t)choice->ranks;
    w->t.gather_stream = new_stream(ctx, out);
    w->t.reduce_stream = new_stream(ctx, out);
    w->t.received = w->t.sent = MR_NONE;
    w->t.units = MR_NEW_N(ctx, shards_gathered, s->units.n);
    for (uint32_t u = 0; u < s->units.n; u++) w->t.units[u].flat = MR_NONE;
    sharded_begin(&w->t.update, &w->t.r, choice->ranks);
    w->t.update.rows = true;
    MR_TRY(choose_dtypes(w));
    shards_make(&w->t);
    write_all(w);
    sharded_slice(&w->t.update, true);
    if (s->units.n == 1)
        mr_rewrite_remark(&w->t.r, "fsdp finds no repeated blocks: the whole model is gathered"
                                   " at once (fsdp:module=features.* would say otherwise)");
    return MR_OK;
}
