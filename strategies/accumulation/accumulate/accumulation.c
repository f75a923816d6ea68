/* accumulation -- what of a step is repeated, and with which gradients that ends. */
#include "accumulation.h"

#include "names.h"
#include "param.h"

#include <inttypes.h>
#include <string.h>

/* ---- what is repeated
 * -------------------------------------------------------------------------- */

const mr_op *accumulation_op(const accumulation *a, uint32_t event)
{
    const mr_event *e = &a->in->events.at[event];
    return e->kind == MR_RUN ? &a->in->ops.at[e->id] : NULL;
}

static bool begins_phase(const mr_trace *trace, const mr_event *event)
{
    return event->kind == MR_MARK && trace->marks.at[event->id].kind == MR_PHASE_BEGIN;
}

/* From the mark before the first op of the forward pass to what follows the last one of the
 * backward pass before anything else runs. */
static mr_status find_span(accumulation *a)
{
    const mr_trace *in = a->in;
    uint32_t first = MR_NONE, last = MR_NONE;
    a->forward_end = MR_NONE;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_op *op = accumulation_op(a, e);
        if (!op) continue;
        if (op->phase == MR_FORWARD && last != MR_NONE)
            return mr_fail(
                a->ctx, MR_EUNSUPPORTED,
                "'%s' has a forward pass after a backward pass, expected one step in one"
                " batch to divide in micro-batches",
                in->name);
        if (op->phase == MR_UPDATE && first != MR_NONE && last == MR_NONE)
            return mr_fail(
                a->ctx, MR_EUNSUPPORTED,
                "'%s' updates parameters before its backward pass, expected that after",
                in->name);
        if (op->phase == MR_FORWARD && first == MR_NONE) first = e;
        if (op->phase == MR_FORWARD) a->forward_end = e;
        if (op->phase == MR_BACKWARD) last = e;
    }
    if (first == MR_NONE || last == MR_NONE)
        return mr_fail(
            a->ctx, MR_EUNSUPPORTED,
            "'%s' has no forward and backward pass, expected both to do in micro-batches",
            in->name);
    a->begin = first;
    while (a->begin && !accumulation_op(a, a->begin - 1)
           && !begins_phase(in, &in->events.at[a->begin]))
        a->begin--;
    if (!begins_phase(in, &in->events.at[a->begin])) a->begin = first;
    a->end = last + 1;
    while (a->end < in->events.n && !accumulation_op(a, a->end)
           && !begins_phase(in, &in->events.at[a->end])
           && !(in->events.at[a->end].kind == MR_MARK
                && in->marks.at[in->events.at[a->end].id].kind == MR_STEP_END))
        a->end++;
    return MR_OK;
}

static mr_status check_span(const accumulation *a)
{
    for (uint32_t e = a->begin; e < a->end; e++) {
        const mr_op *op = accumulation_op(a, e);
        if (op && op->phase == MR_UPDATE)
            return mr_fail(
                a->ctx, MR_EUNSUPPORTED,
                "'%s' updates parameters during its backward pass (%s): gradients of one"
                " micro-batch would be used before those of the others are added",
                a->in->name, op->name);
    }
    return MR_OK;
}

/* Is it there before the step as what gradients are sent in, and written in this op? */
static bool fills_bucket(const accumulation *a, const mr_op *op, uint32_t storage)
{
    const mr_storage *s = &a->in->storages.at[storage];
    if (op->engine == MR_ENGINE_compute || !s->before || s->role != MR_ROLE_gradient)
        return false;
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (a->in->tensors.at[op->mutates.at[i]].storage == storage) return true;
    return false;
}

/* A bucket that the update reads would hold what the last micro-batch has sent. */
static mr_status check_buckets(const accumulation *a)
{
    bool *read = MR_NEW_N(a->ctx, bool, a->in->storages.n);
    for (uint32_t e = a->end; e < a->in->events.n; e++)
        for (uint32_t i = 0; accumulation_op(a, e) && i < accumulation_op(a, e)->in.n; i++)
            read[a->in->tensors.at[accumulation_op(a, e)->in.at[i]].storage] = true;
    for (uint32_t e = a->begin; e < a->end; e++) {
        const mr_op *op = accumulation_op(a, e);
        for (uint32_t i = 0; op && i < op->mutates.n; i++) {
            const uint32_t s = a->in->tensors.at[op->mutates.at[i]].storage;
            if (!read[s] || !fills_bucket(a, op, s)) continue;
            return mr_fail(
                a->ctx, MR_EUNSUPPORTED,
                "'%s' updates from buckets that %s fills in its backward pass: each"
                " micro-batch would fill them anew, so divide the batch before gradients are"
                " sent, as in accumulate+ddp",
                a->in->name, op->name);
        }
    }
    return MR_OK;
}

/* ---- gradients
 * ------------------------------------------------------------------------------------ */

static void note(const accumulation *a, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        a->outlives[a->in->tensors.at[ids.at[i]].storage] = true;
}

static void find_what_outlives(accumulation *a)
{
    for (uint32_t s = 0; s < a->in->storages.n; s++)
        a->outlives[s] = a->in->storages.at[s].after;
    for (uint32_t e = a->end; e < a->in->events.n; e++) {
        const mr_event *event = &a->in->events.at[e];
        if (event->kind == MR_DROP) a->outlives[a->in->tensors.at[event->id].storage] = true;
        if (!accumulation_op(a, e)) continue;
        note(a, accumulation_op(a, e)->in);
        note(a, accumulation_op(a, e)->mutates);
    }
}

