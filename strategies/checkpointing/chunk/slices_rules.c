/* slices_rules -- which rows an op's results have, by those of what it reads.
 *
 * An op that is in none of the lists below keeps its region whole: rows may mean anything to
 * it.
 */
#include "slices.h"

#include <string.h>

/* Every number of a row is made of the same row alone, dimension by dimension from the right.
 */
static const char by_row[] =
    "add add_ sub sub_ mul mul_ div div_ neg pow rsqrt sqrt exp tanh tanh_ sigmoid sigmoid_ erf"
    " gelu gelu_ relu relu_ silu silu_ elu elu_ leaky_relu leaky_relu_ clamp clamp_min"
    " gelu_backward silu_backward threshold_backward tanh_backward sigmoid_backward"
    " elu_backward leaky_relu_backward native_dropout native_dropout_backward masked_fill"
    " masked_fill_ where clone contiguous _to_copy copy_ detach expand tril triu ones full "
    "zeros"
    " split split_with_sizes chunk slice cat mean";
/* The same, but all of the last dimension together. */
static const char by_last[] =
    "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data native_layer_norm"
    " _fused_rms_norm";
static const char reshapes[] = "view _unsafe_view reshape _reshape_alias unsqueeze squeeze";
/* f(a + b) = f(a) + f(b): a summand stays one. */
static const char linear[] = "clone _to_copy mul div neg";

static const mr_tensor *tensor_at(const slices *s, uint32_t t)
{
    return &s->in->tensors.at[t];
}

static bool refuse(slices *s, uint32_t region, uint32_t o, const char *why)
{
    const mr_op *op = &s->in->ops.at[o];
    s->all.at[region].refused = mr_printf(s->ctx, "%s of its op %s", why, op->name);
    return false;
}

static uint64_t product(const uint64_t *shape, uint32_t begin, uint32_t end)
{
    uint64_t n = 1;
    for (uint32_t d = begin; d < end; d++) n *= shape[d];
    return n;
}

static bool is_same(slice_cut x, slice_cut y)
{
    return x.kind == y.kind && (x.kind != SLICE_ROWS || (x.dim == y.dim && x.outer == y.outer));
}

