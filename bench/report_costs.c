/* costs -- lists of work and memory by module, by kind of op, by layer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lists.h"
#include "names.h"

bool mr_knows_roles(const mr_trace *trace)
{
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].role != MR_ROLE_unknown) return true;
    return false;
}

bool mr_knows_modules(const mr_trace *trace)
{
    for (uint32_t o = 0; o < trace->ops.n; o++)
        if (*trace->ops.at[o].module) return true;
    return false;
}

static void add_all(mr_ctx *ctx, mr_list *out, const uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) mr_list_add(ctx, out, values[i]);
}

/* ---- modules ----------------------------------------------------------------------------- */

static const mr_list_column module_columns[] = {
    {"module", NULL, MR_LIST_TEXT},
    {NULL, "module", MR_LIST_TEXT},
    {"depth", NULL, MR_LIST_COUNT},
    {"ops", "ops", MR_LIST_COUNT},
    {"parameters", "parameters", MR_LIST_BYTES},
    {"saved", "saved for\nbackward", MR_LIST_BYTES},
    {"saved_per_sample", NULL, MR_LIST_BYTES},
    {"flops", "FLOPs", MR_LIST_WORK},
    {"time", "time", MR_LIST_NS},
    {"live", "live", MR_LIST_BYTES},
    {NULL, "share", MR_LIST_SHARE},
};

static void put_module(mr_ctx *ctx, const char *path, const char *shown, uint32_t depth,
                       const mr_cost *c, mr_list *out)
{
    mr_list_add_text(ctx, out, "", path);
    mr_list_add_text(ctx, out, shown, NULL);
    mr_list_add(ctx, out, depth);
    const uint64_t costs[] = {c->ops,   c->parameters, c->saved, c->saved_per_sample,
                              c->flops, c->ns,         c->live,  c->live};
    add_all(ctx, out, costs, MR_COUNT(costs));
}

/* The greatest depth at which not more than a page of modules is to be seen. */
static uint32_t depth_for_page(const mr_groups *modules, uint32_t page)
{
    for (uint32_t depth = 1, seen = 0;; depth++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < modules->n; i++) n += modules->at[i].depth <= depth;
        if (n > page && depth > 1) return depth - 1;
        if (n == seen || n == modules->n) return depth;
        seen = n;
    }
}

/* The last part of its path, as far to the right as it lies deep. */
static const char *show_in_tree(mr_ctx *ctx, const mr_group *module)
{
    const char *dot = strrchr(module->name, '.');
    return mr_printf(ctx, "%*s%s", 2 * ((int)module->depth - 1), "",
                     dot ? dot + 1 : module->name);
}

static bool is_nothing(const mr_cost *cost)
{
    return !cost->ops && !cost->parameters && !cost->live;
}

void mr_list_modules(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    const mr_groups modules = mr_account_modules(ctx, &state->ledger);
    const mr_group *whole = &modules.at[0];
    const uint32_t depth = extent.depth ? extent.depth : depth_for_page(&modules, extent.page);
    uint32_t rows = 0;
    *out = (mr_list){
        module_columns, MR_COUNT(module_columns), {0}, state->ledger.live.bytes, 0, NULL};
    for (uint32_t i = 1; i < modules.n; i++) {
        const mr_group *module = &modules.at[i];
        if (module->depth > depth) continue;
        if (extent.top && rows >= extent.top) {
            out->left_out++;
            continue;
        }
        rows++;
        put_module(ctx, module->name, show_in_tree(ctx, module), module->depth, &module->all,
                   out);
    }
    if (!is_nothing(&whole->own))
        put_module(ctx, "(no module)", "(no module)", 1, &whole->own, out);
    put_module(ctx, "", "all", 0, &whole->all, out);
}

/* ---- kinds of ops ------------------------------------------------------------------------ */

static const mr_list_column op_columns[] = {
    {"op", "op", MR_LIST_TEXT},
    {"ops", "ops", MR_LIST_COUNT},
    {"flops", "FLOPs", MR_LIST_WORK},
    {"time", "time", MR_LIST_NS},
    {"read", NULL, MR_LIST_BYTES},
    {"written", NULL, MR_LIST_BYTES},
    {NULL, "read and\nwritten", MR_LIST_BYTES},
    {"made", "made", MR_LIST_BYTES},
    {"saved", "saved for\nbackward", MR_LIST_BYTES},
    {"live", "live", MR_LIST_BYTES},
    {NULL, "share", MR_LIST_SHARE},
};

