/* groups -- costs divided by modules, by kinds of ops, by layers.
 *
 * All three say to which group an op belongs, and to which a storage; the rest is adding up.
 */
#include "account.h"

#include <string.h>

#include "names.h"

typedef struct division {
    mr_groups groups;
    uint32_t *of_op;
    uint32_t *of_storage; /* who is said to hold it while it is live */
} division;

static division divide(mr_ctx *ctx, const mr_trace *trace)
{
    return (division){.of_op = MR_NEW_N(ctx, uint32_t, trace->ops.n),
                      .of_storage = MR_NEW_N(ctx, uint32_t, trace->storages.n)};
}

/* ---- adding up --------------------------------------------------------------------------- */

static void add_op(const mr_op *op, mr_cost *cost)
{
    cost->ops++;
    cost->ns += op->ns;
    cost->flops += op->flops;
    cost->read += op->read;
    cost->written += op->written;
}

static void add_storage(const mr_ledger *ledger, uint32_t s, const division *d)
{
    const mr_storage *storage = &ledger->schedule->trace->storages.at[s];
    mr_cost *holder = &d->groups.at[d->of_storage[s]].own;
    if (storage->device != ledger->schedule->device) return;
    if (storage->role == MR_ROLE_parameter) holder->parameters += storage->bytes;
    if (ledger->live.is[s]) {
        holder->live += storage->bytes;
        holder->live_n++;
    }
    if (ledger->saver[s] == MR_NONE) return;
    mr_cost *saver = &d->groups.at[d->of_op[ledger->saver[s]]].own;
    saver->saved += storage->bytes;
    saver->saved_per_sample += storage->per_sample;
}

static void add_made(const mr_ledger *ledger, const bool *ran, const division *d)
{
    const mr_trace *trace = ledger->schedule->trace;
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        const uint32_t maker = ledger->maker[s];
        if (maker == MR_NONE || !ran[maker]) continue;
        if (trace->storages.at[s].device == ledger->schedule->device)
            d->groups.at[d->of_op[maker]].own.made += trace->storages.at[s].bytes;
    }
}

static void add_cost(mr_cost *to, const mr_cost *from)
{
    to->ops += from->ops;
    to->ns += from->ns;
    to->flops += from->flops;
    to->read += from->read;
    to->written += from->written;
    to->made += from->made;
    to->saved += from->saved;
    to->saved_per_sample += from->saved_per_sample;
    to->parameters += from->parameters;
    to->live += from->live;
    to->live_n += from->live_n;
}

/* Modules stand before those inside them. */
static void add_up(mr_ctx *ctx, const mr_ledger *ledger, division *d)
{
    const mr_schedule *schedule = ledger->schedule;
    bool *ran = MR_NEW_N(ctx, bool, schedule->trace->ops.n);
    for (uint32_t e = ledger->stretch.first; e < ledger->stretch.end; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind != MR_RUN) continue;
        ran[event.id] = true;
        add_op(&schedule->trace->ops.at[event.id], &d->groups.at[d->of_op[event.id]].own);
    }
    for (uint32_t s = 0; s < schedule->trace->storages.n; s++) add_storage(ledger, s, d);
    add_made(ledger, ran, d);
    for (uint32_t g = d->groups.n; g-- > 0;) {
        mr_group *group = &d->groups.at[g];
        add_cost(&group->all, &group->own);
        if (group->parent != MR_NONE) add_cost(&d->groups.at[group->parent].all, &group->all);
    }
}

/* ---- kinds of ops ------------------------------------------------------------------------ */

static uint32_t group_named(mr_ctx *ctx, mr_names *names, mr_groups *groups, const char *name)
{
    const uint32_t g = mr_names_add(ctx, names, name, strlen(name));
    if (g == groups->n)
        MR_PUSH(ctx, groups, (mr_group){.name = names->all.at[g].text, .parent = MR_NONE});
    return g;
}

static void give_to_makers(const mr_ledger *ledger, division *d)
{
    for (uint32_t s = 0; s < ledger->schedule->trace->storages.n; s++)
        d->of_storage[s] = ledger->maker[s] == MR_NONE ? 0 : d->of_op[ledger->maker[s]];
}

mr_groups mr_account_kinds(mr_ctx *ctx, const mr_ledger *ledger)
{
    const mr_trace *trace = ledger->schedule->trace;
    division d = divide(ctx, trace);
    mr_names names = {0};
    group_named(ctx, &names, &d.groups, "");
    for (uint32_t o = 0; o < trace->ops.n; o++)
        d.of_op[o] = group_named(ctx, &names, &d.groups, trace->ops.at[o].name);
    give_to_makers(ledger, &d);
    add_up(ctx, ledger, &d);
    return d.groups;
}

