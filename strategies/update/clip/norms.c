/* norms -- see the header. */
#include "norms.h"

#include <string.h>

static const mr_tensor *tensor_at(const norms *n, uint32_t tensor)
{
    return &n->r->out->tensors.at[tensor];
}

static uint32_t storage_of(const norms *n, uint32_t tensor)
{
    return tensor_at(n, tensor)->storage;
}

/* ---- gradients --------------------------------------------------------------------------- */

static bool reads_gradients(const norms *n, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (n->is_gradient[storage_of(n, op->in.at[i])]) return true;
    return false;
}

/* Unscales gradients, or copies them to 32 bits: they are ready after that. */
static bool prepares(const norms *n, const mr_op *op)
{
    return reads_gradients(n, op) && (op->moves || strstr(op->name, "_amp_foreach_"));
}

static void see(norms *n, bool *seen, const mr_op *op, uint32_t event)
{
    if (prepares(n, op)) {
        for (uint32_t i = 0; i < op->out.n; i++)
            n->is_gradient[storage_of(n, op->out.at[i])] = true;
        for (uint32_t i = 0; i < n->gradients.n; i++)
            seen[storage_of(n, n->gradients.at[i])] = false;
        n->gradients.n = 0;
        n->begin = MR_NONE;
        return;
    }
    if (n->begin == MR_NONE) n->begin = event;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i], s = storage_of(n, t);
        if (!n->is_gradient[s] || seen[s]) continue;
        seen[s] = true;
        MR_PUSH(n->r->ctx, &n->gradients, t);
    }
}

static mr_status check(const norms *n, bool late)
{
    const char *name = n->r->in->name;
    if (late)
        return mr_fail(n->r->ctx, MR_EUNSUPPORTED,
                       "'%s' updates parameters before its backward pass is over, expected all"
                       " gradients to be there before one is used: they are clipped together",
                       name);
    if (n->gradients.n) return MR_OK;
    return mr_fail(n->r->ctx, MR_EUNSUPPORTED,
                   "'%s' has no update that reads gradients, expected one to clip them for",
                   name);
}

mr_status norms_look(mr_rewrite *r, norms *out)
{
    const mr_trace *in = r->in;
    bool *seen = MR_NEW_N(r->ctx, bool, in->storages.n), late = false, updates = false;
    *out = (norms){.r = r, .begin = MR_NONE};
    out->is_gradient = MR_NEW_N(r->ctx, bool, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++)
        out->is_gradient[s] = in->storages.at[s].role == MR_ROLE_gradient;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        late |= updates && op->phase == MR_BACKWARD;
        if (op->phase != MR_UPDATE) continue;
        updates = true;
        see(out, seen, op, e);
    }
    return check(out, late);
}

/* ---- ops --------------------------------------------------------------------------------- */

/* So many numbers of the gradients' type, in a place of their own. */
static uint32_t numbers(norms *n, uint32_t like, uint64_t count)
{
    const uint64_t width = mr_dtype_bytes(tensor_at(n, like)->dtype);
    const uint64_t bytes = count * (width ? width : 4);
    const uint32_t s = mr_rewrite_new_storage(n->r, storage_of(n, like), bytes);
    const uint32_t t = mr_rewrite_new_tensor(n->r, like, s);
    mr_tensor *tensor = &n->r->out->tensors.at[t];
    uint64_t *shape = MR_NEW(n->r->ctx, uint64_t);
    *shape = count;
    tensor->rank = count > 1;
    tensor->shape = shape;
    tensor->name = "";
    n->r->out->storages.at[s].per_sample = 0;
    n->r->out->storages.at[s].role = tensor->role = MR_ROLE_temporary;
    return t;
}

static uint64_t bytes_of(const norms *n, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) sum += mr_tensor_touched(tensor_at(n, ids.at[i]));
    return sum;
}

static void run(norms *n, const char *name, mr_ids in, mr_ids out, mr_ids mutates)
{
    const mr_op op = {.name = name,
                      .module = "",
                      .stream = n->r->out->storages.at[storage_of(n, in.at[0])].stream,
                      .phase = MR_UPDATE,
                      .again = MR_NONE,
                      .of = MR_NONE,
                      .read = bytes_of(n, in),
                      .written = bytes_of(n, out) + bytes_of(n, mutates),
                      .in = in,
                      .out = out,
                      .mutates = mutates,
                      .moves = mutates.n > 0};
    mr_rewrite_new_op(n->r, &op);
}

