/* rewrite_check_stand_ins -- ops that are not run any more, and the new one that does their
 * work.
 */
#include "rewrite_check_referee.h"

/* ---- what is known ----------------------------------------------------------------------- */

void mr_referee_note_use(mr_referee *r, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_value v = r->holds[mr_referee_storage(r->trace, op->in.at[i])];
        if ((uint32_t)v < r->before.values) r->used[(uint32_t)v] = true;
    }
}

/* What an optimizer held before the first event and a rewrite has taken away with it. */
static bool is_lost_state(const mr_referee *r, mr_value v)
{
    const uint32_t s = (uint32_t)v - 1;
    return v && v <= r->before.trace->storages.n && !r->trace->storages.at[s].before
           && r->before.trace->storages.at[s].role == MR_ROLE_state;
}

/* Has a new op read it, or is it made by the ops that the stand-in speaks for?  What ops of
 * another one made and it does not give is nobody's any more: new ops have something else
 * instead. */
static bool is_known(const mr_referee *r, uint32_t stand, mr_value v)
{
    const uint32_t maker = r->before.maker[v];
    if (r->used[v] || is_lost_state(r, v)) return true;
    if (maker == MR_NONE || r->excused[maker] == MR_NONE) return false;
    return r->excused[maker] == stand || !r->given[v];
}

/* Are all results read that are saved?  Else the gradient would have to be made of less. */
static mr_status reads_what_is_saved(const mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (op->of == MR_NONE || r->stands[op->of] == MR_NONE) return MR_OK;
    const mr_op *of = &r->trace->ops.at[op->of];
    for (uint32_t i = 0; i < of->saved.n; i++) {
        uint32_t j = 0;
        while (j < op->in.n && op->in.at[j] != of->saved.at[i].tensor) j++;
        if (j < op->in.n || of->saved.at[i].as != MR_SAVED_OUTPUT) continue;
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s stands in for the gradient of %s, but does not read tensor %u, which"
                       " that saved",
                       mr_referee_named(r->ctx, r->trace, o),
                       mr_referee_named(r->ctx, r->trace, op->of), of->saved.at[i].tensor);
    }
    return MR_OK;
}

/* Is result k in the memory of something that the op reads? */
static bool is_view(const mr_trace *trace, const mr_op *op, uint32_t k)
{
    for (uint32_t i = 0; i < op->in.n && k < op->out.n; i++)
        if (mr_referee_storage(trace, op->in.at[i]) == mr_referee_storage(trace, op->out.at[k]))
            return true;
    return false;
}

/* ---- what is given ----------------------------------------------------------------------- */

static mr_status look_at_work(mr_referee *r, uint32_t o, uint32_t stand, uint32_t f)
{
    const mr_trace *before = r->before.trace;
    const mr_op *op = &before->ops.at[f];
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_value v = r->before.read[r->before.first[f] + i];
        if (is_known(r, stand, v)) continue;
        return mr_fail(r->ctx, MR_EINVARIANT, "%s stands in for %s, but no new op has read %s",
                       mr_referee_named(r->ctx, r->trace, o),
                       mr_referee_named(r->ctx, before, f), mr_referee_told(r, v));
    }
    for (uint32_t k = 0; k < mr_referee_results(op); k++)
        if (!is_view(before, op, k))
            r->last[mr_referee_storage(before, mr_referee_result(op, k))] =
                r->before.made[f] + k;
    return MR_OK;
}

mr_status mr_referee_stand_in(mr_referee *r, uint32_t o, uint32_t index)
{
    const mr_stand_in *stand = &r->trace->stand_ins.at[index];
    MR_TRY(reads_what_is_saved(r, o));
    r->stood[index] = true;
    for (uint32_t i = 0; i < stand->ops.n; i++)
        MR_TRY(look_at_work(r, o, index, stand->ops.at[i]));
    for (uint32_t i = 0; i < stand->gives.n; i++) {
        const mr_value v = r->last[mr_referee_storage(r->before.trace, stand->holds.at[i])];
        if (!v || r->excused[r->before.maker[v]] != index)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "%s stands in for ops that do not write tensor %u",
                           mr_referee_named(r->ctx, r->trace, o), stand->holds.at[i]);
        r->holds[mr_referee_storage(r->trace, stand->gives.at[i])] = v;
        r->given[v] = true;
    }
    return MR_OK;
}

/* Is it left out on purpose, or done by an op that stands in for it? */
bool mr_referee_is_left_out(const mr_referee *r, uint32_t f)
{
    const uint32_t stand = r->excused[f];
    return stand != MR_NONE && (r->trace->stand_ins.at[stand].op == MR_NONE || r->stood[stand]);
}
