/* gmlake -- GMLake: what does not fit into any free block is stitched together of several.
 *
 *     free blocks    [ 6 ]   [ 4 ]     [ 4 ]         a request of 12
 *     stitched       [ 6   | 4   | 2 ]                their pages behind addresses of its own
 *
 * Small requests are served as by PyTorch 2.0.  Large ones are multiples of 2 MiB: best fit
 * among free blocks, then a free range that was stitched before and is not too large, then,
 * from fragLimit on, a range stitched of free blocks, else new pages.
 *
 * A placement has one address for a page at a time, so one that is used through another range
 * than the last time changes it; that costs nothing, except when a range is stitched, where
 * each page is mapped.  A GPU carries out both.  A device's cost of mapping includes making the
 * page, so stitching is charged more than it takes.  Not here: autoGC, which only saves
 * addresses.
 */
#include "gmlake_pages.h"
#include "strategy.h"

enum { SMALL_UNIT = 512 };
#define SMALL_MOST MR_MIB
#define SMALL_SEGMENT (2 * MR_MIB)

typedef struct settings {
    uint64_t fragLimit, reuseLimit, defragLevel;
    bool reAlloc;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, fragLimit, "512MiB", 0, 0, "smaller requests are not stitched"),
    MR_PARAM_INT(settings, reuseLimit, "10", 1, 1000000,
                 "a stitched range serves requests down to this part of its size"),
    MR_PARAM_INT(
        settings, defragLevel, "0", 0, 2,
        "stitches before it asks for memory (0), after that failed (1), or after small "
        "segments were given back (2)"),
    MR_PARAM_BOOL(settings, reAlloc, "False",
                  "takes only the pages that are missing and stitches them to free blocks"),
    {0},
};

typedef struct lake {
    settings settings;
    gmlake_pages pages;
} lake;

/* ---- small requests ---------------------------------------------------------------------- */

static uint32_t alloc_small(lake *l, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    chunks *c = &l->pages.chunks;
    chunks_bins *free = gmlake_of(&l->pages, stream)->small;
    uint32_t id = chunks_bins_find(free, bytes);
    if (id != MR_NONE) chunks_bins_remove(c, free, id);
    else id = chunks_reserve(c, placer, SMALL_SEGMENT, stream);
    if (id == MR_NONE) return MR_NONE;
    gmlake_mark(&l->pages, id, GMLAKE_SMALL);
    if (c->all.at[id].bytes > bytes) {
        const uint32_t rest = chunks_split(c, id, bytes);
        gmlake_mark(&l->pages, rest, GMLAKE_SMALL);
        chunks_bins_add(c, free, rest);
    }
    return id;
}

static void free_small(lake *l, uint32_t id)
{
    chunks *c = &l->pages.chunks;
    chunks_bins *free = gmlake_of(&l->pages, c->all.at[id].stream)->small;
    const uint32_t next = c->all.at[id].next, prev = c->all.at[id].prev;
    if (next != MR_NONE && c->all.at[next].free) {
        chunks_bins_remove(c, free, next);
        chunks_join(c, id);
    }
    if (prev != MR_NONE && c->all.at[prev].free) {
        chunks_bins_remove(c, free, prev);
        chunks_join(c, prev);
        id = prev;
    }
    chunks_bins_add(c, free, id);
}

static bool release_small(lake *l, mr_placer *placer, uint32_t stream)
{
    chunks *c = &l->pages.chunks;
    chunks_bins *free = gmlake_of(&l->pages, stream)->small;
    chunks_list all = {0};
    chunks_bins_list(c, free, &all);
    bool some = false;
    for (uint32_t i = 0; i < all.n; i++) {
        if (!chunks_whole(c, all.at[i])) continue;
        chunks_bins_remove(c, free, all.at[i]);
        chunks_release(c, placer, all.at[i]);
        some = true;
    }
    return some;
}

/* ---- large requests ---------------------------------------------------------------------- */

static uint32_t stitch(lake *l, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    if (bytes < l->settings.fragLimit) return MR_NONE;
    return gmlake_stitch(&l->pages, placer, bytes, l->settings.reAlloc, stream);
}

static uint32_t alloc_large(lake *l, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    gmlake_pages *p = &l->pages;
    const uint64_t reuse = l->settings.reuseLimit, level = l->settings.defragLevel;
    const uint64_t most = bytes > UINT64_MAX / reuse ? UINT64_MAX : bytes * reuse;
    uint32_t id = gmlake_reuse_block(p, placer, bytes, stream);
    if (id == MR_NONE) id = gmlake_reuse_stitched(p, placer, bytes, most, stream);
    if (id == MR_NONE && level == 0) id = stitch(l, placer, bytes, stream);
    if (id == MR_NONE) id = gmlake_new_block(p, placer, bytes, stream);
    if (id == MR_NONE && level == 1) id = stitch(l, placer, bytes, stream);
    return id;
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool release_all(lake *l, mr_placer *placer)
{
    bool some = false;
    for (uint32_t s = 0; s < l->pages.streams.n; s++) {
        some |= gmlake_release(&l->pages, placer, s);
        some |= release_small(l, placer, s);
    }
    return some;
}

static uint32_t alloc(lake *l, mr_placer *placer, const mr_request *request)
{
    uint64_t bytes;
    if (!chunks_round(request->bytes, SMALL_UNIT, &bytes)) return MR_NONE;
    if (bytes <= SMALL_MOST) return alloc_small(l, placer, bytes, request->stream);
    if (!chunks_round(bytes, GMLAKE_PAGE, &bytes)) return MR_NONE;
    return alloc_large(l, placer, bytes, request->stream);
}

/* Small segments first: what they give back may do, and free blocks are worth more stitched. */
static uint32_t rescue(lake *l, mr_placer *placer, const mr_request *request)
{
    bool some = false;
    for (uint32_t s = 0; s < l->pages.streams.n; s++) some |= release_small(l, placer, s);
    placer->out->retries++;
    uint32_t id = some ? alloc(l, placer, request) : MR_NONE;
    uint64_t bytes;
    if (id == MR_NONE && l->settings.defragLevel == 2
        && chunks_round(request->bytes, GMLAKE_PAGE, &bytes))
        id = stitch(l, placer, bytes, request->stream);
    if (id == MR_NONE && release_all(l, placer)) id = alloc(l, placer, request);
    return id;
}

static bool lake_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    lake *l = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint32_t id = alloc(l, placer, request);
    if (id == MR_NONE) id = rescue(l, placer, request);
    if (id == MR_NONE) return false;
    *out = chunks_block(&l->pages.chunks, id);
    return true;
}

static void lake_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    lake *l = self;
    if (!block->bytes) return;
    if (l->pages.parts.at[block->handle].kind == GMLAKE_SMALL) free_small(l, block->handle);
    else gmlake_free(&l->pages, block->handle);
}

static void lake_flush(void *self, mr_placer *placer)
{
    release_all(self, placer);
}

static void lake_near(void *self, const mr_block *block, bool closer)
{
    const lake *l = self;
    chunks_near(&l->pages.chunks, block, closer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    lake l = {.settings = *(const settings *)params, .pages = {.chunks = chunks_make(ctx)}};
    const mr_online policy = {.self = &l,
                              .alloc = lake_alloc,
                              .free = lake_free,
                              .near = lake_near,
                              .flush = lake_flush};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_gmlake = {
    .name = "gmlake",
    .summary = "GMLake: free blocks are stitched together by mapping their pages anew",
    .source = "GMLake, CUDACachingAllocator.cpp; Guo et al., ASPLOS 2024",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
