/* kv_page -- the step with its caches in pools of blocks.
 *
 * Each cache gets a pool before the first event.  What it begins with is copied there when it
 * is made, by what vLLM calls reshape_and_cache, and ends with its function; a cat only writes
 * what is new, behind what is there.  Where in the pool a token lies is for the table of blocks
 * to say: tensors keep their shape, and kernels read as much as they did.
 */
#include "kv_cache.h"
#include "strategy.h"

typedef struct pager {
    mr_rewrite r;
    kv_caches caches;
    uint64_t block_size, blocks;
    uint32_t *first; /* by tensor: the cache that begins with it, MR_NONE */
    uint64_t copied; /* bytes that cats no longer copy */
} pager;

static uint64_t blocks_of(const pager *p, const kv_cache *cache)
{
    return (cache->tokens + p->block_size - 1) / p->block_size * cache->sequences;
}

/* One block more than is needed is vLLM's null block. */
static mr_status check_blocks(pager *p)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < p->caches.all.n; c++) {
        const uint64_t own = blocks_of(p, &p->caches.all.at[c]);
        if (own > most) most = own;
    }
    if (!p->caches.all.n)
        return mr_fail(p->r.ctx, MR_EUNSUPPORTED,
                       "'%s' has no keys and values that aten::cat makes longer call by call,"
                       " expected the generation of a text",
                       p->r.in->name);
    if (!p->blocks) p->blocks = most + 1;
    if (p->blocks > most) return MR_OK;
    return mr_fail(p->r.ctx, MR_EUNSUPPORTED,
                   "num_gpu_blocks_override is %llu, but '%s' fills %llu blocks at once and one"
                   " is the null block: vLLM would let sequences wait",
                   (unsigned long long)p->blocks, p->r.in->name, (unsigned long long)most);
}

/* ---- pools ------------------------------------------------------------------------------- */

/* What the cache begins with, without the gaps that a view has. */
static uint64_t first_bytes(const pager *p, const kv_cache *cache)
{
    const mr_tensor *first = &p->r.in->tensors.at[cache->first];
    return first->shape[cache->dimension] * cache->sequences * cache->token_bytes;
}

/* The copy has the offset of the original: the referee looks for values at their place. */
static mr_status add_pool(pager *p, kv_cache *cache)
{
    mr_rewrite *r = &p->r;
    const uint64_t block = p->block_size * cache->token_bytes, bytes = p->blocks * block;
    const uint32_t result = r->in->ops.at[cache->cats.at[0]].out.at[0];
    const uint64_t offset = r->in->tensors.at[cache->first].offset;
    if (offset + first_bytes(p, cache) > bytes)
        return mr_fail(r->ctx, MR_EUNSUPPORTED,
                       "tensor %u, with which a cache begins, lies %llu bytes into its storage,"
                       " expected a place that a pool of %llu bytes has too",
                       cache->first, (unsigned long long)offset, (unsigned long long)bytes);
    cache->pool = mr_rewrite_new_storage(r, r->in->tensors.at[result].storage, bytes);
    mr_storage *pool = &r->out->storages.at[cache->pool];
    pool->before = pool->after = true;
    if (pool->per_sample) pool->per_sample = blocks_of(p, cache) / cache->sequences * block;
    cache->copy = mr_rewrite_new_tensor(r, cache->first, cache->pool);
    r->out->tensors.at[cache->copy].offset = offset;
    r->out->tensors.at[cache->copy].bytes = first_bytes(p, cache);
    return MR_OK;
}

/* The cat writes what is new behind what is there. */
static void page_cat(pager *p, const kv_cache *cache, uint32_t o, uint32_t before)
{
    mr_op *op = &p->r.out->ops.at[o];
    const uint32_t both[] = {before, op->in.at[1]};
    const mr_tensor *fresh = &p->r.in->tensors.at[both[1]];
    const uint64_t bytes =
        fresh->shape[cache->dimension] * cache->sequences * cache->token_bytes;
    p->copied += op->written > bytes ? op->written - bytes : 0;
    op->name = "reshape_and_cache";
    op->in = mr_ids_of(p->r.ctx, 2, both);
    op->mutates = op->out;
    op->out = (mr_ids){0};
    op->read = op->written = bytes;
}

static void page_cache(pager *p, const kv_cache *cache, uint32_t *pool_of)
{
    uint32_t before = cache->copy;
    for (uint32_t i = 0; i < cache->cats.n; i++) {
        const uint32_t result = p->r.in->ops.at[cache->cats.at[i]].out.at[0];
        page_cat(p, cache, cache->cats.at[i], before);
        pool_of[p->r.in->tensors.at[result].storage] = cache->pool;
        before = result;
    }
}

static mr_status page_all(pager *p)
{
    const mr_trace *in = p->r.in;
    uint32_t *pool_of = mr_none_of(p->r.ctx, in->storages.n);
    for (uint32_t c = 0; c < p->caches.all.n; c++) {
        MR_TRY(add_pool(p, &p->caches.all.at[c]));
        page_cache(p, &p->caches.all.at[c], pool_of);
        p->first[p->caches.all.at[c].first] = c;
    }
    for (uint32_t t = 0; t < in->tensors.n; t++) {
        const uint32_t pool = pool_of[in->tensors.at[t].storage];
        if (pool != MR_NONE) p->r.out->tensors.at[t].storage = pool;
    }
    return MR_OK;
}

