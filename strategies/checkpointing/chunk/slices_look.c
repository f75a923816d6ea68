/* slices_look -- everything of a region that must be known before it is written. */
#include "slices.h"

#include <string.h>

#define REFUSE(s, region, ...)                                                                 \
    do {                                                                                       \
        if (!(s)->all.at[region].refused)                                                      \
            (s)->all.at[region].refused = mr_printf((s)->ctx, __VA_ARGS__);                    \
    } while (0)

static const mr_tensor *tensor_at(const slices *s, uint32_t t)
{
    return &s->in->tensors.at[t];
}

static uint32_t birth_of(const slices *s, uint32_t tensor)
{
    return s->r.birth[tensor_at(s, tensor)->storage];
}

/* The region whose op writes the tensor's storage first, for each slice; MR_NONE. */
static uint32_t born_in(const slices *s, uint32_t tensor)
{
    const uint32_t o = birth_of(s, tensor);
    return o == MR_NONE || s->shared[o] ? MR_NONE : s->owner[o];
}

/* ---- tensors of a region ----------------------------------------------------------------- */

/* What a tensor is that nobody has made, but a rewrite or a change in place: what its storage
 * was seen as last. */
static slice_cut inherited(const slices *s, uint32_t region, uint32_t tensor)
{
    const slice_region *r = &s->all.at[region];
    const uint32_t home = s->home[tensor_at(s, tensor)->storage];
    slice_cut cut = {SLICE_WHOLE, 0, 1};
    if (home == MR_NONE || r->homes.at[home].shown == MR_NONE) return cut;
    const uint32_t like = r->homes.at[home].shown;
    cut = slices_cut(s, region, like);
    if (cut.kind == SLICE_ROWS)
        (void)slices_reshape(r, tensor_at(s, like), cut, tensor_at(s, tensor), &cut);
    return cut;
}

void slices_touch(slices *s, uint32_t region, uint32_t tensor)
{
    slice_region *r = &s->all.at[region];
    const uint32_t storage = tensor_at(s, tensor)->storage;
    const bool born = born_in(s, tensor) == region;
    if (s->known[tensor] == region) return;
    const slice_cut cut = born ? inherited(s, region, tensor) : (slice_cut){SLICE_WHOLE, 0, 1};
    s->known[tensor] = region;
    s->number[tensor] = r->tensors.n;
    MR_PUSH(s->ctx, &r->tensors, (slice_tensor){tensor, cut});
    if (!born || s->home[storage] != MR_NONE) return;
    s->home[storage] = r->homes.n;
    MR_PUSH(s->ctx, &r->homes, (slice_home){storage, MR_NONE, false});
}

slice_cut slices_cut(const slices *s, uint32_t region, uint32_t tensor)
{
    if (s->known[tensor] != region) return (slice_cut){SLICE_WHOLE, 0, 1};
    return s->all.at[region].tensors.at[s->number[tensor]].cut;
}

void slices_set(slices *s, uint32_t region, uint32_t tensor, slice_cut cut)
{
    slice_region *r = &s->all.at[region];
    slices_touch(s, region, tensor);
    r->tensors.at[s->number[tensor]].cut = cut;
    if (born_in(s, tensor) != region) return;
    slice_home *home = &r->homes.at[s->home[tensor_at(s, tensor)->storage]];
    home->shown = tensor;
    if (cut.kind == SLICE_ROWS) home->rows = true;
}

void slices_take_up(slices *s, uint32_t region)
{
    const slice_region *r = &s->all.at[region];
    for (uint32_t i = 0; i < r->tensors.n; i++) {
        s->known[r->tensors.at[i].tensor] = region;
        s->number[r->tensors.at[i].tensor] = i;
    }
}

static void touch_all(slices *s, uint32_t region, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) slices_touch(s, region, op->in.at[i]);
    for (uint32_t i = 0; i < op->out.n; i++) slices_touch(s, region, op->out.at[i]);
    for (uint32_t i = 0; i < op->mutates.n; i++) slices_touch(s, region, op->mutates.at[i]);
    for (uint32_t i = 0; i < op->saved.n; i++) slices_touch(s, region, op->saved.at[i].tensor);
}

static void own(slices *s, uint32_t region, uint32_t o)
{
    s->owner[o] = region;
    s->place[o] = s->all.at[region].ops.n;
    MR_PUSH(s->ctx, &s->all.at[region].ops, o);
}

/* ---- whose ops these are ----------------------------------------------------------------- */

