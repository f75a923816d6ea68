/* inplace -- activations, and sums if asked for, write their result over what they read.
 *
 *     x ──► relu ──► y            x ──► relu_ ──► x
 *
 * as with nn.ReLU(inplace=True).  Where that would change a gradient the op stays as it is, and
 * a remark says who is in the way.  LeakyReLU and ELU save in place their result instead of
 * what they read.  Dropout keeps, in place, the factors themselves instead of a mask of bytes.
 * A batch norm and its activation may become one op (inplace/inplace_abn.h).
 */
#include "strategy.h"

#include "inplace_abn.h"

#include <string.h>

typedef struct settings {
    const char *module;
    uint64_t abn;
    bool add, dropout, elementwise;
} settings;

static const mr_param params[] = {
    MR_PARAM_TEXT(settings, module, "",
                  "only in modules with these paths, * standing for a name"),
    MR_PARAM_BOOL(settings, add, "False", "residual sums too, as x += y"),
    MR_PARAM_BOOL(settings, dropout, "False",
                  "dropout too, which then keeps a number instead of a byte for each element"),
    MR_PARAM_BOOL(settings, elementwise, "False",
                  "all that goes number by number, gradients and sums too, as a planner such as"
                  " NNVM's may do it"),
    MR_PARAM_CHOICE(settings, abn, "no|invertible|relu", "no",
                    "batch norms with the activation after them as one op in place; with relu,"
                    " that becomes leaky_relu: another model"),
    {0},
};

enum { ABN_NO, ABN_INVERTIBLE, ABN_RELU };

typedef struct writer {
    mr_rewrite r;
    inplace_facts facts;
    inplace_abn abn;
    const settings *settings;
    uint32_t *home;       /* by storage: the one whose memory it has come to use; itself */
    uint32_t *changed;    /* by op: the new op in its place, MR_NONE */
    uint32_t *noise;      /* by tensor of `in`, a mask: the factors in its place, MR_NONE */
    bool *endless;        /* by storage: no drop says when it ends, its last reader does */
    bool *let_go;         /* by storage: the program has dropped what lies there by now */
    uint32_t done, asked; /* ops */
    uint64_t largest;     /* bytes of the largest tensor that the forward pass is spared */
} writer;

/* ---- the change -------------------------------------------------------------------------- */

static void overwrite(writer *w, uint32_t input, uint32_t result)
{
    const mr_tensor *t = w->r.in->tensors.at;
    const uint32_t from = t[result].storage, to = w->home[t[input].storage];
    mr_storage *s = &w->r.out->storages.at[to];
    const mr_storage *old = &w->r.in->storages.at[from];
    w->home[from] = to;
    if (old->bytes > w->largest) w->largest = old->bytes;
    w->endless[to] |= !w->facts.dropped[from];
    s->after |= old->after;
    if (old->role == MR_ROLE_activation || old->role == MR_ROLE_gradient) s->role = old->role;
}

static mr_op in_place(writer *w, const inplace_kind *kind, uint32_t o)
{
    mr_op op = w->r.out->ops.at[o];
    op.name = kind->in_place;
    op.mutates = op.out;
    op.out.n = 0;
    return op;
}

/* A new op, since it saves something else and its gradient reads something else; whatever the
 * old one was a part of. */