/* An op that makes one number, or a few, of others. */
static uint32_t make(norms *n, const char *name, mr_ids in, uint64_t count)
{
    const uint32_t out = numbers(n, in.at[0], count);
    run(n, name, in, mr_ids_of(n->r->ctx, 1, &out), (mr_ids){0});
    return out;
}

static uint32_t make_of(norms *n, const char *name, uint32_t in)
{
    return make(n, name, mr_ids_of(n->r->ctx, 1, &in), 1);
}

static void drop(norms *n, uint32_t tensor)
{
    mr_rewrite_drop(n->r, NULL, tensor);
}

/* ---- the length, the factor, the product ------------------------------------------------- */

static mr_ids lengths(norms *n, const norms_choice *choice, mr_ids gradients)
{
    mr_ids out = {MR_NEW_N(n->r->ctx, uint32_t, gradients.n), gradients.n};
    for (uint32_t i = 0; i < out.n && choice->form; i++)
        out.at[i] = make_of(n, "aten::linalg_vector_norm", gradients.at[i]);
    if (choice->form) return out;
    for (uint32_t i = 0; i < out.n; i++) out.at[i] = numbers(n, gradients.at[i], 1);
    run(n, "aten::_foreach_norm", gradients, out, (mr_ids){0});
    return out;
}

static uint32_t length(norms *n, const norms_choice *choice, mr_ids gradients)
{
    const mr_ids each = lengths(n, choice, gradients);
    const uint32_t all = make(n, "aten::stack", each, each.n);
    const uint32_t total = make_of(n, "aten::linalg_vector_norm", all);
    drop(n, all);
    for (uint32_t i = 0; i < each.n; i++) drop(n, each.at[i]);
    return total;
}

static uint32_t make_truth(norms *n, const char *name, mr_ids in)
{
    const uint32_t out = numbers(n, in.at[0], 1);
    mr_tensor *tensor = &n->r->out->tensors.at[out];
    tensor->dtype = "bool";
    n->r->out->storages.at[tensor->storage].bytes = tensor->bytes = 1;
    run(n, name, in, mr_ids_of(n->r->ctx, 1, &out), (mr_ids){0});
    return out;
}

/* Is it a number?  The host has to know. */
static void ask(norms *n, uint32_t total)
{
    const mr_ids one = mr_ids_of(n->r->ctx, 1, &total);
    const uint32_t nan = make_truth(n, "aten::isnan", one);
    const uint32_t infinite = make_truth(n, "aten::isinf", one), both[] = {nan, infinite};
    const uint32_t either =
        make_truth(n, "aten::logical_or", mr_ids_of(n->r->ctx, 2, both));
    drop(n, nan);
    drop(n, infinite);
    run(n, "aten::_local_scalar_dense", mr_ids_of(n->r->ctx, 1, &either), (mr_ids){0},
        (mr_ids){0});
    drop(n, either);
}

/* Ends with a variable of the function, `quotient`, as its result does. */
static uint32_t factor(norms *n, uint32_t total, uint32_t *quotient)
{
    const uint32_t sum = make_of(n, "aten::add", total);
    const uint32_t inverse = make_of(n, "aten::reciprocal", sum);
    *quotient = make_of(n, "aten::mul", inverse);
    drop(n, inverse);
    drop(n, sum);
    return make_of(n, "aten::clamp", *quotient);
}

static void multiply(norms *n, const char *name, const uint32_t *gradients, uint32_t count,
                     uint32_t by)
{
    mr_ids in = {MR_NEW_N(n->r->ctx, uint32_t, count + 1), count + 1};
    memcpy(in.at, gradients, count * sizeof *gradients);
    in.at[count] = by;
    run(n, name, in, (mr_ids){0}, (mr_ids){in.at, count});
}

void norms_write(norms *n, const norms_choice *choice)
{
    const mr_ids gradients = {n->gradients.at, n->gradients.n};
    const uint32_t total = length(n, choice, gradients);
    if (choice->error_if_nonfinite) ask(n, total);
    uint32_t quotient;
    const uint32_t by = factor(n, total, &quotient);
    if (!choice->form) multiply(n, "aten::_foreach_mul_", gradients.at, gradients.n, by);
    for (uint32_t i = 0; i < gradients.n && choice->form; i++)
        multiply(n, "aten::mul_", &gradients.at[i], 1, by);
    drop(n, by);
    drop(n, quotient);
    drop(n, total);
}
