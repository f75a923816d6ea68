/* pack -- hooks copy every tensor that an op of the forward pass saves to the host, each as
 * often as it is saved, views without the rest of their memory; and back when the gradient
 * asks:
 *
 *     forward     pack(x) a pack(y)        what is only read before the op, after it results
 *                                          and what it writes in place
 *     backward    unpack(x) unpack(y) a'   as long as the node's own function runs
 *
 * Autograd saves nothing then.  Sums that the engine adds to a function, since its gradient is
 * larger than what was broadcast, come after what was unpacked has ended.
 */
#include "pack.h"

#include "host_copy.h"

#include <string.h>

typedef struct entry { /* a tensor that an op saves */
    uint32_t tensor;   /* of the input */
    uint32_t host;     /* of the output; MR_NONE: not copied (yet) */
    uint32_t back;     /* of the output, MR_NONE as long as nobody has asked */
    uint32_t next;     /* one that shares its memory, MR_NONE */
    bool lent;         /* to a region that runs again: what is back ends with its readers */
} entry;

typedef struct writer {
    mr_rewrite r;
    const pack_choice *choice;
    uint32_t device; /* on the host */
    MR_VEC(entry) entries;
    uint32_t *first;   /* by op: its first entry; they are as many as it saves; MR_NONE */
    uint32_t *on;      /* by storage: one of the entries in it that are open, MR_NONE */
    uint32_t *ends;    /* by op: event at which the function of its gradient ends, MR_NONE */
    uint32_t *dropped; /* by storage: event of its last drop, MR_NONE */
    uint32_t *now;     /* by tensor: what is read in its place, MR_NONE */
    MR_VEC(uint32_t) late; /* ops that save what a region of a checkpoint reads first */
    bool *is_late;         /* by storage: saved by one of them when it is dropped already */
    MR_VEC(bool) over; /* by storage of the output behind those of the input: it has ended */
} writer;

static const mr_tensor *tensor_at(const writer *w, uint32_t tensor)
{
    return &w->r.in->tensors.at[tensor];
}

/* ---- looking ahead ----------------------------------------------------------------------- */

static bool is_sum_of_engine(const mr_op *op, bool follows_sum)
{
    if (!strcmp(op->name, "aten::sum")) return true;
    return follows_sum
           && (!strcmp(op->name, "aten::view") || !strcmp(op->name, "aten::_to_copy"));
}

/* The op whose gradient the function computes; of an op that ran again for that, the first. */
static uint32_t function_of(const writer *w, const mr_op *op)
{
    const uint32_t again = op->of == MR_NONE ? MR_NONE : w->r.in->ops.at[op->of].again;
    return again == MR_NONE ? op->of : again;
}

static void look_ahead(writer *w)
{
    const mr_trace *in = w->r.in;
    bool *summed = MR_NEW_N(w->r.ctx, bool, in->ops.n);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_DROP) w->dropped[tensor_at(w, event.id)->storage] = e;
        if (event.kind != MR_RUN || in->ops.at[event.id].of == MR_NONE) continue;
        const mr_op *op = &in->ops.at[event.id];
        const uint32_t of = function_of(w, op);
        summed[of] = is_sum_of_engine(op, summed[of]);
        if (!summed[of] || w->ends[of] == MR_NONE) w->ends[of] = e;
    }
}

static bool is_packed(const writer *w, const mr_op *op, uint32_t i)
{
    return op->phase == MR_FORWARD
           && mr_host_copy_bytes(tensor_at(w, op->saved.at[i].tensor)) >= w->choice->least;
}

static void look_for_late(writer *w)
{
    const mr_trace *in = w->r.in;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        bool late = false;
        for (uint32_t i = 0; i < op->saved.n; i++) {
            const uint32_t s = tensor_at(w, op->saved.at[i].tensor)->storage;
            if (!is_packed(w, op, i) || w->dropped[s] >= e) continue;
            w->is_late[s] = late = true;
        }
        if (late) MR_PUSH(w->r.ctx, &w->late, in->events.at[e].id);
    }
}