/* Of a parameter, that is: one that the update will read. */
bool accumulation_is_gradient(const accumulation *a, uint32_t s)
{
    return a->inside[s] && a->outlives[s] && a->in->storages.at[s].role == MR_ROLE_gradient;
}

static void see(accumulation *a, uint32_t *last, mr_ids ids, uint32_t op)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = a->in->tensors.at[ids.at[i]].storage;
        if (!accumulation_is_gradient(a, s)) continue;
        last[s] = op;
        a->final[s] = ids.at[i];
    }
}

/* A gradient is finished by the last op that writes it, or makes a view of it. */
static void find_gradients(accumulation *a)
{
    const uint32_t n = a->in->storages.n;
    uint32_t *last = MR_NEW_N(a->ctx, uint32_t, n);
    memset(last, 0xff, n * sizeof *last);
    memset(a->final, 0xff, n * sizeof *a->final);
    memset(a->first, 0xff, a->in->ops.n * sizeof *a->first);
    for (uint32_t e = a->begin; e < a->end; e++) {
        const mr_op *op = accumulation_op(a, e);
        if (!op) continue;
        const uint32_t o = a->in->events.at[e].id;
        see(a, last, op->in, o);
        see(a, last, op->mutates, o);
        see(a, last, op->out, o);
    }
    for (uint32_t s = n; s-- > 0;) {
        if (last[s] == MR_NONE) continue;
        a->next[s] = a->first[last[s]];
        a->first[last[s]] = s;
    }
    for (uint32_t s = 0; s < n; s++)
        if (last[s] != MR_NONE) MR_PUSH(a->ctx, &a->gradients, s);
}

/* The loss, if the backward pass begins with a gradient that is made of nothing else. */
static void find_loss(accumulation *a)
{
    a->loss = a->backward_begin = MR_NONE;
    for (uint32_t e = a->forward_end + 1; e < a->end && a->backward_begin == MR_NONE; e++)
        if (accumulation_op(a, e)) a->backward_begin = e;
    if (a->backward_begin == MR_NONE) return;
    const mr_op *op = accumulation_op(a, a->backward_begin);
    if (op->in.n != 1 || op->out.n != 1) return;
    const uint32_t s = a->in->tensors.at[op->in.at[0]].storage;
    if (a->inside[s] && !a->in->storages.at[s].per_sample) a->loss = op->in.at[0];
}

/* ---- the whole --- */

static void count_calls(accumulation *a)
{
    mr_names modules = {0};
    MR_VEC(uint32_t) most = {0};
    uint32_t *module = MR_NEW_N(a->ctx, uint32_t, a->in->ops.n);
    for (uint32_t o = 0; o < a->in->ops.n; o++) {
        const mr_op *op = &a->in->ops.at[o];
        module[o] = mr_names_add(a->ctx, &modules, op->module, strlen(op->module));
        if (module[o] == most.n) MR_PUSH(a->ctx, &most, 0);
        if (op->call + 1 > most.at[module[o]]) most.at[module[o]] = op->call + 1;
    }
    for (uint32_t o = 0; o < a->in->ops.n; o++)
        a->calls[o] = *a->in->ops.at[o].module ? most.at[module[o]] : 0;
}

static mr_status find_batch(accumulation *a, uint64_t k)
{
    const char *batch = a->in->about[MR_ABOUT_batch];
    bool known = false;
    for (uint32_t s = 0; s < a->in->storages.n; s++)
        known |= a->inside[s] && a->in->storages.at[s].per_sample;
    a->share = (mr_share){.parts = k};
    if (batch && mr_parse_size(batch, &a->share.batch) && a->share.batch && known) {
        if (a->share.batch >= k) return MR_OK;
        return mr_fail(a->ctx, MR_EUNSUPPORTED,
                       "'%s' has a batch of %s, which cannot be divided in %" PRIu64
                       " micro-batches",
                       a->in->name, batch, k);
    }
    if (k == 1) {
        a->share.batch = 1;
        return MR_OK;
    }
    return mr_fail(
        a->ctx, MR_EUNSUPPORTED,
        "'%s' does not say %s, expected it, for that is what micro-batches divide: record"
        " the step at two batch sizes (see traces/record)",
        a->in->name, known ? "how large its batch is" : "how many bytes a sample takes");
}

mr_status accumulation_look(accumulation *a, uint64_t k)
{
    const mr_trace *in = a->in;
    MR_TRY(find_span(a));
    MR_TRY(check_span(a));
    MR_TRY(check_buckets(a));
    bool *runs = MR_NEW_N(a->ctx, bool, in->ops.n);
    for (uint32_t e = a->begin; e < a->end; e++)
        if (accumulation_op(a, e)) runs[in->events.at[e].id] = true;
    a->inside = MR_NEW_N(a->ctx, bool, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++)
        a->inside[s] = a->r.birth[s] != MR_NONE && runs[a->r.birth[s]];
    MR_TRY(find_batch(a, k));
    a->outlives = MR_NEW_N(a->ctx, bool, in->storages.n);
    find_what_outlives(a);
    a->final = MR_NEW_N(a->ctx, uint32_t, in->storages.n);
    a->next = MR_NEW_N(a->ctx, uint32_t, in->storages.n);
    a->first = MR_NEW_N(a->ctx, uint32_t, in->ops.n);
    a->calls = MR_NEW_N(a->ctx, uint32_t, in->ops.n);
    find_gradients(a);
    find_loss(a);
    count_calls(a);
    return MR_OK;
}
