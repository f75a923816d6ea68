/* dtr_write -- a run as a trace: what was evicted ends with its last reader, what was computed
 * again is an op more, whose results are read instead.
 *
 * A storage that is evicted while something refers to it loses its savers and drops: from then
 * on readers decide how long it and its copies live, and a copy that is there at the end stays.
 * One that stays when nothing refers to it any more, since it may serve to compute others again,
 * ends when it is evicted, or with the step.
 *
 * Copies to the host and back run on streams of their own.  Memory is given back when computing
 * has waited for the copy, and taken on the stream that computes, as offload does it.
 */
#include "dtr.h"
#include "host_copy.h"
#include "rewrite.h"

#include <string.h>

typedef struct writer {
    mr_rewrite r;
    mr_where where;
    const dtr_program *program;
    uint32_t *home; /* by storage of the program: storage of the new trace; MR_NONE */
    bool *evicted;  /* by storage of the old trace, at any time */
    bool *stays;    /* by storage of the old trace: longer than the program refers to it */
    bool lazy;      /* what is evicted is held until then */
    uint32_t event; /* next one of the old trace */
    uint32_t op;    /* of the old trace: the last one that ran */
    /* By storage of the program, tensors of the new trace: of all its memory while it is being
     * sent, its copy on the host, what came back; MR_NONE. */
    uint32_t *whole, *host, *back;
    uint32_t *filled; /* by storage of the old trace: a tensor as large as that; MR_NONE */
    uint32_t out_stream, in_stream;
} writer;

static void find_evicted(writer *w, const dtr_report *report)
{
    for (uint32_t i = 0; i < report->deeds.n; i++) {
        const dtr_deed *deed = &report->deeds.at[i];
        if (deed->kind != DTR_EVICTED) continue;
        w->evicted[w->program->storages.at[deed->id].of] = true;
        w->r.out->evicts = true;
    }
}

/* What an op puts out is there. */
static void appear(const dtr_program *p, const dtr_op *op, bool *present)
{
    for (uint32_t i = 0; i < op->out.n; i++)
        present[p->tensors.at[op->out.at[i]].storage] = true;
}

static void follow_presence(const dtr_program *p, const dtr_deed *deed, bool *present)
{
    switch (deed->kind) {
    case DTR_RAN:
    case DTR_RERAN: appear(p, &p->ops.at[deed->id], present); return;
    case DTR_FETCHED: present[deed->id] = true; return;
    case DTR_EVICTED:
    case DTR_RELEASED:
    case DTR_TAKEN: present[deed->id] = false; return;
    }
}

