/* chain_step_needs -- which ops of a stage have to run again: those whose results somebody
 * reads. */
#include "chain_step_internal.h"

#include <string.h>

static uint32_t storage_of(const chain_needs *n, uint32_t tensor)
{
    return n->step->trace->tensors.at[tensor].storage;
}

static void find_ops(mr_ctx *ctx, chain_needs *n)
{
    const mr_trace *t = n->step->trace;
    uint32_t *all = MR_NEW_N(ctx, uint32_t, t->ops.n), ops = 0;
    n->ops = mr_alloc_n(ctx, n->step->problem.n, sizeof *n->ops);
    n->ops_n = MR_NEW_N(ctx, uint32_t, n->step->problem.n);
    for (uint32_t e = n->step->begin; e < n->step->turn; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id, stage = n->step->stage[o];
        if (!n->ops_n[stage]++) n->ops[stage] = all + ops;
        all[ops++] = o;
    }
}

static void find_readers(mr_ctx *ctx, chain_needs *n)
{
    const mr_trace *t = n->step->trace;
    n->read_later = MR_NEW_N(ctx, bool, t->tensors.n);
    n->reader = MR_NEW_N(ctx, uint32_t, t->storages.n);
    if (t->storages.n) memset(n->reader, 0xff, t->storages.n * sizeof *n->reader);
    for (uint32_t e = n->step->turn; e < n->step->end; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id;
        const mr_op *op = &t->ops.at[o];
        for (uint32_t i = 0; i < op->in.n; i++) {
            n->read_later[op->in.at[i]] = true;
            n->reader[storage_of(n, op->in.at[i])] = n->step->stage[o]; /* they descend */
        }
    }
}

chain_needs chain_needs_of(mr_ctx *ctx, const chain_step *step)
{
    chain_needs n = {.step = step,
                     .tensor = MR_NEW_N(ctx, bool, step->trace->tensors.n),
                     .storage = MR_NEW_N(ctx, bool, step->trace->storages.n)};
    find_ops(ctx, &n);
    find_readers(ctx, &n);
    return n;
}

bool chain_step_makes(const chain_step *step, uint32_t stage, uint32_t storage)
{
    return step->born[storage] == stage && !step->constant[storage];
}

bool chain_needs_saving(const chain_needs *n, uint32_t stage, uint32_t storage)
{
    return chain_step_makes(n->step, stage, storage) && n->reader[storage] <= stage;
}

/* Results for which ops run; those of the option are there when the others are missing. */
static bool is_goal(const chain_needs *n, uint32_t stage, uint32_t s, unsigned reasons,
                    uint32_t option)
{
    if (!chain_needs_saving(n, stage, s)) return false;
    const bool without = n->step->without[s] >> option & 1;
    return reasons & (without ? CHAIN_FOR_MISSING : CHAIN_FOR_SAVING);
}

bool chain_needs_there(const chain_needs *n, uint32_t stage, uint32_t s, unsigned reasons,
                       uint32_t option)
{
    if (!chain_step_makes(n->step, stage, s)) return true;
    return reasons == CHAIN_FOR_MISSING && chain_needs_saving(n, stage, s)
           && !(n->step->without[s] >> option & 1);
}

static void set_goals(const chain_needs *n, uint32_t stage, unsigned reasons, uint32_t option)
{
    if (reasons & CHAIN_FOR_NEXT) n->storage[n->step->input[stage + 1]] = true;
    for (uint32_t k = 0; k < n->ops_n[stage]; k++) {
        const mr_ids out = n->step->trace->ops.at[n->ops[stage][k]].out;
        for (uint32_t i = 0; i < out.n; i++) {
            const uint32_t s = storage_of(n, out.at[i]);
            if (!is_goal(n, stage, s, reasons, option)) continue;
            n->storage[s] = true;
            n->tensor[out.at[i]] = n->read_later[out.at[i]];
        }
    }
}

static bool is_needed(const chain_needs *n, uint32_t o)
{
    const mr_op *op = &n->step->trace->ops.at[o];
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(n, op->out.at[i]);
        if (n->tensor[op->out.at[i]] || (n->storage[s] && n->step->maker[s] == o)) return true;
    }
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (n->storage[storage_of(n, op->mutates.at[i])]) return true;
    return false;
}

static void forget(const chain_needs *n, uint32_t stage)
{
    for (uint32_t k = 0; k < n->ops_n[stage]; k++) {
        const mr_op *op = &n->step->trace->ops.at[n->ops[stage][k]];
        for (uint32_t i = 0; i < op->out.n + op->in.n + op->mutates.n; i++) {
            const uint32_t t = i < op->out.n ? op->out.at[i]
                               : i < op->out.n + op->in.n
                                   ? op->in.at[i - op->out.n]
                                   : op->mutates.at[i - op->out.n - op->in.n];
            n->tensor[t] = n->storage[storage_of(n, t)] = false;
        }
    }
}

mr_ids chain_needs_ops(mr_ctx *ctx, const chain_needs *n, uint32_t stage, unsigned reasons,
                       uint32_t option)
{
    mr_ids out = {MR_NEW_N(ctx, uint32_t, (size_t)n->ops_n[stage] + 1), 0};
    set_goals(n, stage, reasons, option);
    for (uint32_t k = n->ops_n[stage]; k-- > 0;) {
        const uint32_t o = n->ops[stage][k];
        if (!is_needed(n, o)) continue;
        out.at[out.n++] = o;
        const mr_op *op = &n->step->trace->ops.at[o];
        for (uint32_t i = 0; i < op->in.n + op->mutates.n; i++) {
            const uint32_t t = i < op->in.n ? op->in.at[i] : op->mutates.at[i - op->in.n];
            if (chain_needs_there(n, stage, storage_of(n, t), reasons, option)) continue;
            n->tensor[t] = n->storage[storage_of(n, t)] = true;
        }
    }
    forget(n, stage);
    return out;
}
