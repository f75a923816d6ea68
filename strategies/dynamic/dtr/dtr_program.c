/* dtr_program -- from a trace to what runs under a budget.
 *
 * Values are never changed: an op that changes a tensor in the trace makes a new version of it
 * here, in a storage of its own, and the old version loses that reference.  Copying, other
 * views of the storage go on showing the old version.  In place, they show the new one, which
 * takes over the memory of the old one; only constants are really changed.
 */
#include "cost.h"
#include "dtr_internal.h"
#include "names.h"

#include <string.h>

typedef struct maker {
    mr_ctx *ctx;
    const mr_trace *trace;
    dtr_program *out;
    uint32_t event; /* of the moment */
    uint32_t *version;  /* by tensor of the trace: tensor of the program; MR_NONE */
    uint32_t *current;  /* by storage of the trace: its newest root tensor; MR_NONE */
    uint32_t *last;     /* by tensor of the trace: event that ends its reference; MR_NONE */
    uint32_t *first, *next; /* of the tensors that end with an event: the first; the next */
    uint32_t *in_storage, *next_in; /* tensors of a storage of the trace: the first; the next */
    bool *ended;
    mr_names kinds;
    MR_VEC(uint32_t) references; /* by storage of the program */
} maker;

/* ---- references -------------------------------------------------------------------------- */

static void touch(maker *m, mr_ids tensors, uint32_t event)
{
    for (uint32_t i = 0; i < tensors.n; i++) m->last[tensors.at[i]] = event;
}

/* What an op saved is let go after the last op that computes its gradient, where
 * that is known. */
static void touch_saved(maker *m)
{
    const mr_trace *t = m->trace;
    uint32_t *end = MR_NEW_N(m->ctx, uint32_t, t->ops.n);
    memset(end, 0xff, t->ops.n * sizeof *end);
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind == MR_RUN && t->ops.at[t->events.at[e].id].of != MR_NONE)
            end[t->ops.at[t->events.at[e].id].of] = e;
    for (uint32_t o = 0; o < t->ops.n; o++)
        for (uint32_t i = 0; end[o] != MR_NONE && i < t->ops.at[o].saved.n; i++) {
            uint32_t *last = &m->last[t->ops.at[o].saved.at[i].tensor];
            if (*last == MR_NONE || *last < end[o]) *last = end[o];
        }
}

/* Where the recording says when a storage was freed, that is when the last reference ended. */
static void touch_freed(maker *m)
{
    const mr_trace *t = m->trace;
    uint32_t *freed = MR_NEW_N(m->ctx, uint32_t, t->storages.n);
    memset(freed, 0xff, t->storages.n * sizeof *freed);
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind == MR_FREE) freed[t->events.at[e].id] = e;
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (freed[t->tensors.at[i].storage] != MR_NONE)
            m->last[i] = freed[t->tensors.at[i].storage];
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
    if (m->out->change == DTR_IN_PLACE) dtr_hold_filled(m->ctx, t, m->last);
    touch_freed(m);
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
    MR_PUSH(m->ctx, &m->out->steps, (dtr_step){DTR_RELEASE, s, m->event});
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
    /* What is there after the step is referred to for ever, whatever is dropped. */
    const bool after = m->out->change == DTR_IN_PLACE && m->trace->storages.at[of].after;
    MR_PUSH(m->ctx, &m->references, after);
    const uint32_t t = new_view(m, o, m->out->storages.n - 1);
    m->out->tensors.at[t].bytes = bytes;
    return t;
}

static uint64_t duration(const mr_trace *trace, const mr_op *op)
{
    if (trace->has & MR_HAS_TIMES) return op->ns;
    const mr_work work = mr_work_of(trace, op);
    return mr_device_ns(&mr_nominal_device, &work);
}