static void find_stays(writer *w, const dtr_report *report)
{
    const dtr_program *p = w->program;
    bool *present = MR_NEW_N(w->r.ctx, bool, p->storages.n);
    uint32_t d = 0;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        for (; d < report->deeds.n && report->deeds.at[d].step == i; d++)
            follow_presence(p, &report->deeds.at[d], present);
        const dtr_step *step = &p->steps.at[i];
        if (step->kind != DTR_RELEASE || !present[step->id]) continue;
        const dtr_storage *s = &p->storages.at[step->id];
        if (p->ops.at[s->op].of != MR_NONE) w->stays[s->of] = true;
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

/* ---- copies on the host ------------------------------------------------------------------ */

static void begin_host(writer *w)
{
    const mr_trace *in = w->r.in;
    mr_trace *out = w->r.out;
    for (int i = 0; i < 2; i++)
        MR_PUSH(w->r.ctx, &out->streams, out->streams.at[out->streams.n - 1] + 1);
    w->out_stream = out->streams.n - 2;
    w->in_stream = out->streams.n - 1;
    w->filled = mr_none_of(w->r.ctx, in->storages.n);
    for (uint32_t t = in->tensors.n; t-- > 0;) {
        const mr_tensor *tensor = &in->tensors.at[t];
        const uint64_t bytes = in->storages.at[tensor->storage].bytes;
        if (!tensor->offset && tensor->bytes == bytes && mr_host_copy_bytes(tensor) == bytes)
            w->filled[tensor->storage] = t;
    }
}

static mr_op op_like_last(const writer *w)
{
    mr_op op = w->r.in->ops.at[w->op];
    op.of = MR_NONE;
    return op;
}

static void wait_op(writer *w, const char *name, mr_ids in, mr_ids out, uint32_t stream)
{
    const mr_op op = {.name = name,
                      .module = "",
                      .stream = stream,
                      .phase = w->r.in->ops.at[w->op].phase,
                      .again = MR_NONE,
                      .of = MR_NONE,
                      .engine = MR_ENGINE_wait,
                      .in = in,
                      .out = out};
    mr_rewrite_new_op(&w->r, &op);
}

/* A tensor of all bytes of where the storage is. */
static uint32_t whole_of(writer *w, uint32_t storage)
{
    const uint32_t of = w->program->storages.at[storage].of, home = w->home[storage];
    w->where.storage[of] = home;
    if (w->filled[of] != MR_NONE) return mr_rewrite_tensor(&w->r, &w->where, w->filled[of]);
    const dtr_storage *s = &w->program->storages.at[storage];
    const mr_ids out = w->r.in->ops.at[w->program->ops.at[s->op].of].out;
    uint64_t *shape = MR_NEW(w->r.ctx, uint64_t);
    *shape = s->bytes;
    const uint32_t t = mr_rewrite_new_tensor(&w->r, out.at[0], home);
    mr_tensor *tensor = &w->r.out->tensors.at[t];
    tensor->name = "";
    tensor->dtype = "uint8";
    tensor->rank = 1;
    tensor->shape = shape;
    return t;
}

static void send(writer *w, uint32_t storage)
{
    const mr_op as = op_like_last(w);
    w->whole[storage] = whole_of(w, storage);
    w->host[storage] = mr_host_copy_new(&w->r, w->whole[storage], MR_PINNED);
    mr_host_copy_out(&w->r, w->whole[storage], w->host[storage], w->out_stream, &as);
}

/* Its memory is free when the copies that read or write it are through. */
static void leave(writer *w, uint32_t storage)
{
    const uint32_t stream = w->r.in->storages.at[w->program->storages.at[storage].of].stream;
    const uint32_t ids[] = {w->whole[storage], w->host[storage]};
    if (w->whole[storage] != MR_NONE)
        wait_op(w, "cuda::stream_wait_event", mr_ids_of(w->r.ctx, 2, ids), (mr_ids){0}, stream);
    else if (w->back[storage] != MR_NONE)
        wait_op(w, "cuda::stream_wait_event", mr_ids_of(w->r.ctx, 1, &w->back[storage]),
                (mr_ids){0}, stream);
    w->whole[storage] = w->back[storage] = MR_NONE;
}

static void fetch(writer *w, uint32_t storage)
{
    const uint32_t of = w->program->storages.at[storage].of;
    const mr_storage *home = &w->r.in->storages.at[of];
    const mr_op as = op_like_last(w);
    const uint32_t t = mr_host_copy_new(&w->r, w->host[storage], home->device);
    const uint32_t s = w->r.out->tensors.at[t].storage;
    w->r.out->storages.at[s].role = home->role;
    wait_op(w, "aten::empty_like", (mr_ids){0}, mr_ids_of(w->r.ctx, 1, &t), home->stream);
    mr_host_copy_back(&w->r, w->host[storage], t, w->in_stream, true, &as);
    w->back[storage] = t;
    w->home[storage] = w->where.storage[of] = s;
}

/* ---- deeds ------------------------------------------------------------------------------- */

/* Says where the op finds what it reads, which it has waited for then. */
static void find_inputs(writer *w, const dtr_op *op)
{
    const dtr_program *p = w->program;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = p->tensors.at[op->in.at[i]].storage;
        w->where.storage[p->storages.at[s].of] = w->home[s];
        w->back[s] = MR_NONE;
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
    w->op = op->of;
    find_outputs(w, op);
}

static void run(writer *w, const dtr_op *op)
{
    if (op->of != MR_NONE) {
        find_inputs(w, op);
        mr_rewrite_run(&w->r, &w->where, op->of);
        w->op = op->of;
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

/* Nobody holds the storage any longer.  One that is where it always was, and was never evicted
 * nor kept for longer, ends as the program says. */
static void let_go(writer *w, uint32_t storage)
{
    const uint32_t of = w->program->storages.at[storage].of, t = shown(w, storage);
    const uint32_t home = w->home[storage];
    w->home[storage] = MR_NONE;
    if (t == MR_NONE || home == MR_NONE || !(w->lazy || w->stays[of])) return;
    if (home == of && !w->evicted[of] && !w->stays[of]) return;
    w->where.storage[of] = home;
    mr_rewrite_drop(&w->r, &w->where, t);
}

static void follow(writer *w, const dtr_deed *deed)
{
    switch (deed->kind) {
    case DTR_RAN: run(w, &w->program->ops.at[deed->id]); return;
    case DTR_RERAN: run_again(w, &w->program->ops.at[deed->id]); return;
    case DTR_FETCHED: fetch(w, deed->id); return;
    case DTR_EVICTED:
    case DTR_RELEASED:
        leave(w, deed->id);
        let_go(w, deed->id);
        return;
    case DTR_TAKEN: w->home[deed->id] = w->back[deed->id] = MR_NONE; return;
    }
}

/* The event itself, unless deeds tell it. */
static void keep(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    if (event.kind == MR_RUN) return;
    if (event.kind == MR_DROP) {
        const uint32_t s = w->r.in->tensors.at[event.id].storage;
        if (w->evicted[s] || w->stays[s]) return;
    }
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

/* Sendings by the deed before which they begin: the first one, and the next of each. */
static uint32_t *sort_sendings(mr_ctx *ctx, const dtr_report *report, uint32_t **next)
{
    uint32_t *first = mr_none_of(ctx, report->deeds.n + 1);
    *next = mr_none_of(ctx, report->sendings.n);
    for (uint32_t i = report->sendings.n; i-- > 0;) {
        const uint32_t d = report->sendings.at[i].deed;
        (*next)[i] = first[d];
        first[d] = i;
    }
    return first;
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
    w->stays = MR_NEW_N(ctx, bool, in->storages.n);
    memset(w->home, 0xff, program->storages.n * sizeof *w->home);
    w->whole = mr_none_of(ctx, program->storages.n);
    w->host = mr_none_of(ctx, program->storages.n);
    w->back = mr_none_of(ctx, program->storages.n);
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    mr_where_init(&w->r, &w->where);
    find_evicted(w, report);
    find_stays(w, report);
    strip_savers(w);
    if (report->sendings.n) begin_host(w);
    uint32_t d = 0, *next;
    const uint32_t *first = sort_sendings(ctx, report, &next);
    const dtr_deed *deeds = report->deeds.at;
    for (uint32_t step = 0; step <= program->steps.n; step++) {
        const uint32_t e =
            step < program->steps.n ? program->steps.at[step].event : in->events.n;
        for (; e != MR_NONE && w->event < e; w->event++) keep(w, w->event);
        for (; d < report->deeds.n && deeds[d].step == step; d++) {
            for (uint32_t i = first[d]; i != MR_NONE; i = next[i])
                send(w, report->sendings.at[i].storage);
            follow(w, &deeds[d]);
        }
    }
    finish(w);
    if (report->sendings.n) mr_host_copy_remark(&w->r, MR_PINNED);
    return MR_OK;
}
