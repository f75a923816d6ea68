/* c10_pools -- the default pool and private ones, each with a small and a large half. */
#include "c10_internal.h"

uint32_t c10_set_new(c10_allocator *a, uint32_t pool, bool large, uint32_t stream)
{
    c10_half *half = &a->pools.at[pool].half[large];
    while (half->of_stream.n <= stream) MR_PUSH(a->ctx, &half->of_stream, MR_NONE);
    const uint32_t s = a->sets.n;
    MR_PUSH(a->ctx, &a->sets, (c10_set){.pool = pool, .stream = stream, .large = large});
    c10_bins_init(a, &a->sets.at[s].free);
    a->sets.at[s].holes.root = MR_NONE;
    half->of_stream.at[stream] = s;
    MR_PUSH(a->ctx, &half->sets, s);
    for (uint32_t i = half->sets.n - 1; i && a->sets.at[half->sets.at[i - 1]].stream > stream;
         i--) {
        half->sets.at[i] = half->sets.at[i - 1];
        half->sets.at[i - 1] = s;
    }
    return s;
}

static uint32_t find(const c10_allocator *a, uint64_t id)
{
    for (uint32_t i = 1; i < a->pools.n; i++)
        if (!a->pools.at[i].gone && a->pools.at[i].id == id) return i;
    return MR_NONE;
}

static c10_pool_flags flags_of(const c10_allocator *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->marks.n; i++)
        if (a->marks.at[i].id == id) return a->marks.at[i].flags;
    return (c10_pool_flags){false, false};
}

/* A pool that is gone leaves its empty sets to the next. */
static uint32_t make(c10_allocator *a, uint64_t id)
{
    uint32_t i = 1;
    while (i < a->pools.n && !a->pools.at[i].gone) i++;
    if (i == a->pools.n) MR_PUSH(a->ctx, &a->pools, (c10_pool){.id = id});
    c10_pool *pool = &a->pools.at[i];
    pool->gone = false;
    pool->id = id;
    pool->no_split = flags_of(a, id).no_split;
    return i;
}

void c10_pool_gone(c10_allocator *a, uint32_t pool)
{
    a->pools.at[pool].gone = true;
    if (!a->quirks.no_split_dies) return;
    for (uint32_t i = 0; i < a->marks.n; i++)
        if (a->marks.at[i].id == a->pools.at[pool].id) a->marks.at[i].flags.no_split = false;
}

uint32_t c10_pool_hold(c10_allocator *a, uint64_t id)
{
    uint32_t pool = find(a, id);
    if (pool == MR_NONE) pool = make(a, id);
    else if (!a->pools.at[pool].holders) return MR_NONE;
    a->pools.at[pool].holders++;
    return pool;
}

static mr_status unheld(c10_allocator *a)
{
    return c10_break(a, "assertion",
                     "a pool that nobody holds any more cannot be taken up again");
}

static mr_status lacking(c10_allocator *a, const char *what)
{
    return mr_fail(a->ctx, MR_EUNSUPPORTED, "this version has no %s; a newer release does",
                   what);
}

static void mark(c10_allocator *a, uint64_t id, c10_pool_flags flags)
{
    uint32_t i = 0;
    while (i < a->marks.n && a->marks.at[i].id != id) i++;
    if (i == a->marks.n) MR_PUSH(a->ctx, &a->marks, (c10_mark){id, flags});
    a->marks.at[i].flags.use_on_oom |= flags.use_on_oom;
    a->marks.at[i].flags.no_split |= flags.no_split;
}

mr_status c10_pool_create(c10_allocator *a, uint64_t id, c10_pool_flags flags)
{
    if (!a->quirks.pools_made) return lacking(a, "pool_create");
    const uint32_t pool = c10_pool_hold(a, id);
    if (pool == MR_NONE) return unheld(a);
    if (flags.use_on_oom && !a->quirks.pools_for_oom) return lacking(a, "use_on_oom");
    if (flags.no_split && !a->quirks.pools_unsplit) return lacking(a, "no_split");
    if (flags.use_on_oom || flags.no_split) mark(a, id, flags);
    a->pools.at[pool].no_split |= flags.no_split;
    return MR_OK;
}

static uint32_t diversion_to(const c10_allocator *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->diversions.n; i++)
        if (a->pools.at[a->diversions.at[i].pool].id == id) return i;
    return MR_NONE;
}

mr_status c10_pool_begin(c10_allocator *a, uint64_t id, uint32_t stream)
{
    const uint32_t pool = c10_pool_hold(a, id);
    if (pool == MR_NONE) return unheld(a);
    if (diversion_to(a, id) != MR_NONE)
        return mr_fail(a->ctx, MR_EINPUT,
                       "beginAllocateToPool: already recording to mempool_id; "
                       "pool %llu is being recorded",
                       (unsigned long long)id);
    MR_PUSH(a->ctx, &a->diversions, (c10_diversion){pool, stream});
    return MR_OK;
}

mr_status c10_pool_end(c10_allocator *a, uint64_t id)
{
    const uint32_t pool = find(a, id);
    if (a->quirks.end_completes && a->options.graph_capture_record_stream_reuse
        && pool != MR_NONE)
        c10_complete_deferred(a, pool);
    uint32_t i = diversion_to(a, id);
    if (i == MR_NONE)
        return mr_fail(a->ctx, MR_EINPUT,
                       "endAllocatePool: not currently recording to "
                       "mempool_id; pool %llu is not being recorded",
                       (unsigned long long)id);
    a->diversions.n--;
    for (; i < a->diversions.n; i++) a->diversions.at[i] = a->diversions.at[i + 1];
    return MR_OK;
}

mr_status c10_pool_release(c10_allocator *a, uint64_t id)
{
    const uint32_t pool = find(a, id);
    if (pool == MR_NONE || !a->pools.at[pool].holders)
        return c10_break(a, "assertion", "a pool that nobody holds cannot be released");
    if (!--a->pools.at[pool].holders) MR_PUSH(a->ctx, &a->freeable, pool);
    return MR_OK;
}

void c10_capture_begin(c10_allocator *a)
{
    a->capturing = true;
}

void c10_capture_end(c10_allocator *a)
{
    a->capturing = false;
}

uint32_t c10_pool_for(const c10_allocator *a, uint32_t stream)
{
    const uint32_t n = a->diversions.n;
    for (uint32_t i = 0; i < n; i++) {
        const c10_diversion *d = &a->diversions.at[a->quirks.last_pool_wins ? n - 1 - i : i];
        if (d->stream == MR_NONE || d->stream == stream) return d->pool;
    }
    return 0;
}
