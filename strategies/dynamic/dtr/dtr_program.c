/* dtr_program -- from a trace to what runs under a budget.
 *
 * Values are never changed: an op that changes a tensor in the trace makes a new version of it
 * here, in a storage of its own, and the old version loses that reference.  Other views of the
 * storage go on showing the old version.
 */
#include "dtr.h"

#include <string.h>

typedef struct maker {
    mr_ctx *ctx;
    const mr_trace *trace;
    dtr_program *out;
    uint32_t *version;  /* by tensor of the trace: tensor of the program; MR_NONE */
    uint32_t *current;  /* by storage of the trace: its newest root tensor; MR_NONE */
    uint32_t *last;     /* by tensor of the trace: event that ends the reference to it; MR_NONE */
    uint32_t *first, *next; /* of the tensors that end with an event: the first; the next */
    MR_VEC(uint32_t) references; /* by storage of the program */
} maker;

/* ---- references -------------------------------------------------------------------------- */

static void touch(maker *m, mr_ids tensors, uint32_t event)
{
    for (uint32_t i = 0; i < tensors.n; i++) m->last[tensors.at[i]] = event;
}

/* What an op saved is let go after the last op of the backward pass that computes its gradient, or
 * where that is not known with the last op of the backward pass at all. */
static void touch_saved(maker *m)
{
    const mr_trace *t = m->trace;
    uint32_t *end = MR_NEW_N(m->ctx, uint32_t, t->ops.n), last = MR_NONE;
    memset(end, 0xff, t->ops.n * sizeof *end);
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        if (op->phase == MR_BACKWARD) last = e;
        if (op->of != MR_NONE) end[op->of] = e;
    }
    for (uint32_t o = 0; o < t->ops.n; o++) {
        const uint32_t e = end[o] == MR_NONE ? last : end[o];
        for (uint32_t i = 0; e != MR_NONE && i < t->ops.at[o].saved.n; i++) {
            uint32_t *ends = &m->last[t->ops.at[o].saved.at[i].tensor];
            if (*ends == MR_NONE || *ends < e) *ends = e;
        }
    }
}

static void find_ends(maker *m)
{
    const mr_trace *t = m->trace;
    bool *dropped = MR_NEW_N(m->ctx, bool, t->tensors.n);
    m->last = MR_NEW_N(m->ctx, uint32_t, t->tensors.n);
    m->next = MR_NEW_N(m->ctx, uint32_t, t->tensors.n);
    m->first = MR_NEW_N(m->ctx, uint32_t, t->events.n + 1);
    memset(m->last, 0xff, t->tensors.n * sizeof *m->last);
    memset(m->first, 0xff, t->events.n * sizeof *m->first);
    for (uint32_t e = 0; e < t->events.n; e++) {
        const mr_event *event = &t->events.at[e];
        if (event->kind == MR_DROP) dropped[event->id] = true, m->last[event->id] = e;
        if (event->kind != MR_RUN) continue;
        touch(m, t->ops.at[event->id].in, e);
        touch(m, t->ops.at[event->id].out, e);
        touch(m, t->ops.at[event->id].mutates, e);
    }
    touch_saved(m);
    for (uint32_t i = t->tensors.n; i-- > 0;) {
        if (t->storages.at[t->tensors.at[i].storage].after && !dropped[i]) m->last[i] = MR_NONE;
        if (m->last[i] == MR_NONE) continue;
        m->next[i] = m->first[m->last[i]];
        m->first[m->last[i]] = i;
    }
}

static void refer(maker *m, uint32_t tensor, uint32_t version)
{
    m->version[tensor] = version;
    m->references.at[m->out->tensors.at[version].storage]++;
}

static void let_go(maker *m, uint32_t version)
{
    const uint32_t s = m->out->tensors.at[version].storage;
    if (--m->references.at[s]) return;
    MR_PUSH(m->ctx, &m->out->steps, (dtr_step){DTR_RELEASE, s});
}

/* ---- things ------------------------------------------------------------------------------ */

static void append(mr_ctx *ctx, mr_ids *ids, uint32_t id)
{
    if (!(ids->n & (ids->n - 1))) { /* full at 0 and every power of two */
        uint32_t *at = MR_NEW_N(ctx, uint32_t, ids->n ? 2 * (size_t)ids->n : 1);
        if (ids->n) memcpy(at, ids->at, ids->n * sizeof *at);
        ids->at = at;
    }
    ids->at[ids->n++] = id;
}

static bool holds(mr_ids ids, uint32_t id)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (ids.at[i] == id) return true;
    return false;
}

