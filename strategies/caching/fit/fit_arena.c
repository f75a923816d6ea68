/* fit_arena -- search, growth by pages, merging. */
#include "fit_arena.h"

#define RANGE ((uint64_t)1 << 42) /* more than any device has */

typedef struct arena {
    chunks chunks;
    chunks_tree by_address; /* of first fit */
    chunks_bins *by_size;   /* of best fit; NULL otherwise */
    uint64_t alignment, mapped;
    uint32_t segment, last; /* last: the chunk at the end of what is mapped */
} arena;

static void add_free(arena *a, uint32_t id)
{
    if (a->by_size) chunks_bins_add(&a->chunks, a->by_size, id);
    else chunks_tree_add(&a->chunks, &a->by_address, id);
}

static void remove_free(arena *a, uint32_t id)
{
    if (a->by_size) chunks_bins_remove(&a->chunks, a->by_size, id);
    else chunks_tree_remove(&a->chunks, &a->by_address, id);
}

/* The rest of a chunk that is taken stays where it was in the order of addresses. */
static void take(arena *a, uint32_t id, uint64_t bytes)
{
    if (a->chunks.all.at[id].bytes == bytes) {
        remove_free(a, id);
        return;
    }
    if (a->by_size) remove_free(a, id);
    const uint32_t rest = chunks_split(&a->chunks, id, bytes);
    if (a->last == id) a->last = rest;
    if (a->by_size) add_free(a, rest);
    else chunks_tree_replace(&a->chunks, id, rest);
}

static uint32_t find(arena *a, uint64_t bytes)
{
    const uint32_t id = a->by_size ? chunks_bins_find(a->by_size, bytes)
                                   : chunks_tree_find(&a->by_address, bytes);
    if (id != MR_NONE) take(a, id, bytes);
    return id;
}

/* ---- growth ------------------------------------------------------------------------------ */

static bool begin(arena *a, mr_placer *placer)
{
    const mr_segment want = {.bytes = RANGE, .page = placer->granularity, .expandable = true};
    return a->segment != MR_NONE || mr_reserve(placer, &want, &a->segment);
}

static uint32_t append(arena *a, const mr_placer *placer, uint64_t bytes)
{
    const uint32_t id = chunks_over(&a->chunks, placer, a->segment, a->mapped, bytes);
    a->chunks.all.at[id].prev = a->last;
    if (a->last != MR_NONE) a->chunks.all.at[a->last].next = id;
    return a->last = id;
}

/* Maps whole pages until a free chunk at the end has room. */
static bool extend(arena *a, mr_placer *placer, uint64_t bytes)
{
    const bool tail = a->last != MR_NONE && a->chunks.all.at[a->last].free;
    const uint64_t missing = bytes - (tail ? a->chunks.all.at[a->last].bytes : 0);
    uint64_t pages;
    if (!chunks_round(missing, placer->granularity, &pages)) return false;
    if (pages > RANGE - a->mapped || pages > mr_available(placer)) return false;
    if (!begin(a, placer) || !mr_map(placer, a->segment, a->mapped, pages)) return false;
    if (tail) remove_free(a, a->last);
    if (tail) a->chunks.all.at[a->last].bytes += pages;
    else append(a, placer, pages);
    a->mapped += pages;
    add_free(a, a->last);
    return true;
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool arena_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    arena *a = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, a->alignment, &bytes)) return false;
    uint32_t id = find(a, bytes);
    if (id == MR_NONE && extend(a, placer, bytes)) id = find(a, bytes);
    if (id == MR_NONE) return false;
    *out = chunks_block(&a->chunks, id);
    return true;
}

static bool is_free(const arena *a, uint32_t id)
{
    return id != MR_NONE && a->chunks.all.at[id].free;
}

static uint32_t free_by_size(arena *a, uint32_t id)
{
    const uint32_t next = a->chunks.all.at[id].next, prev = a->chunks.all.at[id].prev;
    if (is_free(a, next)) {
        remove_free(a, next);
        chunks_join(&a->chunks, id);
    }
    if (is_free(a, prev)) {
        remove_free(a, prev);
        chunks_join(&a->chunks, prev);
        id = prev;
    }
    add_free(a, id);
    return id;
}

static void arena_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    arena *a = self;
    if (!block->bytes) return;
    const uint32_t id = a->by_size
                            ? free_by_size(a, block->handle)
                            : chunks_tree_free(&a->chunks, &a->by_address, block->handle);
    if (a->chunks.all.at[id].next == MR_NONE) a->last = id;
}

static void arena_near(void *self, const mr_block *block, bool closer)
{
    const arena *a = self;
    chunks_near(&a->chunks, block, closer);
}

mr_status fit_place(mr_ctx *ctx, bool first, const fit_settings *settings,
                    const mr_schedule *in, mr_placer *out)
{
    arena a = {.chunks = chunks_make(ctx),
               .by_size = first ? NULL : chunks_bins_new(ctx),
               .alignment = settings->alignment,
               .segment = MR_NONE,
               .last = MR_NONE};
    const mr_online policy = {
        .self = &a, .alloc = arena_alloc, .free = arena_free, .near = arena_near};
    return mr_place_online(out, in, &policy);
}
