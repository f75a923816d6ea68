/* optimizer -- the update by another optimizer, or in another form: its
 * states, its temporaries.
 *
 * `foreach` works on all parameters at once, with temporaries as large as all of them;
 * `for-loop` on one after the other, a variable holding on to the one before; `fused` is one
 * op.  What only works on gradients, such as clipping, stays.  Parameters are given states from
 * before the step.
 */
#include "strategy.h"

#include "update_look.h"

typedef struct settings {
    uint64_t name, form;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, name, UPDATE_NAMES, "adamw", "which optimizer"),
    MR_PARAM_CHOICE(settings, form, UPDATE_FORMS, "default",
                    "how it does all parameters: at once, one by one, or in one op; usually as"
                    " PyTorch does on a GPU"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    if (update_steps_of(s->name, (update_form)s->form, true)) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE, "expected a form that this optimizer has: adafactor has only"
                                   " for-loop, adam8bit only fused, rmsprop not fused");
}

/* States of the optimizer before are there no more. */
static void forget_states(mr_trace *out, const updated *u)
{
    for (uint32_t s = 0; s < out->storages.n; s++)
        if (out->storages.at[s].role == MR_ROLE_state && !u->foreign[s])
            out->storages.at[s].before = out->storages.at[s].after = false;
}

static void stand_in(update_writer *w, const updated *u)
{
    mr_trace *out = w->r->out;
    MR_VEC(uint32_t) ops = {0}, parameters = {0};
    for (uint32_t o = 0; o < w->r->in->ops.n; o++)
        if (u->replaced[o]) MR_PUSH(w->r->ctx, &ops, o);
    for (uint32_t i = 0; i < u->pairs.n; i++)
        MR_PUSH(w->r->ctx, &parameters, u->pairs.at[i].parameter);
    const mr_ids ids = {parameters.at, parameters.n};
    const mr_stand_in stand = {w->last, {ops.at, ops.n}, ids, ids};
    MR_PUSH(w->r->ctx, &out->stand_ins, stand);
}

static void update(update_writer *w, const updated *u)
{
    update_write(w, 0, w->pairs.n);
    update_end(w);
    stand_in(w, u);
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    mr_rewrite r;
    updated u;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
    MR_TRY(update_look(ctx, in, &u));
    update_writer w = {.r = &r, .name = s->name, .form = (update_form)s->form};
    w.pairs.at = u.pairs.at;
    w.pairs.n = u.pairs.n;
    forget_states(out, &u);
    update_begin(&w);
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (e == u.begins.at[0]) update(&w, &u);
        if (event.kind == MR_RUN && u.replaced[event.id]) continue;
        if (event.kind == MR_DROP && u.temporary[in->tensors.at[event.id].storage]) continue;
        mr_rewrite_keep(&r, NULL, e);
    }
    out->about[MR_ABOUT_optimizer] = mr_param_print(ctx, &params_table[0], s);
    return MR_OK;
}

const mr_strategy mr_strategy_optimizer = {
    .name = "optimizer",
    .summary = "updates parameters with another optimizer, or in another form",
    .source = "PyTorch, torch/optim; bitsandbytes for adam8bit",
    .how =
        "torch.optim, such as torch.optim.AdamW(model.parameters(), foreach=True), or "
        "fused=True; adam8bit is bitsandbytes.optim.Adam8bit",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
