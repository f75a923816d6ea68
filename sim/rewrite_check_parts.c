/* rewrite_check_parts -- new ops that hand on values: moved, cut into parts, joined, added up.
 */
#include "rewrite_check_pieces.h"
#include "rewrite_check_referee.h"

#include <string.h>

/* ---- parts of a whole -------------------------------------------------------------------- */

/* Results in the memory of a piece show that piece; what a piece is moved to is one. */
void mr_referee_note_pieces(mr_referee *r, const mr_op *op)
{
    for (uint32_t k = 0; k < op->out.n && !op->cuts; k++) {
        const uint32_t t = op->out.at[k];
        uint32_t from = MR_NONE;
        for (uint32_t i = 0; i < op->in.n; i++)
            if (mr_referee_storage(r->trace, op->in.at[i]) == mr_referee_storage(r->trace, t))
                from = op->in.at[i];
        r->piece[t] = from == MR_NONE ? 0 : r->piece[from];
        if (op->moves && from == MR_NONE && k < op->in.n) from = op->in.at[k];
        r->pieces[t] = from == MR_NONE ? 0 : r->pieces[from];
    }
}

void mr_referee_fill(mr_referee *r, uint32_t tensor, mr_value shown)
{
    const mr_tensor *piece = &r->trace->tensors.at[tensor];
    for (uint32_t t = 0; t < r->trace->tensors.n; t++) {
        const mr_tensor *x = &r->trace->tensors.at[t];
        if (x->storage != piece->storage || x->offset != piece->offset
            || x->bytes != piece->bytes)
            continue;
        r->beside[t] = shown;
        r->under[t] = r->holds[piece->storage];
    }
}

mr_status mr_referee_cut(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    MR_TRY(mr_rewrite_check_cut(r->ctx, r->trace, o));
    if (mr_referee_seen(r, op->in.at[0]) >> MR_VALUE_SHIFT)
        return mr_fail(r->ctx, MR_EINVARIANT, "%s cuts %s, expected a whole value",
                       mr_referee_named(r->ctx, r->trace, o),
                       mr_referee_told(r, mr_referee_seen(r, op->in.at[0])));
    for (uint32_t k = 0; k < op->out.n; k++) {
        r->piece[op->out.at[k]] = k + 1;
        r->pieces[op->out.at[k]] = op->out.n;
    }
    return MR_OK;
}

mr_status mr_referee_join(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    MR_TRY(mr_rewrite_check_join(r->ctx, r->trace, o));
    const mr_value whole = (uint32_t)mr_referee_seen(r, op->in.at[0]);
    const uint32_t maker = whole < r->before.values ? r->before.maker[whole] : MR_NONE;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_value has = mr_referee_seen(r, op->in.at[i]),
                       want = whole | (mr_value)(i + 1) << MR_VALUE_SHIFT;
        if (maker == MR_NONE || has != want || op->in.n != r->parts[maker])
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "%s joins %u parts, of which the one at place %u is %s, expected all"
                           " parts of a value in their order",
                           mr_referee_named(r->ctx, r->trace, o), op->in.n, i + 1,
                           mr_referee_told(r, has));
    }
    r->holds[mr_referee_storage(r->trace, op->out.at[0])] = whole;
    return MR_OK;
}

/* ---- copies and sums --------------------------------------------------------------------- */

/* A copy can be of a view, then without its gaps. */
static void place_moved(mr_referee *r, const mr_tensor *from, const mr_tensor *to)
{
    const bool cast = from->dtype != to->dtype && strcmp(from->dtype, to->dtype) != 0;
    if (from->storage == to->storage) return;
    r->base[to->storage] = cast ? 0 : r->base[from->storage] + from->offset - to->offset;
    r->packed[to->storage] = !cast && (r->packed[from->storage] || from->bytes > to->bytes);
}

static bool changes_itself(const mr_referee *r, const mr_op *op, uint32_t k)
{
    return k >= op->out.n
           && mr_referee_storage(r->trace, op->in.at[k])
                  == mr_referee_storage(r->trace, mr_referee_result(op, k));
}

/* A gradient by its scale, or what the update has made beside parameters and states; what is
 * new or nothing yet anyway. */