/* ---- layers ------------------------------------------------------------------------------ */

/* Length of the part of a path that names its layer. */
static size_t layer_length(const char *path, uint32_t depth)
{
    size_t first = strcspn(path, "."), end = 0;
    for (uint32_t parts = 1; path[end]; parts++) {
        const char *part = path + end + (end > 0);
        const size_t n = strcspn(part, ".");
        end = (size_t)(part - path) + n;
        if (depth ? parts == depth : n && strspn(part, "0123456789") == n) return end;
    }
    return depth ? end : first;
}

typedef struct calls { /* by name of a path: how often it was called */
    mr_names names;
    MR_VEC(uint32_t) n;
} calls;

static uint32_t path_named(mr_ctx *ctx, calls *c, const char *path, size_t n)
{
    const uint32_t p = mr_names_add(ctx, &c->names, path, n);
    if (p == c->n.n) MR_PUSH(ctx, &c->n, 0);
    return p;
}

/* A layer that has ops of its own knows how often it was called; else it is called as often as
 * the module inside it that is called least: some are used several times in one call. */
static uint32_t *layer_calls(mr_ctx *ctx, const calls *modules, const calls *layers,
                             const uint32_t *layer_of)
{
    uint32_t *n = MR_NEW_N(ctx, uint32_t, layers->names.all.n);
    for (uint32_t m = 0; m < modules->n.n; m++) {
        const uint32_t l = layer_of[m], own = modules->n.at[m];
        const bool same = modules->names.all.at[m].n == layers->names.all.at[l].n;
        if (same) n[l] = own;
    }
    for (uint32_t m = 0; m < modules->n.n; m++) {
        const mr_name *name = &layers->names.all.at[layer_of[m]];
        if (mr_names_find(&modules->names, name->text, name->n) != MR_NONE) continue;
        uint32_t *least = &n[layer_of[m]];
        if (!*least || modules->n.at[m] < *least) *least = modules->n.at[m];
    }
    return n;
}

static uint32_t group_of_call(mr_ctx *ctx, mr_names *keys, mr_groups *groups,
                              const mr_name *layer, uint32_t call)
{
    const char *key = mr_printf(ctx, "%s %u", layer->text, call);
    const uint32_t g = group_named(ctx, keys, groups, key);
    groups->at[g].name = layer->text;
    groups->at[g].call = call;
    return g;
}

mr_groups mr_account_layers(mr_ctx *ctx, const mr_ledger *ledger, uint32_t depth)
{
    const mr_trace *trace = ledger->schedule->trace;
    division d = divide(ctx, trace);
    calls modules = {0}, layers = {0};
    mr_names keys = {0};
    MR_VEC(uint32_t) layer_of = {0};
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        const uint32_t m = path_named(ctx, &modules, op->module, strlen(op->module));
        if (m == layer_of.n)
            MR_PUSH(ctx, &layer_of,
                    path_named(ctx, &layers, op->module, layer_length(op->module, depth)));
        if (op->call >= modules.n.at[m]) modules.n.at[m] = op->call + 1;
        d.of_op[o] = m;
    }
    const uint32_t *called = layer_calls(ctx, &modules, &layers, layer_of.at);
    group_named(ctx, &keys, &d.groups, "");
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const uint32_t m = d.of_op[o], l = layer_of.at[m];
        const uint64_t call = (uint64_t)trace->ops.at[o].call * called[l] / modules.n.at[m];
        d.of_op[o] =
            !layers.names.all.at[l].n
                ? 0
                : group_of_call(ctx, &keys, &d.groups, &layers.names.all.at[l], (uint32_t)call);
    }
    give_to_makers(ledger, &d);
    add_up(ctx, ledger, &d);
    return d.groups;
}

/* ---- modules ----------------------------------------------------------------------------- */

typedef struct tree {
    mr_ctx *ctx;
    mr_names paths;
    mr_groups nodes; /* in the order of paths */
} tree;

/* Of a path that is deeper than any program's only the beginning counts. */
static size_t sane_length(const char *path)
{
    enum { PARTS_MOST = 64 };
    size_t n = strcspn(path, ".");
    for (int parts = 1; path[n] && parts < PARTS_MOST; parts++)
        n += 1 + strcspn(path + n + 1, ".");
    return n;
}

