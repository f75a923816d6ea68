/* chain_step_options -- ways to run a stage that save a part of what it saves.
 *
 * Results are left out in the order of what it costs to make each again, per byte; an option is
 * a beginning of that order.  When what was left out has been made again the stage runs
 * backward as if everything had been saved; so an option needs more room than the first at most
 * while it makes that again, and less while all stages behind it run.
 */
#include "chain_step_internal.h"
#include "chain_time.h"

#include <stdlib.h>

typedef struct candidate {
    uint32_t storage;
    uint64_t bytes, time;
} candidate;

typedef struct chooser {
    mr_ctx *ctx;
    chain_step *step;
    const chain_needs *needs;
    candidate *at;
    uint32_t n;
    uint64_t bytes; /* of all candidates */
    uint32_t *last; /* by storage, between calls MR_NONE: op of a list that uses it last */
    bool *made; /* by storage, between calls false: made by an op of a list, and still there */
} chooser;

static int cheapest_first(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    const double x = (double)a->time * (double)b->bytes, y = (double)b->time * (double)a->bytes;
    if (x < y || x > y) return x < y ? -1 : 1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

static uint64_t time_missing(const chooser *c, uint32_t stage, uint32_t option)
{
    const mr_ids ops = chain_needs_ops(c->ctx, c->needs, stage, CHAIN_FOR_MISSING, option);
    uint64_t time = 0;
    for (uint32_t i = 0; i < ops.n; i++)
        time += chain_time(&c->step->trace->ops.at[ops.at[i]], c->step->measured);
    return time;
}

/* ---- room for making again --------------------------------------------------------------- */

enum { USES = 3 };

static mr_ids used(const chooser *c, uint32_t o, int use)
{
    const mr_op *op = &c->step->trace->ops.at[o];
    return use == 0 ? op->in : use == 1 ? op->out : op->mutates;
}

static uint32_t storage_of(const chooser *c, uint32_t tensor)
{
    return c->step->trace->tensors.at[tensor].storage;
}

static void find_last_uses(const chooser *c, mr_ids ops)
{
    for (uint32_t k = 0; k < ops.n; k++)
        for (int use = 0; use < USES; use++) {
            const mr_ids ids = used(c, ops.at[k], use);
            for (uint32_t i = 0; i < ids.n; i++) {
                const uint32_t s = storage_of(c, ids.at[i]);
                if (c->last[s] == MR_NONE) c->last[s] = ops.at[k];
            }
        }
}

static uint64_t make(const chooser *c, uint32_t o)
{
    const mr_ids out = used(c, o, 1);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t s = storage_of(c, out.at[i]);
        if (c->step->maker[s] != o || c->made[s]) continue;
        c->made[s] = true;
        bytes += c->step->trace->storages.at[s].bytes;
    }
    return bytes;
}

/* What was there is made for nothing; what is missing stays; all else goes after its last use.
 */
static uint64_t end(const chooser *c, uint32_t o, uint32_t stage, uint32_t option)
{
    uint64_t bytes = 0;
    for (int use = 0; use < USES; use++) {
        const mr_ids ids = used(c, o, use);
        for (uint32_t i = 0; i < ids.n; i++) {
            const uint32_t s = storage_of(c, ids.at[i]);
            const bool goes = chain_needs_there(c->needs, stage, s, CHAIN_FOR_MISSING, option)
                              || (c->last[s] == o && !chain_needs_saving(c->needs, stage, s));
            if (!c->made[s] || !goes) continue;
            c->made[s] = false;
            bytes += c->step->trace->storages.at[s].bytes;
        }
    }
    return bytes;
}

/* Most bytes at once, on top of what the option saves, while what it does not is made again. */
static uint64_t room_missing(const chooser *c, uint32_t stage, uint32_t option)
{
    const mr_ids ops = chain_needs_ops(c->ctx, c->needs, stage, CHAIN_FOR_MISSING, option);
    uint64_t live = 0, most = 0;
    find_last_uses(c, ops);
    for (uint32_t k = ops.n; k-- > 0;) {
        live += make(c, ops.at[k]);
        const uint64_t now = live + c->step->trace->ops.at[ops.at[k]].workspace;
        if (now > most) most = now;
        live -= end(c, ops.at[k], stage, option);
    }
    for (uint32_t k = 0; k < ops.n; k++)
        for (int use = 0; use < USES; use++) {
            const mr_ids ids = used(c, ops.at[k], use);
            for (uint32_t i = 0; i < ids.n; i++) {
                c->last[storage_of(c, ids.at[i])] = MR_NONE;
                c->made[storage_of(c, ids.at[i])] = false;
            }
        }
    return most;
}

/* ---- candidates -------------------------------------------------------------------------- */

