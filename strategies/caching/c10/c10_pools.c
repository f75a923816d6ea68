/* c10_pools -- the default pool and private ones, each with a small and a large half. */
#include "c10_internal.h"

/* The set of a stream in half a pool, made when it is first asked for. */
uint32_t c10_set_of(c10_allocator *a, uint32_t pool, bool large, uint32_t stream)
{
    c10_half *half = &a->pools.at[pool].half[large];
    while (half->of_stream.n <= stream) MR_PUSH(a->ctx, &half->of_stream, MR_NONE);
    if (half->of_stream.at[stream] != MR_NONE) return half->of_stream.at[stream];
    const uint32_t s = a->sets.n;
    const c10_tree none = {MR_NONE, MR_NONE, MR_NONE, false};
    MR_PUSH(a->ctx, &a->sets, (c10_set){pool, stream, large, none, none});
    a->sets.at[s].holes.by_address = true;
    half->of_stream.at[stream] = s;
    MR_PUSH(a->ctx, &half->sets, s);
    for (uint32_t i = half->sets.n - 1; i && a->sets.at[half->sets.at[i - 1]].stream > stream; i--) {
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

/* A pool that is gone leaves its empty sets to the next. */
static uint32_t make(c10_allocator *a, uint64_t id)
{
    for (uint32_t i = 1; i < a->pools.n; i++) {
        c10_pool *pool = &a->pools.at[i];
        if (!pool->gone) continue;
        pool->gone = false;
        pool->id = id;
        pool->half[0].searches = pool->half[1].searches = 0;
        return i;
    }
    MR_PUSH(a->ctx, &a->pools, (c10_pool){.id = id});
    return a->pools.n - 1;
}

uint32_t c10_pool_hold(c10_allocator *a, uint64_t id)
{
    uint32_t pool = find(a, id);
    if (pool == MR_NONE) pool = make(a, id);
    a->pools.at[pool].holders++;
    return pool;
}

void c10_pool_create(c10_allocator *a, uint64_t id, c10_pool_flags flags)
{
    a->pools.at[c10_pool_hold(a, id)].flags = flags;
}

void c10_pool_begin(c10_allocator *a, uint64_t id, uint32_t stream)
{
    const uint32_t pool = c10_pool_hold(a, id);
    MR_PUSH(a->ctx, &a->diversions, (c10_diversion){pool, stream});
}

void c10_pool_end(c10_allocator *a, uint64_t id)
{
    uint32_t i = 0;
    while (i < a->diversions.n && a->pools.at[a->diversions.at[i].pool].id != id) i++;
    if (i == a->diversions.n) return;
    a->diversions.n--;
    for (; i < a->diversions.n; i++) a->diversions.at[i] = a->diversions.at[i + 1];
}

void c10_pool_release(c10_allocator *a, uint64_t id)
{
    const uint32_t pool = find(a, id);
    if (pool == MR_NONE || !a->pools.at[pool].holders) return;
    if (!--a->pools.at[pool].holders) MR_PUSH(a->ctx, &a->freeable, pool);
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
