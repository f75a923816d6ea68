/* dtr_banish -- storages that are gone for good.
 *
 * A storage that nothing refers to is banished as soon as no evicted tensor was made from it.
 * What was made from it can then never be computed again, so that is pinned.  Tensors lose
 * their banished parents, hence lists of parents and children that change while a program runs.
 * As in simrd, an op that has run walks the parents of its tensor while banishing takes some of
 * them away, and so skips the one behind: that stays locked until its last reference ends.
 */
#include "dtr_internal.h"

typedef MR_VEC(uint32_t) list;

struct dtr_kin {
    list *parents, *children; /* by tensor */
    list *waiting;            /* by storage: tensors made from it that are not there */
};

void dtr_banish_begin(dtr_run *run)
{
    run->kin = MR_NEW(run->ctx, dtr_kin);
    run->kin->parents = MR_NEW_N(run->ctx, list, run->program->tensors.n);
    run->kin->children = MR_NEW_N(run->ctx, list, run->program->tensors.n);
    run->kin->waiting = MR_NEW_N(run->ctx, list, run->program->storages.n);
}

static uint32_t storage_of(const dtr_run *run, uint32_t tensor)
{
    return run->program->tensors.at[tensor].storage;
}

static void take_out(list *l, uint32_t id)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->at[i] != id) continue;
        for (l->n--; i < l->n; i++) l->at[i] = l->at[i + 1];
        return;
    }
}

static void put_in(dtr_run *run, list *l, uint32_t id)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->at[i] == id) return;
    MR_PUSH(run->ctx, l, id);
}

mr_ids dtr_parents(const dtr_run *run, uint32_t op, uint32_t tensor)
{
    if (!run->kin || tensor == MR_NONE) return run->program->ops.at[op].in;
    return (mr_ids){run->kin->parents[tensor].at, run->kin->parents[tensor].n};
}

/* A new op: its outputs are not there yet. */
void dtr_banish_create(dtr_run *run, uint32_t o)
{
    const dtr_op *op = &run->program->ops.at[o];
    for (uint32_t i = 0; i < op->out.n; i++)
        for (uint32_t j = 0; j < op->in.n; j++) {
            const uint32_t t = op->out.at[i], p = op->in.at[j];
            MR_PUSH(run->ctx, &run->kin->parents[t], p);
            if (storage_of(run, t) != storage_of(run, p))
                put_in(run, &run->kin->waiting[storage_of(run, p)], t);
        }
    for (uint32_t j = 0; j < op->in.n; j++)
        for (uint32_t i = 0; i < op->out.n; i++)
            MR_PUSH(run->ctx, &run->kin->children[op->in.at[j]], op->out.at[i]);
}

void dtr_banish_evict(dtr_run *run, uint32_t storage)
{
    const mr_ids tensors = run->program->storages.at[storage].tensors;
    for (uint32_t i = 0; i < run->states[storage].tensors_n; i++) {
        const list *parents = &run->kin->parents[tensors.at[i]];
        for (uint32_t j = 0; j < parents->n; j++)
            if (storage_of(run, parents->at[j]) != storage)
                put_in(run, &run->kin->waiting[storage_of(run, parents->at[j])],
                       tensors.at[i]);
    }
}

/* Nothing leads to the tensor and from it any more. */
static void detach(dtr_run *run, uint32_t t, uint32_t storage)
{
    const list *parents = &run->kin->parents[t], *children = &run->kin->children[t];
    for (uint32_t j = 0; j < parents->n; j++) {
        const uint32_t p = parents->at[j];
        if (storage_of(run, p) == storage) continue;
        take_out(&run->kin->waiting[storage_of(run, p)], t);
        take_out(&run->kin->children[p], t);
    }
    for (uint32_t j = 0; j < children->n; j++) {
        const uint32_t c = children->at[j];
        if (storage_of(run, c) == storage) continue;
        take_out(&run->kin->parents[c], t);
        dtr_pin(run, storage_of(run, c));
    }
}

void dtr_banish_try(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    if (!s->released || run->kin->waiting[storage].n) return;
    if (s->present) {
        s->locks = 0;
        dtr_evict(run, storage, DTR_RELEASED);
    }
    const mr_ids tensors = run->program->storages.at[storage].tensors;
    for (uint32_t i = 0; i < s->tensors_n; i++) detach(run, tensors.at[i], storage);
}

/* After an op ran for the sake of a tensor: `came` are those of its outputs
 * that were missing. */
void dtr_banish_unlock(dtr_run *run, uint32_t tensor, mr_ids came)
{
    const list *parents = &run->kin->parents[tensor];
    for (uint32_t i = 0; i < parents->n; i++) { /* the list may shrink meanwhile */
        const uint32_t p = storage_of(run, parents->at[i]);
        dtr_unlock(run, p);
        for (uint32_t j = 0; j < came.n; j++)
            if (storage_of(run, came.at[j]) != p) take_out(&run->kin->waiting[p], came.at[j]);
        dtr_banish_try(run, p);
    }
}

/* ---- the neighbourhood, searched anew ---------------------------------------------------- */

static void search(dtr_run *run, uint32_t base, list *of, uint64_t *ns, uint64_t *accessed)
{
    const uint32_t from = run->found.n;
    MR_PUSH(run->ctx, &run->found, base);
    for (uint32_t i = from; i < run->found.n; i++) {
        const uint32_t s = run->found.at[i];
        for (uint32_t k = 0; k < run->states[s].tensors_n; k++) {
            const list *next = &of[run->program->storages.at[s].tensors.at[k]];
            for (uint32_t j = 0; j < next->n; j++) {
                const uint32_t u = storage_of(run, next->at[j]);
                dtr_state *state = &run->states[u];
                if (state->present || state->seen == run->search) continue;
                /* Seen by the search the other way: counted, but not searched this way yet. */
                const bool counted = state->seen == run->search - 1;
                state->seen = run->search;
                MR_PUSH(run->ctx, &run->found, u);
                if (counted) continue;
                *ns += state->ns;
                if (state->accessed > *accessed) *accessed = state->accessed;
            }
        }
    }
}

/* Time of the evicted storages around; the last access becomes that of all of them. */
uint64_t dtr_banish_around(dtr_run *run, uint32_t storage, bool both, uint64_t *accessed)
{
    uint64_t ns = 0;
    run->found.n = 0;
    run->search += 3; /* two searches, and marks of the last time are neither's */
    if (both) {
        run->search--;
        search(run, storage, run->kin->children, &ns, accessed);
        run->search++;
    }
    search(run, storage, run->kin->parents, &ns, accessed);
    return ns;
}
