/* recompute_look -- when a region runs again, until where, and whether it can. */
#include "recompute_look.h"
#include "recompute.h"

#include <string.h>

typedef struct looker {
    mr_rewrite *r;
    const mr_trace *in;
    bool reentrant;
    bool autocast;        /* some of what the step reads are casts that autocast keeps */
    const char *keep;     /* names of ops whose results are kept */
    const char **refused; /* by region of the list: why, NULL */
    bool *saves;          /* by region */
    bool *asked;          /* by region: reads something that may need a gradient */
    uint32_t *last_saver; /* by region: op */
    bool *summed;         /* by op: the last ops of its gradient are sums by the engine */
    uint32_t open;        /* region of the last gradient, as long as only the engine goes on */
    uint32_t *seen;       /* by tensor: the region that read it or made it as a view last */
    uint32_t *last_read;  /* by storage: event */
    uint32_t *dropped;    /* by tensor: event of its drop, MR_NONE */
    looked *l;
} looker;

static uint32_t storage_of(const looker *k, uint32_t tensor)
{
    return k->in->tensors.at[tensor].storage;
}

static uint32_t region_of_gradient(const looker *k, const mr_op *op)
{
    return op->of == MR_NONE ? MR_NONE : k->l->region_of[op->of];
}

#define REFUSE(k, region, ...)                                                                 \
    do {                                                                                       \
        if (!(k)->refused[region]) (k)->refused[region] = mr_printf((k)->r->ctx, __VA_ARGS__); \
    } while (0)

/* ---- what is inside ---------------------------------------------------------------------- */

/* Is an op one of "mm" or "[mm,addmm]", with or without what stands before its colons? */
static bool is_listed(const char *list, const char *name)
{
    const char *colons = strrchr(name, ':'), *brief = colons ? colons + 1 : name;
    list += *list == '[';
    while (*list && *list != ']') {
        const size_t n = strcspn(list, ",]");
        if ((strlen(name) == n && !memcmp(name, list, n))
            || (strlen(brief) == n && !memcmp(brief, list, n)))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* A kernel of several ops may have saved, as what one of them reads, what another one makes. */
static bool saves_result(const looker *k, uint32_t o)
{
    const mr_op *op = &k->in->ops.at[o];
    for (uint32_t i = 0; i < op->saved.n; i++) {
        if (op->saved.at[i].as != MR_SAVED_INPUT) return true;
        if (k->r->birth[storage_of(k, op->saved.at[i].tensor)] == o) return true;
        for (uint32_t j = 0; j < op->mutates.n; j++)
            if (op->mutates.at[j] == op->saved.at[i].tensor) return true;
    }
    return false;
}

static void look_inside_op(looker *k, uint32_t region, uint32_t e)
{
    const uint32_t o = k->in->events.at[e].id;
    const mr_op *op = &k->in->ops.at[o];
    k->l->region_of[o] = region;
    k->l->only_once[o] = is_listed(k->keep, op->name);
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(k, op->out.at[i]);
        if (k->r->birth[s] != o) continue;
        k->l->born_in[s] = region;
        k->l->outlives[s] = k->in->storages.at[s].after;
        k->l->kept[s] = k->l->only_once[o];
    }
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const uint32_t s = storage_of(k, op->mutates.at[i]);
        if (k->l->kept[s]) REFUSE(k, region, "its op %s changes what is kept", op->name);
        if (k->l->only_once[o] && k->l->born_in[s] == region)
            REFUSE(k, region, "its op %s is to be kept, but works in place", op->name);
    }
    if (!op->saved.n) return;
    k->saves[region] = true;
    k->last_saver[region] = o; /* which need not run if it saves only what it reads */
    k->l->look[region].stop = saves_result(k, o) ? e + 1 : e;
}

static void look_inside(looker *k, uint32_t region)
{
    const uint32_t end = k->l->regions.at[region].end;
    for (uint32_t e = k->l->regions.at[region].begin; e < end; e++)
        if (k->in->events.at[e].kind == MR_RUN) look_inside_op(k, region, e);
    const uint32_t last = k->last_saver[region];
    if (k->reentrant) k->l->look[region].stop = end;
    else if (k->saves[region] && !saves_result(k, last))
        k->l->only_once[last] = true;
    if (!k->saves[region]) REFUSE(k, region, "it saves nothing for the backward pass");
}

