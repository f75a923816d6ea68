/* rmm_arena -- RMM's arena_memory_resource: superblocks that the arenas of streams borrow.
 *
 *     global arena   [ superblock     | superblock  | superblock (empty)              ]
 *     stream 0                          └ lent to it: small requests, first fit by address
 *
 * All memory is taken at once.  Requests above 1 MiB go to the global arena.  A superblock is a
 * chain of chunks: chunks of two superblocks never touch, as if these were segments.
 */
#include "rmm_lists.h"
#include "strategy.h"

#define LEAST MR_MIB /* bytes of a superblock, and the largest request of a stream's arena */
enum { GLOBAL = 0 };

typedef struct settings {
    uint64_t arena_size;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, arena_size, "0", 0, 0,
                  "taken from the device at first; 0 for half of it, RMM's default"),
    {0},
};

typedef struct superblock {
    uint32_t head;       /* its first chunk */
    uint32_t prev, next; /* by address, in whatever arena */
    uint32_t arena;      /* GLOBAL, or stream + 1 */
} superblock;

typedef struct arenas {
    chunks chunks; /* `stream` of a chunk is its superblock */
    MR_VEC(superblock) blocks;
    MR_VEC(chunks_tree) trees; /* free chunks of each arena, by address */
    uint64_t bytes;
    uint32_t spare; /* unused superblocks, by `next` */
    bool begun, broken;
} arenas;

static chunks_tree *tree_of(arenas *a, uint32_t arena)
{
    while (a->trees.n <= arena) MR_PUSH(a->chunks.ctx, &a->trees, (chunks_tree){0});
    return &a->trees.at[arena];
}

static superblock *owner(const arenas *a, uint32_t id)
{
    return &a->blocks.at[a->chunks.all.at[id].stream];
}

static bool is_empty(const arenas *a, uint32_t b)
{
    const uint32_t head = a->blocks.at[b].head;
    return a->chunks.all.at[head].free && chunks_whole(&a->chunks, head);
}

/* ---- superblocks ------------------------------------------------------------------------- */

static uint32_t new_superblock(arenas *a, superblock b)
{
    uint32_t i = a->spare;
    if (i == MR_NONE) {
        MR_PUSH(a->chunks.ctx, &a->blocks, b);
        i = a->blocks.n - 1;
    } else {
        a->spare = a->blocks.at[i].next;
        a->blocks.at[i] = b;
    }
    a->chunks.all.at[b.head].stream = i;
    if (b.prev != MR_NONE) a->blocks.at[b.prev].next = i;
    if (b.next != MR_NONE) a->blocks.at[b.next].prev = i;
    return i;
}

/* Cuts an empty superblock of the global arena: its low end has `bytes` and is in no tree. */
static void cut_superblock(arenas *a, uint32_t id, uint64_t bytes)
{
    const uint32_t low = a->chunks.all.at[id].stream;
    const uint32_t rest = chunks_split(&a->chunks, id, bytes);
    chunks_tree_replace(&a->chunks, id, rest);
    a->chunks.all.at[id].next = a->chunks.all.at[rest].prev = MR_NONE;
    new_superblock(a, (superblock){rest, low, a->blocks.at[low].next, GLOBAL});
}

/* Of two superblocks in one piece each: their chunks touch, and the second is gone. */
static void link_superblocks(arenas *a, uint32_t low, uint32_t high)
{
    const uint32_t l = a->blocks.at[low].head, h = a->blocks.at[high].head;
    a->chunks.all.at[l].next = h;
    a->chunks.all.at[h].prev = l;
    const uint32_t next = a->blocks.at[high].next;
    a->blocks.at[low].next = next;
    if (next != MR_NONE) a->blocks.at[next].prev = low;
    a->blocks.at[high].next = a->spare;
    a->spare = high;
}

static bool joinable(const arenas *a, uint32_t b)
{
    return b != MR_NONE && a->blocks.at[b].arena == GLOBAL && is_empty(a, b);
}

/* Frees a chunk that is all of a superblock, with the empty ones on both sides. */
static void free_superblock(arenas *a, uint32_t b)
{
    const uint32_t id = a->blocks.at[b].head;
    const uint32_t next = a->blocks.at[b].next, prev = a->blocks.at[b].prev;
    if (joinable(a, next)) link_superblocks(a, b, next);
    if (joinable(a, prev)) link_superblocks(a, prev, b);
    chunks_tree_free(&a->chunks, tree_of(a, GLOBAL), id);
}

static void coalesce_superblock(arenas *a, uint32_t b)
{
    if (!joinable(a, b)) return;
    chunks_tree_remove(&a->chunks, tree_of(a, GLOBAL), a->blocks.at[b].head);
    free_superblock(a, b);
}

static void move_superblock(arenas *a, uint32_t b, uint32_t arena)
{
    const uint32_t from = a->blocks.at[b].arena;
    a->blocks.at[b].arena = arena;
    tree_of(a, arena);
    for (uint32_t id = a->blocks.at[b].head; id != MR_NONE; id = a->chunks.all.at[id].next) {
        if (!a->chunks.all.at[id].free) continue;
        chunks_tree_remove(&a->chunks, tree_of(a, from), id);
        chunks_tree_add(&a->chunks, tree_of(a, arena), id);
    }
}

