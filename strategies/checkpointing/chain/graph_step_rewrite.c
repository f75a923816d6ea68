/* graph_step_rewrite -- a recorded step written anew with some results kept, the rest made
 * again.
 *
 * It is gone through twice: the first time only to learn after which event of the backward pass
 * a kept result is read for the last time, since that is when it is dropped in the second.
 */
#include "graph_step.h"
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    const graph_step *step;
    mr_rewrite r;
    mr_where where;
    bool dry;            /* only looks when results are read */
    bool *kept;          /* by storage */
    bool *there;         /* by storage: what the backward pass reads can be had at once */
    uint32_t *last_read; /* by storage: event of the backward pass; 0 for none */
    bool *wanted;        /* by op: runs again now */
    MR_VEC(uint32_t) ops, missing;
    uint32_t *place; /* by op: in the order of running */
} writer;

static uint32_t storage_of(const writer *w, uint32_t tensor)
{
    return w->step->trace->tensors.at[tensor].storage;
}

static bool is_result(const writer *w, uint32_t s)
{
    const uint32_t birth = w->step->lives.at[s].birth;
    return birth != MR_NONE && birth >= w->step->lives.begin && birth < w->step->lives.turn;
}

/* ---- what has to run again for an op
 * ------------------------------------------------------------ */

static void look_at(writer *w, mr_ids tensors, uint32_t event)
{
    for (uint32_t i = 0; i < tensors.n; i++) {
        const uint32_t s = storage_of(w, tensors.at[i]);
        if (!is_result(w, s)) {
            w->last_read[s] = event;
        } else if (w->there[s]) {
            if (w->kept[s]) w->last_read[s] = event;
        } else {
            w->there[s] = true; /* soon */
            MR_PUSH(w->r.ctx, &w->missing, s);
        }
    }
}

/* All that an op makes is made anew, so whatever changed any of it in place runs again too. */
static void want_op(writer *w, uint32_t o)
{
    if (w->wanted[o]) return;
    w->wanted[o] = true;
    MR_PUSH(w->r.ctx, &w->ops, o);
    const mr_ids out = w->step->trace->ops.at[o].out;
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t s = storage_of(w, out.at[i]);
        if (w->r.birth[s] != o) continue;
        w->there[s] = true;
        MR_PUSH(w->r.ctx, &w->missing, s);
    }
}

static void want_inputs(writer *w, uint32_t first, uint32_t event)
{
    for (uint32_t k = first; k < w->ops.n; k++) {
        const mr_op *op = &w->step->trace->ops.at[w->ops.at[k]];
        look_at(w, op->in, event);
        look_at(w, op->mutates, event);
    }
}

/* Op `now` of the new trace, which is `o` or a copy of it, saves only what is kept. */
static void let_saved_go(writer *w, uint32_t o, uint32_t now)
{
    const mr_op *was = &w->step->trace->ops.at[o];
    mr_op *op = &w->r.out->ops.at[now];
    const mr_saved *all = op->saved.at;
    op->saved.at = MR_NEW_N(w->r.ctx, mr_saved, was->saved.n);
    op->saved.n = 0;
    for (uint32_t i = 0; i < was->saved.n; i++) {
        const uint32_t s = storage_of(w, was->saved.at[i].tensor);
        if (!is_result(w, s) || w->kept[s]) op->saved.at[op->saved.n++] = all[i];
    }
}

static void replay(writer *w, uint32_t o)
{
    let_saved_go(w, o, mr_rewrite_replay(&w->r, &w->where, o));
}

static int by_place(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return (a[1] > b[1]) - (a[1] < b[1]);
}

static void run_wanted(writer *w)
{
    typedef uint32_t pair[2];
    pair *order = mr_alloc_n(w->r.ctx, w->ops.n, sizeof(pair));
    for (uint32_t k = 0; k < w->ops.n; k++) {
        order[k][0] = w->ops.at[k];
        order[k][1] = w->place[w->ops.at[k]];
    }
    if (w->ops.n) qsort(order, w->ops.n, sizeof(pair), by_place);
    for (uint32_t k = 0; k < w->ops.n; k++) {
        w->wanted[order[k][0]] = false;
        if (!w->dry) replay(w, order[k][0]);
    }
    w->ops.n = 0;
}