/* ---- forward ----------------------------------------------------------------------------- */

/* Is entry i what the op has made of it, so that it is there after the op only? */
static bool is_result(const writer *w, const mr_op *op, uint32_t i)
{
    const uint32_t birth = w->r.birth[tensor_at(w, op->saved.at[i].tensor)->storage];
    if (op->saved.at[i].as != MR_SAVED_INPUT) return true;
    if (birth != MR_NONE && op == &w->r.in->ops.at[birth]) return true; /* fused with its maker */
    for (uint32_t k = 0; k < op->mutates.n; k++)
        if (tensor_at(w, op->mutates.at[k])->storage
            == tensor_at(w, op->saved.at[i].tensor)->storage)
            return true;
    return false;
}

static void pack_one(writer *w, uint32_t o, uint32_t i)
{
    mr_op as = w->r.in->ops.at[o];
    as.of = MR_NONE;
    entry *x = &w->entries.at[w->first[o] + i];
    const uint32_t s = tensor_at(w, x->tensor)->storage;
    if (x->host != MR_NONE) return;
    x->host = mr_host_copy_new(&w->r, x->tensor, w->device);
    mr_host_copy_out(&w->r, x->tensor, x->host, as.stream, &as);
    x->next = w->on[s];
    w->on[s] = w->first[o] + i;
}

static void pack(writer *w, uint32_t o, bool results)
{
    const mr_op *op = &w->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (is_packed(w, op, i) && results == is_result(w, op, i)) pack_one(w, o, i);
}

static void enter(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    if (w->first[o] != MR_NONE) return;
    w->first[o] = w->entries.n;
    for (uint32_t i = 0; i < op->saved.n; i++) {
        const entry fresh = {op->saved.at[i].tensor, MR_NONE, MR_NONE, MR_NONE, false};
        MR_PUSH(w->r.ctx, &w->entries, fresh);
    }
}

/* A region of a checkpoint packs what it reads when it begins, though the op that is said to
 * save that comes later. */
static void pack_early(writer *w, uint32_t storage)
{
    for (uint32_t l = 0; l < w->late.n; l++) {
        const uint32_t o = w->late.at[l];
        const mr_op *op = &w->r.in->ops.at[o];
        for (uint32_t i = 0; i < op->saved.n; i++) {
            if (tensor_at(w, op->saved.at[i].tensor)->storage != storage) continue;
            enter(w, o);
            if (is_packed(w, op, i)) pack_one(w, o, i);
        }
    }
}

/* Autograd keeps what is not packed. */
static void save_the_rest(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    mr_op *kept = &w->r.out->ops.at[o];
    kept->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    kept->saved.n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (!is_packed(w, op, i)) kept->saved.at[kept->saved.n++] = op->saved.at[i];
}

static void run_forward(writer *w, uint32_t o)
{
    enter(w, o);
    pack(w, o, false);
    save_the_rest(w, o);
    mr_rewrite_run(&w->r, NULL, o);
    pack(w, o, true);
}

/* ---- backward: what is read -------------------------------------------------------------- */

static uint32_t storage_of_new(const writer *w, uint32_t tensor)
{
    return w->r.out->tensors.at[tensor].storage - w->r.in->storages.n;
}

static bool is_over(const writer *w, uint32_t unpacked)
{
    const uint32_t s = storage_of_new(w, unpacked);
    return s < w->over.n && w->over.at[s];
}

/* Where the tensor is now: what was unpacked, as long as that lives, or itself. */
static uint32_t place(const writer *w, uint32_t tensor)
{
    const uint32_t now = w->now[tensor];
    return now == MR_NONE || is_over(w, now) ? tensor : now;
}

static void unpack(writer *w, uint32_t index, const mr_op *as)
{
    entry *x = &w->entries.at[index];
    const mr_storage *home = &w->r.in->storages.at[tensor_at(w, x->tensor)->storage];
    if (x->host == MR_NONE) return;
    if (x->back == MR_NONE) {
        x->back = mr_host_copy_new(&w->r, x->tensor, home->device);
        mr_host_copy_back(&w->r, x->host, x->back, as->stream, false, as);
    }
    w->now[x->tensor] = x->back;
}

