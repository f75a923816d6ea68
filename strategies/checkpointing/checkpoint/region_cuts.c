/* region_cuts -- regions that are stretches of a chain.
 *
 *     ops        a   b   c   d   e   f        storages that need a gradient and go across:
 *                ├─x─┤                       x from a to b, y from b to c and e: between b and
 * c ├─y─┼───┼───┤           one, between c and d two ...
 */
#include "region.h"

#include <string.h>

typedef struct pass { /* ops of the forward pass, up to the next of another */
    MR_VEC(uint32_t) events;
    MR_VEC(uint32_t) stages; /* first op of each stage, as an index of `events` */
} pass;

typedef struct cutter {
    mr_ctx *ctx;
    const mr_trace *trace;
    bool *needs;    /* by storage: a gradient */
    uint32_t *born; /* by storage: op of the pass, as an index; MR_NONE before and outside */
    uint32_t *last_read; /* by storage: likewise */
    region_size size;
    uint32_t n;
    regions *out;
} cutter;

static const mr_op *op_at(const cutter *c, const pass *p, uint32_t i)
{
    return &c->trace->ops.at[c->trace->events.at[p->events.at[i]].id];
}

static uint32_t storage_of(const cutter *c, uint32_t tensor)
{
    return c->trace->tensors.at[tensor].storage;
}

/* ---- what needs a gradient --------------------------------------------------------------- */

static bool may_need_gradient(const mr_tensor *t)
{
    return !strncmp(t->dtype, "float", 5) || !strncmp(t->dtype, "bfloat", 6)
           || !strncmp(t->dtype, "complex", 7) || !*t->dtype;
}

static bool pass_on_needs(cutter *c, const mr_op *op)
{
    bool needs = false;
    for (uint32_t i = 0; i < op->in.n; i++) needs |= c->needs[storage_of(c, op->in.at[i])];
    for (uint32_t i = 0; i < op->out.n && needs; i++)
        if (may_need_gradient(&c->trace->tensors.at[op->out.at[i]]))
            c->needs[storage_of(c, op->out.at[i])] = true;
    return needs;
}

/* ---- stages ------------------------------------------------------------------------------ */

static void look_at(cutter *c, const pass *p, uint32_t i, bool *needed)
{
    const mr_op *op = op_at(c, p, i);
    *needed |= pass_on_needs(c, op);
    for (uint32_t k = 0; k < op->out.n; k++) {
        const uint32_t s = storage_of(c, op->out.at[k]);
        if (c->born[s] == MR_NONE && !c->trace->storages.at[s].before) c->born[s] = i;
    }
    for (uint32_t k = 0; k < op->in.n; k++) c->last_read[storage_of(c, op->in.at[k])] = i;
}

/* How many storages go across, op by op, and the sum of their numbers: of one, its own. */
static void count_across(cutter *c, const pass *p, int64_t *count, int64_t *which)
{
    const uint32_t n = p->events.n;
    for (uint32_t i = 0; i < n; i++) {
        const mr_op *op = op_at(c, p, i);
        for (uint32_t k = 0; k < op->out.n; k++) {
            const uint32_t s = storage_of(c, op->out.at[k]);
            const bool first = c->born[s] == i && c->needs[s];
            c->born[s] = c->born[s] == i ? MR_NONE : c->born[s];
            if (!first || c->last_read[s] <= i) continue;
            count[i]++;
            count[c->last_read[s]]--;
            which[i] += s;
            which[c->last_read[s]] -= s;
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        count[i] += count[i - 1];
        which[i] += which[i - 1];
    }
}

static void find_stages(cutter *c, pass *p)
{
    int64_t *count = MR_NEW_N(c->ctx, int64_t, p->events.n);
    int64_t *which = MR_NEW_N(c->ctx, int64_t, p->events.n);
    bool needed = false;
    for (uint32_t i = 0; i < p->events.n; i++) {
        look_at(c, p, i, &needed);
        if (needed && !p->stages.n) MR_PUSH(c->ctx, &p->stages, i);
    }
    if (!p->stages.n) return;
    count_across(c, p, count, which);
    int64_t last = -1; /* views of one storage, and changes of it, are no stages of their own */
    for (uint32_t i = p->stages.at[0]; i + 1 < p->events.n; i++) {
        if (count[i] != 1) continue;
        if (which[i] == last) p->stages.n--;
        last = which[i];
        MR_PUSH(c->ctx, &p->stages, i + 1);
    }
}

/* ---- regions ----------------------------------------------------------------------------- */

static uint32_t root(uint32_t n)
{
    uint32_t r = 0;
    while ((uint64_t)(r + 1) * (r + 1) <= n) r++;
    return r;
}

static uint32_t count_regions(const cutter *c, uint32_t stages)
{
    switch (c->size) {
    case REGION_SQRT: return root(stages);
    case REGION_EVERY: return (stages + c->n - 1) / c->n;
    case REGION_SEGMENTS: return c->n < stages ? c->n : stages;
    }
    return 1;
}

/* First stage of region i of n: all equally long, or the first ones by one stage longer. */
static uint32_t first_stage(const cutter *c, uint32_t stages, uint32_t n, uint32_t i)
{
    if (c->size == REGION_EVERY) return i * c->n;
    const uint32_t longer = i < stages % n ? i : stages % n;
    return stages / n * i + longer;
}

static void push_regions(cutter *c, const pass *p)
{
    const uint32_t stages = p->stages.n ? p->stages.n - 1 : 0; /* the last one is the loss */
    const uint32_t n = stages ? count_regions(c, stages) : 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const uint32_t begin = p->stages.at[first_stage(c, stages, n, i)];
        const uint32_t end = p->stages.at[first_stage(c, stages, n, i + 1)];
        const char *name = mr_printf(c->ctx, "segment %u of %u", i + 1, n);
        MR_PUSH(c->ctx, c->out,
                (stretch){name, p->events.at[begin], p->events.at[end - 1] + 1});
    }
}

static void end_pass(cutter *c, pass *p)
{
    if (p->events.n) find_stages(c, p);
    push_regions(c, p);
    *p = (pass){0};
}

mr_status region_find_cuts(mr_ctx *ctx, const mr_trace *trace, region_size size, uint32_t n,
                           regions *out)
{
    cutter c = {.ctx = ctx, .trace = trace, .size = size, .n = n, .out = out};
    pass p = {0};
    c.needs = MR_NEW_N(ctx, bool, trace->storages.n);
    c.born = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    c.last_read = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    memset(c.born, 0xff, trace->storages.n * sizeof *c.born);
    for (uint32_t s = 0; s < trace->storages.n; s++)
        c.needs[s] = trace->storages.at[s].role == MR_ROLE_parameter;
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &trace->ops.at[trace->events.at[e].id];
        if (op->phase == MR_FORWARD) MR_PUSH(ctx, &p.events, e);
        else if (p.events.n) end_pass(&c, &p);
    }
    end_pass(&c, &p);
    if (out->n) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' is no chain that can be cut in two: nowhere does a single tensor that"
                   " needs a gradient lead from one part of the forward pass to the next",
                   trace->name);
}