static void change_saved(writer *w, const inplace_kind *kind, uint32_t o)
{
    mr_op op = in_place(w, kind, o);
    op.part = op.origin = 0;
    op.saved.at = MR_NEW(w->r.ctx, mr_saved);
    op.saved.at[0] = (mr_saved){op.mutates.at[0], MR_SAVED_OUTPUT};
    op.saved.n = 1;
    w->changed[o] = mr_rewrite_new_op(&w->r, &op);
    const mr_stand_in stand = {w->changed[o], mr_ids_of(w->r.ctx, 1, &o), op.mutates,
                               op.mutates};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

/* dropout_ is empty_like, bernoulli_, div_ by what is left on average, mul_. */
static void change_dropout(writer *w, const inplace_kind *kind, uint32_t o)
{
    mr_op op = w->r.in->ops.at[o];
    const uint32_t x = op.in.at[0], y = op.out.at[0], home = w->r.in->tensors.at[x].storage;
    const uint64_t bytes = w->r.in->tensors.at[x].bytes;
    const uint32_t noise = mr_rewrite_new_tensor(
        &w->r, x, mr_rewrite_new_storage(&w->r, home, w->r.in->storages.at[home].bytes));
    const mr_ids none = {0}, factors = mr_ids_of(w->r.ctx, 1, &noise);
    const uint32_t both[] = {x, noise};
    w->r.out->storages.at[w->r.out->tensors.at[noise].storage].role = MR_ROLE_activation;
    for (uint32_t i = 1; i < op.out.n; i++) w->noise[op.out.at[i]] = noise;
    op.saved.n = op.part = op.origin = 0;
    op.name = "aten::empty_like", op.random = false, op.read = op.written = 0;
    op.in = mr_ids_of(w->r.ctx, 1, &x), op.out = factors;
    mr_rewrite_new_op(&w->r, &op);
    op.name = "aten::bernoulli_", op.random = true, op.written = bytes;
    op.in = op.out = none, op.mutates = factors;
    mr_rewrite_new_op(&w->r, &op);
    op.name = "aten::div_", op.random = false, op.read = bytes, op.in = factors;
    mr_rewrite_new_op(&w->r, &op);
    op.name = kind->in_place, op.read = 2 * bytes;
    op.in = mr_ids_of(w->r.ctx, 2, both), op.mutates = mr_ids_of(w->r.ctx, 1, &y);
    op.saved.at = MR_NEW(w->r.ctx, mr_saved);
    op.saved.at[0] = (mr_saved){noise, MR_SAVED_INPUT};
    op.saved.n = 1;
    w->changed[o] = mr_rewrite_new_op(&w->r, &op);
    const mr_stand_in stand = {w->changed[o], mr_ids_of(w->r.ctx, 1, &o), op.mutates,
                               op.mutates};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

/* Where the gradient of a changed op reads what the old one saved, it reads the result, which
 * is where the input was; or factors for a mask. */
static uint32_t read_instead(const writer *w, const mr_op *forward, uint32_t tensor)
{
    const mr_tensor *t = w->r.in->tensors.at;
    if (w->noise[tensor] != MR_NONE) return w->noise[tensor];
    return t[tensor].storage == t[forward->in.at[0]].storage ? forward->out.at[0] : tensor;
}

static void change_gradient(writer *w, uint32_t o)
{
    mr_op op = w->r.in->ops.at[o];
    const mr_op *forward = &w->r.in->ops.at[op.of];
    op.in = mr_ids_of(w->r.ctx, op.in.n, op.in.at);
    op.part = op.origin = 0;
    for (uint32_t i = 0; i < op.in.n; i++) {
        const uint32_t t = read_instead(w, forward, op.in.at[i]);
        if (w->noise[op.in.at[i]] == t) /* by the factors */
            op.name = op.mutates.n ? "aten::mul_" : "aten::mul";
        op.in.at[i] = t;
    }
    op.of = w->changed[op.of];
    const uint32_t n = mr_rewrite_new_op(&w->r, &op);
    const mr_ids made = op.out.n ? op.out : op.mutates;
    const mr_stand_in stand = {n, mr_ids_of(w->r.ctx, 1, &o), made, made};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

static void change(writer *w, const inplace_kind *kind, uint32_t o, uint32_t event, uint32_t i)
{
    const mr_op *op = &w->r.in->ops.at[o];
    w->done++;
    overwrite(w, op->in.at[i], op->out.at[0]);
    if (kind->needs == INPLACE_SWITCHES) {
        change_saved(w, kind, o);
        return;
    }
    if (kind->needs == INPLACE_NOISE) {
        change_dropout(w, kind, o);
        return;
    }
    w->r.out->ops.at[o] = in_place(w, kind, o);
    mr_rewrite_keep(&w->r, NULL, event);
}

/* From this size on a request to PyTorch's allocator has a segment of its own. */
#define SEGMENT (10 * MR_MIB)

/* ---- the whole step ---------------------------------------------------------------------- */

/* In the forward pass or when it is recomputed. */
static bool is_wanted(const writer *w, const inplace_kind *kind, const mr_op *op)
{
    const bool forward = op->phase == MR_FORWARD || op->again != MR_NONE;
    const bool any = w->settings->elementwise && op->phase == MR_BACKWARD;
    if (!kind || !(forward || any) || !op->out.n || op->mutates.n || !op->in.n) return false;
    if (op->of != MR_NONE && w->changed[op->of] != MR_NONE) return false; /* reads otherwise */
    if (*w->settings->module && !mr_path_match(w->settings->module, op->module)) return false;
    if (kind->sort == INPLACE_DROPOUT) return w->settings->dropout;
    if (kind->sort == INPLACE_ELEMENTWISE) return op->out.n == 1 && w->settings->elementwise;
    if (kind->sort == INPLACE_ACTIVATION) return op->out.n == 1 && forward;
    return op->out.n == 1 && (w->settings->add || w->settings->elementwise);
}

/* Who made the input saves it since it works in place itself. */
static const char *refuse_changed(const writer *w, const mr_op *op, uint32_t i)
{
    const uint32_t birth = w->r.birth[w->r.in->tensors.at[op->in.at[i]].storage];
    if (birth == MR_NONE || w->changed[birth] == MR_NONE) return NULL;
    const mr_op *maker = &w->r.out->ops.at[w->changed[birth]];
    return mr_printf(w->r.ctx, "%s%s%s, in place, saved that as its output", maker->name,
                     *maker->module ? " of " : "", maker->module);
}

/* The program holds neither the input any more nor, by a drop to come, the result. */
static const char *refuse_dropped(const writer *w, const mr_op *op, uint32_t i)
{
    const mr_tensor *t = w->r.in->tensors.at;
    const uint32_t home = w->home[t[op->in.at[i]].storage];
    if (!w->let_go[home] || w->facts.dropped[t[op->out.at[0]].storage]) return NULL;
    return "the program has dropped that already";
}

/* The first input that may be overwritten; for a sum either will do.  A planner asks about so
 * many ops that it need not be told why not. */
static bool try(writer *w, const inplace_kind *kind, uint32_t o, uint32_t event)
{
    const mr_op *op = &w->r.in->ops.at[o];
    const char *first = NULL;
    const bool either = kind->sort == INPLACE_SUM || kind->sort == INPLACE_ELEMENTWISE;
    for (uint32_t i = 0; i < (either ? op->in.n : 1); i++) {
        const char *why = inplace_refusal(&w->facts, kind, o, event, i);
        if (!why) why = refuse_changed(w, op, i);
        if (!why) why = refuse_dropped(w, op, i);
        if (!why) {
            change(w, kind, o, event, i);
            return true;
        }
        if (!first) first = why;
    }
    if (w->settings->elementwise && kind->sort != INPLACE_ACTIVATION) return false;
    mr_rewrite_remark(&w->r,
                      "inplace leaves %s%s%s: it may not write over tensor %u, because %s",
                      op->name, *op->module ? " of " : "", op->module, op->in.at[0], first);
    return false;
}

/* Of two values in one memory the later one may end with its last reader: then a drop of the
 * earlier one says nothing any more. */
static void drop(writer *w, uint32_t tensor)
{
    const uint32_t home = w->home[w->r.in->tensors.at[tensor].storage];
    if (w->endless[home]) return;
    w->let_go[home] = true;
    mr_rewrite_drop(&w->r, NULL, w->noise[tensor] == MR_NONE ? tensor : w->noise[tensor]);
}

static void write_events(writer *w)
{
    for (uint32_t e = 0; e < w->r.in->events.n; e++) {
        const mr_event event = w->r.in->events.at[e];
        const mr_op *op = event.kind == MR_RUN ? &w->r.in->ops.at[event.id] : NULL;
        if (w->settings->abn && op && inplace_abn_run(&w->abn, event.id)) continue;
        if (w->settings->abn && event.kind == MR_DROP && w->abn.gone[event.id]) continue;
        const inplace_kind *kind = op ? inplace_kind_of(op->name) : NULL;
        const bool wanted = op && is_wanted(w, kind, op);
        w->asked += wanted;
        if (wanted && try(w, kind, event.id, e)) continue;
        if (op && op->of != MR_NONE && w->changed[op->of] != MR_NONE)
            change_gradient(w, event.id);
        else if (event.kind == MR_DROP) drop(w, event.id);
        else mr_rewrite_keep(&w->r, NULL, e);
    }
    for (uint32_t t = 0; t < w->r.in->tensors.n; t++)
        w->r.out->tensors.at[t].storage = w->home[w->r.in->tensors.at[t].storage];
}

/* The peak is in the backward pass, mostly, and what is spared is not live there. */
static void warn_of_spares(writer *w)
{
    if (w->done && w->largest >= SEGMENT)
        mr_rewrite_remark(&w->r,
                          "inplace spares the forward pass %s of up to %s: an allocator whose segments cannot be joined has no spare of"
                          " that size for gradients then, and may reserve more than without"
                          " (pytorch does, but for expandable_segments=True)",
                          mr_show_count(w->r.ctx, w->done, "tensor", "tensors"),
                          mr_say_size(w->r.ctx, w->largest));
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    w->settings = of;
    if (w->settings->abn) MR_TRY(mr_rewrite_before_host(ctx, in, "inplace:abn"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    inplace_look(ctx, in, &w->facts);
    w->home = MR_NEW_N(ctx, uint32_t, in->storages.n);
    for (uint32_t s = 0; s < in->storages.n; s++) w->home[s] = s;
    w->changed = mr_none_of(ctx, in->ops.n);
    w->noise = mr_none_of(ctx, in->tensors.n);
    w->endless = MR_NEW_N(ctx, bool, in->storages.n);
    w->let_go = MR_NEW_N(ctx, bool, in->storages.n);
    w->abn = (inplace_abn){.r = &w->r, .facts = &w->facts, .home = w->home,
                           .relu = w->settings->abn == ABN_RELU};
    if (w->settings->abn) inplace_abn_begin(&w->abn, w->settings->module);
    write_events(w);
    warn_of_spares(w);
    if (w->asked || w->abn.pairs) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' has no op that 'inplace' could change: no relu, sigmoid, tanh,"
                   " leaky_relu or elu%s",
                   in->name,
                   w->settings->add ? ", and no sum" : " (inplace:add=True takes sums)");
}

const mr_strategy mr_strategy_inplace = {
    .name = "inplace",
    .summary =
        "activations write their result over what they read, where no gradient needs that",
    .source = "PyTorch, tools/autograd/derivatives.yaml, and its version counters",
    .how =
        "torch.nn.ReLU(inplace=True), torch.relu_(x) and the like, where explain does not "
        "say that something forbids it",
    .params = params,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED,
    .rewrite = rewrite,
};
