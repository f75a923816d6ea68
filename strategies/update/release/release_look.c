/* release_look -- a gradient is ready after the last op of the backward pass that has to do
 * with it.  Whatever looks at several gradients before the update is in the way: their sum over
 * micro-batches or devices, the search for infinities, a norm to clip by. */
#include "release_look.h"

#include <string.h>

typedef struct looker {
    mr_ctx *ctx;
    const mr_trace *in;
    ready *out;
    uint32_t *last; /* by storage: op of the backward pass that has to do with it last */
    uint32_t *event; /* by op: where it runs */
    bool backward;  /* has that begun? */
} looker;

static uint32_t storage_of(const looker *l, uint32_t tensor)
{
    return l->in->tensors.at[tensor].storage;
}

static mr_status refuse(const looker *l, const char *why)
{
    return mr_fail(l->ctx, MR_EUNSUPPORTED,
                   "'%s' %s, so no gradient can be used and let go of as soon as it is there",
                   l->in->name, why);
}

/* ---- the optimizer ----------------------------------------------------------------------- */

static bool find_word(const char *words, const char *word, uint64_t *index)
{
    const size_t length = strlen(word);
    for (*index = 0; *words; ++*index) {
        const size_t n = strcspn(words, "|");
        if (n == length && !strncmp(words, word, n)) return true;
        words += n + (words[n] == '|');
    }
    return false;
}

static bool has_op(const looker *l, const char *part)
{
    for (uint32_t o = 0; o < l->in->ops.n; o++)
        if (l->out->update.replaced[o] && strstr(l->in->ops.at[o].name, part)) return true;
    return false;
}

static mr_status find_optimizer(looker *l)
{
    const char *name = l->in->about[MR_ABOUT_optimizer];
    if (!name || !find_word(UPDATE_NAMES, name, &l->out->name))
        return mr_fail(l->ctx, MR_EUNSUPPORTED,
                       "'%s' has the optimizer '%s', expected one of %s", l->in->name,
                       name ? name : "", UPDATE_NAMES);
    l->out->form = has_op(l, "_foreach_") ? UPDATE_FOREACH : UPDATE_LOOP;
    if (has_op(l, "_fused_") || has_op(l, "8bit")) l->out->form = UPDATE_FUSED;
    return MR_OK;
}

/* ---- gradients --------------------------------------------------------------------------- */

static void touch(looker *l, mr_ids ids, uint32_t o)
{
    for (uint32_t i = 0; i < ids.n; i++) l->last[storage_of(l, ids.at[i])] = o;
}

/* What a fused kernel has saved waits for the last of its gradients, which may be others. */
static void touch_fused(looker *l, uint32_t of, uint32_t o)
{
    if (of == MR_NONE || strncmp(l->in->ops.at[of].name, "triton_", 7) != 0) return;
    for (uint32_t i = 0; i < l->in->ops.at[of].saved.n; i++) {
        const uint32_t s = storage_of(l, l->in->ops.at[of].saved.at[i].tensor);
        if (l->in->storages.at[s].role == MR_ROLE_parameter) l->last[s] = o;
    }
}

static bool touches_gradient(const looker *l, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (l->out->gradient[storage_of(l, ids.at[i])]) return true;
    return false;
}

static mr_status look_at(looker *l, uint32_t o)
{
    const mr_op *op = &l->in->ops.at[o];
    if (op->ranks > 1) return refuse(l, "sums gradients over devices before it uses them");
    if (op->phase == MR_FORWARD && l->backward)
        return refuse(l, "adds up the gradients of several micro-batches");
    if (op->phase == MR_BACKWARD) {
        l->backward = true;
        touch(l, op->in, o);
        touch(l, op->mutates, o);
        touch(l, op->out, o);
        touch_fused(l, op->of, o);
    } else if (!l->out->update.replaced[o] && l->backward
               && (touches_gradient(l, op->in) || touches_gradient(l, op->mutates))) {
        return refuse(
            l, mr_printf(l->ctx, "looks at all gradients before it uses one (%s)", op->name));
    }
    return MR_OK;
}

/* From the last one to the first, so that lists begin with the first. */
static mr_status link_pairs(looker *l)
{
    ready *out = l->out;
    for (uint32_t i = out->update.pairs.n; i-- > 0;) {
        const uint32_t s = storage_of(l, out->update.pairs.at[i].gradient);
        const uint32_t o = l->last[s];
        if (l->in->storages.at[s].before)
            return refuse(l, "keeps gradients from one step to the next");
        if (o == MR_NONE)
            return refuse(l, "has gradients that its backward pass does not make");
        const uint32_t reader = l->last[storage_of(l, out->update.pairs.at[i].parameter)];
        if (reader != MR_NONE && l->event[reader] > l->event[o])
            return refuse(
                l, mr_printf(l->ctx, "reads a parameter when its gradient is there (op %u, %s)",
                             reader, l->in->ops.at[reader].name));
        out->next[i] = out->first[o];
        out->first[o] = i;
    }
    return MR_OK;
}

/* Gradients of before that nobody reads. */
static void find_old(looker *l)
{
    const mr_trace *in = l->in;
    for (uint32_t s = 0; s < in->storages.n; s++)
        l->out->old[s] = in->storages.at[s].before
                         && in->storages.at[s].role == MR_ROLE_gradient && !l->out->gradient[s];
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *op = &in->ops.at[o];
        for (uint32_t i = 0; i < op->in.n; i++)
            l->out->old[storage_of(l, op->in.at[i])] = false;
        for (uint32_t i = 0; i < op->mutates.n; i++)
            l->out->old[storage_of(l, op->mutates.at[i])] = false;
    }
}

mr_status release_look(mr_ctx *ctx, const mr_trace *in, ready *out)
{
    looker l = {.ctx = ctx, .in = in, .out = out, .last = mr_none_of(ctx, in->storages.n),
                .event = MR_NEW_N(ctx, uint32_t, in->ops.n)};
    *out = (ready){.first = mr_none_of(ctx, in->ops.n),
                   .gradient = MR_NEW_N(ctx, bool, in->storages.n),
                   .old = MR_NEW_N(ctx, bool, in->storages.n)};
    MR_TRY(update_look(ctx, in, &out->update));
    out->next = mr_none_of(ctx, out->update.pairs.n);
    for (uint32_t i = 0; i < out->update.pairs.n; i++)
        out->gradient[storage_of(&l, out->update.pairs.at[i].gradient)] = true;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        l.event[in->events.at[e].id] = e;
        MR_TRY(look_at(&l, in->events.at[e].id));
    }
    MR_TRY(find_optimizer(&l));
    find_old(&l);
    return link_pairs(&l);
}