/* A tensor of op `o`, the newest one, in a storage that there is. */
static uint32_t new_view(maker *m, uint32_t o, uint32_t storage)
{
    dtr_storage *s = &m->out->storages.at[storage];
    const bool costs = !s->tensors.n
                       || m->out->tensors.at[s->tensors.at[s->tensors.n - 1]].op != o;
    append(m->ctx, &s->tensors, m->out->tensors.n);
    append(m->ctx, &m->out->ops.at[o].out, m->out->tensors.n);
    MR_PUSH(m->ctx, &m->out->tensors,
            (dtr_tensor){.storage = storage, .op = o, .costs = costs});
    return m->out->tensors.n - 1;
}

static uint32_t new_root(maker *m, uint32_t o, uint32_t of, uint64_t bytes)
{
    dtr_op *op = &m->out->ops.at[o];
    op->bytes += bytes;
    MR_PUSH(m->ctx, &m->out->storages,
            (dtr_storage){.bytes = bytes, .of = of, .op = o, .constant = op->constant});
    MR_PUSH(m->ctx, &m->references, 0);
    const uint32_t t = new_view(m, o, m->out->storages.n - 1);
    m->out->tensors.at[t].bytes = bytes;
    return t;
}

static uint32_t new_op(maker *m, uint32_t of)
{
    dtr_op op = {.of = of, .constant = true, .ties = m->out->ties.n};
    if (of != MR_NONE) {
        const mr_op *from = &m->trace->ops.at[of];
        op.ns = from->ns;
        op.workspace = from->workspace;
        op.constant = !strcmp(from->name, "constant") && !from->in.n;
    }
    MR_PUSH(m->ctx, &m->out->ops, op);
    return m->out->ops.n - 1;
}

/* A tensor that no op made by that name shows what its storage has now. */
static uint32_t find_version(maker *m, uint32_t tensor)
{
    if (m->version[tensor] == MR_NONE)
        refer(m, tensor, m->current[m->trace->tensors.at[tensor].storage]);
    return m->version[tensor];
}

static void tie(maker *m, uint32_t parent, uint32_t child)
{
    dtr_storage *storages = m->out->storages.at;
    if (parent == child || storages[parent].constant) return;
    if (holds(storages[child].parents, parent)) return;
    append(m->ctx, &storages[child].parents, parent);
    append(m->ctx, &storages[parent].children, child);
    MR_PUSH(m->ctx, &m->out->ties, (dtr_tie){parent, child});
}

static void tie_all(maker *m, uint32_t o)
{
    const dtr_op *op = &m->out->ops.at[o];
    const dtr_tensor *tensors = m->out->tensors.at;
    for (uint32_t i = 0; i < op->out.n; i++)
        for (uint32_t j = 0; j < op->in.n; j++)
            tie(m, tensors[op->in.at[j]].storage, tensors[op->out.at[i]].storage);
    m->out->ops.at[o].ties_n = m->out->ties.n - op->ties;
}

/* ---- ops --------------------------------------------------------------------------------- */

/* The first tensor read by the op that lies in this storage of the trace; MR_NONE. */
static uint32_t viewed(const maker *m, const mr_op *op, uint32_t storage)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (m->trace->tensors.at[op->in.at[i]].storage == storage)
            return m->version[op->in.at[i]];
    return MR_NONE;
}

static bool changes_storage(const maker *m, const mr_op *op, uint32_t storage)
{
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (m->trace->tensors.at[op->mutates.at[i]].storage == storage) return true;
    return false;
}

/* An output in a storage that the op reads is a view of it. */
static void make_output(maker *m, uint32_t o, const mr_op *op, uint32_t tensor)
{
    const uint32_t storage = m->trace->tensors.at[tensor].storage;
    uint32_t seen = viewed(m, op, storage), made;
    if (seen == MR_NONE && m->current[storage] != MR_NONE && m->version[tensor] == MR_NONE) {
        seen = m->current[storage];
        append(m->ctx, &m->out->ops.at[o].in, seen);
    }
    if (seen != MR_NONE) made = new_view(m, o, m->out->tensors.at[seen].storage);
    else
        made = m->current[storage] =
            new_root(m, o, storage, m->trace->storages.at[storage].bytes);
    if (m->version[tensor] != MR_NONE) let_go(m, m->version[tensor]);
    refer(m, tensor, made);
}

/* A new version of what the op changes: of the changed tensor itself, or where the op says so of the
 * tensor that it returns, because something still refers to the old one. */
