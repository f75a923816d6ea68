/* exactfit -- exact-size segregation: a block is used again only for the size it was made for.
 *
 * A reference, what pools do that keep one list for each size: nothing is split and nothing is
 * joined, so nothing fragments, but what was cached for one size is of no use to any other.
 * Blocks stay with their stream, and go back when the device refuses, or by flush.
 */
#include "chunks.h"
#include "strategy.h"

typedef struct settings {
    uint64_t alignment;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, alignment, "512", 1, 1e15, "sizes are rounded up to a multiple"),
    {0},
};

typedef struct pool {
    chunks chunks;
    MR_VEC(chunks_bins *) free; /* by stream */
    uint64_t alignment;
} pool;

static chunks_bins *free_of(pool *p, uint32_t stream)
{
    while (p->free.n <= stream)
        MR_PUSH(p->chunks.ctx, &p->free, chunks_bins_new(p->chunks.ctx));
    return p->free.at[stream];
}

static uint32_t reuse(pool *p, uint64_t bytes, uint32_t stream)
{
    chunks_bins *free = free_of(p, stream);
    const uint32_t id = chunks_bins_find(free, bytes);
    if (id == MR_NONE || p->chunks.all.at[id].bytes != bytes) return MR_NONE;
    chunks_bins_remove(&p->chunks, free, id);
    return id;
}

static bool release_all(pool *p, mr_placer *placer)
{
    bool some = false;
    for (uint32_t s = 0; s < p->free.n; s++) {
        chunks_list all = {0};
        chunks_bins_list(&p->chunks, p->free.at[s], &all);
        for (uint32_t i = 0; i < all.n; i++) {
            chunks_bins_remove(&p->chunks, p->free.at[s], all.at[i]);
            chunks_release(&p->chunks, placer, all.at[i]);
            some = true;
        }
    }
    return some;
}

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    pool *p = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, p->alignment, &bytes)) return false;
    uint32_t id = reuse(p, bytes, request->stream);
    if (id == MR_NONE) id = chunks_reserve(&p->chunks, placer, bytes, request->stream);
    if (id == MR_NONE && release_all(p, placer)) {
        placer->out->retries++;
        id = chunks_reserve(&p->chunks, placer, bytes, request->stream);
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
    const uint32_t id = block->handle;
    chunks_bins_add(&p->chunks, free_of(p, p->chunks.all.at[id].stream), id);
}

static void pool_near(void *self, const mr_block *block, bool closer)
{
    const pool *p = self;
    chunks_near(&p->chunks, block, closer);
}

static void pool_flush(void *self, mr_placer *placer)
{
    release_all(self, placer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    pool p = {.chunks = chunks_make(ctx), .alignment = s->alignment};
    const mr_online policy = {.self = &p,
                              .alloc = pool_alloc,
                              .free = pool_free,
                              .near = pool_near,
                              .flush = pool_flush};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_exactfit = {
    .name = "exactfit",
    .summary = "one list of free blocks for each size, nothing split or joined",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