/* A view of what was unpacked, where there are no gaps any more. */
static uint32_t view(writer *w, uint32_t tensor, uint32_t base, uint32_t now)
{
    const mr_tensor *was = tensor_at(w, tensor), *of = tensor_at(w, base);
    const uint32_t t = mr_rewrite_new_tensor(&w->r, tensor, w->r.out->tensors.at[now].storage);
    const mr_tensor *there = &w->r.out->tensors.at[now];
    const uint64_t alone = mr_host_copy_bytes(was);
    const bool whole = of->bytes == there->bytes;
    mr_tensor *made = &w->r.out->tensors.at[t];
    made->bytes = whole ? was->bytes : alone < there->bytes ? alone : there->bytes;
    made->offset = there->offset + (whole ? was->offset - of->offset : 0);
    return w->now[tensor] = t;
}

static bool covers(const mr_tensor *x, const mr_tensor *y)
{
    return x->storage == y->storage && x->offset <= y->offset
           && x->offset + x->bytes >= y->offset + y->bytes;
}

/* Another view of memory of which the op has saved one. */
static void see_as_saved(writer *w, uint32_t of, uint32_t tensor)
{
    if (place(w, tensor) != tensor) return;
    for (uint32_t i = 0; i < w->r.in->ops.at[of].saved.n; i++) {
        const entry *x = &w->entries.at[w->first[of] + i];
        if (x->back == MR_NONE || !covers(tensor_at(w, x->tensor), tensor_at(w, tensor)))
            continue;
        view(w, tensor, x->tensor, x->back);
        return;
    }
}

/* The entry to read a tensor from: its own, or else one of a larger view; MR_NONE. */
static uint32_t entry_for(const writer *w, uint32_t tensor)
{
    uint32_t found = MR_NONE;
    for (uint32_t i = w->on[tensor_at(w, tensor)->storage]; i != MR_NONE;
         i = w->entries.at[i].next) {
        const entry *x = &w->entries.at[i];
        if (x->back != MR_NONE && is_over(w, x->back)) continue;
        if (x->tensor == tensor) return i;
        if (found == MR_NONE && covers(tensor_at(w, x->tensor), tensor_at(w, tensor)))
            found = i;
    }
    return found;
}

/* What runs again reads what a region of a checkpoint has saved for it.  Only where the program
 * does not hold it any more. */
static void unpack_for_others(writer *w, uint32_t e, uint32_t tensor, const mr_op *op)
{
    const uint32_t s = tensor_at(w, tensor)->storage;
    const mr_storage *home = &w->r.in->storages.at[s];
    const bool held =
        home->before || home->after || w->dropped[s] == MR_NONE || w->dropped[s] > e;
    if (held || place(w, tensor) != tensor) return;
    mr_op as = *op;
    as.of = MR_NONE;
    const uint32_t i = entry_for(w, tensor);
    if (i == MR_NONE) return;
    unpack(w, i, &as);
    w->entries.at[i].lent = true;
    if (w->entries.at[i].tensor != tensor)
        view(w, tensor, w->entries.at[i].tensor, w->entries.at[i].back);
}

static mr_ids places(writer *w, mr_ids ids)
{
    mr_ids out = mr_ids_of(w->r.ctx, ids.n, ids.at);
    for (uint32_t i = 0; i < out.n; i++) out.at[i] = place(w, out.at[i]);
    return out;
}

/* Where result k is: with the input whose memory it shares, which it may even be. */
static uint32_t place_of_result(writer *w, const mr_op *op, uint32_t k)
{
    const uint32_t result = op->out.at[k], s = tensor_at(w, result)->storage;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i], now = place(w, t);
        if (now == t || tensor_at(w, t)->storage != s) continue;
        return t == result ? now : view(w, result, t, now);
    }
    w->now[result] = MR_NONE;
    return result;
}