bool slices_is(const mr_op *op, const char *words)
{
    const char *name = op->name;
    if (!strncmp(name, "aten::", 6)) name += 6;
    const size_t n = strlen(name);
    for (const char *at = strstr(words, name); at; at = strstr(at + 1, name))
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

/* ---- views ------------------------------------------------------------------------------- */

bool slices_reshape(const slice_region *region, const mr_tensor *from, slice_cut cut,
                    const mr_tensor *to, slice_cut *out)
{
    const uint64_t left = product(from->shape, 0, cut.dim) * cut.outer;
    uint64_t before = 1;
    for (uint32_t d = 0; d < to->rank; before *= to->shape[d++]) {
        if (before * to->shape[d] <= left) continue;
        const uint64_t outer = left / before;
        *out = (slice_cut){SLICE_ROWS, d, outer};
        return left % before == 0 && to->shape[d] % (outer * region->length) == 0;
    }
    return false;
}

/* Where dimension `dim` has gone; MR_NONE when sizes do not tell. */
static uint32_t transposed(const mr_tensor *from, const mr_tensor *to, uint32_t dim)
{
    uint32_t found = MR_NONE, moved = 0;
    if (from->rank != to->rank) return MR_NONE;
    for (uint32_t d = 0; d < from->rank; d++) moved += from->shape[d] != to->shape[d];
    if (!moved) /* equal sizes change places: a matrix's */
        return dim + 2 < to->rank || to->rank < 2 ? MR_NONE : 2 * to->rank - 3 - dim;
    if (from->shape[dim] == to->shape[dim] && moved == 2) return dim;
    for (uint32_t d = 0; d < to->rank; d++) {
        if (to->shape[d] != from->shape[dim] || to->shape[d] == from->shape[d]) continue;
        if (found != MR_NONE) return MR_NONE;
        found = d;
    }
    return found;
}

static bool follow_view(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    const mr_tensor *from = tensor_at(s, op->in.at[0]);
    const slice_cut cut = slices_cut(s, region, op->in.at[0]);
    for (uint32_t k = 0; k < op->out.n; k++) {
        const mr_tensor *to = tensor_at(s, op->out.at[k]);
        slice_cut out = cut;
        if (cut.kind == SLICE_ROWS && slices_is(op, reshapes)) {
            if (!slices_reshape(&s->all.at[region], from, cut, to, &out))
                return refuse(s, region, o, "rows are not together in the result");
        } else if (cut.kind == SLICE_ROWS) {
            out.dim = transposed(from, to, cut.dim);
            if (out.dim == MR_NONE)
                return refuse(s, region, o, "sizes do not tell the dimensions");
        }
        slices_set(s, region, op->out.at[k], out);
    }
    return true;
}

/* ---- what must be cut too ---------------------------------------------------------------- */

static bool require(slices *s, uint32_t region, uint32_t o, uint32_t tensor, slice_cut cut);

/* Cuts what an op of the region has made whole so far, and what it has made it from. */
static bool require_made(slices *s, uint32_t region, uint32_t tensor, slice_cut cut)
{
    const uint32_t o = s->maker[tensor];
    const mr_op *op = &s->in->ops.at[o];
    const bool view = slices_is(op, reshapes);
    if (!view && (!slices_is(op, by_row) || op->out.n > 1))
        return refuse(s, region, o, "rows are asked for");
    slices_set(s, region, tensor, cut);
    for (uint32_t i = 0; i < op->in.n; i++) {
        const mr_tensor *from = tensor_at(s, op->in.at[i]), *to = tensor_at(s, tensor);
        slice_cut in = cut;
        if (view && !slices_reshape(&s->all.at[region], to, cut, from, &in))
            return refuse(s, region, o, "rows are not together in what is read");
        if (!view && from->rank + in.dim < to->rank) continue;
        if (!view) in.dim = from->rank + in.dim - to->rank;
        if (!view && from->shape[in.dim] == 1) continue;
        if (!require(s, region, o, op->in.at[i], in)) return false;
    }
    return true;
}

static bool require(slices *s, uint32_t region, uint32_t o, uint32_t tensor, slice_cut cut)
{
    slice_region *r = &s->all.at[region];
    const slice_cut has = slices_cut(s, region, tensor);
    const uint32_t maker = s->maker[tensor];
    if (is_same(has, cut)) return true;
    if (has.kind != SLICE_WHOLE) return refuse(s, region, o, "other rows are asked for");
    if (maker != MR_NONE && s->owner[maker] == region)
        return require_made(s, region, tensor, cut);
    const mr_tensor *t = tensor_at(s, tensor);
    if (s->in->storages.at[t->storage].role == MR_ROLE_parameter || cut.outer != 1
        || t->shape[cut.dim] != r->length)
        return refuse(s, region, o, "rows of something from outside are asked for");
    slices_set(s, region, tensor, cut);
    const bool backward = maker != MR_NONE && s->in->ops.at[maker].phase == MR_BACKWARD;
    if (backward) MR_PUSH(s->ctx, &r->gradients, tensor);
    else MR_PUSH(s->ctx, &r->sliced, tensor);
    return true;
}

/* ---- row by row -------------------------------------------------------------------------- */

/* The dimension of `to` that stands as far from the right; MR_NONE when there is none. */
static uint32_t aligned(const mr_tensor *from, uint32_t dim, const mr_tensor *to)
{
    return to->rank + dim < from->rank ? MR_NONE : to->rank + dim - from->rank;
}

static bool follow_rows_of(slices *s, uint32_t region, uint32_t o, const mr_tensor *from,
                           slice_cut cut)
{
    const mr_op *op = &s->in->ops.at[o];
    for (uint32_t i = 0; i < op->in.n + op->mutates.n; i++) {
        const uint32_t t = i < op->in.n ? op->in.at[i] : op->mutates.at[i - op->in.n];
        const uint32_t dim = aligned(from, cut.dim, tensor_at(s, t));
        if (dim == MR_NONE || tensor_at(s, t)->shape[dim] == 1) continue;
        if (!require(s, region, o, t, (slice_cut){SLICE_ROWS, dim, cut.outer})) return false;
    }
    for (uint32_t k = 0; k < op->out.n; k++) {
        const mr_tensor *to = tensor_at(s, op->out.at[k]);
        const uint32_t dim = aligned(from, cut.dim, to);
        if (dim == MR_NONE || to->shape[dim] != from->shape[cut.dim])
            return refuse(s, region, o, "rows are lost in a result");
        slices_set(s, region, op->out.at[k], (slice_cut){SLICE_ROWS, dim, cut.outer});
    }
    return true;
}

static bool follow_rows(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    uint32_t rows = MR_NONE, summands = 0;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const slice_cut cut = slices_cut(s, region, op->in.at[i]);
        if (cut.kind == SLICE_ROWS && rows == MR_NONE) rows = i;
        summands += cut.kind == SLICE_SUMMAND;
    }
    if (rows != MR_NONE && summands) return refuse(s, region, o, "a summand meets rows");
    if (rows == MR_NONE) {
        if (summands > 1 || (summands && (op->mutates.n || !slices_is(op, linear))))
            return refuse(s, region, o, "summands are not added up before an input");
        const slice_cut cut = {summands ? SLICE_SUMMAND : SLICE_WHOLE, 0, 1};
        for (uint32_t k = 0; k < op->out.n; k++) slices_set(s, region, op->out.at[k], cut);
        return true;
    }
    const mr_tensor *from = tensor_at(s, op->in.at[rows]);
    const slice_cut cut = slices_cut(s, region, op->in.at[rows]);
    if (cut.dim == MR_NONE) return refuse(s, region, o, "a number for each slice is read");
    if (cut.dim + 1 == from->rank && (slices_is(op, by_last) || slices_is(op, "mean")))
        return refuse(s, region, o, "rows are in the last dimension");
    return follow_rows_of(s, region, o, from, cut);
}

/* ---- products ---------------------------------------------------------------------------- */

