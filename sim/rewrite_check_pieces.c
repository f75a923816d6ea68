/* rewrite_check_pieces -- shapes and places of pieces.
 *
 * A piece has the shape of the whole but for one dimension, the same for all of them; or it
 * lacks that dimension, of which it is one.  Where rows lie in memory only the whole knows, but
 * they lie equally far apart.
 */
#include "rewrite_check_pieces.h"

#include <inttypes.h>
#include <string.h>

typedef struct tiling {
    const mr_tensor *whole;
    uint32_t dim;  /* that is cut; MR_NONE as long as no piece has said so */
    uint64_t sum;  /* of it, in the pieces so far */
    uint64_t step; /* bytes from one to the next, 0 as long as it is not known */
} tiling;

/* The dimension in which they differ, MR_NONE when it is not exactly one. */
static uint32_t different(const mr_tensor *x, const mr_tensor *y)
{
    uint32_t found = MR_NONE;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (x->shape[d] == y->shape[d]) continue;
        if (found != MR_NONE) return MR_NONE;
        found = d;
    }
    return found;
}

/* The dimension that the piece lacks, MR_NONE when it lacks something else. */
static uint32_t missing(const mr_tensor *whole, const mr_tensor *piece)
{
    uint32_t d = 0;
    while (d < piece->rank && whole->shape[d] == piece->shape[d]) d++;
    const size_t rest = (piece->rank - d) * sizeof *piece->shape;
    return rest && memcmp(whole->shape + d + 1, piece->shape + d, rest) ? MR_NONE : d;
}

static bool add_piece(tiling *t, const mr_tensor *piece)
{
    const bool lacks = piece->rank + 1 == t->whole->rank;
    if (!lacks && piece->rank != t->whole->rank) return false;
    const uint32_t dim = lacks ? missing(t->whole, piece) : different(t->whole, piece);
    if (dim == MR_NONE || (t->dim != MR_NONE && t->dim != dim)) return false;
    t->dim = dim;
    t->sum += lacks ? 1 : piece->shape[dim];
    return true;
}

/* Does the piece lie `t->sum` steps behind the beginning of the whole? */
static bool is_in_place(tiling *t, const mr_tensor *piece)
{
    if (piece->offset < t->whole->offset || piece->storage != t->whole->storage) return false;
    const uint64_t behind = piece->offset - t->whole->offset;
    if (!t->sum) return behind == 0;
    if (!t->step) t->step = behind / t->sum;
    return t->step && behind == t->sum * t->step;
}

static mr_status check_sum(mr_ctx *ctx, const tiling *t, uint32_t o, const mr_op *op)
{
    const uint64_t expected = t->dim == MR_NONE ? 0 : t->whole->shape[t->dim];
    if (t->dim != MR_NONE && t->sum == expected) return MR_OK;
    return mr_fail(ctx, MR_EINVARIANT,
                   "op %u (%s): its pieces have %" PRIu64 " rows, expected the %" PRIu64
                   " of the whole",
                   o, op->name, t->sum, expected);
}

static mr_status bad_piece(mr_ctx *ctx, uint32_t o, const mr_op *op, uint32_t tensor)
{
    return mr_fail(ctx, MR_EINVARIANT,
                   "op %u (%s): tensor %u is no piece of the whole, expected its shape but for"
                   " one dimension, behind the pieces before",
                   o, op->name, tensor);
}

mr_status mr_rewrite_check_cut(mr_ctx *ctx, const mr_trace *trace, uint32_t o)
{
    const mr_op *op = &trace->ops.at[o];
    if (op->in.n != 1 || op->out.n < 2 || op->mutates.n)
        return mr_fail(ctx, MR_EINVARIANT, "op %u (%s) cuts, expected it to read one tensor", o,
                       op->name);
    tiling t = {.whole = &trace->tensors.at[op->in.at[0]], .dim = MR_NONE};
    for (uint32_t k = 0; k < op->out.n; k++) {
        const mr_tensor *piece = &trace->tensors.at[op->out.at[k]];
        if (!is_in_place(&t, piece) || !add_piece(&t, piece))
            return bad_piece(ctx, o, op, op->out.at[k]);
    }
    return check_sum(ctx, &t, o, op);
}

mr_status mr_rewrite_check_join(mr_ctx *ctx, const mr_trace *trace, uint32_t o)
{
    const mr_op *op = &trace->ops.at[o];
    if (op->in.n < 2 || op->out.n != 1 || op->mutates.n)
        return mr_fail(ctx, MR_EINVARIANT, "op %u (%s) joins, expected it to write one tensor",
                       o, op->name);
    tiling t = {.whole = &trace->tensors.at[op->out.at[0]], .dim = MR_NONE};
    for (uint32_t i = 0; i < op->in.n; i++)
        if (!add_piece(&t, &trace->tensors.at[op->in.at[i]]))
            return bad_piece(ctx, o, op, op->in.at[i]);
    return check_sum(ctx, &t, o, op);
}

/* Rows of a whole that lies as it is written. */
static bool lies_at(const mr_tensor *whole, const mr_tensor *piece, uint32_t dim,
                    uint64_t begin)
{
    uint64_t each = whole->bytes, outer = 1;
    for (uint32_t d = 0; d <= dim; d++) each /= whole->shape[d] ? whole->shape[d] : 1;
    for (uint32_t d = 0; d < dim; d++) outer *= whole->shape[d];
    const uint64_t span = (outer - 1) * whole->shape[dim] * each + piece->shape[dim] * each;
    return piece->offset == whole->offset + begin * each && piece->bytes == span;
}

uint32_t mr_rewrite_check_filled(const mr_trace *trace, const mr_op *op)
{
    if (op->mutates.n != 1 || op->out.n || op->in.n < 2) return MR_NONE;
    tiling t = {.whole = &trace->tensors.at[op->mutates.at[0]], .dim = MR_NONE};
    uint32_t found = MR_NONE;
    uint64_t begin = 0;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_tensor *piece = &trace->tensors.at[op->in.at[i]];
        const uint64_t at = t.sum;
        if (!add_piece(&t, piece) || piece->rank != t.whole->rank) return MR_NONE;
        if (piece->storage != t.whole->storage) continue;
        if (found != MR_NONE) return MR_NONE; /* of one alone it is asked */
        found = i;
        begin = at;
    }
    if (found == MR_NONE || t.sum != t.whole->shape[t.dim]) return MR_NONE;
    const mr_tensor *piece = &trace->tensors.at[op->in.at[found]];
    return lies_at(t.whole, piece, t.dim, begin) ? found : MR_NONE;
}