static mr_ids places_of_results(writer *w, const mr_op *op)
{
    mr_ids out = mr_ids_of(w->r.ctx, op->out.n, op->out.at);
    for (uint32_t k = 0; k < out.n; k++) out.at[k] = place_of_result(w, op, k);
    return out;
}

/* ---- backward: ops ----------------------------------------------------------------------- */

static void end(writer *w, uint32_t index)
{
    const entry *x = &w->entries.at[index];
    if (x->host == MR_NONE || x->back == MR_NONE) return;
    const uint32_t s = storage_of_new(w, x->back);
    if (!x->lent) mr_rewrite_drop(&w->r, NULL, x->back);
    mr_rewrite_drop(&w->r, NULL, x->host);
    while (w->over.n <= s) MR_PUSH(w->r.ctx, &w->over, false);
    w->over.at[s] = true;
}

/* After the last event of a function. */
static void end_all(writer *w, uint32_t e, uint32_t of)
{
    if (of == MR_NONE || w->first[of] == MR_NONE || w->ends[of] != e) return;
    for (uint32_t i = w->r.in->ops.at[of].saved.n; i-- > 0;) end(w, w->first[of] + i);
}

static void run_backward(writer *w, uint32_t e, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    const uint32_t of = op->of;
    const bool packed = of != MR_NONE && w->first[of] != MR_NONE;
    const uint32_t n = packed ? w->r.in->ops.at[of].saved.n : 0;
    for (uint32_t i = 0; i < n && e <= w->ends[of]; i++) unpack(w, w->first[of] + i, op);
    for (uint32_t i = 0; i < op->in.n; i++) {
        if (n && e <= w->ends[of]) see_as_saved(w, of, op->in.at[i]);
        unpack_for_others(w, e, op->in.at[i], op);
    }
    mr_op *written = &w->r.out->ops.at[o];
    const mr_ids in = places(w, op->in), mutates = places(w, op->mutates);
    const mr_ids out = places_of_results(w, op);
    written = &w->r.out->ops.at[o];
    written->in = in;
    written->mutates = mutates;
    written->out = out;
    if (op->saved.n) {
        written->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
        memcpy(written->saved.at, op->saved.at, op->saved.n * sizeof *op->saved.at);
        for (uint32_t i = 0; i < op->saved.n; i++)
            written->saved.at[i].tensor = place(w, op->saved.at[i].tensor);
    }
    mr_rewrite_run(&w->r, NULL, o);
    end_all(w, e, function_of(w, op));
}

static void keep(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    if (event.kind == MR_DROP) {
        const uint32_t s = tensor_at(w, event.id)->storage;
        if (w->is_late[s] && w->dropped[s] == e) pack_early(w, s);
    }
    mr_rewrite_keep(&w->r, NULL, e);
}

/* ---- the whole --------------------------------------------------------------------------- */

mr_status pack_rewrite(mr_ctx *ctx, const mr_trace *in, const pack_choice *choice,
                       mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    w->choice = choice;
    w->device = choice->pinned ? MR_PINNED : MR_PAGEABLE;
    MR_TRY(mr_rewrite_not_beside(ctx, in, "offload:save_on_cpu"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    w->first = mr_none_of(ctx, in->ops.n);
    w->ends = mr_none_of(ctx, in->ops.n);
    w->on = mr_none_of(ctx, in->storages.n);
    w->dropped = mr_none_of(ctx, in->storages.n);
    w->now = mr_none_of(ctx, in->tensors.n);
    w->is_late = MR_NEW_N(ctx, bool, in->storages.n);
    look_ahead(w);
    look_for_late(w);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        const mr_phase phase = event.kind == MR_RUN ? in->ops.at[event.id].phase : MR_OTHER;
        if (phase == MR_FORWARD) run_forward(w, event.id);
        else if (phase == MR_BACKWARD) run_backward(w, e, event.id);
        else keep(w, e);
    }
    mr_host_copy_remark(&w->r, w->device);
    return MR_OK;
}
