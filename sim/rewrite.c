/* rewrite -- writing a trace anew: maps, copies of ops, things that no recording had. */
#include "rewrite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- beginning --------------------------------------------------------------------------- */

static mr_status find_births(mr_ctx *ctx, const mr_trace *in, const uint32_t **out)
{
    uint32_t *birth = MR_NEW_N(ctx, uint32_t, in->storages.n);
    bool *ran = MR_NEW_N(ctx, bool, in->ops.n);
    memset(birth, 0xff, in->storages.n * sizeof *birth);
    *out = birth;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        if (ran[o])
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "op %u of '%s' runs more than once: no rewrite can tell one run from"
                           " the other",
                           o, in->name);
        ran[o] = true;
        if (in->ops.at[o].engine == MR_ENGINE_all_gather && in->ops.at[o].phase == MR_FORWARD)
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "'%s' has gathered parameters of several devices, expected fsdp to"
                           " come last of all rewrites",
                           in->name);
        const mr_ids made = in->ops.at[o].out;
        for (uint32_t i = 0; i < made.n; i++) {
            const uint32_t s = in->tensors.at[made.at[i]].storage;
            if (birth[s] == MR_NONE && !in->storages.at[s].before) birth[s] = o;
        }
    }
    return MR_OK;
}

mr_status mr_rewrite_begin(mr_ctx *ctx, const mr_trace *in, mr_trace *out, mr_rewrite *r)
{
    *r = (mr_rewrite){.ctx = ctx, .in = in, .out = out};
    MR_TRY(find_births(ctx, in, &r->birth));
    mr_trace_copy(ctx, in, out);
    out->events.n = out->times.n = out->histories.n = out->stand_ins.n = 0;
    out->shared.n = out->copies.n = 0;
    out->has &= ~(unsigned)MR_HAS_HISTORY;
    for (uint32_t s = 0; s < out->storages.n; s++) out->storages.at[s].deferred = false;
    MR_RESERVE_N(ctx, &r->dropped, in->tensors.n);
    memset(r->dropped.at, 0, in->tensors.n * sizeof *r->dropped.at);
    r->dropped.n = in->tensors.n;
    return MR_OK;
}

mr_status mr_rewrite_before_host(mr_ctx *ctx, const mr_trace *in, const char *who)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].engine == MR_ENGINE_to_host)
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "op %u of '%s' copies to the host what is saved, expected %s before"
                           " that",
                           o, in->name, who);
    return MR_OK;
}

mr_status mr_rewrite_before_evictions(mr_ctx *ctx, const mr_trace *in, const char *who)
{
    if (!in->evicts) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "tensors of '%s' are evicted, which autograd had saved, expected %s before"
                   " that",
                   in->name, who);
}

static bool fills(const mr_trace *in, const mr_op *op)
{
    if (op->mutates.n != 1 || op->out.n) return false;
    const mr_tensor *whole = &in->tensors.at[op->mutates.at[0]];
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_tensor *piece = &in->tensors.at[op->in.at[i]];
        if (piece->storage == whole->storage
            && mr_tensor_numbers(piece) < mr_tensor_numbers(whole))
            return true;
    }
    return false;
}

mr_status mr_rewrite_whole(mr_ctx *ctx, const mr_trace *in, const char *expected)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].phase == MR_FORWARD && fills(in, &in->ops.at[o]))
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "op %u of '%s' (%s) joins a tensor with others where that lies,"
                           " expected %s",
                           o, in->name, in->ops.at[o].name, expected);
    return MR_OK;
}

static bool is_piece(const mr_trace *in, uint32_t tensor)
{
    const mr_tensor *t = &in->tensors.at[tensor];
    const mr_storage *home = &in->storages.at[t->storage];
    return !home->before && mr_tensor_touched(t) < home->bytes;
}

mr_status mr_rewrite_not_beside(mr_ctx *ctx, const mr_trace *in, const char *who)
{
    uint32_t *saver = mr_none_of(ctx, in->storages.n); /* op that has saved a piece of it */
    for (uint32_t e = 0; e < in->events.n; e++) {
        const uint32_t o = in->events.at[e].id;
        const mr_op *op = &in->ops.at[o];
        if (in->events.at[e].kind != MR_RUN || op->phase != MR_FORWARD) continue;
        for (uint32_t i = 0; i < op->mutates.n && !op->out.n; i++) {
            const uint32_t by = saver[in->tensors.at[op->mutates.at[i]].storage];
            if (by != MR_NONE && is_piece(in, op->mutates.at[i]))
                return mr_fail(ctx, MR_EUNSUPPORTED,
                               "op %u of '%s' (%s) writes into the storage of which op %u (%s) has"
                               " saved another piece, expected %s before what places tensors"
                               " so",
                               o, in->name, op->name, by, in->ops.at[by].name, who);
        }
        for (uint32_t i = 0; i < op->saved.n; i++)
            if (is_piece(in, op->saved.at[i].tensor))
                saver[in->tensors.at[op->saved.at[i].tensor].storage] = o;
    }
    return MR_OK;
}

