/* autocast -- the whole step; see the header. */
#include "autocast.h"

#include "autocast_scaler.h"
#include "cost.h"

#include <string.h>

/* ---- sizes ------------------------------------------------------------------------------- */

/* Bytes of the numbers that may have changed their width. */
static uint64_t bytes_of(const autocast *a, const mr_trace *trace, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_tensor *t = &trace->tensors.at[ids.at[i]];
        const bool full = !strcmp(t->dtype, "float32");
        if (!full && strcmp(t->dtype, a->dtype) != 0) continue;
        sum += mr_tensor_numbers(t) * (full ? 4 : 2);
    }
    return sum;
}

static uint64_t changed(uint64_t bytes, uint64_t was, uint64_t is)
{
    return bytes && bytes + is >= was ? bytes + is - was : bytes;
}

static void halve(autocast *a)
{
    const mr_trace *in = a->r.in;
    mr_trace *out = a->r.out;
    for (uint32_t s = 0; s < in->storages.n; s++) {
        if (!a->low[s]) continue;
        out->storages.at[s].bytes /= 2;
        out->storages.at[s].per_sample /= 2;
    }
    for (uint32_t t = 0; t < in->tensors.n; t++) {
        if (!autocast_is_low(a, t)) continue;
        out->tensors.at[t].bytes /= 2;
        out->tensors.at[t].offset /= 2;
        out->tensors.at[t].dtype = a->dtype;
    }
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *was = &in->ops.at[o];
        mr_op *op = &out->ops.at[o];
        op->read = changed(op->read, bytes_of(a, in, was->in),
                           bytes_of(a, out, op->in));
        op->written =
            changed(op->written, bytes_of(a, in, was->out) + bytes_of(a, in, was->mutates),
                    bytes_of(a, out, op->out) + bytes_of(a, out, op->mutates));
        op->workspace = mr_workspace_for(in, out, o);
    }
}

/* ---- events ------------------------------------------------------------------------------ */

/* Autocast ends: parameters' casts are its no more. */
static void leave(autocast *a)
{
    for (uint32_t s = 0; s < a->r.in->storages.n; s++)
        if (a->cached[s] != MR_NONE) mr_rewrite_drop(&a->r, NULL, a->cached[s]);
}

/* linear() and matmul() bring what a product gives into shape before they return. */
static bool goes_on(const autocast *a, const autocast_unit *unit, uint32_t e)
{
    const mr_op *whole = &a->r.in->ops.at[unit->op];
    while (++e < a->r.in->events.n && a->r.in->events.at[e].kind == MR_DROP) continue;
    if (e == a->r.in->events.n || a->r.in->events.at[e].kind != MR_RUN) return false;
    const mr_op *op = &a->r.in->ops.at[a->r.in->events.at[e].id];
    return !strcmp(op->name, "aten::_unsafe_view") && op->in.at[0] == whole->out.at[0];
}

/* The call returns, and with it its casts end that are not cached. */
static void end_call(autocast *a, uint32_t e)
{
    const uint32_t mine = a->unit_of[a->r.in->events.at[e].id];
    if (mine != MR_NONE && a->units.at[mine].last == e) a->open = mine;
    if (a->open == MR_NONE || goes_on(a, &a->units.at[a->open], e)) return;
    const autocast_unit *unit = &a->units.at[a->open];
    for (uint32_t i = 0; i < unit->leaves.n; i++) {
        const autocast_leaf leaf = unit->leaves.at[i];
        if (a->cached[a->r.in->tensors.at[leaf.tensor].storage] != leaf.cast)
            mr_rewrite_drop(&a->r, NULL, leaf.cast);
    }
    a->open = MR_NONE;
}

static void drop(autocast *a, uint32_t tensor)
{
    mr_rewrite_drop(&a->r, NULL,
                    a->placed[tensor] != MR_NONE ? a->placed[tensor]
                                                 : autocast_place(a, tensor));
}

static void run(autocast *a, uint32_t e, bool last_forward, autocast_scaler *scaler)
{
    const uint32_t o = a->r.in->events.at[e].id;
    const mr_op *op = &a->r.in->ops.at[o];
    if (op->phase == MR_FORWARD) autocast_forward(a, e), end_call(a, e);
    else if (op->phase == MR_BACKWARD) autocast_backward(a, e);
    else {
        autocast_flush(a);
        if (a->half && op->phase == MR_UPDATE) autocast_scaler_unscale(scaler, a, e);
        autocast_run(a, o, NULL);
    }
    if (last_forward) leave(a);
    if (a->half) autocast_scaler_after(scaler, a, o, last_forward);
}

static mr_status check_precision(mr_ctx *ctx, const mr_trace *in)
{
    const char *precision = in->about[MR_ABOUT_precision];
    if (!precision || !strcmp(precision, "float32")) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' is of precision %s, expected float32 to cast from", in->name,
                   precision);
}

static bool knows_gradients(const mr_trace *in)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].of != MR_NONE) return true;
    return false;
}

