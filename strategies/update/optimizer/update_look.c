/* update_look -- see the header.
 *
 * The optimizer begins with the first op of the phase that has to do with a parameter or a
 * state, so that what only works on gradients (clipping, unscaling) stays.  Parameters are
 * those that it changes, gradients those that it reads, each in the order of the first time.
 *
 * What the passes touch beside those, and what is made of it, is not the optimizer's, such as
 * the scale of a GradScaler and what that keeps of it.
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

/* ---- whose an op is -------------------------------------------------------------------- */

static bool has_role(const looker *l, mr_ids ids, mr_role role)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (home(l, ids.at[i])->role == role) return true;
    return false;
}

static bool has_foreign(const looker *l, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (l->out->foreign[l->in->tensors.at[ids.at[i]].storage]) return true;
    return false;
}

static void mark_foreign(looker *l, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const mr_role role = home(l, ids.at[i])->role;
        if (role != MR_ROLE_parameter && role != MR_ROLE_gradient)
            l->out->foreign[l->in->tensors.at[ids.at[i]].storage] = true;
    }
}

/* Marks what the op touches when it has nothing to do with the optimizer. */
static bool is_foreign(looker *l, const mr_op *op)
{
    if (op->phase == MR_UPDATE
        && (!has_foreign(l, op->in) || has_role(l, op->mutates, MR_ROLE_parameter)))
        return false;
    mark_foreign(l, op->in);
    mark_foreign(l, op->out);
    mark_foreign(l, op->mutates);
    return true;
}

static bool concerns(const looker *l, mr_ids ids)
{
    return has_role(l, ids, MR_ROLE_parameter) || has_role(l, ids, MR_ROLE_state);
}

/* ---- what it does ---------------------------------------------------------------------- */

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
    if (!l->gradients.n)
        return mr_fail(l->ctx, MR_EUNSUPPORTED,
                       "the update of '%s' reads no gradients, but what was made of them, such"
                       " as masters have in 32 bits: expected another optimizer before that, as"
                       " in optimizer+half:masters=True",
                       l->in->name);
    return mr_fail(l->ctx, MR_EUNSUPPORTED,
                   "the update of '%s' changes %s and reads %s, expected a"
                   " gradient for each, in the same order and of the same size",
                   l->in->name,
                   mr_show_count(l->ctx, l->parameters.n, "parameter", "parameters"),
                   mr_show_count(l->ctx, l->gradients.n, "gradient", "gradients"));
}

mr_status update_look(mr_ctx *ctx, const mr_trace *in, updated *out)
{
    looker l = {.ctx = ctx, .in = in, .out = out, .seen = MR_NEW_N(ctx, bool, in->storages.n)};
    bool updating = false;
    *out = (updated){.replaced = MR_NEW_N(ctx, bool, in->ops.n),
                     .temporary = MR_NEW_N(ctx, bool, in->storages.n),
                     .foreign = MR_NEW_N(ctx, bool, in->storages.n)};
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        const bool foreign = is_foreign(&l, op);
        const bool begins = op->phase == MR_UPDATE && !updating && !foreign
                            && (concerns(&l, op->in) || concerns(&l, op->mutates));
        if (begins) MR_PUSH(ctx, &out->begins, e);
        updating = op->phase == MR_UPDATE && (updating || begins);
        if (updating && !foreign) see(&l, in->events.at[e].id);
    }
    if (out->begins.n == 1 && l.parameters.n) return pair_up(&l, 0, 0);
    return mr_fail(ctx, MR_EUNSUPPORTED, "'%s' has %u updates of parameters, expected one step",
                   in->name, out->begins.n);
}
