/* cudamallocasync -- a model of cudaMallocAsync: an idealised stream-ordered pool.
 *
 * What the driver does inside is not public.  Documented, and followed here: memory freed in a
 * stream serves that stream at once; others get it when the driver may make them wait
 * (reuse_allow_internal_dependencies), or after a synchronisation; then the pool also gives
 * back what it holds above its threshold.  A flush synchronises the device.  The other two
 * reuse policies hang on events and on time that a recording does not tell.  Supposed: best
 * fit, splitting to 512 bytes, and growth in steps.  On a GPU the driver's pool is asked for
 * every storage, and does as it does.
 */
#include "chunks.h"
#include "strategy.h"

enum { UNIT = 512, EVERYBODY = 0 };

typedef struct settings {
    uint64_t release_threshold, step;
    bool reuse_allow_internal_dependencies;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, release_threshold, "0", 0, 0,
                  "bytes the pool may keep when a flush synchronises the device"),
    MR_PARAM_BOOL(settings, reuse_allow_internal_dependencies, "True",
                  "a stream may be made to wait for another one's free memory"),
    MR_PARAM_SIZE(settings, step, "32MiB", 512, 1e15,
                  "the pool grows by multiples of it; supposed, not documented"),
    {0},
};

typedef struct pool {
    chunks chunks;
    MR_VEC(chunks_bins *) lists; /* of everybody, then of the streams */
    settings settings;
    uint64_t held;
} pool;

static chunks_bins *list_of(pool *p, uint32_t list)
{
    while (p->lists.n <= list)
        MR_PUSH(p->chunks.ctx, &p->lists, chunks_bins_new(p->chunks.ctx));
    return p->lists.at[list];
}

static bool joins(const pool *p, uint32_t id, uint32_t list)
{
    return id != MR_NONE && p->chunks.all.at[id].free && p->chunks.all.at[id].stream == list;
}

static void insert(pool *p, uint32_t id, uint32_t list)
{
    chunks_bins *bins = list_of(p, list);
    p->chunks.all.at[id].stream = list;
    const uint32_t next = p->chunks.all.at[id].next, prev = p->chunks.all.at[id].prev;
    if (joins(p, next, list)) {
        chunks_bins_remove(&p->chunks, bins, next);
        chunks_join(&p->chunks, id);
    }
    if (joins(p, prev, list)) {
        chunks_bins_remove(&p->chunks, bins, prev);
        chunks_join(&p->chunks, prev);
        id = prev;
    }
    chunks_bins_add(&p->chunks, bins, id);
}

/* ---- search ------------------------------------------------------------------------------ */

static uint32_t take_from(pool *p, uint32_t list, uint64_t bytes)
{
    chunks_bins *bins = list_of(p, list);
    const uint32_t id = chunks_bins_find(bins, bytes);
    if (id == MR_NONE) return MR_NONE;
    chunks_bins_remove(&p->chunks, bins, id);
    if (p->chunks.all.at[id].bytes > bytes)
        insert(p, chunks_split(&p->chunks, id, bytes), list);
    return id;
}

static uint32_t reuse(pool *p, uint32_t own, uint64_t bytes)
{
    uint32_t id = take_from(p, own, bytes);
    if (id == MR_NONE) id = take_from(p, EVERYBODY, bytes);
    if (!p->settings.reuse_allow_internal_dependencies) return id;
    for (uint32_t list = EVERYBODY + 1; id == MR_NONE && list < p->lists.n; list++)
        if (list != own) id = take_from(p, list, bytes);
    return id;
}

/* ---- growth and synchronisation ---------------------------------------------------------- */

static uint32_t grow(pool *p, mr_placer *placer, uint32_t own, uint64_t bytes)
{
    uint64_t step;
    if (!chunks_round(bytes, p->settings.step, &step)) return MR_NONE;
    uint32_t id = chunks_reserve(&p->chunks, placer, step, own);
    if (id == MR_NONE) id = chunks_reserve(&p->chunks, placer, bytes, own);
    if (id == MR_NONE) return MR_NONE;
    p->held += p->chunks.all.at[id].bytes;
    insert(p, id, own);
    return take_from(p, own, bytes);
}

/* Every free has happened: all is everybody's. */
static void synchronise(pool *p)
{
    for (uint32_t list = EVERYBODY + 1; list < p->lists.n; list++) {
        chunks_list all = {0};
        chunks_bins_list(&p->chunks, p->lists.at[list], &all);
        for (uint32_t i = 0; i < all.n; i++)
            chunks_bins_remove(&p->chunks, p->lists.at[list], all.at[i]);
        for (uint32_t i = 0; i < all.n; i++) insert(p, all.at[i], EVERYBODY);
    }
}

static void trim(pool *p, mr_placer *placer, uint64_t keep)
{
    chunks_list all = {0};
    chunks_bins_list(&p->chunks, list_of(p, EVERYBODY), &all);
    for (uint32_t i = all.n; i-- > 0 && p->held > keep;) {
        if (!chunks_whole(&p->chunks, all.at[i])) continue;
        p->held -= p->chunks.all.at[all.at[i]].bytes;
        chunks_bins_remove(&p->chunks, p->lists.at[EVERYBODY], all.at[i]);
        chunks_release(&p->chunks, placer, all.at[i]);
    }
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint32_t serve(pool *p, mr_placer *placer, uint32_t own, uint64_t bytes)
{
    const uint32_t id = reuse(p, own, bytes);
    return id == MR_NONE ? grow(p, placer, own, bytes) : id;
}

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    pool *p = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, UNIT, &bytes)) return false;
    const uint32_t own = request->stream + 1;
    uint32_t id = serve(p, placer, own, bytes);
    if (id == MR_NONE) {
        synchronise(p);
        id = reuse(p, own, bytes);
        if (id == MR_NONE) trim(p, placer, 0);
        placer->out->retries++;
    }
    if (id == MR_NONE) id = grow(p, placer, own, bytes);
    if (id == MR_NONE) return false;
    p->chunks.all.at[id].stream = own;
    *out = chunks_block(&p->chunks, id);
    return true;
}

static void pool_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    pool *p = self;
    if (block->bytes) insert(p, block->handle, p->chunks.all.at[block->handle].stream);
}

static void pool_flush(void *self, mr_placer *placer)
{
    pool *p = self;
    synchronise(p);
    trim(p, placer, p->settings.release_threshold);
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    if (s->step % UNIT) return mr_fail(ctx, MR_EUSAGE, "step must be a multiple of 512");
    return MR_OK;
}

static void pool_near(void *self, const mr_block *block, bool closer)
{
    const pool *p = self;
    chunks_near(&p->chunks, block, closer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    pool p = {.chunks = chunks_make(ctx), .settings = *s};
    const mr_online policy = {.self = &p,
                              .alloc = pool_alloc,
                              .free = pool_free,
                              .near = pool_near,
                              .flush = pool_flush};
    out->out->pooled = s->reuse_allow_internal_dependencies ? MR_POOLED : MR_POOLED_APART;
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_cudamallocasync = {
    .name = "cudamallocasync",
    .summary = "a model of the driver's pools as far as they are documented, no copy",
    .source = "CUDA runtime 13.0, cudaMallocAsync and cudaMemPoolAttr as documented",
    .how = "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync in the environment",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
