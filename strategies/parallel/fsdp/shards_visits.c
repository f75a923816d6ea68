/* shards_visits -- calls of units, in both passes. */
#include "shards.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    shards *s;
    mr_names calls;         /* of modules */
    MR_VEC(uint32_t) latest; /* by call of a module: the visit in which it ran last */
    uint32_t root, open;    /* visits */
    const char *module;     /* that the open one began with */
    uint32_t call;          /* of that */
    MR_VEC(uint32_t) after; /* ops behind the last one that is surely the model's */
    bool back;              /* the backward pass has begun */
    bool told;              /* whose gradients its ops compute */
} walk;

static uint32_t new_visit(shards *s, uint32_t unit, uint32_t event)
{
    const shards_visit visit = {unit, event, event, MR_NONE, MR_NONE};
    MR_PUSH(s->ctx, &s->visits, visit);
    return s->visits.n - 1;
}

/* Is the unit called once more: does the module that its visit began with run as another call?
 * Others may be called several times in a visit, as the activation of a block. */
static bool begins_call(const walk *w, const mr_op *op)
{
    return op->call != w->call && strcmp(op->module, w->module) == 0;
}

static void open_visit(walk *w, uint32_t unit, const mr_op *op, uint32_t event)
{
    w->open = new_visit(w->s, unit, event);
    w->module = op->module;
    w->call = op->call;
}

static bool reads_parameter(const mr_trace *in, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (in->storages.at[in->tensors.at[op->in.at[i]].storage].role == MR_ROLE_parameter)
            return true;
    return false;
}

/* The root is left when the model returns.  Ops of no module that read no parameter may come
 * after that, as those of a loss. */
static void see_root(walk *w, uint32_t o, uint32_t event)
{
    shards *s = w->s;
    const mr_op *op = &s->in->ops.at[o];
    s->visit_of[o] = w->root;
    MR_PUSH(s->ctx, &w->after, o);
    if (!*op->module && !reads_parameter(s->in, op)) return;
    s->visits.at[w->root].end = event;
    w->after.n = 0;
}

static uint32_t number_of_call(walk *w, const mr_op *op)
{
    const char *text = mr_printf(w->s->ctx, "%s %" PRIu32, op->module, op->call);
    return mr_names_add(w->s->ctx, &w->calls, text, strlen(text));
}

static void note_call(walk *w, const mr_op *op)
{
    const uint32_t c = number_of_call(w, op);
    while (w->latest.n <= c) MR_PUSH(w->s->ctx, &w->latest, MR_NONE);
    w->latest.at[c] = w->open;
}

/* Where the same call of the module ran forward: for what is only done again, as a cast is whose
 * first result several calls have shared. */
static uint32_t visit_of_call(walk *w, uint32_t o)
{
    if (w->s->unit_of[o] == SHARDS_ROOT) return w->root;
    const uint32_t c = number_of_call(w, &w->s->in->ops.at[o]);
    return c < w->latest.n ? w->latest.at[c] : w->root;
}

static void see_forward(walk *w, uint32_t o, uint32_t event)
{
    shards *s = w->s;
    const mr_op *op = &s->in->ops.at[o];
    const uint32_t unit = s->unit_of[o];
    if (w->root == MR_NONE || w->back) {
        w->root = new_visit(s, SHARDS_ROOT, event);
        w->open = MR_NONE;
        w->back = false;
        w->after.n = 0;
    }
    see_root(w, o, event);
    if (unit == SHARDS_ROOT) return;
    if (w->open == MR_NONE || s->visits.at[w->open].unit != unit || begins_call(w, op))
        open_visit(w, unit, op, event);
    s->visits.at[w->open].end = event;
    s->visit_of[o] = w->open;
    note_call(w, op);
}

static void extend(shards_visit *visit, uint32_t event)
{
    if (visit->back_begin == MR_NONE) visit->back_begin = event;
    visit->back_end = event;
}

static void begin_backward(walk *w)
{
    for (uint32_t i = 0; i < w->after.n; i++) w->s->visit_of[w->after.at[i]] = MR_NONE;
    w->after.n = 0;
    w->back = true;
}

/* MR_NONE for none.  Gradients that the engine adds up in a unit, which are of no op, are what
 * its inputs get: it is left after that. */
static uint32_t visit_in_backward(walk *w, uint32_t o)
{
    const shards *s = w->s;
    const mr_op *op = &s->in->ops.at[o];
    uint32_t first = op->again != MR_NONE ? op->again : op->of;
    if (first == MR_NONE) return visit_of_call(w, o);
    if (s->in->ops.at[first].again != MR_NONE)
        first = s->in->ops.at[first].again; /* the gradient of what was computed again */
    return s->visit_of[first];
}

static void see_backward(walk *w, uint32_t o, uint32_t event)
{
    shards *s = w->s;
    if (w->root == MR_NONE) return; /* nothing ran forward */
    if (!w->back) begin_backward(w);
    const uint32_t v = visit_in_backward(w, o);
    s->visit_of[o] = v;
    if (v == MR_NONE) return;
    if (w->told && v == w->root && s->in->ops.at[o].of == MR_NONE
        && s->visits.at[w->root].back_begin == MR_NONE)
        return; /* the gradient of the loss */
    extend(&s->visits.at[w->root], event);
    if (v != w->root) extend(&s->visits.at[v], event);
}

typedef struct place {
    uint32_t visit, at;
} place;

static int earlier(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->visit < y->visit ? -1 : x->visit > y->visit; /* the root first */
}

static void order_backward(shards *s)
{
    MR_VEC(place) places = {0};
    for (uint32_t v = 0; v < s->visits.n; v++)
        if (s->visits.at[v].back_begin != MR_NONE)
            MR_PUSH(s->ctx, &places, ((place){v, s->visits.at[v].back_begin}));
    if (places.n) qsort(places.at, places.n, sizeof *places.at, earlier);
    for (uint32_t i = 0; i < places.n; i++) MR_PUSH(s->ctx, &s->backward, places.at[i].visit);
}

/* Only `of` tells to which call of a unit an op of the backward pass belongs, where there are
 * units beside the root. */
static mr_status check_backward(const shards *s, bool *told)
{
    bool back = false;
    for (uint32_t o = 0; o < s->in->ops.n; o++) {
        back |= s->in->ops.at[o].phase == MR_BACKWARD;
        *told |= s->in->ops.at[o].of != MR_NONE;
    }
    if (*told || !back || s->units.n == 1) return MR_OK;
    return mr_fail(s->ctx, MR_EUNSUPPORTED,
                   "'%s' does not say whose gradients the ops of its backward pass compute,"
                   " which fsdp needs to gather parameters for them (the recorder in"
                   " traces/record/ writes it)",
                   s->in->name);
}

mr_status shards_find_visits(shards *s)
{
    walk w = {.s = s, .root = MR_NONE, .open = MR_NONE};
    MR_TRY(check_backward(s, &w.told));
    s->visit_of = mr_none_of(s->ctx, s->in->ops.n);
    for (uint32_t e = 0; e < s->in->events.n; e++) {
        if (s->in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = s->in->events.at[e].id;
        if (s->in->ops.at[o].phase == MR_FORWARD) see_forward(&w, o, e);
        if (s->in->ops.at[o].phase == MR_BACKWARD) see_backward(&w, o, e);
    }
    order_backward(s);
    return MR_OK;
}