static int by_made(const void *a, const void *b)
{
    const mr_group *x = a, *y = b;
    const mr_cost *p = &x->all, *q = &y->all;
    if (p->made != q->made) return p->made > q->made ? -1 : 1;
    if (p->read + p->written != q->read + q->written)
        return p->read + p->written > q->read + q->written ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void put_kind(mr_ctx *ctx, const mr_group *kind, mr_list *out)
{
    const mr_cost *c = &kind->all;
    const char *name = *kind->name ? kind->name : "(there before)";
    mr_list_add_text(ctx, out, name, name);
    const uint64_t costs[] = {
        c->ops,  c->flops, c->ns,   c->read, c->written, c->read + c->written,
        c->made, c->saved, c->live, c->live};
    add_all(ctx, out, costs, MR_COUNT(costs));
}

void mr_list_ops(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    const mr_groups kinds = mr_account_kinds(ctx, &state->ledger);
    const uint32_t most = extent.top ? extent.top : extent.page;
    uint32_t rows = 0;
    *out = (mr_list){op_columns, MR_COUNT(op_columns), {0}, state->ledger.live.bytes, 0, NULL};
    if (kinds.n > 1) qsort(kinds.at + 1, kinds.n - 1, sizeof *kinds.at, by_made);
    if (!is_nothing(&kinds.at[0].all)) put_kind(ctx, &kinds.at[0], out);
    for (uint32_t i = 1; i < kinds.n; i++) {
        if (is_nothing(&kinds.at[i].all)) continue; /* ran in other steps */
        if (rows++ < most) put_kind(ctx, &kinds.at[i], out);
        else out->left_out++;
    }
}

/* ---- layers ------------------------------------------------------------------------------ */

static const mr_list_column layer_columns[] = {
    {"layer", "layer", MR_LIST_TEXT},
    {"call", NULL, MR_LIST_COUNT},
    {"ops", "ops", MR_LIST_COUNT},
    {"flops", "FLOPs", MR_LIST_WORK},
    {"time", "time", MR_LIST_NS},
    {"made", "made", MR_LIST_BYTES},
    {"saved", "saved for\nbackward", MR_LIST_BYTES},
    {"saved_per_sample", "per\nsample", MR_LIST_BYTES},
    {"live", "live", MR_LIST_BYTES},
    {NULL, "share", MR_LIST_SHARE},
};

static void put_layer(mr_ctx *ctx, const mr_group *layer, bool repeated, mr_list *out)
{
    const mr_cost *c = &layer->all;
    const char *name = *layer->name ? layer->name : "(no module, or there before)";
    const char *shown = name;
    if (repeated) shown = mr_printf(ctx, "%s, call %" PRIu32, name, layer->call + 1);
    mr_list_add_text(ctx, out, shown, name);
    mr_list_add(ctx, out, layer->call);
    const uint64_t costs[] = {c->ops,  c->flops, c->ns, c->made, c->saved, c->saved_per_sample,
                              c->live, c->live};
    add_all(ctx, out, costs, MR_COUNT(costs));
}

/* Layers that are called more than once. */
static mr_names find_repeated(mr_ctx *ctx, const mr_groups *layers)
{
    mr_names names = {0};
    for (uint32_t i = 0; i < layers->n; i++)
        if (layers->at[i].call)
            mr_names_add(ctx, &names, layers->at[i].name, strlen(layers->at[i].name));
    return names;
}

void mr_list_layers(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    const mr_groups layers = mr_account_layers(ctx, &state->ledger, extent.depth);
    const mr_names repeated = find_repeated(ctx, &layers);
    const uint32_t most = extent.top ? extent.top : UINT32_MAX;
    uint32_t rows = 0;
    *out = (mr_list){layer_columns, MR_COUNT(layer_columns), {0}, state->ledger.live.bytes, 0,
                     NULL};
    for (uint32_t i = 1; i < layers.n; i++) {
        const mr_group *layer = &layers.at[i];
        const uint32_t name = mr_names_find(&repeated, layer->name, strlen(layer->name));
        if (is_nothing(&layer->all)) continue;
        if (rows++ < most) put_layer(ctx, layer, name != MR_NONE, out);
        else out->left_out++;
    }
    if (!is_nothing(&layers.at[0].all)) put_layer(ctx, &layers.at[0], false, out);
}

/* ---- by name ----------------------------------------------------------------------------- */

static mr_status check_knows(mr_ctx *ctx, const mr_trace *trace, const char *name)
{
    const bool modules = strcmp(name, "module") == 0 || strcmp(name, "layer") == 0;
    if ((modules && !mr_knows_modules(trace)) || (strcmp(name, "op") == 0 && !trace->ops.n))
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "--by %s: '%s' does not know its %ss; a recording of ops does, see "
                       "traces/record/README.md",
                       name, trace->name, modules ? "module" : "op");
    if (strcmp(name, "role") == 0 && !mr_knows_roles(trace))
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "--by role: '%s' does not know which memory is parameters, activations "
                       "or else; --by maker shows who asked for it",
                       trace->name);
    return MR_OK;
}

mr_status mr_list_make(mr_ctx *ctx, const mr_state *state, const char *name, mr_extent extent,
                       mr_list *out)
{
    static const struct {
        const char *name;
        void (*make)(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);
    } lists[] = {{"role", mr_list_roles},   {"module", mr_list_modules},
                 {"op", mr_list_ops},       {"layer", mr_list_layers},
                 {"maker", mr_list_makers}, {"tensor", mr_list_tensors}};
    MR_TRY(check_knows(ctx, state->schedule.trace, name));
    for (size_t i = 0; i < MR_COUNT(lists); i++)
        if (strcmp(lists[i].name, name) == 0) lists[i].make(ctx, state, extent, out);
    return MR_OK;
}
