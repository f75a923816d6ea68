/* release -- lets go of things as soon as nothing needs them any more.
 *
 * Gradients: each is used by an update of its own parameter when the backward pass has it, and
 * ends there, so that there are never more than a few of them:
 *
 *     usual      Bc Bb Ba                update of all
 *     release    Bc uc   Bb ub   Ba ua
 *
 * As PyTorch does with an optimizer for each parameter, called by a hook
 * (register_post_accumulate_grad_hook).  The optimizer and its form are those of the recording.
 *
 * Activations: the program's variables end with the last op that reads them, as if each had
 * been deleted there; what autograd has saved it keeps.
 */
#include "strategy.h"

#include "last_uses.h"
#include "release_look.h"

#include <string.h>

typedef struct settings {
    uint64_t what;
} settings;

enum { GRADIENTS, ACTIVATIONS, BOTH };

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, what, "gradients|activations|both", "gradients",
                    "gradients, by an update of each parameter inside the backward pass;"
                    " variables of the program after their last use; or both"),
    {0},
};

typedef struct writer {
    mr_rewrite r;
    const settings *settings;
    ready ready;
    update_writer update;
    MR_VEC(uint32_t) waiting; /* pairs whose gradients are there */
    last_uses uses;
} writer;

static const mr_op *op_at(const writer *w, uint32_t e)
{
    return &w->r.in->ops.at[w->r.in->events.at[e].id];
}

static bool does(const writer *w, uint64_t what)
{
    return w->settings->what == what || w->settings->what == BOTH;
}

/* ---- gradients --------------------------------------------------------------------------- */

static void use_gradients(writer *w)
{
    for (uint32_t i = 0; i < w->waiting.n; i++) {
        const uint32_t pair = w->waiting.at[i];
        update_write(&w->update, pair, 1);
        update_end(&w->update);
        mr_rewrite_drop(&w->r, NULL, w->update.pairs.at[pair].gradient);
    }
    w->waiting.n = 0;
}

/* The engine adds what goes to the same op before it calls anybody. */
static bool is_sum_of_engine(const writer *w, const mr_op *op)
{
    if (op->phase != MR_BACKWARD || op->of != MR_NONE) return false;
    if (strncmp(op->name, "aten::add", strlen("aten::add")) != 0) return false;
    for (uint32_t i = 0; i < op->in.n; i++)
        if (w->ready.gradient[w->r.in->tensors.at[op->in.at[i]].storage]) return false;
    return true;
}

/* What another optimizer has held is there no more, nor are gradients of the step before. */
static void forget(writer *w)
{
    mr_trace *out = w->r.out;
    for (uint32_t s = 0; s < w->r.in->storages.n; s++) {
        mr_storage *storage = &out->storages.at[s];
        const bool state = storage->role == MR_ROLE_state && !w->ready.update.foreign[s];
        if (w->ready.gradient[s]) storage->after = false;
        if (state || w->ready.old[s]) storage->before = storage->after = false;
    }
}

static void stand_in(writer *w)
{
    const updated *u = &w->ready.update;
    MR_VEC(uint32_t) ops = {0}, parameters = {0};
    for (uint32_t o = 0; o < w->r.in->ops.n; o++)
        if (u->replaced[o]) MR_PUSH(w->r.ctx, &ops, o);
    for (uint32_t i = 0; i < u->pairs.n; i++)
        MR_PUSH(w->r.ctx, &parameters, u->pairs.at[i].parameter);
    const mr_ids ids = {parameters.at, parameters.n};
    const mr_stand_in stand = {w->update.last, {ops.at, ops.n}, ids, ids};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
}

static mr_status begin_gradients(writer *w)
{
    MR_TRY(release_look(w->r.ctx, w->r.in, &w->ready));
    const updated *u = &w->ready.update;
    w->update = (update_writer){.r = &w->r, .name = w->ready.name, .form = w->ready.form};
    w->update.pairs.at = u->pairs.at;
    w->update.pairs.n = u->pairs.n;
    forget(w);
    update_begin(&w->update);
    return MR_OK;
}

/* False for events that are there no more. */
static bool follow_gradients(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    const updated *u = &w->ready.update;
    if (event.kind < MR_RUN) return true; /* lives, which follow from what is written */
    if (event.kind == MR_DROP) {
        const uint32_t s = w->r.in->tensors.at[event.id].storage;
        return !u->temporary[s] && !w->ready.old[s];
    }
    const bool goes_on = event.kind == MR_RUN && is_sum_of_engine(w, op_at(w, e));
    if (!goes_on) use_gradients(w);
    if (event.kind != MR_RUN) return true;
    for (uint32_t i = w->ready.first[event.id]; i != MR_NONE; i = w->ready.next[i])
        MR_PUSH(w->r.ctx, &w->waiting, i);
    return !u->replaced[event.id];
}

/* ---- activations ------------------------------------------------------------------------- */

/* True for a drop that has come before. */
static bool is_moved(const writer *w, mr_event event)
{
    if (event.kind != MR_DROP) return false;
    const uint32_t home = w->r.in->tensors.at[event.id].storage;
    return w->uses.moved[event.id] && !(does(w, GRADIENTS) && w->ready.gradient[home]);
}

static void end_variables(writer *w, uint32_t op)
{
    for (uint32_t t = w->uses.first[op]; t != MR_NONE; t = w->uses.next[t])
        mr_rewrite_drop(&w->r, NULL, t);
}

/* ---- the whole --------------------------------------------------------------------------- */

static void write_event(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    if (does(w, GRADIENTS) && !follow_gradients(w, e)) return;
    if (does(w, ACTIVATIONS) && is_moved(w, event)) return;
    mr_rewrite_keep(&w->r, NULL, e);
    if (does(w, ACTIVATIONS) && event.kind == MR_RUN) end_variables(w, event.id);
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    w->settings = of;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    if (does(w, GRADIENTS)) MR_TRY(begin_gradients(w));
    if (does(w, ACTIVATIONS)) w->uses = last_uses_find(ctx, in);
    for (uint32_t e = 0; e < in->events.n; e++) write_event(w, e);
    if (!does(w, GRADIENTS)) return MR_OK;
    use_gradients(w);
    stand_in(w);
    return MR_OK;
}

const mr_strategy mr_strategy_release = {
    .name = "release",
    .summary = "uses each gradient in the backward pass and lets it go; ends variables early",
    .source = "PyTorch, register_post_accumulate_grad_hook; Lv et al., LOMO, 2023",
    .how =
        "parameter.register_post_accumulate_grad_hook(hook) with a hook that does the step "
        "of this parameter and sets its grad to None; for activations del x after its last "
        "use",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