static uint32_t new_op(maker *m, uint32_t of)
{
    dtr_op op = {.of = of, .constant = true, .ties = m->out->ties.n};
    if (of != MR_NONE) {
        const mr_op *from = &m->trace->ops.at[of];
        op.ns = duration(m->trace, from);
        op.workspace = from->workspace;
        op.kind = mr_names_add(m->ctx, &m->kinds, from->name, strlen(from->name));
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
    const uint32_t old = m->version[tensor];
    refer(m, tensor, made);
    if (old != MR_NONE) let_go(m, old);
}

/* A new version of what the op changes: of the changed tensor itself, or where the op says so
 * of the tensor that it returns, because something still refers to the old one. */
static uint32_t holder(const maker *m, const mr_op *op, uint32_t tensor)
{
    const uint32_t storage = m->trace->tensors.at[tensor].storage;
    for (uint32_t i = 0; i < op->out.n; i++)
        if (m->trace->tensors.at[op->out.at[i]].storage == storage
            && m->version[op->out.at[i]] == MR_NONE)
            return op->out.at[i];
    return tensor;
}

static void step(maker *m, uint32_t o)
{
    tie_all(m, o);
    MR_PUSH(m->ctx, &m->out->steps, (dtr_step){DTR_RUN, o, m->event});
}

static void change_copies(maker *m, uint32_t o, const mr_op *op)
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
    step(m, o);
    for (uint32_t i = 0; i < old.n; i++) let_go(m, old.at[i]);
}

/* All that refers to the storage refers to its new version. */
static void refer_again(maker *m, uint32_t s, uint32_t version)
{
    for (uint32_t t = m->in_storage[s]; t != MR_NONE; t = m->next_in[t]) {
        if (m->version[t] == MR_NONE || m->ended[t]) continue;
        m->references.at[m->out->tensors.at[m->version[t]].storage]--;
        refer(m, t, version);
    }
}

/* The op's outputs in the storage that it changes are views of what that is then. */
static void refer_outputs(maker *m, const mr_op *op, uint32_t s)
{
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t t = op->out.at[i];
        if (m->trace->tensors.at[t].storage == s && m->version[t] == MR_NONE)
            refer(m, t, m->current[s]);
    }
}

/* `root` is the storage's newest root so far, which the op changes whether it reads
 * it or not. */
static void take(maker *m, uint32_t o, uint32_t root)
{
    const uint32_t old = m->out->tensors.at[root].storage;
    dtr_op *op = &m->out->ops.at[o];
    bool reads = false;
    for (uint32_t i = 0; i < op->in.n; i++)
        reads |= m->out->tensors.at[op->in.at[i]].storage == old;
    if (!reads) append(m->ctx, &op->in, root);
    append(m->ctx, &op->takes, old);
}

static void change_storage(maker *m, uint32_t o, uint32_t s)
{
    const uint32_t root = m->current[s];
    const dtr_storage *old =
        root == MR_NONE ? NULL : &m->out->storages.at[m->out->tensors.at[root].storage];
    if (old && old->op == o) return; /* it was changed already, through another view */
    if (old && old->constant) {
        const uint32_t constant = m->out->tensors.at[root].storage;
        if (!holds(m->out->ops.at[o].spoils, constant))
            append(m->ctx, &m->out->ops.at[o].spoils, constant);
        return;
    }
    if (old) take(m, o, root);
    m->current[s] = new_root(m, o, s, m->trace->storages.at[s].bytes);
    refer_again(m, s, m->current[s]);
}

static void change_in_place(maker *m, uint32_t o, const mr_op *op)
{
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const uint32_t s = m->trace->tensors.at[op->mutates.at[i]].storage;
        change_storage(m, o, s);
        if (m->version[op->mutates.at[i]] == MR_NONE)
            refer(m, op->mutates.at[i], m->current[s]);
        refer_outputs(m, op, s);
    }
    step(m, o);
}

static void run(maker *m, uint32_t of)
{
    const mr_op *op = &m->trace->ops.at[of];
    const uint32_t o = new_op(m, of);
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = find_version(m, op->in.at[i]);
        dtr_storage *s = &m->out->storages.at[m->out->tensors.at[t].storage];
        append(m->ctx, &m->out->ops.at[o].in, t);
        if (!s->readers.n || s->readers.at[s->readers.n - 1] != o)
            append(m->ctx, &s->readers, o);
    }
    for (uint32_t i = 0; i < op->out.n; i++)
        if (!changes_storage(m, op, m->trace->tensors.at[op->out.at[i]].storage))
            make_output(m, o, op, op->out.at[i]);
    if (m->out->change == DTR_COPIES) change_copies(m, o, op);
    else change_in_place(m, o, op);
}