/* Computed again, perhaps without saying of what: a product of the backward pass that is for
 * nobody's gradient. */
static bool runs_again(const mr_op *op, bool knows)
{
    return op->again != MR_NONE || op->part
           || (knows && op->phase == MR_BACKWARD && op->of == MR_NONE
               && autocast_class_of(op->name) == AUTOCAST_LOW);
}

static bool has_saved(const mr_trace *in, const mr_op *op, uint32_t storage)
{
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (in->tensors.at[op->saved.at[i].tensor].storage == storage) return true;
    return false;
}

/* A product holds casts of what it saves.  What its gradient reads otherwise somebody else does,
 * as checkpoint has it where nothing but inputs is saved. */
static bool is_held_otherwise(const mr_trace *in, const mr_op *gradient)
{
    if (gradient->of == MR_NONE) return false;
    const mr_op *op = &in->ops.at[gradient->of];
    if (op->phase != MR_FORWARD || autocast_class_of(op->name) != AUTOCAST_LOW) return false;
    for (uint32_t i = 0; i < gradient->in.n; i++) {
        const uint32_t s = in->tensors.at[gradient->in.at[i]].storage;
        for (uint32_t j = 0; j < op->in.n; j++)
            if (in->tensors.at[op->in.at[j]].storage == s && !has_saved(in, op, s)) return true;
    }
    return false;
}

/* What runs again must be cast again: that follows by itself when this comes first. */
static mr_status check_order(mr_ctx *ctx, const mr_trace *in)
{
    bool backward = false, repeats = false, updates = false, early = false;
    const bool knows = knows_gradients(in);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        backward |= op->phase == MR_BACKWARD;
        repeats |= runs_again(op, knows) || (backward && op->phase == MR_FORWARD);
        if (is_held_otherwise(in, op))
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "the gradient of op %u of '%s' (%s) reads what that has not saved,"
                           " expected amp before what holds it instead (amp+checkpoint)",
                           op->of, in->name, in->ops.at[op->of].name);
        early |= updates && op->phase == MR_BACKWARD;
        updates |= backward && op->phase == MR_UPDATE;
    }
    if (!repeats && early)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' updates parameters during its backward pass, expected amp"
                       " before what makes it do so (amp:bfloat16+release)",
                       in->name);
    if (!repeats) return MR_OK;
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "'%s' runs forward ops more than once, expected amp before what makes it do so"
        " (amp+checkpoint, amp+chunk, amp+accumulate), and one step",
        in->name);
}

mr_status autocast_rewrite(mr_ctx *ctx, const mr_trace *in, const char *dtype, bool half,
                           mr_trace *out)
{
    autocast *a = MR_NEW(ctx, autocast);
    autocast_scaler scaler = {0};
    uint32_t last_forward = MR_NONE;
    a->dtype = dtype;
    a->half = half;
    a->open = MR_NONE;
    MR_TRY(check_precision(ctx, in));
    MR_TRY(check_order(ctx, in));
    MR_TRY(mr_rewrite_before_host(ctx, in, "amp"));
    MR_TRY(mr_rewrite_whole(ctx, in, "amp before that (amp+skip_reuse)"));
    MR_TRY(mr_rewrite_not_beside(ctx, in, "amp"));
    if (mr_rewrite_unpacks(in))
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "the backward pass of '%s' copies back from the host what was saved in"
                       " 32 bits, expected amp before that (amp+offload:save_on_cpu)",
                       in->name);
    MR_TRY(mr_rewrite_begin(ctx, in, out, &a->r));
    a->unit_of = mr_none_of(ctx, in->ops.n);
    a->low = MR_NEW_N(ctx, bool, in->storages.n);
    a->cached = mr_none_of(ctx, in->storages.n);
    a->moved = MR_NEW_N(ctx, uint32_t, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++) a->moved[s] = s;
    a->viewed = mr_none_of(ctx, in->tensors.n);
    a->placed = mr_none_of(ctx, in->tensors.n);
    a->reader = mr_none_of(ctx, in->storages.n);
    a->last = mr_none_of(ctx, in->storages.n);
    a->sum = mr_none_of(ctx, in->storages.n);
    for (uint32_t e = 0; e < in->events.n; e++)
        if (in->events.at[e].kind == MR_RUN
            && in->ops.at[in->events.at[e].id].phase == MR_FORWARD)
            last_forward = e;
    autocast_find_units(a);
    if (last_forward == MR_NONE || !a->units.n)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' has no forward pass with ops that autocast knows", in->name);
    if (half) autocast_scaler_begin(&scaler, a);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind == MR_RUN) run(a, e, e == last_forward, &scaler);
        else if (in->events.at[e].kind == MR_DROP) drop(a, in->events.at[e].id);
        else mr_rewrite_keep(&a->r, NULL, e);
    }
    halve(a);
    out->about[MR_ABOUT_precision] = half ? "amp-float16" : "amp-bfloat16";
    return MR_OK;
}