/* ---- what goes in and out ---------------------------------------------------------------- */

/* Autocast has made it of a parameter, and keeps it until it ends. */
static bool is_autocasts(const looker *k, uint32_t s)
{
    if (k->r->birth[s] == MR_NONE) return false;
    const mr_op *maker = &k->in->ops.at[k->r->birth[s]];
    if (!strstr(maker->name, "_to_copy") || maker->in.n != 1) return false;
    return k->in->storages.at[storage_of(k, maker->in.at[0])].role == MR_ROLE_parameter;
}

/* Before the call that reads it: its other casts, and views, go before the op itself. */
static uint32_t begin_of_call(const looker *k, uint32_t region, uint32_t e)
{
    const mr_op *op = &k->in->ops.at[k->in->events.at[e].id];
    uint32_t begin = e;
    while (e-- > k->l->regions.at[region].begin) {
        if (k->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *other = &k->in->ops.at[k->in->events.at[e].id];
        if (strcmp(other->name, "aten::_to_copy") != 0 && strcmp(other->name, "aten::view") != 0
            && strcmp(other->name, "aten::t") != 0)
            break;
        if (strcmp(other->module, op->module) != 0 || other->call != op->call) break;
        begin = e;
    }
    return begin;
}

/* The casts of a call in the order in which they were made first. */
static void note_cast(looker *k, uint32_t region, uint32_t e, uint32_t o)
{
    looked_region *look = &k->l->look[region];
    for (uint32_t i = 0; i < look->casts.n; i++)
        if (look->casts.at[i].op == o) return;
    MR_PUSH(k->r->ctx, &look->casts, (looked_cast){begin_of_call(k, region, e), o});
    for (uint32_t i = look->casts.n; --i > 0;) {
        const looked_cast before = look->casts.at[i - 1], cast = look->casts.at[i];
        if (before.event < cast.event || (before.event == cast.event && before.op < cast.op))
            break;
        look->casts.at[i - 1] = cast;
        look->casts.at[i] = before;
    }
}

/* Each tensor by itself, as a region's arguments are saved; not views that it makes of them. */
static void look_at_inputs(looker *k, uint32_t region, uint32_t e, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = storage_of(k, op->in.at[i]);
        if (k->l->born_in[s] == region || k->seen[op->in.at[i]] == region) continue;
        k->seen[op->in.at[i]] = region;
        const mr_role role = (mr_role)k->in->storages.at[s].role;
        k->asked[region] |= role != MR_ROLE_input && role != MR_ROLE_parameter
                            && role != MR_ROLE_buffer;
        if (k->autocast && is_autocasts(k, s)) note_cast(k, region, e, k->r->birth[s]);
        else if (!k->in->storages.at[s].before)
            MR_PUSH(k->r->ctx, &k->l->look[region].inputs, op->in.at[i]);
    }
    for (uint32_t i = 0; i < op->out.n; i++) k->seen[op->out.at[i]] = region;
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const mr_storage *s = &k->in->storages.at[storage_of(k, op->mutates.at[i])];
        if (k->l->born_in[storage_of(k, op->mutates.at[i])] == region) continue;
        if (s->before && s->role == MR_ROLE_buffer) continue; /* a statistic is updated twice */
        REFUSE(k, region, "its op %s changes a tensor that it has not made", op->name);
    }
    for (uint32_t i = 0; i < op->out.n; i++) k->seen[op->out.at[i]] = region; /* its own view */
}

/* Who uses what a region has made, other than the region's own gradients? */
static void look_at_outputs(looker *k, const mr_op *op, uint32_t region, uint32_t gradient)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = storage_of(k, op->in.at[i]), born = k->l->born_in[s];
        if (born != MR_NONE && born != region && born != gradient) k->l->outlives[s] = true;
    }
    for (uint32_t i = 0; i < op->saved.n; i++) {
        const uint32_t s = storage_of(k, op->saved.at[i].tensor), born = k->l->born_in[s];
        if (born != MR_NONE && born != region) k->l->outlives[s] = true;
    }
}