static uint32_t holder(const maker *m, const mr_op *op, uint32_t tensor)
{
    const uint32_t storage = m->trace->tensors.at[tensor].storage;
    for (uint32_t i = 0; i < op->out.n; i++)
        if (m->trace->tensors.at[op->out.at[i]].storage == storage
            && m->version[op->out.at[i]] == MR_NONE)
            return op->out.at[i];
    return tensor;
}

static void change(maker *m, uint32_t o, const mr_op *op)
{
    mr_ids old = {MR_NEW_N(m->ctx, uint32_t, op->mutates.n), 0};
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const uint32_t t = op->mutates.at[i], s = m->trace->tensors.at[t].storage;
        const uint32_t to = holder(m, op, t);
        const uint64_t bytes = m->version[t] == MR_NONE
            ? m->trace->storages.at[s].bytes
            : m->out->storages.at[m->out->tensors.at[m->version[t]].storage].bytes;
        if (m->version[to] != MR_NONE) old.at[old.n++] = m->version[to];
        m->current[s] = new_root(m, o, s, bytes);
        refer(m, to, m->current[s]);
    }
    tie_all(m, o);
    MR_PUSH(m->ctx, &m->out->steps, (dtr_step){DTR_RUN, o});
    for (uint32_t i = 0; i < old.n; i++) let_go(m, old.at[i]);
}

static void run(maker *m, uint32_t of)
{
    const mr_op *op = &m->trace->ops.at[of];
    const uint32_t o = new_op(m, of);
    for (uint32_t i = 0; i < op->in.n; i++)
        append(m->ctx, &m->out->ops.at[o].in, find_version(m, op->in.at[i]));
    for (uint32_t i = 0; i < op->out.n; i++)
        if (!changes_storage(m, op, m->trace->tensors.at[op->out.at[i]].storage))
            make_output(m, o, op, op->out.at[i]);
    change(m, o, op);
}

static void begin(maker *m)
{
    const mr_trace *t = m->trace;
    m->version = MR_NEW_N(m->ctx, uint32_t, t->tensors.n);
    m->current = MR_NEW_N(m->ctx, uint32_t, t->storages.n);
    memset(m->version, 0xff, t->tensors.n * sizeof *m->version);
    memset(m->current, 0xff, t->storages.n * sizeof *m->current);
    for (uint32_t s = 0; s < t->storages.n; s++) {
        if (!t->storages.at[s].before) continue;
        const uint32_t o = new_op(m, MR_NONE);
        m->current[s] = new_root(m, o, s, t->storages.at[s].bytes);
        MR_PUSH(m->ctx, &m->out->steps, (dtr_step){DTR_RUN, o});
    }
    bool *made = MR_NEW_N(m->ctx, bool, t->tensors.n);
    for (uint32_t o = 0; o < t->ops.n; o++)
        for (uint32_t i = 0; i < t->ops.at[o].out.n; i++) made[t->ops.at[o].out.at[i]] = true;
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (t->storages.at[t->tensors.at[i].storage].before && !made[i]) find_version(m, i);
}

mr_status dtr_program_make(mr_ctx *ctx, const mr_trace *trace, dtr_program *out)
{
    maker *m = MR_NEW(ctx, maker);
    *m = (maker){.ctx = ctx, .trace = trace, .out = out};
    *out = (dtr_program){.trace = trace};
    find_ends(m);
    begin(m);
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event *event = &trace->events.at[e];
        if (event->kind == MR_RUN) run(m, event->id);
        else if (event->kind == MR_MARK || event->kind == MR_FLUSH)
            MR_PUSH(ctx, &out->steps, (dtr_step){DTR_EVENT, e});
        for (uint32_t t = m->first[e]; t != MR_NONE; t = m->next[t])
            if (m->version[t] != MR_NONE) let_go(m, m->version[t]);
    }
    for (uint32_t t = 0; t < trace->tensors.n; t++)
        if (m->last[t] == MR_NONE && m->version[t] != MR_NONE)
            MR_PUSH(ctx, &out->kept, m->version[t]);
    return MR_OK;
}

uint64_t dtr_live_peak(const dtr_program *program)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t i = 0; i < program->steps.n; i++) {
        const dtr_step *step = &program->steps.at[i];
        if (step->kind == DTR_RELEASE) now -= program->storages.at[step->id].bytes;
        if (step->kind != DTR_RUN) continue;
        now += program->ops.at[step->id].bytes;
        const uint64_t here = now + program->ops.at[step->id].workspace;
        if (here > peak) peak = here;
    }
    return peak;
}

uint64_t dtr_compute_ns(const dtr_program *program)
{
    uint64_t ns = 0;
    for (uint32_t o = 0; o < program->ops.n; o++) ns += program->ops.at[o].ns;
    return ns;
}