bool mr_rewrite_unpacks(const mr_trace *in)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].phase == MR_BACKWARD && !in->ops.at[o].in.n && in->ops.at[o].out.n
            && !strcmp(in->ops.at[o].name, "aten::_to_copy"))
            return true;
    return false;
}

static uint32_t *counting(mr_ctx *ctx, uint32_t n)
{
    uint32_t *at = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) at[i] = i;
    return at;
}

void mr_where_init(mr_rewrite *r, mr_where *where)
{
    where->storage = counting(r->ctx, r->in->storages.n);
    where->tensor = counting(r->ctx, r->in->tensors.n);
    where->op = counting(r->ctx, r->in->ops.n);
}

/* ---- where things are -------------------------------------------------------------------- */

static uint32_t push_tensor(mr_rewrite *r, const mr_tensor *tensor)
{
    const mr_tensor copy = *tensor; /* which may stand in the array that grows */
    MR_PUSH(r->ctx, &r->out->tensors, copy);
    MR_PUSH(r->ctx, &r->dropped, false);
    return r->out->tensors.n - 1;
}

uint32_t mr_rewrite_tensor(mr_rewrite *r, mr_where *where, uint32_t tensor)
{
    if (!where) return tensor;
    const uint32_t home = r->in->tensors.at[tensor].storage, s = where->storage[home];
    if (s == home) return tensor;
    if (where->tensor[tensor] != tensor
        && r->out->tensors.at[where->tensor[tensor]].storage == s)
        return where->tensor[tensor];
    mr_tensor moved = r->out->tensors.at[tensor];
    moved.storage = s;
    return where->tensor[tensor] = push_tensor(r, &moved);
}

static bool is_moved(const mr_rewrite *r, const mr_where *where, uint32_t tensor)
{
    if (!where || tensor >= r->in->tensors.n) return false;
    const uint32_t s = r->in->tensors.at[tensor].storage;
    return where->storage[s] != s;
}

/* The list itself as long as nothing in it is moved: lists are shared with the input. */
static mr_ids places(mr_rewrite *r, mr_where *where, mr_ids ids)
{
    uint32_t i = 0;
    while (i < ids.n && !is_moved(r, where, ids.at[i])) i++;
    if (i == ids.n) return ids;
    mr_ids out = mr_ids_of(r->ctx, ids.n, ids.at);
    for (; i < ids.n; i++)
        if (is_moved(r, where, ids.at[i])) out.at[i] = mr_rewrite_tensor(r, where, ids.at[i]);
    return out;
}

static void place_saved(mr_rewrite *r, mr_where *where, mr_op *op)
{
    uint32_t i = 0;
    while (i < op->saved.n && !is_moved(r, where, op->saved.at[i].tensor)) i++;
    if (i == op->saved.n) return;
    mr_saved *out = MR_NEW_N(r->ctx, mr_saved, op->saved.n);
    memcpy(out, op->saved.at, op->saved.n * sizeof *out);
    for (; i < op->saved.n; i++)
        if (is_moved(r, where, out[i].tensor))
            out[i].tensor = mr_rewrite_tensor(r, where, out[i].tensor);
    op->saved.at = out;
}

static void place_op(mr_rewrite *r, mr_where *where, mr_op *op)
{
    if (!where) return;
    op->in = places(r, where, op->in);
    op->out = places(r, where, op->out);
    op->mutates = places(r, where, op->mutates);
    place_saved(r, where, op);
}

/* ---- things of the input ----------------------------------------------------------------- */

static void emit(mr_rewrite *r, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(r->ctx, &r->out->events, (mr_event){kind, id});
}

void mr_rewrite_run(mr_rewrite *r, mr_where *where, uint32_t op)
{
    mr_op placed = r->out->ops.at[op];
    place_op(r, where, &placed);
    r->out->ops.at[op] = placed;
    emit(r, MR_RUN, op);
}

/* New storages for what the op is the first to write. */
static void renew(mr_rewrite *r, mr_where *where, uint32_t op)
{
    const mr_ids made = r->in->ops.at[op].out;
    const uint32_t old = r->out->storages.n; /* several tensors may lie in one new storage */
    for (uint32_t i = 0; i < made.n; i++) {
        const uint32_t s = r->in->tensors.at[made.at[i]].storage;
        if (r->birth[s] == op && where->storage[s] < old)
            where->storage[s] = mr_rewrite_new_storage(r, s, r->out->storages.at[s].bytes);
    }
}