static void begin(maker *m)
{
    const mr_trace *t = m->trace;
    m->version = MR_NEW_N(m->ctx, uint32_t, t->tensors.n);
    m->current = MR_NEW_N(m->ctx, uint32_t, t->storages.n);
    m->ended = MR_NEW_N(m->ctx, bool, t->tensors.n);
    m->next_in = MR_NEW_N(m->ctx, uint32_t, t->tensors.n);
    m->in_storage = MR_NEW_N(m->ctx, uint32_t, t->storages.n);
    memset(m->in_storage, 0xff, t->storages.n * sizeof *m->in_storage);
    for (uint32_t i = t->tensors.n; i-- > 0;) {
        m->next_in[i] = m->in_storage[t->tensors.at[i].storage];
        m->in_storage[t->tensors.at[i].storage] = i;
    }
    memset(m->version, 0xff, t->tensors.n * sizeof *m->version);
    memset(m->current, 0xff, t->storages.n * sizeof *m->current);
    for (uint32_t s = 0; s < t->storages.n; s++) {
        if (!t->storages.at[s].before) continue;
        const uint32_t o = new_op(m, MR_NONE);
        m->current[s] = new_root(m, o, s, t->storages.at[s].bytes);
        step(m, o);
    }
    bool *made = MR_NEW_N(m->ctx, bool, t->tensors.n);
    for (uint32_t o = 0; o < t->ops.n; o++)
        for (uint32_t i = 0; i < t->ops.at[o].out.n; i++) made[t->ops.at[o].out.at[i]] = true;
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (t->storages.at[t->tensors.at[i].storage].before && !made[i]) find_version(m, i);
}

/* What must be there at the end: tensors that the program refers to, storages that stay. */
static void keep(maker *m)
{
    const mr_trace *t = m->trace;
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (m->last[i] == MR_NONE && m->version[i] != MR_NONE)
            MR_PUSH(m->ctx, &m->out->kept, m->version[i]);
    for (uint32_t s = 0; m->out->change == DTR_IN_PLACE && s < t->storages.n; s++)
        if (t->storages.at[s].after && m->current[s] != MR_NONE)
            MR_PUSH(m->ctx, &m->out->kept, m->current[s]);
    for (uint32_t i = 0; i < m->out->kept.n; i++)
        m->out->storages.at[m->out->tensors.at[m->out->kept.at[i]].storage].kept = true;
}

mr_status dtr_program_make(mr_ctx *ctx, const mr_trace *trace, dtr_change change,
                           dtr_program *out)
{
    maker *m = MR_NEW(ctx, maker);
    *m = (maker){
        .ctx = ctx, .trace = trace, .out = out, .event = MR_NONE};
    *out = (dtr_program){.trace = trace, .change = change};
    find_ends(m);
    begin(m);
    for (m->event = 0; m->event < trace->events.n; m->event++) {
        const mr_event *event = &trace->events.at[m->event];
        if (event->kind == MR_RUN) run(m, event->id);
        for (uint32_t t = m->first[m->event]; t != MR_NONE; t = m->next[t]) {
            m->ended[t] = true;
            if (m->version[t] != MR_NONE) let_go(m, m->version[t]);
        }
    }
    keep(m);
    return MR_OK;
}

uint64_t dtr_taken_bytes(const dtr_program *program, const dtr_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->takes.n; i++)
        bytes += program->storages.at[op->takes.at[i]].bytes;
    return bytes;
}

uint64_t dtr_live_peak(const dtr_program *program)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t i = 0; i < program->steps.n; i++) {
        const dtr_step *step = &program->steps.at[i];
        if (step->kind == DTR_RELEASE) now -= program->storages.at[step->id].bytes;
        if (step->kind != DTR_RUN) continue;
        const dtr_op *op = &program->ops.at[step->id];
        now += op->bytes - dtr_taken_bytes(program, op);
        const uint64_t here = now + op->workspace;
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
