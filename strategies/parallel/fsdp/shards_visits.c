/* shards_visits -- calls of units, in both passes. */
#include "shards.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    shards *s;
    mr_names modules;
    MR_VEC(uint32_t) visit; /* by module: the visit in which it ran last */
    MR_VEC(uint32_t) call;  /* and its call then */
    mr_names calls;         /* of modules */
    MR_VEC(uint32_t) latest; /* by call of a module: the visit in which it ran last */
    uint32_t root, open;    /* visits */
    bool back;              /* the backward pass has begun */
} walk;

static uint32_t new_visit(shards *s, uint32_t unit, uint32_t event)
{
    const shards_visit visit = {unit, event, event, MR_NONE, MR_NONE};
    MR_PUSH(s->ctx, &s->visits, visit);
    return s->visits.n - 1;
}

/* Is the unit called once more: does one of its modules run as another call than before? */
static bool begins_call(walk *w, const mr_op *op)
{
    const uint32_t m =
        mr_names_add(w->s->ctx, &w->modules, op->module, strlen(op->module));
    while (w->visit.n <= m) {
        MR_PUSH(w->s->ctx, &w->visit, MR_NONE);
        MR_PUSH(w->s->ctx, &w->call, 0);
    }
    const bool again = w->visit.at[m] == w->open && w->call.at[m] != op->call;
    w->call.at[m] = op->call;
    return again;
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
    }
    s->visits.at[w->root].end = event;
    s->visit_of[o] = w->root;
    if (unit == SHARDS_ROOT) return;
    const bool again = begins_call(w, op);
    if (w->open == MR_NONE || s->visits.at[w->open].unit != unit || again)
        w->open = new_visit(s, unit, event);
    w->visit.at[mr_names_find(&w->modules, op->module, strlen(op->module))] = w->open;
    s->visits.at[w->open].end = event;
    s->visit_of[o] = w->open;
    note_call(w, op);
}

static void extend(shards_visit *visit, uint32_t event)
{
    if (visit->back_begin == MR_NONE) visit->back_begin = event;
    visit->back_end = event;
}

static void see_backward(walk *w, uint32_t o, uint32_t event)
{
    shards *s = w->s;
    const mr_op *op = &s->in->ops.at[o];
    uint32_t first = op->again != MR_NONE ? op->again : op->of;
    if (first != MR_NONE && s->in->ops.at[first].again != MR_NONE)
        first = s->in->ops.at[first].again; /* the gradient of what was computed again */
    if (w->root == MR_NONE) return; /* nothing ran forward */
    w->back = true;
    uint32_t v = first == MR_NONE ? visit_of_call(w, o) : s->visit_of[first];
    if (v == MR_NONE) v = w->root;
    s->visit_of[o] = v;
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
static mr_status check_backward(const shards *s)
{
    bool back = false, told = false;
    for (uint32_t o = 0; o < s->in->ops.n; o++) {
        back |= s->in->ops.at[o].phase == MR_BACKWARD;
        told |= s->in->ops.at[o].of != MR_NONE;
    }
    if (told || !back || s->units.n == 1) return MR_OK;
    return mr_fail(s->ctx, MR_EUNSUPPORTED,
                   "'%s' does not say whose gradients the ops of its backward pass compute,"
                   " which fsdp needs to gather parameters for them (the recorder in"
                   " traces/record/ writes it)",
                   s->in->name);
}

mr_status shards_find_visits(shards *s)
{
    MR_TRY(check_backward(s));
    walk w = {.s = s, .root = MR_NONE, .open = MR_NONE};
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
