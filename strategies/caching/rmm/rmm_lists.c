/* rmm_lists -- search, stealing, merging of lists, growth.
 *
 * The original goes through the lists of other streams in the order of their events' handles;
 * here it is the order of the streams in the trace.
 */
#include "rmm_lists.h"

uint64_t rmm_percent(const mr_placer *placer, uint64_t percent)
{
    const uint64_t all =
        placer->total < placer->capacity ? placer->total : placer->capacity;
    return (uint64_t)((double)all * ((double)percent / 100)) / RMM_UNIT * RMM_UNIT;
}

rmm_lists rmm_lists_make(mr_ctx *ctx, uint64_t initial, uint64_t maximum)
{
    return (rmm_lists){.chunks = chunks_make(ctx), .initial = initial, .maximum = maximum};
}

static chunks_bins *list_of(rmm_lists *pool, uint32_t stream)
{
    while (pool->lists.n <= stream)
        MR_PUSH(pool->chunks.ctx, &pool->lists, chunks_bins_new(pool->chunks.ctx));
    return pool->lists.at[stream];
}

/* Chunks that touch in one upstream allocation merge when both are in this list. */
static void insert(rmm_lists *pool, uint32_t id, uint32_t stream)
{
    chunks *c = &pool->chunks;
    chunks_bins *list = list_of(pool, stream);
    c->all.at[id].stream = stream;
    const uint32_t next = c->all.at[id].next, prev = c->all.at[id].prev;
    if (next != MR_NONE && c->all.at[next].free && c->all.at[next].stream == stream) {
        chunks_bins_remove(c, list, next);
        chunks_join(c, id);
    }
    if (prev != MR_NONE && c->all.at[prev].free && c->all.at[prev].stream == stream) {
        chunks_bins_remove(c, list, prev);
        chunks_join(c, prev);
        id = prev;
    }
    chunks_bins_add(c, list, id);
}

void rmm_lists_free(rmm_lists *pool, uint32_t id)
{
    insert(pool, id, pool->chunks.all.at[id].stream);
}

/* ---- search ------------------------------------------------------------------------------ */

/* Best fit in the list of `from`, where the rest stays. */
static uint32_t take_from(rmm_lists *pool, uint64_t bytes, uint32_t from)
{
    chunks_bins *list = list_of(pool, from);
    const uint32_t id = chunks_bins_find(list, bytes);
    if (id == MR_NONE) return MR_NONE;
    chunks_bins_remove(&pool->chunks, list, id);
    if (pool->chunks.all.at[id].bytes > bytes)
        insert(pool, chunks_split(&pool->chunks, id, bytes), from);
    return id;
}

static uint32_t steal(rmm_lists *pool, uint64_t bytes, uint32_t stream)
{
    for (uint32_t from = 0; from < pool->lists.n; from++) {
        const uint32_t id = from == stream ? MR_NONE : take_from(pool, bytes, from);
        if (id != MR_NONE) return id;
    }
    return MR_NONE;
}

static void move_list(rmm_lists *pool, uint32_t from, uint32_t to)
{
    chunks_bins *list = list_of(pool, from);
    if (!list->some) return;
    chunks_list all = {0};
    chunks_bins_list(&pool->chunks, list, &all);
    for (uint32_t i = 0; i < all.n; i++) chunks_bins_remove(&pool->chunks, list, all.at[i]);
    for (uint32_t i = 0; i < all.n; i++) insert(pool, all.at[i], to);
}

/* One list after the other becomes the requester's, until something has room. */
static uint32_t merge_lists(rmm_lists *pool, uint64_t bytes, uint32_t stream)
{
    for (uint32_t from = 0; from < pool->lists.n; from++) {
        if (from == stream || !pool->lists.at[from]->some) continue;
        move_list(pool, from, stream);
        const uint32_t id = take_from(pool, bytes, stream);
        if (id != MR_NONE) return id;
    }
    return MR_NONE;
}

/* ---- growth ------------------------------------------------------------------------------ */

/* Asks upstream for `bytes`, then for half of that again and again, down to `least`. */
static uint32_t expand(rmm_lists *pool, mr_placer *placer, uint64_t bytes, uint64_t least,
                       uint32_t stream)
{
    while (bytes >= least) {
        const uint32_t id = chunks_reserve(&pool->chunks, placer, bytes, stream);
        if (id != MR_NONE) {
            pool->held += bytes;
            return id;
        }
        if (bytes == least) break;
        bytes = bytes / 2 > least ? bytes / 2 : least;
    }
    return MR_NONE;
}

/* Doubles, or goes half of the way to the maximum. */
static uint64_t growth(const rmm_lists *pool, uint64_t bytes)
{
    if (!pool->maximum) return bytes > pool->held ? bytes : pool->held;
    const uint64_t left = pool->maximum > pool->held ? pool->maximum - pool->held : 0;
    const uint64_t room = (left + RMM_UNIT - 1) / RMM_UNIT * RMM_UNIT;
    if (bytes > room) return 0;
    return bytes > room / 2 ? bytes : room / 2;
}

static void begin(rmm_lists *pool, mr_placer *placer)
{
    pool->begun = true;
    if (!pool->initial) return;
    const uint32_t id = expand(pool, placer, pool->initial, pool->initial, 0);
    pool->broken = id == MR_NONE;
    if (!pool->broken) insert(pool, id, 0);
}

uint32_t rmm_lists_alloc(rmm_lists *pool, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    if (!pool->begun) begin(pool, placer);
    if (pool->broken) return MR_NONE;
    uint32_t id = take_from(pool, bytes, stream);
    if (id == MR_NONE) id = steal(pool, bytes, stream);
    if (id == MR_NONE) id = merge_lists(pool, bytes, stream);
    if (id == MR_NONE) {
        id = expand(pool, placer, growth(pool, bytes), bytes, stream);
        if (id == MR_NONE) return MR_NONE;
        if (pool->chunks.all.at[id].bytes > bytes)
            insert(pool, chunks_split(&pool->chunks, id, bytes), stream);
    }
    pool->chunks.all.at[id].stream = stream;
    return id;
}