static bool is_scaled(const mr_referee *r, const mr_op *op, uint32_t k)
{
    const uint32_t v = (uint32_t)r->moved[k];
    const uint32_t s = mr_referee_storage(r->trace, mr_referee_result(op, k));
    const mr_role role = (mr_role)r->trace->storages.at[s].role;
    if (!v || v >= r->before.values) return true;
    if (op->phase != MR_UPDATE) return false;
    if (role != MR_ROLE_gradient && role != MR_ROLE_temporary) return false;
    const uint32_t maker = r->before.maker[v];
    if (maker == MR_NONE) return role == MR_ROLE_gradient;
    const mr_phase phase = r->before.trace->ops.at[maker].phase;
    return phase == MR_BACKWARD || phase == MR_UPDATE;
}

/* Each result is what the input at its place was. */
mr_status mr_referee_move(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (!op->in.n || !mr_referee_results(op) || mr_referee_results(op) > op->in.n)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s moves %u values and writes %u, expected it to write what it reads",
                       mr_referee_named(r->ctx, r->trace, o), op->in.n, mr_referee_results(op));
    for (uint32_t k = mr_referee_results(op); k-- > 0;)
        r->moved[k] = mr_referee_seen(r, op->in.at[k]);
    for (uint32_t k = 0; k < mr_referee_results(op); k++) {
        if (changes_itself(r, op, k) && !is_scaled(r, op, k))
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "%s moves tensor %u onto itself, which changes %s, expected a"
                           " gradient to be scaled in the update, or another place",
                           mr_referee_named(r->ctx, r->trace, o), mr_referee_result(op, k),
                           mr_referee_told(r, r->moved[k]));
        r->holds[mr_referee_storage(r->trace, mr_referee_result(op, k))] = r->moved[k];
        place_moved(r, &r->trace->tensors.at[op->in.at[k]],
                    &r->trace->tensors.at[mr_referee_result(op, k)]);
    }
    return MR_OK;
}

/* What part p of a value, of which there are n, makes of what has been added up so far; 0 if it
 * does not go on that. */
static mr_value sum_of(mr_value has, mr_value more, uint32_t n, bool fresh)
{
    const mr_value whole = (uint32_t)more, part = more >> MR_VALUE_SHIFT & MR_VALUE_PART;
    const mr_value before = whole | (part - 1) << MR_VALUE_SHIFT;
    const mr_value behind = whole | (part + 1) << MR_VALUE_SHIFT;
    if (part < 2 && fresh) return part == n ? whole : more;
    if (part && has == (part + 1 == n ? behind : behind | MR_VALUE_SUM | MR_VALUE_FROM))
        return part == 1 ? whole : more | MR_VALUE_SUM | MR_VALUE_FROM;
    if (part > 1 && has == (part == 2 ? before : before | MR_VALUE_SUM))
        return part == n ? whole : more | MR_VALUE_SUM;
    return 0;
}

/* Part p of a value is added to the first p - 1 of them, to those behind it, or to what is no
 * value of before. */
mr_status mr_referee_sum(mr_referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    const bool in_place = op->mutates.n == 1 && !op->out.n && op->in.at[0] == op->mutates.at[0];
    if (op->in.n != 2 || (!in_place && (op->mutates.n || op->out.n != 1)))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s adds up parts, expected it to add its second input to its first",
                       mr_referee_named(r->ctx, r->trace, o));
    const mr_value has = mr_referee_seen(r, op->in.at[0]),
                   more = mr_referee_seen(r, op->in.at[1]);
    const mr_value whole = (uint32_t)more;
    const uint32_t maker = whole < r->before.values ? r->before.maker[whole] : MR_NONE;
    const mr_value sum = sum_of(has, more, maker == MR_NONE ? 0 : r->parts[maker],
                                (uint32_t)has >= r->before.values);
    if (!whole || more & MR_VALUE_SUM || !sum)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s adds %s to %s, expected the parts of a value in their order",
                       mr_referee_named(r->ctx, r->trace, o), mr_referee_told(r, more),
                       mr_referee_told(r, has));
    r->holds[mr_referee_storage(r->trace, mr_referee_result(op, 0))] = sum;
    return MR_OK;
}