/* The node of a path, with those around it. */
static uint32_t node_of(tree *t, const char *path, size_t n)
{
    const uint32_t known = mr_names_find(&t->paths, path, n);
    if (known != MR_NONE) return known;
    size_t around = n;
    while (around && path[around - 1] != '.') around--;
    const uint32_t parent = n ? node_of(t, path, around ? around - 1 : 0) : MR_NONE;
    const uint32_t node = mr_names_add(t->ctx, &t->paths, path, n);
    const uint32_t depth = n ? t->nodes.at[parent].depth + 1 : 0;
    MR_PUSH(t->ctx, &t->nodes,
            (mr_group){.name = t->paths.all.at[node].text, .parent = parent, .depth = depth});
    return node;
}

static bool has_module_in_name(mr_role role)
{
    return role == MR_ROLE_parameter || role == MR_ROLE_buffer || role == MR_ROLE_gradient
           || role == MR_ROLE_state;
}

/* "layers.0.query.weight.grad" belongs to the module layers.0.query; parameters and buffers say
 * by their names that a module exists. */
static uint32_t node_of_name(tree *t, const mr_storage *storage, const char *name)
{
    const bool says = storage->role == MR_ROLE_parameter || storage->role == MR_ROLE_buffer;
    for (size_t n = sane_length(name); n > 0;) {
        while (n > 0 && name[n - 1] != '.') n--;
        if (n) n--;
        if (says) return node_of(t, name, n);
        const uint32_t node = mr_names_find(&t->paths, name, n);
        if (n && node != MR_NONE) return node;
    }
    return MR_NONE;
}

static void find_owners(tree *t, const mr_ledger *ledger, division *d)
{
    const mr_trace *trace = ledger->schedule->trace;
    for (uint32_t s = 0; s < trace->storages.n; s++) d->of_storage[s] = MR_NONE;
    for (uint32_t i = 0; i < trace->tensors.n; i++) {
        const mr_tensor *tensor = &trace->tensors.at[i];
        const mr_storage *storage = &trace->storages.at[tensor->storage];
        uint32_t *owner = &d->of_storage[tensor->storage];
        if (*owner == MR_NONE && *tensor->name && has_module_in_name((mr_role)storage->role))
            *owner = node_of_name(t, storage, tensor->name);
    }
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (d->of_storage[s] != MR_NONE) continue;
        d->of_storage[s] = ledger->maker[s] == MR_NONE ? 0 : d->of_op[ledger->maker[s]];
    }
}

/* Places of the nodes when each is followed by those inside it. */
static uint32_t *places_of(const tree *t)
{
    const uint32_t n = t->nodes.n;
    uint32_t *size = MR_NEW_N(t->ctx, uint32_t, n), *place = MR_NEW_N(t->ctx, uint32_t, n);
    for (uint32_t i = n; i-- > 1;) size[t->nodes.at[i].parent] += ++size[i];
    uint32_t *next = MR_NEW_N(t->ctx, uint32_t, n); /* free place inside of each */
    next[0] = 1;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t *free = &next[t->nodes.at[i].parent];
        place[i] = *free;
        next[i] = *free + 1;
        *free += size[i];
    }
    return place;
}

static void put_in_order(tree *t, const mr_ledger *ledger, division *d)
{
    const mr_trace *trace = ledger->schedule->trace;
    const uint32_t *place = places_of(t);
    d->groups.n = d->groups.cap = t->nodes.n;
    d->groups.at = MR_NEW_N(t->ctx, mr_group, t->nodes.n);
    for (uint32_t i = 0; i < t->nodes.n; i++) {
        mr_group *group = &d->groups.at[place[i]];
        *group = t->nodes.at[i];
        if (group->parent != MR_NONE) group->parent = place[group->parent];
    }
    for (uint32_t o = 0; o < trace->ops.n; o++) d->of_op[o] = place[d->of_op[o]];
    for (uint32_t s = 0; s < trace->storages.n; s++) d->of_storage[s] = place[d->of_storage[s]];
}

mr_groups mr_account_modules(mr_ctx *ctx, const mr_ledger *ledger)
{
    const mr_trace *trace = ledger->schedule->trace;
    division d = divide(ctx, trace);
    tree t = {.ctx = ctx};
    node_of(&t, "", 0);
    for (uint32_t o = 0; o < trace->ops.n; o++)
        d.of_op[o] = node_of(&t, trace->ops.at[o].module, sane_length(trace->ops.at[o].module));
    find_owners(&t, ledger, &d);
    put_in_order(&t, ledger, &d);
    add_up(ctx, ledger, &d);
    return d.groups;
}
