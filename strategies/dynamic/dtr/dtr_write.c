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

static void follow(writer *w, const dtr_deed *deed)
{
    switch (deed->kind) {
    case DTR_RAN: run(w, &w->program->ops.at[deed->id]); return;
    case DTR_RERAN: run_again(w, &w->program->ops.at[deed->id]); return;
    case DTR_EVICTED:
    case DTR_RELEASED:
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
}

mr_status dtr_write(mr_ctx *ctx, const dtr_program *program, const dtr_report *report,
                    mr_trace *out)
{
    const mr_trace *in = program->trace;
    writer *w = MR_NEW(ctx, writer);
    w->program = program;
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