static uint32_t copy_op(mr_rewrite *r, mr_where *where, uint32_t op, mr_op *copy)
{
    renew(r, where, op);
    place_op(r, where, copy);
    return mr_rewrite_new_op(r, copy);
}

uint32_t mr_rewrite_copy(mr_rewrite *r, mr_where *where, uint32_t op)
{
    mr_op copy = r->in->ops.at[op];
    if (copy.of < r->in->ops.n) copy.of = where->op[copy.of];
    if (copy.again < r->in->ops.n) copy.again = where->op[copy.again];
    return where->op[op] = copy_op(r, where, op, &copy);
}

uint32_t mr_rewrite_replay(mr_rewrite *r, mr_where *where, uint32_t op)
{
    mr_op copy = r->in->ops.at[op];
    copy.phase = MR_BACKWARD;
    copy.again = where->op[op];
    return copy_op(r, where, op, &copy);
}

static void drop(mr_rewrite *r, uint32_t tensor)
{
    if (r->dropped.at[tensor]) return;
    r->dropped.at[tensor] = true;
    emit(r, MR_DROP, tensor);
}

void mr_rewrite_drop(mr_rewrite *r, mr_where *where, uint32_t tensor)
{
    drop(r, mr_rewrite_tensor(r, where, tensor));
}

void mr_rewrite_keep(mr_rewrite *r, mr_where *where, uint32_t event)
{
    const mr_event kept = r->in->events.at[event];
    switch (kept.kind) {
    case MR_ALLOC:
    case MR_FREE:
    case MR_DONE:
    case MR_CARRY: return;
    case MR_RUN: mr_rewrite_run(r, where, kept.id); return;
    case MR_DROP: mr_rewrite_drop(r, where, kept.id); return;
    case MR_FLUSH:
    case MR_MARK: emit(r, kept.kind, kept.id); return;
    }
}

/* ---- new things -------------------------------------------------------------------------- */

uint32_t mr_rewrite_new_storage(mr_rewrite *r, uint32_t like, uint64_t bytes)
{
    mr_storage s = r->out->storages.at[like];
    s.bytes = bytes;
    s.before = s.after = s.deferred = s.refused = false;
    MR_PUSH(r->ctx, &r->out->storages, s);
    return r->out->storages.n - 1;
}

uint32_t mr_rewrite_new_tensor(mr_rewrite *r, uint32_t like, uint32_t storage)
{
    mr_tensor t = r->out->tensors.at[like];
    t.storage = storage;
    t.offset = 0;
    t.bytes = r->out->storages.at[storage].bytes;
    return push_tensor(r, &t);
}

uint32_t mr_rewrite_new_number(mr_rewrite *r, uint32_t like, const char *dtype, bool lasting)
{
    const uint32_t s = mr_rewrite_new_storage(r, r->out->tensors.at[like].storage,
                                              mr_dtype_bytes(dtype));
    const uint32_t t = mr_rewrite_new_tensor(r, like, s);
    mr_storage *storage = &r->out->storages.at[s];
    mr_tensor *tensor = &r->out->tensors.at[t];
    storage->before = storage->after = lasting;
    storage->per_sample = 0;
    storage->role = tensor->role = lasting ? MR_ROLE_state : MR_ROLE_temporary;
    tensor->rank = 0;
    tensor->name = "";
    tensor->dtype = dtype;
    return t;
}

uint32_t mr_rewrite_new_op(mr_rewrite *r, const mr_op *op)
{
    mr_op copy = *op;
    copy.added = op->again == MR_NONE;
    MR_PUSH(r->ctx, &r->out->ops, copy);
    emit(r, MR_RUN, r->out->ops.n - 1);
    return r->out->ops.n - 1;
}

uint32_t mr_rewrite_move(mr_rewrite *r, uint32_t from, uint32_t to, const mr_op *as)
{
    const mr_op op = {
        .name = as->name,
        .module = as->module,
        .call = as->call,
        .stream = as->stream,
        .phase = as->phase,
        .again = MR_NONE,
        .of = as->of,
        .read = mr_tensor_touched(&r->out->tensors.at[from]),
        .written = mr_tensor_touched(&r->out->tensors.at[to]),
        .in = mr_ids_of(r->ctx, 1, &from),
        .out = mr_ids_of(r->ctx, 1, &to),
        .moves = true,
    };
    return mr_rewrite_new_op(r, &op);
}

mr_ids mr_ids_of(mr_ctx *ctx, uint32_t n, const uint32_t *at)
{
    mr_ids ids = {MR_NEW_N(ctx, uint32_t, n), n};
    if (n) memcpy(ids.at, at, n * sizeof *at);
    return ids;
}

void mr_rewrite_remark(mr_rewrite *r, const char *format, ...)
{
    char text[512]; /* as long as a failure's sentence */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    MR_PUSH(r->ctx, &r->out->remarks, mr_strdup(r->ctx, text));
}
