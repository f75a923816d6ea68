/* replay -- the loop over commands: a backend carries them out, the sums are taken beside it.
 * */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

typedef struct replay {
    const mr_placement *placement;
    const mr_device *device;
    const mr_backend *backend;
    const mr_manner *manner;
    void *self;
} replay;

static mr_status carry_out(mr_ctx *ctx, const replay *r, const mr_cmd *cmd)
{
    const mr_backend *b = r->backend;
    const mr_block *block = &cmd->block;
    if (r->placement->ideal && cmd->kind <= MR_UNMAP) return MR_OK; /* asking costs nothing */
    const mr_segment *segment =
        block->segment == MR_NONE ? NULL : &r->placement->segments.at[block->segment];
    switch (cmd->kind) {
    case MR_RESERVE: return b->reserve(r->self, ctx, segment, block->segment);
    case MR_RELEASE: return b->release(r->self, ctx, segment, block->segment);
    case MR_MAP: return b->map(r->self, ctx, segment, block);
    case MR_UNMAP: return b->unmap(r->self, ctx, segment, block);
    case MR_BIND: return b->bind ? b->bind(r->self, ctx, cmd->id, block) : MR_OK;
    case MR_UNBIND: return b->unbind ? b->unbind(r->self, ctx, cmd->id) : MR_OK;
    case MR_EXEC: return b->exec(r->self, ctx, cmd->id);
    case MR_DEFER:
    case MR_REFUSE: break;
    }
    return MR_OK;
}

/* A device that did not do as told: which command it was. */
static mr_status step(mr_ctx *ctx, const replay *r, uint32_t c)
{
    if (r->manner->stop && r->manner->stop(r->manner->company))
        return mr_fail(ctx, MR_EDEVICE, "stopped at command %u of %u", c, r->placement->cmds.n);
    return carry_out(ctx, r, &r->placement->cmds.at[c]);
}

static bool asks_device(const mr_placement *placement, const mr_cmd *cmd)
{
    if (cmd->kind > MR_UNMAP || placement->ideal) return false;
    if (cmd->kind >= MR_MAP && cmd->block.handle == MR_STANDING) return false;
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

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *of, uint32_t n)
{
    if (!n) return 0;
    qsort(of, n, sizeof *of, by_size);
    return of[n / 2];
}

/* A device is never equally fast twice: of what iterations took, the first left out, which
 * fills the caches, the middle one counts. */
static void tell_taken(uint64_t *taken, uint32_t n, mr_metrics *out)
{
    if (n > 1) taken++, n--;
    out->time = median(taken, n);
    for (uint32_t i = 0; i < n; i++)
        taken[i] = taken[i] > out->time ? taken[i] - out->time : out->time - taken[i];
    out->spread = median(taken, n);
}

static void tell_measured(const mr_placement *placement, const mr_device *device,
                          const mr_times *end, uint64_t *taken, uint32_t n, mr_metrics *out)
{
    out->peak_device = end->held + device->context;
    memcpy(out->acts, end->acts, sizeof out->acts);
    out->disturbance = end->disturbance;
    if (!out->time) return;
    tell_taken(taken, n, out);
    out->throughput = throughput(placement->schedule->trace, out->time);
}

static mr_status loop(mr_ctx *ctx, const replay *r, mr_metrics *out)
{
    const mr_placement *placement = r->placement;
    const uint64_t granularity =
        placement->ideal || !r->device->granularity ? 1 : r->device->granularity;
    mr_levels levels = {0};
    MR_VEC(uint64_t) seams = {0}, taken = {0};
    mr_times start = {0}, last = {0}, end = {0};
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        if (c == placement->start) {
            MR_TRY(r->backend->times(r->self, ctx, &start));
            last = end = start;
        }
        MR_TRY(step(ctx, r, c));
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (c >= placement->start) out->device_calls += asks_device(placement, cmd);
        mr_levels_step(&levels, placement, cmd, granularity);
        raise(out, &levels, c, r->device->context);
        while (seams.n < placement->seams.n && placement->seams.at[seams.n] == c + 1) {
            last = end;
            MR_TRY(r->backend->times(r->self, ctx, &end));
            MR_PUSH(ctx, &seams, levels.reserved);
            MR_PUSH(ctx, &taken, end.now - last.now);
        }
    }
    MR_TRY(r->backend->times(r->self, ctx, &end));
    out->device_time = end.memory - start.memory;
    tell_time(placement, &last, &end, out);
    if (r->backend->real) tell_measured(placement, r->device, &end, taken.at, taken.n, out);
    out->growth = growth(seams.at, seams.n);
    return MR_OK;
}

mr_status mr_replay(mr_ctx *ctx, const mr_placement *placement, const mr_device *device,
                    const mr_backend *backend, const mr_manner *manner, mr_metrics *out)
{
    static const mr_manner usual;
    const mr_trace *trace = placement->schedule->trace;
    *out = (mr_metrics){.retries = placement->retries, .refusals = placement->refusals};
    replay r = {placement, device, backend, manner ? manner : &usual, NULL};
    const mr_assignment assignment = {device, trace, *r.manner, placement};
    if (backend->real && placement->ideal)
        return mr_fail(ctx, MR_EUNSUPPORTED, "no device can carry out what is only a bound");
    MR_TRY(backend->open(ctx, &assignment, &r.self));
    if (r.manner->meet) r.manner->meet(r.manner->company);
    return backend->close(r.self, ctx, loop(ctx, &r, out));
}