/* Does an op read a result of the stage that another op changes later?  What is there then is
 * not what was read. */
static bool reads_what_changes(const chooser *c, uint32_t stage)
{
    const mr_trace *t = c->step->trace;
    for (uint32_t k = 0; k < c->needs->ops_n[stage]; k++) {
        const mr_ids in = t->ops.at[c->needs->ops[stage][k]].in;
        for (uint32_t later = k + 1; later < c->needs->ops_n[stage]; later++) {
            const mr_ids changed = t->ops.at[c->needs->ops[stage][later]].mutates;
            for (uint32_t i = 0; i < changed.n; i++)
                for (uint32_t j = 0; j < in.n; j++)
                    if (t->tensors.at[changed.at[i]].storage == t->tensors.at[in.at[j]].storage
                        && chain_step_makes(c->step, stage, t->tensors.at[in.at[j]].storage))
                        return true;
        }
    }
    return false;
}

/* Results that may be left out: all that is saved except the stage's own end. */
static void find_candidates(chooser *c, uint32_t stage)
{
    const mr_trace *t = c->step->trace;
    const uint32_t n = c->step->problem.n;
    c->n = 0;
    c->bytes = 0;
    for (uint32_t k = 0; k < c->needs->ops_n[stage]; k++) {
        const mr_ids out = t->ops.at[c->needs->ops[stage][k]].out;
        for (uint32_t i = 0; i < out.n; i++) {
            const uint32_t s = t->tensors.at[out.at[i]].storage;
            if (c->step->maker[s] != c->needs->ops[stage][k]) continue;
            if (stage + 1 < n && c->step->input[stage + 1] == s) continue;
            if (!chain_needs_saving(c->needs, stage, s) || !t->storages.at[s].bytes) continue;
            if (c->n && c->at[c->n - 1].storage == s) continue;
            c->at[c->n++] = (candidate){s, t->storages.at[s].bytes, 0};
            c->bytes += t->storages.at[s].bytes;
        }
    }
    for (uint32_t i = 0; i < c->n; i++) {
        c->step->without[c->at[i].storage] = 2;
        c->at[i].time = time_missing(c, stage, 1);
        c->step->without[c->at[i].storage] = 0;
    }
    if (c->n) qsort(c->at, c->n, sizeof *c->at, cheapest_first);
}

/* The first option without the first `n` candidates. */
static chain_option option_without(const chooser *c, uint32_t stage, uint32_t n,
                                   uint32_t number)
{
    chain_option o = c->step->problem.stages[stage].options[0];
    const uint64_t forward = o.saved + o.forward_tmp, backward = o.saved + o.backward_tmp;
    for (uint32_t i = 0; i < n; i++) {
        c->step->without[c->at[i].storage] |= 1u << number;
        o.saved -= c->at[i].bytes;
    }
    const uint64_t again = o.saved + room_missing(c, stage, number);
    o.forward_tmp = forward - o.saved;
    o.backward_tmp = (again > backward ? again : backward) - o.saved;
    o.backward_time += time_missing(c, stage, number);
    return o;
}

static void add_options(chooser *c, chain_stage *stage, uint32_t number, uint32_t options)
{
    chain_option *list = MR_NEW_N(c->ctx, chain_option, (size_t)options + 1);
    list[stage->n - 1] = stage->options[0];
    stage->options = list;
    uint64_t left_out = 0;
    for (uint32_t i = 0; i < c->n && stage->n <= options; i++) {
        left_out += c->at[i].bytes;
        if (left_out * options < c->bytes * stage->n) continue;
        list[stage->n] = option_without(c, number, i + 1, stage->n);
        stage->n++;
    }
}

void chain_step_add_options(mr_ctx *ctx, chain_step *step, uint32_t options)
{
    const chain_needs needs = chain_needs_of(ctx, step);
    chooser c = {.ctx = ctx, .step = step, .needs = &needs};
    c.at = MR_NEW_N(ctx, candidate, step->trace->storages.n);
    c.made = MR_NEW_N(ctx, bool, step->trace->storages.n);
    c.last = mr_alloc_n(ctx, step->trace->storages.n, sizeof *c.last);
    for (uint32_t s = 0; s < step->trace->storages.n; s++) c.last[s] = MR_NONE;
    chain_stage *stages = MR_NEW_N(ctx, chain_stage, step->problem.n);
    for (uint32_t i = 0; i < step->problem.n; i++) stages[i] = step->problem.stages[i];
    step->problem.stages = stages;
    for (uint32_t i = 0; i < step->problem.n; i++) {
        /* An x(i) that passes is gone when the stage runs backward: nothing is made from it
         * then. */
        if (stages[i].passing || reads_what_changes(&c, i)) continue;
        find_candidates(&c, i);
        add_options(&c, &stages[i], i, options);
    }
}
