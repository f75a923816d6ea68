/* replica_fill -- gradients, in the order in which they get ready, into buckets. */
#include "replica.h"

static mr_status refuse(mr_ctx *ctx, const mr_trace *in, const char *why)
{
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "'%s' %s, expected a step whose update reads the gradients of its own backward"
        " pass, all of them ready",
        in->name, why);
}

/* Which storages are gradients, made here and read by the update? */
static mr_status find(mr_ctx *ctx, const mr_trace *in, bool *gradient)
{
    bool updated = false;
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        updated |= op->phase == MR_UPDATE;
        if (op->ranks > 1) return refuse(ctx, in, "runs on several devices already");
        if (in->ranks == 1) return refuse(ctx, in, "has buckets for several devices already");
        if (op->phase == MR_BACKWARD && updated)
            return refuse(ctx, in, "updates parameters before its backward pass is over");
        for (uint32_t i = 0; i < op->in.n && op->phase == MR_UPDATE; i++) {
            const uint32_t s = in->tensors.at[op->in.at[i]].storage;
            if (in->storages.at[s].role != MR_ROLE_gradient) continue;
            if (in->storages.at[s].before)
                return refuse(ctx, in, "keeps gradients from one step to the next");
            gradient[s] = true;
        }
    }
    return MR_OK;
}

typedef struct finish {
    uint32_t *last, *tensor; /* by storage: op that finishes it, its last tensor */
} finish;

static void see(const mr_trace *in, const bool *gradient, mr_ids ids, uint32_t op, finish *f)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = in->tensors.at[ids.at[i]].storage;
        if (!gradient[s]) continue;
        f->last[s] = op;
        f->tensor[s] = ids.at[i];
    }
}

enum { USUAL = 25, USUAL_FIRST = 1 }; /* MiB */

/* When a bucket is full; the first one starts early. */
static uint64_t cap(const replica_choice *choice, uint32_t buckets)
{
    const uint64_t usual = buckets > 1 ? USUAL : USUAL_FIRST;
    return (choice->bucket_cap_mb ? choice->bucket_cap_mb : usual) * MR_MIB;
}

/* As compute_bucket_assignment_by_size: full once it has reached its size. */
static void put(mr_ctx *ctx, const mr_trace *in, const replica_choice *choice, uint32_t tensor,
                uint32_t op, replica_buckets *out)
{
    const uint64_t limit = cap(choice, out->all.n);
    replica_bucket *last = out->all.n ? &out->all.at[out->all.n - 1] : NULL;
    if (!last || last->bytes >= limit) {
        const replica_bucket empty = {.first = out->gradients.n};
        MR_PUSH(ctx, &out->all, empty);
        last = &out->all.at[out->all.n - 1];
    }
    const replica_gradient one = {tensor, out->all.n - 1, last->bytes};
    out->of[in->tensors.at[tensor].storage] = out->gradients.n;
    MR_PUSH(ctx, &out->gradients, one);
    last->bytes += in->tensors.at[tensor].bytes;
    last->n++;
    last->ready = op;
}

mr_status replica_fill(mr_ctx *ctx, const mr_trace *in, const replica_choice *choice,
                       replica_buckets *out)
{
    bool *gradient = MR_NEW_N(ctx, bool, in->storages.n);
    finish f = {mr_none_of(ctx, in->storages.n), mr_none_of(ctx, in->storages.n)};
    *out = (replica_buckets){.of = mr_none_of(ctx, in->storages.n),
                             .first = mr_none_of(ctx, in->ops.n),
                             .next = mr_none_of(ctx, in->storages.n)};
    MR_TRY(find(ctx, in, gradient));
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        if (in->events.at[e].kind != MR_RUN || op->phase != MR_BACKWARD) continue;
        see(in, gradient, op->in, in->events.at[e].id, &f);
        see(in, gradient, op->mutates, in->events.at[e].id, &f);
        see(in, gradient, op->out, in->events.at[e].id, &f);
    }
    for (uint32_t s = in->storages.n; s-- > 0;) {
        if (f.last[s] == MR_NONE) continue;
        out->next[s] = out->first[f.last[s]];
        out->first[f.last[s]] = s;
    }
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = in->events.at[e].id;
        for (uint32_t s = out->first[o]; s != MR_NONE; s = out->next[s])
            put(ctx, in, choice, f.tensor[s], o, out);
    }
    return out->gradients.n ? MR_OK : refuse(ctx, in, "has no gradients that an update reads");
}
