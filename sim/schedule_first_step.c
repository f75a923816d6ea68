/* schedule_first_step -- what is not there yet when a program takes its first step.
 *
 * A recording shows a later step, before which states and gradients were there.  Where they lie
 * decides what later requests find, so their first places count for all steps.
 */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct first_step {
    const mr_schedule *schedule; /* as it was */
    uint32_t *birth; /* by storage: event before which it is made; MR_NONE: as recorded */
    bool *used;      /* by storage: by an op of the first step, so far */
    bool *absent;    /* by storage: a gradient that is only let go in the first step */
    bool *master;    /* by storage: a state from which the update copies to parameters */
    uint32_t row;    /* event of the first of the ops of the update in a row; MR_NONE */
} first_step;

static const mr_storage *storage_at(const first_step *f, uint32_t s)
{
    return &f->schedule->trace->storages.at[s];
}

static bool is_state(const first_step *f, uint32_t s)
{
    const mr_storage *storage = storage_at(f, s);
    return storage->role == MR_ROLE_state && storage->before && storage->after
           && storage->device == f->schedule->device && !f->master[s];
}

static uint32_t storage_of(const first_step *f, uint32_t tensor)
{
    return f->schedule->trace->tensors.at[tensor].storage;
}

/* What goes to parameters after its update began as a copy of them, when the program made its
 * optimizer. */
static void find_masters(first_step *f)
{
    const mr_trace *trace = f->schedule->trace;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        bool fills = false;
        if (op->phase != MR_UPDATE || !strstr(op->name, "copy_")) continue;
        for (uint32_t i = 0; i < op->mutates.n; i++)
            fills |= storage_at(f, storage_of(f, op->mutates.at[i]))->role == MR_ROLE_parameter;
        for (uint32_t i = 0; fills && i < op->in.n; i++)
            f->master[storage_of(f, op->in.at[i])] = true;
    }
}

/* All states of a group of parameters are made before the first of them is updated. */
static void look_at_op(first_step *f, uint32_t e, const mr_op *op)
{
    const mr_ids lists[] = {op->in, op->out, op->mutates};
    if (op->phase != MR_UPDATE) f->row = MR_NONE;
    else if (f->row == MR_NONE) f->row = e;
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const uint32_t s = storage_of(f, lists[l].at[i]);
            f->used[s] = true;
            if (f->birth[s] == MR_NONE && is_state(f, s))
                f->birth[s] = f->row == MR_NONE ? e : f->row;
        }
}

static void look_at_free(first_step *f, uint32_t s)
{
    const mr_storage *storage = storage_at(f, s);
    f->absent[s] = storage->role == MR_ROLE_gradient && storage->before && !storage->after
                   && !storage->deferred && storage->device == f->schedule->device
                   && !f->used[s];
}

static void look(first_step *f)
{
    const mr_schedule *schedule = f->schedule;
    for (uint32_t e = 0; e < schedule->ends.at[0]; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind == MR_RUN) look_at_op(f, e, &schedule->trace->ops.at[event->id]);
        if (event->kind == MR_FREE) look_at_free(f, event->id);
    }
}

/* Storages that are made late, in the order in which they are. */
typedef struct late {
    uint32_t event, storage;
} late;
typedef MR_VEC(late) lates;

static int by_event(const void *a, const void *b)
{
    const late *x = a, *y = b;
    if (x->event != y->event) return x->event < y->event ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

static lates find_lates(mr_ctx *ctx, const first_step *f)
{
    lates out = {0};
    for (uint32_t s = 0; s < f->schedule->trace->storages.n; s++)
        if (f->birth[s] != MR_NONE) MR_PUSH(ctx, &out, (late){f->birth[s], s});
    if (out.n) qsort(out.at, out.n, sizeof *out.at, by_event);
    return out;
}

static void write_events(mr_ctx *ctx, const first_step *f, mr_schedule *out)
{
    const mr_schedule *in = f->schedule;
    const lates born = find_lates(ctx, f);
    uint32_t next = 0;
    memset(&out->events, 0, sizeof out->events);
    MR_RESERVE_N(ctx, &out->events, in->events.n + born.n);
    for (uint32_t e = 0, end = 0; e < in->events.n; e++) {
        const mr_event *event = &in->events.at[e];
        while (next < born.n && born.at[next].event == e)
            MR_PUSH(ctx, &out->events, (mr_event){MR_ALLOC, born.at[next++].storage});
        const bool first = e < in->ends.at[0];
        if (!first || event->kind != MR_FREE || !f->absent[event->id])
            MR_PUSH(ctx, &out->events, *event);
        for (; end < in->ends.n && in->ends.at[end] == e + 1; end++)
            out->ends.at[end] = out->events.n;
    }
}

void mr_schedule_first_step(mr_ctx *ctx, mr_trace *trace, mr_schedule *schedule)
{
    const uint32_t n = trace->storages.n;
    mr_schedule was = *schedule;
    was.ends.at = MR_NEW_N(ctx, uint32_t, was.ends.n);
    memcpy(was.ends.at, schedule->ends.at, was.ends.n * sizeof *was.ends.at);
    first_step f = {.schedule = &was,
                    .birth = mr_none_of(ctx, n),
                    .used = MR_NEW_N(ctx, bool, n),
                    .absent = MR_NEW_N(ctx, bool, n),
                    .master = MR_NEW_N(ctx, bool, n),
                    .row = MR_NONE};
    find_masters(&f);
    look(&f);
    write_events(ctx, &f, schedule);
    mr_storage *own = MR_NEW_N(ctx, mr_storage, n); /* others read the trace's as well */
    if (n) memcpy(own, trace->storages.at, n * sizeof *own);
    for (uint32_t s = 0; s < n; s++)
        if (f.absent[s] || f.birth[s] != MR_NONE) own[s].before = false;
    trace->storages.at = own;
}
