/* dtr_write -- a run as a trace: what was evicted ends with its last reader, what was computed
 * again is an op more, whose results are read instead.
 *
 * A storage that is evicted while something refers to it loses its savers and drops: from then
 * on readers decide how long it and its copies live, and a copy that is there at the end stays.
 */
#include "dtr.h"
#include "rewrite.h"

#include <string.h>

typedef struct writer {
    mr_rewrite r;
    mr_where where;
    const dtr_program *program;
    uint32_t *home; /* by storage of the program: storage of the new trace; MR_NONE */
    bool *evicted;  /* by storage of the old trace, at any time */
    bool lazy;      /* what is evicted is held until then */
    uint32_t event; /* next one of the old trace */
} writer;

static void find_evicted(writer *w, const dtr_report *report)
{
    for (uint32_t i = 0; i < report->deeds.n; i++) {
        const dtr_deed *deed = &report->deeds.at[i];
        if (deed->kind == DTR_EVICTED)
            w->evicted[w->program->storages.at[deed->id].of] = true;
    }
}

/* Autograd lets go of what is evicted. */
static void strip_savers(writer *w)
{
    const mr_trace *in = w->r.in;
    for (uint32_t o = 0; o < in->ops.n; o++) {
        mr_op *op = &w->r.out->ops.at[o];
        const mr_saved *old = op->saved.at;
        const uint32_t n = op->saved.n;
        if (!n) continue;
        op->saved.at = MR_NEW_N(w->r.ctx, mr_saved, n);
        op->saved.n = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!w->evicted[in->tensors.at[old[i].tensor].storage])
                op->saved.at[op->saved.n++] = old[i];
    }
}

/* ---- deeds ------------------------------------------------------------------------------- */

/* Says where the op finds what it reads. */
static void find_inputs(writer *w, const dtr_op *op)
{
    const dtr_program *p = w->program;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = p->tensors.at[op->in.at[i]].storage;
        w->where.storage[p->storages.at[s].of] = w->home[s];
    }
}

/* Outputs that were missing are where the op has put them. */
static void find_outputs(writer *w, const dtr_op *op)
{
    const dtr_program *p = w->program;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = p->tensors.at[op->out.at[i]].storage;
        if (w->home[s] == MR_NONE) w->home[s] = w->where.storage[p->storages.at[s].of];
    }
}

/* The copy saves nothing, and nothing waits for it. */
static void run_again(writer *w, const dtr_op *op)
{
    find_inputs(w, op);
    const uint32_t copy = mr_rewrite_replay(&w->r, &w->where, op->of);
    w->r.out->ops.at[copy].saved.n = 0;
    w->r.out->ops.at[copy].of = MR_NONE;
    find_outputs(w, op);
}

static void run(writer *w, const dtr_op *op)
{
    if (op->of != MR_NONE) {
        find_inputs(w, op);
        mr_rewrite_run(&w->r, &w->where, op->of);
    }
    find_outputs(w, op);
}

/* A tensor of the trace that shows the memory of the storage, once its op has run; MR_NONE
 * when it was there before. */
static uint32_t shown(const writer *w, uint32_t storage)
{
    const dtr_storage *s = &w->program->storages.at[storage];
    const uint32_t o = w->program->ops.at[s->op].of;
    if (o == MR_NONE) return MR_NONE;
    const mr_op *op = &w->r.in->ops.at[o];
    const mr_ids both[] = {op->out, op->mutates};
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; i < both[b].n; i++)
            if (w->r.in->tensors.at[both[b].at[i]].storage == s->of) return both[b].at[i];
    return MR_NONE;
}

/* Nobody holds the storage any longer.  One that is where it always was, and was never evicted,
 * ends as the program says. */
static void let_go(writer *w, uint32_t storage)
{
    const uint32_t of = w->program->storages.at[storage].of, t = shown(w, storage);
    const uint32_t home = w->home[storage];
    w->home[storage] = MR_NONE;
    if (!w->lazy || t == MR_NONE || home == MR_NONE) return;
    if (home == of && !w->evicted[of]) return;
    w->where.storage[of] = home;
    mr_rewrite_drop(&w->r, &w->where, t);
}

static void follow(writer *w, const dtr_deed *deed)
{
    switch (deed->kind) {
    case DTR_RAN: run(w, &w->program->ops.at[deed->id]); return;
    case DTR_RERAN: run_again(w, &w->program->ops.at[deed->id]); return;
    case DTR_EVICTED:
    case DTR_RELEASED: let_go(w, deed->id); return;
    case DTR_TAKEN: w->home[deed->id] = MR_NONE; return;
    }
}

/* The event itself, unless deeds tell it. */
static void keep(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    if (event.kind == MR_RUN) return;
    if (event.kind == MR_DROP && w->evicted[w->r.in->tensors.at[event.id].storage]) return;
    mr_rewrite_keep(&w->r, NULL, e);
}

/* Copies stay in the place of what was there after the step. */
static void finish(writer *w)
{
    const dtr_program *p = w->program;
    mr_storage *storages = w->r.out->storages.at;
    for (uint32_t i = 0; i < p->kept.n; i++) {
        const uint32_t s = p->tensors.at[p->kept.at[i]].storage, of = p->storages.at[s].of;
        if (w->home[s] == of || w->home[s] == MR_NONE) continue;
        storages[of].after = false;
        storages[w->home[s]].after = true;
    }
    for (uint32_t s = 0; s < p->storages.n; s++)
        if (!p->storages.at[s].kept) let_go(w, s);
}

mr_status dtr_write(mr_ctx *ctx, const dtr_program *program, const dtr_report *report,
                    bool lazy, mr_trace *out)
{
    const mr_trace *in = program->trace;
    writer *w = MR_NEW(ctx, writer);
    w->program = program;
    w->lazy = lazy;
    w->home = MR_NEW_N(ctx, uint32_t, program->storages.n);
    w->evicted = MR_NEW_N(ctx, bool, in->storages.n);
    memset(w->home, 0xff, program->storages.n * sizeof *w->home);
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    mr_where_init(&w->r, &w->where);
    find_evicted(w, report);
    strip_savers(w);
    uint32_t d = 0;
    const dtr_deed *deeds = report->deeds.at;
    for (uint32_t step = 0; step <= program->steps.n; step++) {
        const uint32_t e =
            step < program->steps.n ? program->steps.at[step].event : in->events.n;
        for (; e != MR_NONE && w->event < e; w->event++) keep(w, w->event);
        for (; d < report->deeds.n && deeds[d].step == step; d++) follow(w, &deeds[d]);
    }
    finish(w);
    return MR_OK;
}
