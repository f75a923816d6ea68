/* timeline -- clocks that move forward. */
#include "timeline.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Clocks stop at the end of time instead of beginning anew. */
static uint64_t after(uint64_t time, uint64_t ns)
{
    return time > UINT64_MAX - ns ? UINT64_MAX : time + ns;
}

void mr_timeline_begin(mr_ctx *ctx, mr_timeline *timeline)
{
    *timeline = (mr_timeline){.ctx = ctx};
}

void mr_timeline_host(mr_timeline *timeline, uint64_t ns)
{
    timeline->host = after(timeline->host, ns);
}

/* The gap before `start` is the host's as far as the op was not issued yet; the rest was spent
 * waiting for a transfer. */
static void account(mr_timeline *t, uint64_t start, uint64_t issued)
{
    if (start <= t->busy) return;
    const uint64_t ready = issued < t->busy ? t->busy : issued < start ? issued : start;
    t->starved += ready - t->busy;
    t->exposed += start - ready;
    t->busy = start;
}

static uint64_t *link_of(mr_timeline *t, mr_engine engine)
{
    switch (engine) {
    case MR_ENGINE_compute:
    case MR_ENGINE_wait: return NULL;
    case MR_ENGINE_to_host:
    case MR_ENGINE_from_host: return &t->links[engine]; /* both ways at once */
    default: return &t->links[MR_ENGINE_all_reduce];
    }
}

static uint64_t *stream_of(mr_timeline *t, uint32_t stream)
{
    while (t->streams.n <= stream) MR_PUSH(t->ctx, &t->streams, 0);
    return &t->streams.at[stream];
}

static uint64_t latest(const mr_trace *trace, mr_ids tensors, const uint64_t *times)
{
    uint64_t time = 0;
    for (uint32_t i = 0; i < tensors.n; i++)
        time = later(time, times[trace->tensors.at[tensors.at[i]].storage]);
    return time;
}

static void stamp(const mr_trace *trace, mr_ids tensors, uint64_t *times, uint64_t time)
{
    for (uint32_t i = 0; i < tensors.n; i++) {
        uint64_t *at = &times[trace->tensors.at[tensors.at[i]].storage];
        *at = later(*at, time);
    }
}

static uint64_t start_of(mr_timeline *t, const mr_trace *trace, const mr_op *op)
{
    const uint64_t *link = link_of(t, (mr_engine)op->engine);
    uint64_t start = later(t->host, *stream_of(t, op->stream));
    if (link) start = later(start, *link);
    start = later(start, latest(trace, op->in, t->written));
    start = later(start, latest(trace, op->out, t->touched));
    return later(start, latest(trace, op->mutates, t->touched));
}

void mr_timeline_run(mr_timeline *t, const mr_trace *trace, const mr_op *op, uint64_t host_ns,
                     uint64_t device_ns)
{
    mr_timeline_host(t, host_ns);
    if (!device_ns && op->engine != MR_ENGINE_wait) return;
    if (!t->written) {
        t->written = MR_NEW_N(t->ctx, uint64_t, trace->storages.n);
        t->touched = MR_NEW_N(t->ctx, uint64_t, trace->storages.n);
    }
    const uint64_t start = start_of(t, trace, op), end = after(start, device_ns);
    uint64_t *link = link_of(t, (mr_engine)op->engine);
    *stream_of(t, op->stream) = end;
    if (link) {
        *link = end;
    } else if (op->engine != MR_ENGINE_wait) {
        account(t, start, t->host);
        t->busy = later(t->busy, end);
    }
    stamp(trace, op->in, t->touched, end);
    stamp(trace, op->out, t->touched, end);
    stamp(trace, op->out, t->written, end);
    stamp(trace, op->mutates, t->touched, end);
    stamp(trace, op->mutates, t->written, end);
}

void mr_timeline_join(mr_timeline *t, uint32_t stream)
{
    t->host = later(t->host, *stream_of(t, stream));
}

/* What still runs when the last kernel is done can only be transfers. */
void mr_timeline_settle(mr_timeline *t)
{
    uint64_t end = 0;
    for (uint32_t s = 0; s < t->streams.n; s++) end = later(end, t->streams.at[s]);
    account(t, end, t->host);
    t->host = later(t->host, end);
}

uint64_t mr_timeline_now(mr_timeline *t)
{
    mr_timeline_settle(t);
    account(t, t->host, t->host);
    return t->host;
}
