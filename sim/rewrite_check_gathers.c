/* rewrite_check_gathers -- a parameter of which a device holds a part is whole only by way of a
 * buffer:
 *
 *     parts ──► filled, in this order ──► all-gather ──► copied out, in the same order
 *
 * Values alone do not tell, since part and whole of a parameter have one number.  Nothing may
 * change a parameter between the filling and the copying.  On the way back, a buffer that is
 * filled with what devices have by themselves is sent.
 */
#include "rewrite_check_gathers.h"

typedef struct gathers {
    mr_ctx *ctx;
    const mr_trace *before, *after;
    uint32_t *filler;   /* by storage: the new op that filled it, MR_NONE */
    uint32_t *filled;   /* by storage: at which event */
    uint32_t *gathered; /* by storage: the all-gather since then, MR_NONE */
    uint32_t *changed;  /* by storage: event + 1 of the last op that changed it */
    bool *sent;         /* by storage: read since it was filled */
} gathers;

static uint32_t storage_of(const gathers *g, uint32_t tensor)
{
    return g->after->tensors.at[tensor].storage;
}

static bool is_divided(const gathers *g, uint32_t s)
{
    const mr_storage *now = &g->after->storages.at[s];
    if (s >= g->before->storages.n || now->role != MR_ROLE_parameter) return false;
    return now->before && now->bytes < g->before->storages.at[s].bytes;
}

/* ---- out of a buffer --------------------------------------------------------------------- */

/* Parts may be cast on their way in: to a buffer that all of this one comes from. */
static uint32_t first_of(const gathers *g, uint32_t buffer)
{
    const mr_ids in = g->after->ops.at[g->filler[buffer]].in;
    const uint32_t s = storage_of(g, in.at[0]);
    return in.n == 1 && g->filler[s] != MR_NONE ? s : buffer;
}

static bool is_filled_with(const gathers *g, uint32_t buffer, const mr_op *op, uint32_t i)
{
    const uint32_t s = storage_of(g, op->in.at[i]);
    buffer = first_of(g, buffer);
    const mr_ids parts = g->after->ops.at[g->filler[buffer]].in;
    return i < parts.n && storage_of(g, parts.at[i]) == s
           && g->changed[s] <= g->filled[buffer];
}

static mr_status check_whole(const gathers *g, uint32_t o, uint32_t i)
{
    const mr_op *op = &g->after->ops.at[o];
    const uint32_t s = storage_of(g, op->in.at[i]);
    const uint32_t b = op->in.n > op->out.n ? storage_of(g, op->in.at[op->out.n]) : MR_NONE;
    if (b == MR_NONE || g->filler[b] == MR_NONE || g->gathered[b] == MR_NONE)
        return mr_fail(g->ctx, MR_EINVARIANT,
                       "op %u (%s) makes all of storage %u, of which this device has a part,"
                       " expected a buffer with what an all-gather has brought of the others",
                       o, op->name, s);
    if (is_filled_with(g, b, op, i)) return MR_OK;
    return mr_fail(g->ctx, MR_EINVARIANT,
                   "op %u (%s) takes storage %u out of storage %u, which op %u (%s) has not"
                   " filled with it at that place, or before it was changed",
                   o, op->name, s, b, g->filler[b], g->after->ops.at[g->filler[b]].name);
}

static mr_status check_moves(const gathers *g, uint32_t o)
{
    const mr_op *op = &g->after->ops.at[o];
    for (uint32_t i = 0; op->moves && i < op->out.n && i < op->in.n; i++) {
        const uint32_t s = storage_of(g, op->in.at[i]);
        if (!is_divided(g, s)) continue;
        const uint64_t made = g->after->storages.at[storage_of(g, op->out.at[i])].bytes;
        if (made > g->after->storages.at[s].bytes) MR_TRY(check_whole(g, o, i));
    }
    return MR_OK;
}

/* ---- into a buffer ----------------------------------------------------------------------- */

static void note(gathers *g, uint32_t o, uint32_t event)
{
    const mr_op *op = &g->after->ops.at[o];
    const bool is_new = o >= g->before->ops.n && op->again == MR_NONE && !op->part;
    for (uint32_t i = 0; i < op->in.n; i++) g->sent[storage_of(g, op->in.at[i])] = true;
    for (uint32_t k = 0; k < op->mutates.n; k++) {
        const uint32_t s = storage_of(g, op->mutates.at[k]);
        g->changed[s] = event + 1;
        if (op->engine == MR_ENGINE_all_gather) g->gathered[s] = o;
    }
    for (uint32_t k = 0; k < op->out.n && is_new && op->in.n; k++) {
        const uint32_t s = storage_of(g, op->out.at[k]);
        if (s < g->before->storages.n) continue;
        g->filler[s] = o;
        g->filled[s] = event;
        g->gathered[s] = MR_NONE;
        g->sent[s] = false;
    }
}

/* Gradients that are put together for the other devices. */
static mr_status check_sent(const gathers *g)
{
    for (uint32_t s = g->before->storages.n; s < g->after->storages.n; s++) {
        const uint32_t o = g->filler[s];
        if (o == MR_NONE || g->sent[s] || g->after->storages.at[s].after) continue;
        const mr_op *op = &g->after->ops.at[o];
        if (op->phase != MR_BACKWARD || op->engine != MR_ENGINE_compute || op->moves) continue;
        return mr_fail(g->ctx, MR_EINVARIANT,
                       "op %u (%s) fills storage %u, which nothing reads, expected a collective"
                       " to send it",
                       o, op->name, s);
    }
    return MR_OK;
}

mr_status mr_rewrite_check_gathers(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    gathers g = {.ctx = ctx, .before = before, .after = after};
    if (after->ranks < 2 || before->ranks >= 2) return MR_OK;
    g.filler = mr_none_of(ctx, after->storages.n);
    g.filled = MR_NEW_N(ctx, uint32_t, after->storages.n);
    g.gathered = mr_none_of(ctx, after->storages.n);
    g.changed = MR_NEW_N(ctx, uint32_t, after->storages.n);
    g.sent = MR_NEW_N(ctx, bool, after->storages.n);
    for (uint32_t e = 0; e < after->events.n; e++) {
        if (after->events.at[e].kind != MR_RUN) continue;
        MR_TRY(check_moves(&g, after->events.at[e].id));
        note(&g, after->events.at[e].id, e);
    }
    return check_sent(&g);
}