/* Tensors from outside that the gradients inside read, made in the backward pass. */
static void look_at_gradients(looker *k, const mr_op *op, uint32_t region)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t t = op->in.at[i], birth = k->r->birth[storage_of(k, t)];
        if (birth == MR_NONE || k->in->ops.at[birth].phase != MR_BACKWARD) continue;
        if (region_of_gradient(k, &k->in->ops.at[birth]) == region) continue;
        if (k->in->storages.at[storage_of(k, t)].after) continue;
        MR_PUSH(k->r->ctx, &k->l->look[region].gradients, t);
    }
}

/* ---- when it runs again ------------------------------------------------------------------ */

bool recompute_is_sum_of_engine(const mr_op *op, bool follows)
{
    if (!strcmp(op->name, "aten::sum")) return true;
    return follows
           && (!strcmp(op->name, "aten::view") || !strcmp(op->name, "aten::_to_copy"));
}

static void look_at_backward(looker *k, uint32_t e, const mr_op *op, uint32_t region)
{
    looked_region *look = &k->l->look[region];
    if (!k->reentrant && !k->in->ops.at[op->of].saved.n) return; /* asks for nothing */
    if (look->trigger == MR_NONE) look->trigger = e;
    look->last = e;
    look->holder = op->of;
    k->summed[op->of] = recompute_is_sum_of_engine(op, k->summed[op->of]);
    if (k->reentrant || !k->summed[op->of] || k->l->inside_end[op->of] == MR_NONE)
        k->l->inside_end[op->of] = e;
}

/* The engine's last sums inside a region are of no op. */
static void look_at_engine(looker *k, uint32_t e, const mr_op *op, uint32_t region)
{
    if (region == MR_NONE || op->phase != MR_BACKWARD || !k->reentrant) return;
    k->l->look[region].last = e;
}

static void look_at_run(looker *k, uint32_t e)
{
    const uint32_t o = k->in->events.at[e].id;
    const mr_op *op = &k->in->ops.at[o];
    const uint32_t region = k->l->region_of[o], gradient = region_of_gradient(k, op);
    if (region != MR_NONE) look_at_inputs(k, region, e, op);
    look_at_outputs(k, op, region, gradient);
    for (uint32_t i = 0; i < op->in.n; i++) k->last_read[storage_of(k, op->in.at[i])] = e;
    if (gradient != MR_NONE) look_at_backward(k, e, op, gradient);
    if (gradient != MR_NONE && k->reentrant) look_at_gradients(k, op, gradient);
    if (op->of != MR_NONE) k->open = gradient;
    else look_at_engine(k, e, op, k->open);
    const uint32_t again = op->again == MR_NONE ? MR_NONE : k->l->region_of[op->again];
    if (again != MR_NONE) REFUSE(k, again, "it is computed again already");
}