/* ---- what caches begin with -------------------------------------------------------------- */

typedef struct ends { /* by storage */
    uint32_t *last; /* event of its last use, but for caches that begin with it */
    bool *grown;    /* one of these has grown */
} ends;

/* Drops behind the first cat are of the cache, and of what it is a view of. */
static void note_use(const pager *p, uint32_t e, ends *out)
{
    const mr_event *event = &p->r.in->events.at[e];
    const mr_tensor *tensors = p->r.in->tensors.at;
    if (event->kind == MR_DROP && !out->grown[tensors[event->id].storage])
        out->last[tensors[event->id].storage] = e;
    if (event->kind != MR_RUN) return;
    const mr_op *op = &p->r.in->ops.at[event->id];
    const bool grows = p->caches.grows[event->id] != MR_NONE;
    if (grows && p->first[op->in.at[0]] != MR_NONE)
        out->grown[tensors[op->in.at[0]].storage] = true;
    for (uint32_t i = grows; i < op->in.n; i++) out->last[tensors[op->in.at[i]].storage] = e;
    for (uint32_t i = 0; i < op->out.n; i++) out->last[tensors[op->out.at[i]].storage] = e;
}

static const uint32_t *find_ends(const pager *p)
{
    const uint32_t n = p->r.in->storages.n;
    ends all = {mr_none_of(p->r.ctx, n), MR_NEW_N(p->r.ctx, bool, n)};
    for (uint32_t e = 0; e < p->r.in->events.n; e++) note_use(p, e, &all);
    return all.last;
}

/* The program held it for the next call; now it ends with the last use of its storage. */
static void end_first(pager *p, const kv_cache *cache)
{
    const mr_tensor *tensors = p->r.in->tensors.at;
    const uint32_t storage = tensors[cache->first].storage;
    for (uint32_t t = 0; t < p->r.in->tensors.n; t++)
        if (tensors[t].storage == storage) mr_rewrite_drop(&p->r, NULL, t);
}

static void begin_cache(pager *p, uint32_t o)
{
    const mr_op *op = &p->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t c = p->first[op->out.at[i]];
        if (c == MR_NONE || p->caches.maker[op->out.at[i]] != o) continue;
        mr_op as = *op;
        as.name = "reshape_and_cache";
        const uint32_t copy = p->caches.all.at[c].copy;
        const uint32_t made = mr_rewrite_move(&p->r, op->out.at[i], copy, &as);
        p->r.out->ops.at[made].read = p->r.out->ops.at[made].written;
    }
}

static void write_step(pager *p)
{
    mr_rewrite *r = &p->r;
    const uint32_t *last = find_ends(p);
    for (uint32_t e = 0; e < r->in->events.n; e++) {
        const mr_event event = r->in->events.at[e];
        mr_rewrite_keep(r, NULL, e);
        if (event.kind == MR_RUN) begin_cache(p, event.id);
        for (uint32_t c = 0; c < p->caches.all.n; c++) {
            const kv_cache *cache = &p->caches.all.at[c];
            if (last[r->in->tensors.at[cache->first].storage] == e) end_first(p, cache);
        }
    }
}

/* ---- the rewrite ------------------------------------------------------------------------- */

static void remark(pager *p)
{
    uint64_t held = 0, filled = 0, tokens = 0;
    for (uint32_t c = 0; c < p->caches.all.n; c++) {
        const kv_cache *cache = &p->caches.all.at[c];
        held += p->blocks * p->block_size * cache->token_bytes;
        filled += cache->tokens * cache->sequences * cache->token_bytes;
        if (cache->tokens > tokens) tokens = cache->tokens;
    }
    mr_rewrite_remark(&p->r,
                      "paged_kv: %s of up to %s lie in %s of %s each, %.2f %% of which is"
                      " never filled; %s of copies are gone",
                      mr_show_count(p->r.ctx, p->caches.all.n, "cache", "caches"),
                      mr_show_count(p->r.ctx, tokens, "token", "tokens"),
                      mr_show_count(p->r.ctx, p->blocks, "block", "blocks"),
                      mr_show_count(p->r.ctx, p->block_size, "token", "tokens"),
                      100 * (1 - (double)filled / (double)held),
                      mr_say_size(p->r.ctx, p->copied));
}

mr_status kv_page(mr_ctx *ctx, const mr_trace *in, uint64_t block_size, uint64_t blocks,
                  mr_trace *out)
{
    pager p = {.block_size = block_size, .blocks = blocks};
    MR_TRY(mr_rewrite_begin(ctx, in, out, &p.r));
    kv_find(ctx, in, &p.caches);
    MR_TRY(check_blocks(&p));
    p.first = mr_none_of(ctx, in->tensors.n);
    MR_TRY(page_all(&p));
    write_step(&p);
    remark(&p);
    return MR_OK;
}