/* Everything the op of the backward pass reads is there afterwards. */
static void provide(writer *w, const mr_op *op, uint32_t event)
{
    uint32_t looked = 0;
    look_at(w, op->in, event);
    while (w->missing.n) {
        const uint32_t s = w->missing.at[--w->missing.n];
        want_op(w, w->r.birth[s]);
        for (uint32_t o = w->step->changes[s]; o != MR_NONE; o = w->step->next[o])
            want_op(w, o);
        want_inputs(w, looked, event);
        looked = w->ops.n;
    }
    run_wanted(w);
}

/* ---- the passes
 * --------------------------------------------------------------------------------- */

static void begin_pass(writer *w, bool dry)
{
    w->dry = dry;
    memcpy(w->there, w->kept, w->step->trace->storages.n);
}

/* Is the program's drop put off, because the result is read again after it? */
static bool held(const writer *w, uint32_t s, uint32_t event)
{
    return event >= w->step->lives.begin && event < w->step->lives.end
           && w->last_read[s] > event;
}

static void write_forward(writer *w)
{
    for (uint32_t e = 0; e < w->step->lives.turn; e++) {
        const mr_event event = w->step->trace->events.at[e];
        if (event.kind == MR_DROP && held(w, storage_of(w, event.id), e)) continue;
        mr_rewrite_keep(&w->r, NULL, e);
        if (event.kind == MR_RUN && e >= w->step->lives.begin)
            let_saved_go(w, event.id, event.id);
    }
}

/* Tensors whose drop was put off, by the event they are now dropped after. */
static uint32_t *drops_by_event(writer *w, uint32_t *next)
{
    const mr_trace *t = w->step->trace;
    uint32_t *first = MR_NEW_N(w->r.ctx, uint32_t, t->events.n);
    memset(first, 0xff, t->events.n * sizeof *first);
    for (uint32_t e = w->step->lives.begin; e < w->step->lives.end; e++) {
        const mr_event event = t->events.at[e];
        if (event.kind != MR_DROP || !held(w, storage_of(w, event.id), e)) continue;
        const uint32_t until = w->last_read[storage_of(w, event.id)];
        next[event.id] = first[until];
        first[until] = event.id;
    }
    return first;
}

static void write_backward(writer *w)
{
    const mr_trace *t = w->step->trace;
    uint32_t *next = MR_NEW_N(w->r.ctx, uint32_t, t->tensors.n);
    const uint32_t *first = w->dry ? NULL : drops_by_event(w, next);
    for (uint32_t e = w->step->lives.turn; e < t->events.n; e++) {
        const mr_event event = t->events.at[e];
        const bool run = event.kind == MR_RUN && e < w->step->lives.end;
        if (run) provide(w, &t->ops.at[event.id], e);
        if (w->dry || (event.kind == MR_DROP && held(w, storage_of(w, event.id), e))) continue;
        mr_rewrite_keep(&w->r, run ? &w->where : NULL, e);
        for (uint32_t d = first[e]; d != MR_NONE; d = next[d]) mr_rewrite_drop(&w->r, NULL, d);
    }
}

mr_status graph_step_rewrite(mr_ctx *ctx, const graph_step *step, const bool *kept,
                             mr_trace *out)
{
    const mr_trace *t = step->trace;
    writer w = {.step = step};
    MR_TRY(mr_rewrite_begin(ctx, t, out, &w.r));
    mr_where_init(&w.r, &w.where);
    w.kept = MR_NEW_N(ctx, bool, t->storages.n);
    w.there = MR_NEW_N(ctx, bool, t->storages.n);
    w.last_read = MR_NEW_N(ctx, uint32_t, t->storages.n);
    w.wanted = MR_NEW_N(ctx, bool, t->ops.n);
    w.place = MR_NEW_N(ctx, uint32_t, t->ops.n);
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind == MR_RUN) w.place[t->events.at[e].id] = e;
    for (uint32_t i = 0; i < step->graph.n; i++)
        if (step->storage[i] != MR_NONE)
            w.kept[step->storage[i]] =
                kept[i] || step->ops[i].must_save || step->pinned[step->storage[i]];
    begin_pass(&w, true);
    write_backward(&w);
    begin_pass(&w, false);
    write_forward(&w);
    write_backward(&w);
    return MR_OK;
}
