/* buddy -- binary buddies: sizes are powers of two, a block joins only the one it was cut from.
 *
 *     32 MiB  [                               ]
 *     16 MiB  [               |               ]      the buddy of the block of 2^k at an offset
 *      8 MiB  [       |       ]                      lies at the offset with bit k flipped
 *
 * Knowlton 1965.  The smallest free block that is large enough is halved until it fits; among
 * equal ones the lowest.  Requests larger than a segment get one of their own.
 */
#include "chunks.h"
#include "strategy.h"

typedef struct settings {
    uint64_t segment, least;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, segment, "32MiB", 512, 1e15, "asked from the device, power of two"),
    MR_PARAM_SIZE(settings, least, "512", 1, 1e15, "the smallest block, a power of two"),
    {0},
};

typedef struct buddies {
    chunks chunks;
    chunks_bins *free;
    settings settings;
} buddies;

static uint64_t power_of_two(uint64_t least, uint64_t bytes)
{
    while (least < bytes) least *= 2;
    return least;
}

static void halve(buddies *b, uint32_t id, uint64_t bytes)
{
    while (b->chunks.all.at[id].bytes > bytes) {
        const uint64_t half = b->chunks.all.at[id].bytes / 2;
        chunks_bins_add(&b->chunks, b->free, chunks_split(&b->chunks, id, half));
    }
}

static uint32_t reuse(buddies *b, uint64_t bytes)
{
    const uint32_t id = chunks_bins_find(b->free, bytes);
    if (id != MR_NONE) chunks_bins_remove(&b->chunks, b->free, id);
    return id;
}

static uint32_t take(buddies *b, mr_placer *placer, uint64_t bytes)
{
    const uint64_t segment = bytes > b->settings.segment ? bytes : b->settings.segment;
    return chunks_reserve(&b->chunks, placer, segment, 0);
}

static void release_free(buddies *b, mr_placer *placer)
{
    chunks_list list = {0};
    chunks_bins_list(&b->chunks, b->free, &list);
    for (uint32_t i = 0; i < list.n; i++) {
        if (!chunks_whole(&b->chunks, list.at[i])) continue;
        chunks_bins_remove(&b->chunks, b->free, list.at[i]);
        chunks_release(&b->chunks, placer, list.at[i]);
    }
}

static bool buddy_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    buddies *b = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    if (request->bytes > UINT64_MAX / 4) return false;
    const uint64_t bytes = power_of_two(b->settings.least, request->bytes);
    uint32_t id = reuse(b, bytes);
    if (id == MR_NONE) id = take(b, placer, bytes);
    if (id == MR_NONE) {
        release_free(b, placer);
        placer->out->retries++;
        id = take(b, placer, bytes);
    }
    if (id == MR_NONE) return false;
    halve(b, id, bytes);
    *out = chunks_block(&b->chunks, id);
    return true;
}

/* The buddy, if it is free and in one piece. */
static uint32_t free_buddy(const buddies *b, uint32_t id)
{
    const chunk *at = &b->chunks.all.at[id];
    const uint32_t buddy = at->offset & at->bytes ? at->prev : at->next;
    if (buddy == MR_NONE) return MR_NONE;
    const chunk *other = &b->chunks.all.at[buddy];
    return other->free && other->bytes == at->bytes ? buddy : MR_NONE;
}

static void buddy_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    buddies *b = self;
    if (!block->bytes) return;
    uint32_t id = block->handle;
    for (uint32_t buddy; (buddy = free_buddy(b, id)) != MR_NONE;) {
        chunks_bins_remove(&b->chunks, b->free, buddy);
        if (b->chunks.all.at[id].prev == buddy) id = buddy;
        chunks_join(&b->chunks, id);
    }
    chunks_bins_add(&b->chunks, b->free, id);
}

static void buddy_flush(void *self, mr_placer *placer)
{
    release_free(self, placer);
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    if (s->segment & (s->segment - 1) || s->least & (s->least - 1))
        return mr_fail(ctx, MR_EUSAGE, "segment and least must be powers of two");
    if (s->segment < s->least) return mr_fail(ctx, MR_EUSAGE, "segment is below least");
    return MR_OK;
}

static void buddy_near(void *self, const mr_block *block, bool closer)
{
    const buddies *b = self;
    chunks_near(&b->chunks, block, closer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    buddies b = {.chunks = chunks_make(ctx), .free = chunks_bins_new(ctx), .settings = *s};
    const mr_online policy = {.self = &b,
                              .alloc = buddy_alloc,
                              .free = buddy_free,
                              .near = buddy_near,
                              .flush = buddy_flush};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_buddy = {
    .name = "buddy",
    .summary = "binary buddies: every size is rounded up to a power of two",
    .source = "Knowlton 1965, A Fast Storage Allocator",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
