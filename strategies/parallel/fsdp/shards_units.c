/* shards_units -- which modules are wrapped, and what is theirs. */
#include "paths.h"
#include "shards.h"

#include <string.h>

/* ---- modules ----------------------------------------------------------------------------- */

enum { UNIT_OPS = 3 }; /* what has fewer is a layer, not a block of layers */

typedef struct block { /* a path that ends in a number */
    uint32_t container, ops;
} block;

typedef struct finder {
    shards *s;
    mr_names blocks, containers;
    MR_VEC(block) all;           /* by number of a block */
    MR_VEC(uint32_t) siblings; /* by number of a container: blocks in it */
} finder;

static bool is_pass(const mr_op *op)
{
    return op->phase == MR_FORWARD || op->phase == MR_BACKWARD;
}

static bool is_number(const char *text, size_t n)
{
    return n && strspn(text, "0123456789") >= n;
}

/* Counts the op for each numbered module that it runs in. */
static void count(finder *f, const char *text)
{
    mr_ctx *ctx = f->s->ctx;
    for (const char *part = text; *part; part += *part == '.') {
        const size_t n = strcspn(part, "."), length = (size_t)(part - text) + n;
        if (part > text && is_number(part, n)) {
            const uint32_t b = mr_names_add(ctx, &f->blocks, text, length);
            const uint32_t c =
                mr_names_add(ctx, &f->containers, text, (size_t)(part - text) - 1);
            if (b == f->all.n) MR_PUSH(ctx, &f->all, ((block){.container = c}));
            f->all.at[b].ops++;
        }
        part += n;
    }
}

static void count_siblings(finder *f)
{
    for (uint32_t c = 0; c < f->containers.all.n; c++) MR_PUSH(f->s->ctx, &f->siblings, 0);
    for (uint32_t b = 0; b < f->all.n; b++)
        if (f->all.at[b].ops >= UNIT_OPS) f->siblings.at[f->all.at[b].container]++;
}

/* Length of the outermost of several blocks on the way to a module, 0 for none. */
static size_t block_on(const finder *f, const char *text)
{
    for (const char *part = text; *part; part += *part == '.') {
        part += strcspn(part, ".");
        const uint32_t b = mr_names_find(&f->blocks, text, (size_t)(part - text));
        if (b == MR_NONE || f->all.at[b].ops < UNIT_OPS) continue;
        if (f->siblings.at[f->all.at[b].container] > 1) return (size_t)(part - text);
    }
    return 0;
}

static uint32_t unit_of(shards *s, mr_names *names, const char *module, size_t length)
{
    if (!length) return SHARDS_ROOT;
    const uint32_t u = 1 + mr_names_add(s->ctx, names, module, length);
    if (u == s->units.n) {
        const shards_unit unit = {.name = mr_strndup(s->ctx, module, length),
                                  .reduced = MR_NONE};
        MR_PUSH(s->ctx, &s->units, unit);
    }
    return u;
}

mr_status shards_find_units(shards *s)
{
    const mr_trace *in = s->in;
    finder f = {.s = s};
    mr_names names = {0};
    const shards_unit root = {.name = "the root", .reduced = MR_NONE};
    MR_PUSH(s->ctx, &s->units, root);
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].phase == MR_FORWARD) count(&f, in->ops.at[o].module);
    count_siblings(&f);
    s->unit_of = MR_NEW_N(s->ctx, uint32_t, in->ops.n);
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *op = &in->ops.at[o];
        if (!is_pass(op)) continue;
        const char *module = op->of == MR_NONE ? op->module : in->ops.at[op->of].module;
        const size_t length = *s->choice->module ? mr_path_match(s->choice->module, module)
                                                 : block_on(&f, module);
        s->unit_of[o] = unit_of(s, &names, module, length);
    }
    if (!*s->choice->module || s->units.n > 1) return MR_OK;
    return mr_fail(s->ctx, MR_EUSAGE, "no module of '%s' is called '%s'", in->name,
                   s->choice->module);
}