static void own_forward(slices *s, uint32_t region)
{
    const slice_region *r = &s->all.at[region];
    for (uint32_t e = r->begin; e < r->end; e++) {
        const mr_event event = s->in->events.at[e];
        if (event.kind == MR_RUN) own(s, region, event.id);
        else if (event.kind == MR_MARK) REFUSE(s, region, "a phase of the step ends in it");
    }
}

static void own_backward(slices *s)
{
    for (uint32_t e = 0; e < s->in->events.n; e++) {
        if (s->in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = s->in->events.at[e].id, of = s->in->ops.at[o].of;
        const uint32_t again = s->in->ops.at[o].again;
        if (again != MR_NONE && s->owner[again] != MR_NONE)
            REFUSE(s, s->owner[again], "it is computed again already: cut it before that");
        const uint32_t region = of == MR_NONE ? MR_NONE : s->owner[of];
        if (region == MR_NONE || s->in->ops.at[o].phase != MR_BACKWARD) continue;
        slice_region *r = &s->all.at[region];
        own(s, region, o);
        if (r->back == MR_NONE) r->back = e;
        r->back_end = e + 1;
    }
}

/* ---- the forward pass -------------------------------------------------------------------- */

static void check_changes(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (born_in(s, op->mutates.at[i]) != region)
            REFUSE(s, region, "its op %s changes a tensor that it has not made", op->name);
}

static void look_forward(slices *s, uint32_t region)
{
    slice_region *r = &s->all.at[region];
    slices_set(s, region, r->rows, (slice_cut){SLICE_ROWS, r->dim, 1});
    MR_PUSH(s->ctx, &r->sliced, r->rows);
    for (uint32_t i = 0; i < r->ops.n; i++) {
        const uint32_t o = r->ops.at[i];
        if (s->in->ops.at[o].phase != MR_FORWARD) break;
        touch_all(s, region, &s->in->ops.at[o]);
        check_changes(s, region, o);
        if (r->refused || !slices_follow(s, region, o)) return;
    }
}

/* ---- the backward pass ------------------------------------------------------------------- */

/* A gradient from outside is cut as the result whose gradient it is. */
static void meet_gradient(slices *s, uint32_t region, uint32_t tensor)
{
    slice_region *r = &s->all.at[region];
    const uint32_t birth = birth_of(s, tensor);
    if (birth == MR_NONE || s->in->ops.at[birth].phase != MR_BACKWARD
        || s->owner[birth] == region || s->known[tensor] == region)
        return;
    if (s->when[birth] >= r->back)
        REFUSE(s, region, "a gradient is made by others between those of its ops");
    const mr_tensor *t = tensor_at(s, tensor), *result = tensor_at(s, r->result);
    if (mr_tensor_numbers(t) != mr_tensor_numbers(result)) return;
    slice_cut cut = slices_cut(s, region, r->result);
    if (cut.kind == SLICE_SUMMAND) cut = (slice_cut){SLICE_ROWS, MR_NONE, 1};
    else if (!slices_reshape(r, result, cut, t, &cut)) return;
    slices_set(s, region, tensor, cut);
    MR_PUSH(s->ctx, &r->gradients, tensor);
}

/* A sum of two gradients by the engine, of rows that the region reads twice; or a cast of such
 * a gradient, as autocast makes them. */
static bool is_of_rows(slices *s, uint32_t region, const mr_op *op)
{
    const bool sum = op->in.n == 2 && slices_is(op, "add add_");
    const bool cast = op->in.n == 1 && slices_is(op, "_to_copy");
    if (op->of != MR_NONE || op->phase != MR_BACKWARD || (!sum && !cast)) return false;
    for (uint32_t i = 0; i < op->in.n; i++) {
        if (born_in(s, op->in.at[i]) != region) return false;
        slices_touch(s, region, op->in.at[i]);
        if (slices_cut(s, region, op->in.at[i]).kind != SLICE_ROWS) return false;
    }
    return true;
}

static void look_backward(slices *s, uint32_t region)
{
    slice_region *r = &s->all.at[region];
    for (uint32_t e = r->back; e < s->in->events.n && !r->refused; e++) {
        const mr_event event = s->in->events.at[e];
        if (event.kind != MR_RUN) continue;
        const uint32_t o = event.id;
        const mr_op *op = &s->in->ops.at[o];
        if (s->owner[o] == MR_NONE && is_of_rows(s, region, op)) {
            own(s, region, o);
            if (e >= r->back_end) r->back_end = e + 1;
        }
        if (s->owner[o] != region && e >= r->back_end) return;
        if (s->owner[o] != region) continue;
        for (uint32_t i = 0; i < op->in.n; i++) meet_gradient(s, region, op->in.at[i]);
        touch_all(s, region, op);
        check_changes(s, region, o);
        if (!r->refused) slices_follow(s, region, o);
    }
}

/* ---- what others use --------------------------------------------------------------------- */

static void use(slices *s, bool forward, uint32_t by, uint32_t tensor)
{
    const uint32_t region = born_in(s, tensor);
    if (region == MR_NONE || region == by) return;
    slice_region *r = &s->all.at[region];
    const uint32_t birth = birth_of(s, tensor);
    if (forward != (s->in->ops.at[birth].phase == MR_FORWARD)) return;
    if (forward) {
        if (r->result == MR_NONE) r->result = tensor;
        if (tensor_at(s, r->result)->storage != tensor_at(s, tensor)->storage)
            REFUSE(s, region, "more than one of its results is used by others");
        return;
    }
    for (uint32_t i = 0; i < r->results.n; i++)
        if (tensor_at(s, r->results.at[i].tensor)->storage == tensor_at(s, tensor)->storage)
            return;
    slices_touch(s, region, tensor); /* others may see it by a tensor of their own */
    MR_PUSH(s->ctx, &r->results, (slice_result){tensor, MR_NONE, false});
}

/* By ops of others, or by whoever comes after the step. */
static void look_for_uses(slices *s, bool forward)
{
    for (uint32_t e = 0; e < s->in->events.n; e++) {
        if (s->in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = s->in->events.at[e].id;
        const mr_op *op = &s->in->ops.at[o];
        if (forward && s->owner[o] != MR_NONE && op->phase == MR_BACKWARD) continue;
        for (uint32_t i = 0; i < op->in.n; i++) use(s, forward, s->owner[o], op->in.at[i]);
        for (uint32_t i = 0; i < op->mutates.n; i++)
            use(s, forward, s->owner[o], op->mutates.at[i]);
        for (uint32_t i = 0; i < op->saved.n; i++)
            use(s, forward, s->owner[o], op->saved.at[i].tensor);
    }
    for (uint32_t t = 0; t < s->in->tensors.n; t++)
        if (s->in->storages.at[tensor_at(s, t)->storage].after) use(s, forward, MR_NONE, t);
}

static void finish_results(slices *s, uint32_t region)
{
    slice_region *r = &s->all.at[region];
    for (uint32_t i = 0; i < r->ops.n; i++) {
        const mr_op *op = &s->in->ops.at[r->ops.at[i]];
        if (op->phase != MR_BACKWARD) continue;
        for (uint32_t k = 0; k < op->out.n; k++)
            for (uint32_t j = 0; j < r->results.n; j++) {
                slice_result *result = &r->results.at[j];
                if (tensor_at(s, result->tensor)->storage
                    != tensor_at(s, op->out.at[k])->storage)
                    continue;
                result->viewed |= result->last != MR_NONE;
                result->last = r->ops.at[i];
            }
    }
    for (uint32_t j = 0; j < r->results.n; j++)
        if (slices_cut(s, region, r->results.at[j].tensor).kind == SLICE_WHOLE)
            REFUSE(s, region, "a gradient that it makes for others is of no rows");
}

static void look_at(slices *s, uint32_t region)
{
    slice_region *r = &s->all.at[region];
    if (r->refused) return;
    if (r->result == MR_NONE) {
        REFUSE(s, region, "nobody uses what it makes");
        return;
    }
    look_forward(s, region);
    if (r->refused) return;
    if (slices_cut(s, region, r->result).kind == SLICE_WHOLE
        || (slices_cut(s, region, r->result).kind == SLICE_SUMMAND
            && mr_tensor_numbers(tensor_at(s, r->result)) != 1)) {
        REFUSE(s, region, "what it makes has no rows");
        return;
    }
    if (r->back != MR_NONE) look_backward(s, region);
}

void slices_look(slices *s)
{
    for (uint32_t i = 0; i < s->all.n; i++)
        if (!s->all.at[i].refused) own_forward(s, i);
    own_backward(s);
    look_for_uses(s, true);
    for (uint32_t i = 0; i < s->all.n; i++) look_at(s, i);
    look_for_uses(s, false);
    for (uint32_t i = 0; i < s->all.n; i++) {
        if (s->all.at[i].refused) continue;
        slices_take_up(s, i);
        finish_results(s, i);
    }
    for (uint32_t o = 0; o < s->in->ops.n; o++)
        if (s->owner[o] != MR_NONE && s->all.at[s->owner[o]].refused) s->owner[o] = MR_NONE;
}
