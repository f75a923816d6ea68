/* bfc_heap -- search, growth, release.
 *
 * The original keeps 21 bins, 256 bytes and its doublings, in each chunks by size, then
 * address, and searches them upwards.  As all chunks of a bin are smaller than those of the
 * next, this is one order by size, then address, of all regions and streams.
 */
#include "bfc_heap.h"

enum { UNIT = 256 };

typedef struct heap {
    bfc_rules rules;
    chunks chunks;
    chunks_bins *free;
    chunks_list regions; /* their first chunks */
    uint64_t held;       /* bytes of all regions */
    uint64_t region;     /* size of the next one */
    bool backpedalled;
} heap;

static uint32_t find(heap *h, uint64_t bytes)
{
    const uint32_t id = chunks_bins_find(h->free, bytes);
    if (id == MR_NONE) return MR_NONE;
    chunks_bins_remove(&h->chunks, h->free, id);
    const uint64_t has = h->chunks.all.at[id].bytes;
    if (has >= 2 * bytes || (has > bytes && has - bytes >= h->rules.most_rest))
        chunks_bins_add(&h->chunks, h->free, chunks_split(&h->chunks, id, bytes));
    return id;
}

/* ---- growth ------------------------------------------------------------------------------ */

/* The factor is a float there, so is the product; what does not shrink by it is given up. */
static uint64_t nine_tenths(uint64_t bytes)
{
    const uint64_t part = (uint64_t)((float)bytes * 0.9f);
    const uint64_t rounded = (part + UNIT - 1) / UNIT * UNIT;
    return rounded < bytes ? rounded : 0;
}

static uint32_t take_region(heap *h, mr_placer *placer, uint64_t bytes, uint64_t want)
{
    uint32_t id = chunks_reserve(&h->chunks, placer, bytes, 0);
    if (id != MR_NONE || (h->rules.backpedal_once && h->backpedalled)) return id;
    h->backpedalled = true;
    for (;;) {
        bytes = nine_tenths(bytes);
        if (bytes < want || bytes < h->rules.least) return MR_NONE;
        id = chunks_reserve(&h->chunks, placer, bytes, 0);
        if (id != MR_NONE) return id;
    }
}

/* The size of a region for the request; `doubled` when the present one would not do. */
static uint64_t region_for(heap *h, uint64_t bytes, uint64_t room, bool *doubled)
{
    if (h->rules.as_requested) return bytes;
    for (; bytes > h->region; *doubled = true) h->region *= 2;
    return h->region < room ? h->region : room;
}

/* TensorFlow doubles only when there is a region, ONNX Runtime also when the device refused. */
static void double_region(heap *h, bool served)
{
    if (h->rules.as_requested || (!served && h->rules.backpedal_once)) return;
    if (h->region < UINT64_MAX / 4) h->region *= 2;
}

static bool extend(heap *h, mr_placer *placer, uint64_t bytes)
{
    const uint64_t room = (h->rules.limit - h->held) / UNIT * UNIT;
    if (bytes > room) return false;
    bool doubled = false;
    const uint64_t region = region_for(h, bytes, room, &doubled);
    const uint32_t id = take_region(h, placer, region, bytes);
    if (!doubled) double_region(h, id != MR_NONE);
    if (id == MR_NONE) return false;
    h->held += h->chunks.all.at[id].bytes;
    MR_PUSH(h->chunks.ctx, &h->regions, id);
    chunks_bins_add(&h->chunks, h->free, id);
    return true;
}

/* ---- release ----------------------------------------------------------------------------- */

static bool is_free(const heap *h, uint32_t region)
{
    return h->chunks.all.at[region].free && chunks_whole(&h->chunks, region);
}

static uint64_t free_bytes(const heap *h)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < h->regions.n; i++)
        if (is_free(h, h->regions.at[i])) bytes += h->chunks.all.at[h->regions.at[i]].bytes;
    return bytes;
}

static void release_free(heap *h, mr_placer *placer, uint32_t from)
{
    uint32_t kept = from;
    for (uint32_t i = from; i < h->regions.n; i++) {
        const uint32_t id = h->regions.at[i];
        if (!is_free(h, id)) {
            h->regions.at[kept++] = id;
            continue;
        }
        h->held -= h->chunks.all.at[id].bytes;
        chunks_bins_remove(&h->chunks, h->free, id);
        chunks_release(&h->chunks, placer, id);
    }
    h->regions.n = h->regions.n > kept ? kept : h->regions.n;
}

static bool collect(heap *h, mr_placer *placer, uint64_t bytes)
{
    if (!h->rules.collect) return false;
    const uint64_t idle = free_bytes(h);
    if (!idle || bytes > h->rules.limit - h->held + idle) return false;
    release_free(h, placer, 0);
    placer->out->retries++;
    return true;
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool heap_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    heap *h = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, UNIT, &bytes)) return false;
    uint32_t id = find(h, bytes);
    if (id == MR_NONE && extend(h, placer, bytes)) id = find(h, bytes);
    if (id == MR_NONE && collect(h, placer, bytes) && extend(h, placer, bytes))
        id = find(h, bytes);
    if (id == MR_NONE) return false;
    *out = chunks_block(&h->chunks, id);
    return true;
}

static void heap_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    heap *h = self;
    if (!block->bytes) return;
    uint32_t id = block->handle;
    const uint32_t next = h->chunks.all.at[id].next, prev = h->chunks.all.at[id].prev;
    if (next != MR_NONE && h->chunks.all.at[next].free) {
        chunks_bins_remove(&h->chunks, h->free, next);
        chunks_join(&h->chunks, id);
    }
    if (prev != MR_NONE && h->chunks.all.at[prev].free) {
        chunks_bins_remove(&h->chunks, h->free, prev);
        chunks_join(&h->chunks, prev);
        id = prev;
    }
    chunks_bins_add(&h->chunks, h->free, id);
}

/* ONNX Runtime shrinks its arena; where it doubles, the first region stays. */
static void heap_flush(void *self, mr_placer *placer)
{
    heap *h = self;
    if (!h->rules.after_shrink) return;
    release_free(h, placer, h->rules.as_requested ? 0 : 1);
    h->region = h->rules.after_shrink;
}

static void heap_near(void *self, const mr_block *block, bool closer)
{
    const heap *h = self;
    chunks_near(&h->chunks, block, closer);
}

mr_status bfc_place(mr_ctx *ctx, const bfc_rules *rules, const mr_schedule *in, mr_placer *out)
{
    heap h = {.rules = *rules,
              .chunks = chunks_make(ctx),
              .free = chunks_bins_new(ctx),
              .region = (rules->region + UNIT - 1) / UNIT * UNIT};
    const mr_online policy = {.self = &h,
                              .alloc = heap_alloc,
                              .free = heap_free,
                              .near = heap_near,
                              .flush = heap_flush};
    return mr_place_online(out, in, &policy);
}
