/* rewrite_check_streams -- an allocator hands memory on in the order of the stream that it
 * belongs to.  So that stream must come before a copy on another one, and wait for it
 * afterwards. */
#include "rewrite_check_streams.h"

typedef struct uses { /* by storage: ops that have to do with it first and last, MR_NONE */
    const mr_trace *trace;
    uint32_t *first, *last;
} uses;

static void touch(const uses *u, mr_ids ids, uint32_t o)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        const uint32_t s = u->trace->tensors.at[ids.at[i]].storage;
        if (u->first[s] == MR_NONE) u->first[s] = o;
        u->last[s] = o;
    }
}

/* A copy on another stream than the storage's. */
static bool is_beside(const mr_trace *trace, uint32_t o, uint32_t s)
{
    const mr_op *op = &trace->ops.at[o];
    if (op->engine != MR_ENGINE_to_host && op->engine != MR_ENGINE_from_host) return false;
    return op->stream != trace->storages.at[s].stream;
}

static mr_status check(mr_ctx *ctx, const uses *u, uint32_t s)
{
    const mr_storage *storage = &u->trace->storages.at[s];
    if (u->first[s] == MR_NONE || mr_is_host(storage->device)) return MR_OK;
    if (!storage->before && is_beside(u->trace, u->first[s], s))
        return mr_fail(ctx, MR_EINVARIANT,
                       "op %u (%s) takes storage %u on stream %u, expected that to be taken on"
                       " its own, %u",
                       u->first[s], u->trace->ops.at[u->first[s]].name, s,
                       u->trace->ops.at[u->first[s]].stream, storage->stream);
    if (!storage->after && is_beside(u->trace, u->last[s], s))
        return mr_fail(ctx, MR_EINVARIANT,
                       "op %u (%s) is the last to have to do with storage %u, on stream %u,"
                       " expected its own, %u, to wait for that",
                       u->last[s], u->trace->ops.at[u->last[s]].name, s,
                       u->trace->ops.at[u->last[s]].stream, storage->stream);
    return MR_OK;
}

mr_status mr_rewrite_check_streams(mr_ctx *ctx, const mr_trace *trace)
{
    const uses u = {trace, mr_none_of(ctx, trace->storages.n),
                    mr_none_of(ctx, trace->storages.n)};
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = trace->events.at[e].id;
        touch(&u, trace->ops.at[o].in, o);
        touch(&u, trace->ops.at[o].out, o);
        touch(&u, trace->ops.at[o].mutates, o);
    }
    for (uint32_t s = 0; s < trace->storages.n; s++) MR_TRY(check(ctx, &u, s));
    return MR_OK;
}