/* Does anybody change what a region reads before it has run again? */
static void look_for_changes(looker *k)
{
    uint32_t *changed = MR_NEW_N(k->r->ctx, uint32_t, k->in->storages.n); /* event, 0: never */
    for (uint32_t e = 0; e < k->in->events.n; e++) {
        if (k->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &k->in->ops.at[k->in->events.at[e].id];
        const uint32_t gradient = region_of_gradient(k, op);
        if (gradient != MR_NONE && k->l->look[gradient].trigger == e) {
            const looked_region *look = &k->l->look[gradient];
            for (uint32_t i = 0; i < look->inputs.n; i++)
                if (changed[storage_of(k, look->inputs.at[i])]
                    > k->l->regions.at[gradient].begin)
                    REFUSE(k, gradient, "what it reads is changed before it runs again");
        }
        for (uint32_t i = 0; i < op->mutates.n; i++)
            changed[storage_of(k, op->mutates.at[i])] = e;
    }
}

static void look_for_drops(looker *k)
{
    bool backward = false;
    uint32_t *next_run = mr_none_of(k->r->ctx, k->l->regions.n);
    uint32_t region = 0;
    for (uint32_t e = 0; e < k->in->events.n; e++) {
        const mr_event event = k->in->events.at[e];
        if (event.kind == MR_RUN) {
            const mr_phase phase = (mr_phase)k->in->ops.at[event.id].phase;
            backward = phase == MR_BACKWARD || (backward && phase != MR_FORWARD);
            while (region < k->l->regions.n && k->l->regions.at[region].end <= e)
                next_run[region++] = e;
        }
        if (event.kind != MR_DROP) continue;
        k->dropped[event.id] = e;
        const uint32_t s = storage_of(k, event.id), born = k->l->born_in[s];
        if (born == MR_NONE || k->l->outlives[s]) continue;
        if (!backward && is_autocasts(k, s)) continue;
        k->l->moved_drop[e] = k->l->kept[s] || e >= next_run[born];
        if (k->l->kept[s] || e < next_run[born]) continue;
        MR_PUSH(k->r->ctx, &k->l->look[born].late_drops, event.id);
    }
}

static bool is_made_in(const looker *k, uint32_t s, uint32_t region)
{
    return k->l->born_in[s] == region || (k->autocast && is_autocasts(k, s));
}

/* Tensors inside, casts that are made again among them, that are saved by ops that run only once
 * are held for their gradients. */
static void hold_saved(looker *k)
{
    for (uint32_t o = 0; o < k->in->ops.n; o++) {
        const uint32_t end = k->l->inside_end[o];
        if (!k->l->only_once[o] || end == MR_NONE) continue;
        const mr_op *op = &k->in->ops.at[o];
        for (uint32_t i = 0; i < op->saved.n; i++) {
            const uint32_t t = op->saved.at[i].tensor;
            if (!is_made_in(k, storage_of(k, t), k->l->region_of[o])) continue;
            const looked_hold hold = {t, end};
            MR_PUSH(k->r->ctx, &k->l->look[k->l->region_of[o]].holds, hold);
        }
    }
}

/* The last gradient of a reentrant region ends that, so it cannot end what its own op has saved
 * in the second run: results hold that until then. */
static void hold_last(looker *k)
{
    for (uint32_t i = 0; i < k->l->regions.n; i++) {
        looked_region *look = &k->l->look[i];
        const mr_op *last = &k->in->ops.at[k->in->events.at[look->last].id];
        if (last->of != look->holder) continue;
        const mr_op *op = &k->in->ops.at[look->holder];
        for (uint32_t j = 0; j < op->saved.n; j++) {
            const looked_hold hold = {op->saved.at[j].tensor, look->last};
            if (k->l->born_in[storage_of(k, hold.tensor)] != i) continue;
            MR_PUSH(k->r->ctx, &look->holds, hold);
        }
    }
}

/* Gradients are held until the region ends: drops before that are put off.  Those that live on
 * (a residual connection hands them down) need no help. */
static void hold_gradients(looker *k)
{
    for (uint32_t i = 0; i < k->l->regions.n; i++) {
        looked_region *look = &k->l->look[i];
        uint32_t n = 0;
        for (uint32_t j = 0; j < look->gradients.n; j++) {
            const uint32_t t = look->gradients.at[j], e = k->dropped[t];
            if (k->last_read[storage_of(k, t)] > look->last) continue;
            if (e != MR_NONE && e > look->last) continue;
            if (e != MR_NONE) k->l->moved_drop[e] = true;
            look->gradients.at[n++] = t;
        }
        look->gradients.n = n;
    }
}

/* Is a result of the region the sum of a residual connection? */
static bool ends_with_sum(const looker *k, uint32_t region)
{
    for (uint32_t e = k->l->regions.at[region].begin; e < k->l->regions.at[region].end; e++) {
        if (k->in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &k->in->ops.at[k->in->events.at[e].id];
        const bool in_place = !strcmp(op->name, "aten::add_") && op->mutates.n;
        if (!in_place && (strcmp(op->name, "aten::add") != 0 || !op->out.n)) continue;
        const uint32_t s = storage_of(k, in_place ? op->mutates.at[0] : op->out.at[0]);
        if (k->l->born_in[s] == region && k->l->outlives[s]) return true;
    }
    return false;
}

/* Gradients that a reentrant region is given are its caller's until it ends.  The engine, which
 * adds the gradient of a branch to that of the sum in place, has to make a new one there. */
static void look_for_sums(looker *k)
{
    uint32_t *given = mr_none_of(k->r->ctx, k->in->storages.n); /* by storage: to that region */
    for (uint32_t i = 0; i < k->l->regions.n; i++) {
        const looked_region *look = &k->l->look[i];
        if (!ends_with_sum(k, i)) continue;
        for (uint32_t j = 0; j < look->gradients.n; j++)
            given[storage_of(k, look->gradients.at[j])] = i;
        for (uint32_t e = look->trigger; e <= look->last; e++) {
            if (k->in->events.at[e].kind != MR_RUN) continue;
            const mr_op *op = &k->in->ops.at[k->in->events.at[e].id];
            if (op->of != MR_NONE || op->mutates.n != 1 || strcmp(op->name, "aten::add_") != 0)
                continue;
            uint32_t *to = &given[storage_of(k, op->mutates.at[0])];
            if (*to == i) k->l->apart[e] = i;
            *to = MR_NONE;
        }
    }
}

/* ---- all --------------------------------------------------------------------------------- */

static void begin(looker *k, const regions *list)
{
    mr_ctx *ctx = k->r->ctx;
    looked *l = k->l;
    memset(l, 0, sizeof *l);
    l->regions = *list;
    l->look = MR_NEW_N(ctx, looked_region, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        l->look[i].trigger = l->look[i].last = l->look[i].holder = MR_NONE;
    l->region_of = mr_none_of(ctx, k->in->ops.n);
    l->born_in = mr_none_of(ctx, k->in->storages.n);
    l->outlives = MR_NEW_N(ctx, bool, k->in->storages.n);
    l->moved_drop = MR_NEW_N(ctx, bool, k->in->events.n);
    l->inside_end = mr_none_of(ctx, k->in->ops.n);
    l->ends = mr_none_of(ctx, k->in->events.n);
    l->apart = mr_none_of(ctx, k->in->events.n);
    k->summed = MR_NEW_N(ctx, bool, k->in->ops.n);
    k->open = MR_NONE;
    k->refused = MR_NEW_N(ctx, const char *, list->n);
    k->saves = MR_NEW_N(ctx, bool, list->n);
    k->asked = MR_NEW_N(ctx, bool, list->n);
    k->last_saver = MR_NEW_N(ctx, uint32_t, list->n);
    l->kept = MR_NEW_N(ctx, bool, k->in->storages.n);
    l->only_once = MR_NEW_N(ctx, bool, k->in->ops.n);
    k->seen = mr_none_of(ctx, k->in->tensors.n);
    k->last_read = MR_NEW_N(ctx, uint32_t, k->in->storages.n);
    k->dropped = mr_none_of(ctx, k->in->tensors.n);
}

static void look_at_all(looker *k, const regions *list)
{
    begin(k, list);
    for (uint32_t i = 0; i < list->n; i++) look_inside(k, i);
    for (uint32_t e = 0; e < k->in->events.n; e++)
        if (k->in->events.at[e].kind == MR_RUN) look_at_run(k, e);
    for (uint32_t i = 0; i < list->n; i++)
        if (k->l->look[i].trigger == MR_NONE)
            REFUSE(k, i, "no op of the backward pass asks for what it saves");
        else if (k->reentrant && !k->asked[i])
            REFUSE(k, i, "reentrant and without an input that needs a gradient, PyTorch would"
                         " not train it");
    look_for_changes(k);
}

mr_status recompute_look(mr_rewrite *r, const regions *list, const recompute_how *how,
                         looked *out)
{
    const char *precision = r->in->about[MR_ABOUT_precision];
    looker k = {.r = r, .in = r->in, .reentrant = how->reentrant, .keep = how->keep, .l = out};
    regions left = {0};
    const char *why = NULL;
    k.autocast = precision && !strncmp(precision, "amp", 3);
    look_at_all(&k, list);
    for (uint32_t i = 0; i < list->n; i++) {
        if (!k.refused[i]) {
            MR_PUSH(r->ctx, &left, list->at[i]);
            continue;
        }
        why = k.refused[i];
        mr_rewrite_remark(r, "checkpoint leaves %s as it is: %s", list->at[i].name, why);
    }
    if (!left.n)
        return mr_fail(r->ctx, MR_EUNSUPPORTED,
                       "none of %s of '%s' can be run again: of the last, %s",
                       mr_show_count(r->ctx, list->n, "region", "regions"), r->in->name, why ? why : "nothing is known");
    if (left.n < list->n) look_at_all(&k, &left); /* what is left is whole without the others */
    for (uint32_t i = 0; i < left.n; i++) out->ends[out->look[i].last] = i;
    look_for_drops(&k);
    hold_saved(&k);
    if (how->reentrant) hold_last(&k);
    if (how->reentrant) look_for_sums(&k);
    if (how->reentrant) hold_gradients(&k);
    return MR_OK;
}
