/* rewrite_check_devices -- of every gradient each device has made its own, until a collective
 * has added them up:
 *
 *     backward pass      own ──► bucket, copies: own ──► all-reduce, reduce-scatter: of all
 *     update             reads only what is of all
 *
 * What is made of several things is this device's own as long as one of them is.  Where states
 * of an optimizer are divided among devices, a parameter is brought up to date in part, until
 * an all-gather has the rest.
 */
#include "rewrite_check_devices.h"

#include <string.h>

enum { NEITHER, OWN, OF_ALL }; /* what a storage has of gradients */

typedef struct devices {
    mr_ctx *ctx;
    const mr_trace *before, *after;
    uint8_t *has;   /* by storage of after */
    uint32_t *own;  /* by storage: the op that made what is this device's own */
    uint32_t *part; /* by storage: the op that brought a part of it up to date, MR_NONE */
} devices;

static uint32_t storage_of(const devices *d, uint32_t tensor)
{
    return d->after->tensors.at[tensor].storage;
}

static bool adds_up(const mr_op *op)
{
    return op->engine == MR_ENGINE_all_reduce || op->engine == MR_ENGINE_reduce_scatter;
}

/* ---- gradients --------------------------------------------------------------------------- */

/* A copy in place lists what it overwrites first, though nothing of that is left. */
static bool is_overwritten(const mr_op *op, uint32_t i)
{
    return !i && op->in.n > 1 && op->mutates.n == 1 && op->in.at[0] == op->mutates.at[0]
           && strstr(op->name, "copy_");
}

/* The input that makes the results this device's own; MR_NONE when there is none. */
static uint32_t own_input(const devices *d, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (d->has[storage_of(d, op->in.at[i])] == OWN && !is_overwritten(op, i))
            return op->in.at[i];
    return MR_NONE;
}

static bool any_of_all(const devices *d, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (d->has[storage_of(d, op->in.at[i])] == OF_ALL && !is_overwritten(op, i))
            return true;
    return false;
}

static bool is_view(const devices *d, const mr_op *op, uint32_t storage)
{
    for (uint32_t i = 0; i < op->in.n; i++)
        if (storage_of(d, op->in.at[i]) == storage) return true;
    return false;
}

static void make(devices *d, uint32_t o, uint32_t storage, uint8_t what)
{
    d->has[storage] = what;
    d->own[storage] = o;
}

static void note_results(devices *d, uint32_t o)
{
    const mr_op *op = &d->after->ops.at[o];
    const bool own = own_input(d, op) != MR_NONE, all = any_of_all(d, op);
    uint8_t what = own ? OWN : all ? OF_ALL : op->phase == MR_BACKWARD ? OWN : NEITHER;
    if (adds_up(op)) what = OF_ALL;
    for (uint32_t k = 0; k < op->out.n; k++)
        if (!is_view(d, op, storage_of(d, op->out.at[k])))
            make(d, o, storage_of(d, op->out.at[k]), what);
    for (uint32_t k = 0; k < op->mutates.n; k++)
        make(d, o, storage_of(d, op->mutates.at[k]), what);
}

/* A gradient that nobody has made in this step; MR_NONE when there is none. */
static uint32_t stale_input(const devices *d, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = storage_of(d, op->in.at[i]);
        if (d->after->storages.at[s].role == MR_ROLE_gradient && d->has[s] == NEITHER)
            return op->in.at[i];
    }
    return MR_NONE;
}

static mr_status check_update(const devices *d, uint32_t o)
{
    const mr_op *op = &d->after->ops.at[o];
    const uint32_t t = own_input(d, op), stale = stale_input(d, op);
    if (op->phase != MR_UPDATE || adds_up(op)) return MR_OK;
    if (stale != MR_NONE)
        return mr_fail(d->ctx, MR_EINVARIANT,
                       "op %u (%s) updates by tensor %u, a gradient of a step before, expected"
                       " a collective to have added up those of all devices",
                       o, op->name, stale);
    if (t == MR_NONE) return MR_OK;
    const uint32_t maker = d->own[storage_of(d, t)];
    return mr_fail(d->ctx, MR_EINVARIANT,
                   "op %u (%s) updates by tensor %u, which op %u (%s) has made on this device"
                   " alone, expected a collective between them to add up those of all devices",
                   o, op->name, t, maker, d->after->ops.at[maker].name);
}

/* ---- parameters -------------------------------------------------------------------------- */

static bool is_divided(const devices *d, uint32_t storage)
{
    return storage < d->before->storages.n && d->before->storages.at[storage].before
           && d->after->storages.at[storage].bytes < d->before->storages.at[storage].bytes;
}

static bool works_on_parts(const devices *d, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n && op->phase == MR_UPDATE; i++) {
        const uint32_t s = storage_of(d, op->in.at[i]);
        if (d->after->storages.at[s].role == MR_ROLE_state && is_divided(d, s)) return true;
    }
    return false;
}

/* How many parameters the op changes before anything else, such as their states. */
static uint32_t count_parameters(const devices *d, const mr_op *op)
{
    uint32_t n = 0;
    while (n < op->mutates.n
           && d->after->storages.at[storage_of(d, op->mutates.at[n])].role == MR_ROLE_parameter)
        n++;
    return n;
}

/* An op over lists has at place k of each what belongs to parameter k: a parameter of fewer rows
 * than devices is whole on one of them, and so is its state. */
static bool has_whole_state(const devices *d, const mr_op *op, uint32_t k)
{
    const uint32_t n = count_parameters(d, op);
    uint32_t states = 0;
    if (k >= n) return false;
    for (uint32_t i = k; op->in.n % n == 0 && i < op->in.n; i += n) {
        const uint32_t s = storage_of(d, op->in.at[i]);
        if (d->after->storages.at[s].role != MR_ROLE_state) continue;
        if (is_divided(d, s)) return false;
        states++;
    }
    return states > 0;
}

static void note_parts(devices *d, uint32_t o)
{
    const mr_op *op = &d->after->ops.at[o];
    const bool gathers = op->engine == MR_ENGINE_all_gather;
    if (!gathers && !works_on_parts(d, op)) return;
    for (uint32_t k = 0; k < op->mutates.n; k++) {
        const uint32_t s = storage_of(d, op->mutates.at[k]);
        if (d->after->storages.at[s].role != MR_ROLE_parameter) continue;
        if (!gathers && has_whole_state(d, op, k)) continue;
        d->part[s] = gathers || is_divided(d, s) ? MR_NONE : o;
    }
}

static mr_status check_end(const devices *d)
{
    for (uint32_t s = 0; s < d->after->storages.n; s++)
        if (d->part[s] != MR_NONE)
            return mr_fail(d->ctx, MR_EINVARIANT,
                           "op %u (%s) brings a part of storage %u up to date, expected an"
                           " all-gather of the other parts after it",
                           d->part[s], d->after->ops.at[d->part[s]].name, s);
    return MR_OK;
}

mr_status mr_rewrite_check_devices(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    devices d = {.ctx = ctx, .before = before, .after = after};
    if (after->ranks < 2) return MR_OK;
    d.has = MR_NEW_N(ctx, uint8_t, after->storages.n);
    d.own = mr_none_of(ctx, after->storages.n);
    d.part = mr_none_of(ctx, after->storages.n);
    for (uint32_t e = 0; e < after->events.n; e++) {
        if (after->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = after->events.at[e].id;
        MR_TRY(check_update(&d, o));
        note_results(&d, o);
        note_parts(&d, o);
    }
    return before->ranks < 2 ? check_end(&d) : MR_OK;
}