/* After a failure: the device is waited for and all superblocks go back to the global arena. */
static void hand_back(arenas *a)
{
    if (!a->blocks.n) return;
    for (uint32_t b = a->chunks.all.at[0].stream; b != MR_NONE; b = a->blocks.at[b].next)
        if (a->blocks.at[b].arena != GLOBAL) move_superblock(a, b, GLOBAL);
    for (uint32_t b = a->chunks.all.at[0].stream; b != MR_NONE; b = a->blocks.at[b].next)
        while (joinable(a, b) && joinable(a, a->blocks.at[b].next)) coalesce_superblock(a, b);
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint32_t first_fit(arenas *a, uint32_t arena, uint64_t bytes)
{
    return chunks_tree_find(tree_of(a, arena), bytes);
}

static uint32_t take(arenas *a, uint32_t id, uint64_t bytes)
{
    chunks_tree *tree = tree_of(a, owner(a, id)->arena);
    if (a->chunks.all.at[id].bytes == bytes) chunks_tree_remove(&a->chunks, tree, id);
    else chunks_tree_replace(&a->chunks, id, chunks_split(&a->chunks, id, bytes));
    return id;
}

/* The low end of an empty superblock, which is cut for it and belongs to the arena then. */
static uint32_t take_cut(arenas *a, uint32_t id, uint64_t bytes, uint32_t arena)
{
    cut_superblock(a, id, bytes > LEAST ? bytes : LEAST);
    owner(a, id)->arena = arena;
    if (a->chunks.all.at[id].bytes > bytes)
        chunks_tree_add(&a->chunks, tree_of(a, arena), chunks_split(&a->chunks, id, bytes));
    return id;
}

static uint32_t serve(arenas *a, uint64_t bytes, uint32_t stream)
{
    const uint32_t arena = bytes <= LEAST ? stream + 1 : GLOBAL;
    uint32_t id = first_fit(a, arena, bytes);
    if (id == MR_NONE && arena != GLOBAL) id = first_fit(a, GLOBAL, bytes);
    if (id == MR_NONE) return MR_NONE;
    const uint32_t b = a->chunks.all.at[id].stream;
    const uint64_t least = bytes > LEAST ? bytes : LEAST;
    if (joinable(a, b) && a->chunks.all.at[id].bytes >= least + LEAST)
        return take_cut(a, id, bytes, arena);
    if (a->blocks.at[b].arena != arena) move_superblock(a, b, arena);
    return take(a, id, bytes);
}

static void begin(arenas *a, mr_placer *placer)
{
    a->begun = true;
    const uint64_t bytes = a->bytes ? a->bytes : rmm_percent(placer, 50);
    uint32_t id = MR_NONE;
    if (bytes >= LEAST) id = chunks_reserve(&a->chunks, placer, bytes, 0);
    a->broken = id == MR_NONE;
    if (a->broken) return;
    new_superblock(a, (superblock){id, MR_NONE, MR_NONE, GLOBAL});
    chunks_tree_add(&a->chunks, tree_of(a, GLOBAL), id);
}

static bool arena_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    arenas *a = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!a->begun) begin(a, placer);
    if (a->broken || !chunks_round(request->bytes, RMM_UNIT, &bytes)) return false;
    uint32_t id = serve(a, bytes, request->stream);
    if (id == MR_NONE) {
        hand_back(a);
        placer->out->retries++;
        id = serve(a, bytes, request->stream);
    }
    if (id == MR_NONE) return false;
    *out = chunks_block(&a->chunks, id);
    return true;
}

static void arena_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    arenas *a = self;
    if (!block->bytes) return;
    uint32_t id = block->handle;
    const uint32_t b = a->chunks.all.at[id].stream, arena = a->blocks.at[b].arena;
    if (arena == GLOBAL && chunks_whole(&a->chunks, id)) {
        free_superblock(a, b);
        return;
    }
    id = chunks_tree_free(&a->chunks, tree_of(a, arena), id);
    coalesce_superblock(a, a->chunks.all.at[id].stream);
}

static void arena_near(void *self, const mr_block *block, bool closer)
{
    const arenas *a = self;
    chunks_near(&a->chunks, block, closer);
    if (closer && block->bytes) MR_FETCH(owner(a, block->handle));
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    arenas a = {.chunks = chunks_make(ctx),
                .bytes = s->arena_size / RMM_UNIT * RMM_UNIT,
                .spare = MR_NONE};
    out->out->limit = s->arena_size;
    const mr_online policy = {
        .self = &a, .alloc = arena_alloc, .free = arena_free, .near = arena_near};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_rmm_arena = {
    .name = "rmm_arena",
    .summary = "RMM's arenas: streams borrow superblocks of 1 MiB, first fit by address",
    .source = "RMM, arena_memory_resource",
    .how =
        ""
        "rmm.mr.set_current_device_resource(rmm.mr.ArenaMemoryResource(rmm.mr."
        "CudaMemoryResource())), "
        "then "
        "torch.cuda.memory.change_current_allocator(rmm.allocators.torch.rmm_torch_allocator)",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