/* ---- parameters and gradients ------------------------------------------------------------ */

static bool is_parameter(const mr_trace *in, uint32_t s)
{
    return in->storages.at[s].before && in->storages.at[s].role == MR_ROLE_parameter;
}

static void own(uint32_t *owner, uint32_t unit)
{
    *owner = *owner == MR_NONE || *owner == unit ? unit : SHARDS_ROOT;
}

static void give(shards *s)
{
    bool *given = MR_NEW_N(s->ctx, bool, s->in->storages.n);
    for (uint32_t t = 0; t < s->in->tensors.n; t++) {
        const mr_tensor *tensor = &s->in->tensors.at[t];
        const uint64_t whole = s->in->storages.at[tensor->storage].bytes;
        if (s->owner[tensor->storage] == MR_NONE || tensor->bytes != whole) continue;
        if (given[tensor->storage]) continue;
        given[tensor->storage] = true;
        shards_unit *unit = &s->units.at[s->owner[tensor->storage]];
        MR_PUSH(s->ctx, &unit->parameters, t);
    }
}

static void find_parameters(shards *s)
{
    const mr_trace *in = s->in;
    s->owner = mr_none_of(s->ctx, in->storages.n);
    for (uint32_t o = 0; o < in->ops.n; o++) {
        const mr_op *op = &in->ops.at[o];
        for (uint32_t i = 0; i < op->in.n && is_pass(op); i++) {
            const uint32_t home = in->tensors.at[op->in.at[i]].storage;
            if (is_parameter(in, home)) own(&s->owner[home], s->unit_of[o]);
        }
    }
    for (uint32_t i = 0; i < in->storages.n; i++)
        if (is_parameter(in, i) && s->owner[i] == MR_NONE) s->owner[i] = SHARDS_ROOT;
}

/* When the last backward pass of a unit is over and all its gradients are there. */
static void find_reductions(shards *s, const uint32_t *unit_of_gradient)
{
    for (uint32_t v = 0; v < s->visits.n; v++) {
        const shards_visit *visit = &s->visits.at[v];
        shards_unit *unit = &s->units.at[visit->unit];
        if (visit->back_end == MR_NONE || !unit->gradients.n) continue;
        if (unit->reduced == MR_NONE || unit->reduced < visit->back_end)
            unit->reduced = visit->back_end;
    }
    for (uint32_t e = 0; e < s->in->events.n; e++) {
        if (s->in->events.at[e].kind != MR_RUN) continue;
        uint32_t g = s->gradients.first[s->in->events.at[e].id];
        for (; g != MR_NONE; g = s->gradients.next[g]) {
            shards_unit *unit = &s->units.at[unit_of_gradient[s->gradients.of[g]]];
            if (unit->reduced == MR_NONE || unit->reduced < e) unit->reduced = e;
        }
    }
}

/* A gradient is of the unit whose ops make it; the engine's own sums are nobody's. */
static void find_gradients(shards *s)
{
    uint32_t *of = mr_none_of(s->ctx, s->gradients.gradients.n);
    for (uint32_t o = 0; o < s->in->ops.n; o++) {
        const mr_op *op = &s->in->ops.at[o];
        if (op->phase != MR_BACKWARD || op->of == MR_NONE) continue;
        const mr_ids lists[] = {op->out, op->mutates};
        for (size_t l = 0; l < MR_COUNT(lists); l++)
            for (uint32_t i = 0; i < lists[l].n; i++) {
                const uint32_t g =
                    s->gradients.of[s->in->tensors.at[lists[l].at[i]].storage];
                if (g != MR_NONE) own(&of[g], s->unit_of[o]);
            }
    }
    for (uint32_t g = 0; g < s->gradients.gradients.n; g++) {
        if (of[g] == MR_NONE) of[g] = SHARDS_ROOT;
        MR_PUSH(s->ctx, &s->units.at[of[g]].gradients, g);
    }
    find_reductions(s, of);
}

void shards_find_owners(shards *s)
{
    find_parameters(s);
    give(s);
    find_gradients(s);
}
