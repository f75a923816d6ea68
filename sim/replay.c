/* replay -- the loop over commands: a backend carries them out, the sums are taken beside it.
 * */
#include "metrics.h"

typedef struct replay {
    const mr_placement *placement;
    const mr_backend *backend;
    void *self;
    mr_block *where; /* by storage */
} replay;

static mr_status carry_out(mr_ctx *ctx, replay *r, const mr_cmd *cmd)
{
    if (r->placement->ideal && cmd->kind <= MR_UNMAP) return MR_OK; /* asking costs nothing */
    const mr_segment *segment =
        cmd->block.segment == MR_NONE ? NULL : &r->placement->segments.at[cmd->block.segment];
    switch (cmd->kind) {
    case MR_RESERVE: return r->backend->reserve(r->self, ctx, segment, cmd->block.segment);
    case MR_RELEASE: r->backend->release(r->self, segment, cmd->block.segment); break;
    case MR_MAP: return r->backend->map(r->self, ctx, segment, &cmd->block);
    case MR_UNMAP: r->backend->unmap(r->self, segment, &cmd->block); break;
    case MR_BIND: r->where[cmd->id] = cmd->block; break;
    case MR_EXEC: return r->backend->exec(r->self, ctx, cmd->id, r->where);
    case MR_DEFER:
    case MR_UNBIND:
    case MR_REFUSE: break;
    }
    return MR_OK;
}

static bool asks_device(const mr_placement *placement, const mr_cmd *cmd)
{
    if (cmd->kind > MR_UNMAP || placement->ideal) return false;
    const bool call = cmd->kind == MR_RESERVE || cmd->kind == MR_RELEASE;
    return !call || !placement->segments.at[cmd->block.segment].expandable;
}

static uint64_t more(uint64_t peak, uint64_t level)
{
    return level > peak ? level : peak;
}

static void raise(mr_metrics *out, const mr_levels *levels, uint32_t command, uint64_t context)
{
    out->peak_requested = more(out->peak_requested, levels->requested);
    out->peak_allocated = more(out->peak_allocated, levels->allocated);
    out->peak_device = more(out->peak_device, levels->device + context);
    if (levels->reserved > out->peak_reserved) {
        out->peak_reserved = levels->reserved;
        out->peak_at = command;
        out->fragmentation = levels->reserved - levels->allocated;
    } else if (levels->reserved == out->peak_reserved
               && levels->reserved - levels->allocated < out->fragmentation) {
        out->fragmentation = levels->reserved - levels->allocated; /* at its fullest */
    }
}

/* Slope of reserved memory over the iterations, from the second to the last. */
static uint64_t growth(const uint64_t *seams, uint32_t n)
{
    if (n < 2) return 0;
    const uint32_t first = n > 2 ? 1 : 0;
    const uint64_t low = seams[first], high = seams[n - 1];
    return high > low ? (high - low) / (n - 1 - first) : 0;
}

/* A number as people write one; 0 for anything else. */
static uint64_t number(const char *text)
{
    uint64_t n = 0;
    if (!text || !*text) return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || n > UINT32_MAX) return 0;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    return n;
}

/* Samples in a thousand seconds. */
static uint64_t throughput(const mr_trace *trace, uint64_t ns)
{
    const uint64_t batch = number(trace->about[MR_ABOUT_batch]);
    const uint64_t steps = number(trace->about[MR_ABOUT_steps]);
    if (!ns) return 0;
    const double rate = (double)batch * (double)(steps ? steps : 1) * 1e12 / (double)ns;
    return rate < 1e18 ? (uint64_t)(rate + 0.5) : 0;
}

/* What the last iteration took, from the end of the one before; nothing where it did not come
 * to its end, or where there was nothing to be run. */
static void tell_time(const mr_placement *placement, const mr_times *from, const mr_times *to,
                      mr_metrics *out)
{
    const mr_trace *trace = placement->schedule->trace;
    if (!trace->ops.n || placement->oom_at != MR_NONE) return;
    out->time = to->now - from->now;
    out->recompute = to->recompute - from->recompute;
    out->starved = to->starved - from->starved;
    out->exposed = to->exposed - from->exposed;
    out->throughput = throughput(trace, out->time);
}

static mr_status loop(mr_ctx *ctx, replay *r, const mr_device *device, mr_metrics *out)
{
    const mr_placement *placement = r->placement;
    const uint64_t granularity = placement->ideal || !device->granularity ? 1
                                                                          : device->granularity;
    mr_levels levels = {0};
    MR_VEC(uint64_t) seams = {0};
    mr_times start = {0}, last = {0}, end;
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (c == placement->start) start = last = r->backend->times(r->self);
        MR_TRY(carry_out(ctx, r, cmd));
        if (c >= placement->start) out->device_calls += asks_device(placement, cmd);
        mr_levels_step(&levels, placement, cmd, granularity);
        raise(out, &levels, c, device->context);
        while (seams.n < placement->seams.n && placement->seams.at[seams.n] == c + 1) {
            MR_PUSH(ctx, &seams, levels.reserved);
            if (seams.n < placement->seams.n) last = r->backend->times(r->self);
        }
    }
    end = r->backend->times(r->self);
    out->device_time = end.memory - start.memory;
    tell_time(placement, &last, &end, out);
    out->growth = growth(seams.at, seams.n);
    return MR_OK;
}

mr_status mr_replay(mr_ctx *ctx, const mr_placement *placement, const mr_device *device,
                    const mr_backend *backend, mr_metrics *out)
{
    *out = (mr_metrics){.retries = placement->retries, .refusals = placement->refusals};
    replay r = {.placement = placement,
                .backend = backend,
                .where = MR_NEW_N(ctx, mr_block, placement->schedule->trace->storages.n)};
    MR_TRY(backend->open(ctx, device, placement->schedule->trace, &r.self));
    const mr_status status = loop(ctx, &r, device, out);
    backend->close(r.self);
    return status;
}