static bool follow_product(slices *s, uint32_t region, uint32_t o, uint32_t first)
{
    const mr_op *op = &s->in->ops.at[o];
    const uint32_t a = op->in.at[first], b = op->in.at[first + 1], rank = tensor_at(s, a)->rank;
    const slice_cut x = slices_cut(s, region, a), y = slices_cut(s, region, b);
    const bool x_in = x.kind == SLICE_ROWS && x.dim + 1 == rank;
    const bool y_in = y.kind == SLICE_ROWS && y.dim + 2 == rank;
    slice_cut out = {SLICE_WHOLE, 0, 1};
    if (x.kind == SLICE_SUMMAND || y.kind == SLICE_SUMMAND || tensor_at(s, b)->rank != rank)
        return refuse(s, region, o, "a summand is read");
    if (x_in && y_in && x.outer == y.outer) {
        if (first) return refuse(s, region, o, "summands are made with something added");
        out.kind = SLICE_SUMMAND;
    } else if (x_in || y_in) {
        return refuse(s, region, o, "rows meet what has none");
    } else if (x.kind == SLICE_ROWS && y.kind == SLICE_ROWS) {
        if (!is_same(x, y) || x.dim + 2 >= rank)
            return refuse(s, region, o, "rows of both sides differ");
        out = x;
    } else if (x.kind == SLICE_ROWS || y.kind == SLICE_ROWS) {
        out = x.kind == SLICE_ROWS ? x : y;
        if (out.dim + 2 < rank) return refuse(s, region, o, "rows meet what has none");
    }
    if (first && out.kind == SLICE_ROWS && tensor_at(s, op->in.at[0])->rank + 1 > rank
        && tensor_at(s, op->in.at[0])->shape[out.dim] != 1
        && !require(s, region, o, op->in.at[0], out))
        return false;
    slices_set(s, region, op->out.at[0], out);
    return true;
}

/* ---- reductions -------------------------------------------------------------------------- */

static bool follow_sum(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    const mr_tensor *from = tensor_at(s, op->in.at[0]), *to = tensor_at(s, op->out.at[0]);
    slice_cut cut = slices_cut(s, region, op->in.at[0]);
    if (cut.kind == SLICE_SUMMAND) return refuse(s, region, o, "a summand is read");
    if (cut.kind == SLICE_ROWS) {
        const uint32_t gone = from->rank - to->rank;
        for (uint32_t d = 0; gone && d < to->rank; d++)
            if (to->shape[d] != from->shape[d + gone])
                return refuse(s, region, o, "sizes do not tell the dimensions");
        if (cut.dim < gone || to->shape[cut.dim - gone] == 1)
            cut = (slice_cut){SLICE_SUMMAND, 0, 1};
        else cut.dim -= gone;
    }
    slices_set(s, region, op->out.at[0], cut);
    return true;
}

static bool follow_loss(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    const slice_cut cut = slices_cut(s, region, op->in.at[0]);
    if (cut.kind != SLICE_ROWS || cut.dim)
        return refuse(s, region, o, "rows are not the tokens");
    if (!require(s, region, o, op->in.at[1], cut)) return false;
    for (uint32_t k = 0; k < op->out.n; k++)
        slices_set(s, region, op->out.at[k], (slice_cut){SLICE_SUMMAND, 0, 1});
    return true;
}

static bool follow_loss_backward(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    const slice_cut cut = slices_cut(s, region, op->in.at[1]);
    if (cut.kind != SLICE_ROWS) return refuse(s, region, o, "rows are not the tokens");
    slices_set(s, region, op->out.at[0], cut);
    return true;
}

static bool follow_norm_backward(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    const slice_cut cut = slices_cut(s, region, op->in.at[0]);
    if (cut.kind != SLICE_ROWS || cut.dim + 1 == tensor_at(s, op->in.at[0])->rank)
        return refuse(s, region, o, "rows are not those of the whole");
    slices_set(s, region, op->out.at[0], cut);
    for (uint32_t k = 1; k < op->out.n; k++)
        slices_set(s, region, op->out.at[k], (slice_cut){SLICE_SUMMAND, 0, 1});
    return true;
}

bool slices_follow(slices *s, uint32_t region, uint32_t o)
{
    const mr_op *op = &s->in->ops.at[o];
    if (slices_is(op, reshapes) || slices_is(op, "t transpose permute"))
        return follow_view(s, region, o);
    if (slices_is(op, "mm bmm")) return follow_product(s, region, o, 0);
    if (slices_is(op, "addmm baddbmm")) return follow_product(s, region, o, 1);
    if (slices_is(op, "sum")) return follow_sum(s, region, o);
    if (slices_is(op, "nll_loss_forward")) return follow_loss(s, region, o);
    if (slices_is(op, "nll_loss_backward")) return follow_loss_backward(s, region, o);
    if (slices_is(op, "native_layer_norm_backward")) return follow_norm_backward(s, region, o);
    if (slices_is(op, by_row) || slices_is(op, by_last)) return follow_rows(s, region, o);
    return refuse(s, region, o, "nothing is known of the rows");
}
