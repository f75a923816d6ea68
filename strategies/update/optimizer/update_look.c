/* update_look -- see the header.
 *
 * The optimizer begins with the first op of the phase that has to do with a parameter or a
 * state, so that what only works on gradients (clipping, unscaling) stays.  Parameters are
 * those that it changes, gradients those that it reads, each in the order of the first time.
 */
#include "update_look.h"

typedef struct looker {
    mr_ctx *ctx;
    const mr_trace *in;
    updated *out;
    bool *seen; /* by storage */
    MR_VEC(uint32_t) parameters;
    MR_VEC(uint32_t) gradients;
} looker;

static const mr_storage *home(const looker *l, uint32_t tensor)
{
    return &l->in->storages.at[l->in->tensors.at[tensor].storage];
}

static bool concerns(const looker *l, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_storage *s = home(l, ids.at[i]);
        if (s->role == MR_ROLE_parameter || s->role == MR_ROLE_state) return true;
    }
    return false;
}

static bool is_new(looker *l, uint32_t tensor, mr_role role)
{
    const uint32_t s = l->in->tensors.at[tensor].storage;
    if (l->seen[s] || l->in->storages.at[s].role != role) return false;
    return l->seen[s] = true;
}

static void see(looker *l, uint32_t o)
{
    const mr_op *op = &l->in->ops.at[o];
    l->out->replaced[o] = true;
    for (uint32_t i = 0; i < op->out.n; i++)
        l->out->temporary[l->in->tensors.at[op->out.at[i]].storage] = true;
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (is_new(l, op->mutates.at[i], MR_ROLE_parameter))
            MR_PUSH(l->ctx, &l->parameters, op->mutates.at[i]);
    for (uint32_t i = 0; i < op->in.n; i++)
        if (is_new(l, op->in.at[i], MR_ROLE_gradient))
            MR_PUSH(l->ctx, &l->gradients, op->in.at[i]);
}

static mr_status pair_up(looker *l, uint32_t p, uint32_t g)
{
    for (; p < l->parameters.n && g < l->gradients.n; p++, g++) {
        const update_pair pair = {l->parameters.at[p], l->gradients.at[g]};
        const mr_tensor *x = &l->in->tensors.at[pair.parameter];
        const mr_tensor *y = &l->in->tensors.at[pair.gradient];
        if (x->bytes != y->bytes) break;
        MR_PUSH(l->ctx, &l->out->pairs, pair);
    }
    if (p == l->parameters.n && g == l->gradients.n) return MR_OK;
    return mr_fail(l->ctx, MR_EUNSUPPORTED,
                   "the update of '%s' changes %u parameters and reads %u gradients, expected a"
                   " gradient for each, in the same order and of the same size",
                   l->in->name, l->parameters.n, l->gradients.n);
}

mr_status update_look(mr_ctx *ctx, const mr_trace *in, updated *out)
{
    looker l = {.ctx = ctx, .in = in, .out = out, .seen = MR_NEW_N(ctx, bool, in->storages.n)};
    bool updating = false;
    *out = (updated){.replaced = MR_NEW_N(ctx, bool, in->ops.n),
                     .temporary = MR_NEW_N(ctx, bool, in->storages.n)};
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        const bool begins = op->phase == MR_UPDATE && !updating
                            && (concerns(&l, op->in) || concerns(&l, op->mutates));
        if (begins) MR_PUSH(ctx, &out->begins, e);
        updating = op->phase == MR_UPDATE && (updating || begins);
        if (updating) see(&l, in->events.at[e].id);
    }
    if (out->begins.n == 1 && l.parameters.n) return pair_up(&l, 0, 0);
    return mr_fail(ctx, MR_EUNSUPPORTED, "'%s' has %u updates of parameters, expected one step",
                   in->name, out->begins.n);
}
