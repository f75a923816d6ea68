/* cupy -- CuPy's memory pool: for each stream a set of chunks, best fit, exact sizes.
 *
 * The device is asked for exactly the rounded request, and whatever a chunk has beyond the
 * request is split off.  A segment goes back only when it is in one piece, by flush, or before
 * the pool refuses.  Of equally large chunks CuPy takes the one whose Python object lies
 * lowest, which nothing outside knows; here it is the chunk that lies lowest.
 */
#include "chunks.h"
#include "strategy.h"

enum { UNIT = 512 };

typedef struct settings {
    uint64_t limit;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, limit, "0", 0, 0,
                  "of what the pool takes, as CUPY_GPU_MEMORY_LIMIT; 0 for none"),
    {0},
};

typedef struct pool {
    chunks chunks;
    MR_VEC(chunks_bins *) arenas; /* by stream; NULL before its first free */
    uint64_t held, limit;
} pool;

static void add_free(pool *p, uint32_t id)
{
    const uint32_t stream = p->chunks.all.at[id].stream;
    while (p->arenas.n <= stream) MR_PUSH(p->chunks.ctx, &p->arenas, NULL);
    chunks_bins **arena = &p->arenas.at[stream];
    if (!*arena) *arena = chunks_bins_new(p->chunks.ctx);
    chunks_bins_add(&p->chunks, *arena, id);
}

static void remove_free(pool *p, uint32_t id)
{
    chunks_bins_remove(&p->chunks, p->arenas.at[p->chunks.all.at[id].stream], id);
}

/* ---- what the device is asked for -------------------------------------------------------- */

static bool free_whole(pool *p, mr_placer *placer, chunks_bins *arena)
{
    chunks_list list = {0};
    chunks_bins_list(&p->chunks, arena, &list);
    bool some = false;
    for (uint32_t i = 0; i < list.n; i++) {
        const uint32_t id = list.at[i];
        if (!chunks_whole(&p->chunks, id)) continue;
        p->held -= p->chunks.all.at[id].bytes;
        chunks_bins_remove(&p->chunks, arena, id);
        chunks_release(&p->chunks, placer, id);
        some = true;
    }
    return some;
}

/* free_all_blocks(): of all streams, all that is in one piece. */
static bool free_all(pool *p, mr_placer *placer)
{
    bool some = false;
    for (uint32_t i = 0; i < p->arenas.n; i++)
        if (p->arenas.at[i]) some |= free_whole(p, placer, p->arenas.at[i]);
    return some;
}

static uint32_t take(pool *p, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    if (p->limit && (bytes > p->limit || p->held > p->limit - bytes)) return MR_NONE;
    const uint32_t id = chunks_reserve(&p->chunks, placer, bytes, stream);
    if (id != MR_NONE) p->held += bytes;
    return id;
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint32_t reuse(pool *p, uint64_t bytes, uint32_t stream)
{
    if (stream >= p->arenas.n || !p->arenas.at[stream]) return MR_NONE;
    const uint32_t id = chunks_bins_find(p->arenas.at[stream], bytes);
    if (id == MR_NONE) return MR_NONE;
    remove_free(p, id);
    if (p->chunks.all.at[id].bytes > bytes) add_free(p, chunks_split(&p->chunks, id, bytes));
    return id;
}

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    pool *p = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, UNIT, &bytes)) return false;
    uint32_t id = reuse(p, bytes, request->stream);
    if (id == MR_NONE) id = take(p, placer, bytes, request->stream);
    if (id == MR_NONE && free_all(p, placer)) {
        placer->out->retries++;
        id = take(p, placer, bytes, request->stream);
    }
    if (id == MR_NONE) return false;
    *out = chunks_block(&p->chunks, id);
    return true;
}

static void pool_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    pool *p = self;
    if (!block->bytes) return;
    uint32_t id = block->handle;
    const uint32_t next = p->chunks.all.at[id].next, prev = p->chunks.all.at[id].prev;
    if (next != MR_NONE && p->chunks.all.at[next].free) {
        remove_free(p, next);
        chunks_join(&p->chunks, id);
    }
    if (prev != MR_NONE && p->chunks.all.at[prev].free) {
        remove_free(p, prev);
        chunks_join(&p->chunks, prev);
        id = prev;
    }
    add_free(p, id);
}

static void pool_flush(void *self, mr_placer *placer)
{
    free_all(self, placer);
}

static void pool_near(void *self, const mr_block *block, bool closer)
{
    const pool *p = self;
    chunks_near(&p->chunks, block, closer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    pool p = {.chunks = chunks_make(ctx), .limit = s->limit};
    out->out->limit = s->limit;
    const mr_online policy = {.self = &p,
                              .alloc = pool_alloc,
                              .free = pool_free,
                              .near = pool_near,
                              .flush = pool_flush};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_cupy = {
    .name = "cupy",
    .summary = "CuPy's memory pool: exact sizes, best fit in each stream, always split",
    .source = "CuPy, cupy/cuda/memory.pyx",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
