/* rmm_binning -- RMM's binning_memory_resource: small requests get blocks of fixed sizes.
 *
 * The smallest bin that is large enough serves a request, and larger ones go upstream.  A bin
 * asks upstream for 128 blocks at once, the first ones before it is used; each stream has a
 * queue of free ones, takes from its front, puts back at its end, and without any takes from
 * another stream's.
 */
#include "rmm_lists.h"
#include "strategy.h"

#define OF_BIN ((uint32_t)1 << 31) /* in a handle: a block of a bin, not a chunk */
enum { POOL, CUDA };
enum {
    PREALLOCATED = 128,
    CPU_UNIT = 16, /* what passes between two resources is rounded to what a CPU aligns to */
};

typedef struct settings {
    uint64_t min_size_exponent, max_size_exponent, upstream;
    uint64_t percent_of_free_device_memory;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, min_size_exponent, "18", 8, 40, "the smallest bin is 2 to this"),
    MR_PARAM_INT(settings, max_size_exponent, "22", 8, 40, "the largest bin"),
    MR_PARAM_CHOICE(settings, upstream, "pool|cuda", "pool",
                    "where bins and larger requests get memory from"),
    MR_PARAM_INT(settings, percent_of_free_device_memory, "50", 0, 100,
                 "of an upstream pool, taken at first"),
    {0},
};

typedef struct fixed {
    uint64_t offset;
    uint32_t segment, bin, stream, next;
} fixed;

typedef struct queue {
    uint32_t front, back;
} queue;

typedef MR_VEC(queue) queues; /* by stream */

typedef struct binning {
    settings settings;
    rmm_lists pool;
    MR_VEC(fixed) blocks;
    queues bins[64];    /* by exponent */
    bool begun, broken; /* broken: there was no memory for the first blocks */
} binning;

/* ---- queues ------------------------------------------------------------------------------ */

static void append(binning *b, uint32_t id, uint32_t stream)
{
    fixed *block = &b->blocks.at[id];
    queues *streams = &b->bins[block->bin];
    while (streams->n <= stream)
        MR_PUSH(b->pool.chunks.ctx, streams, (queue){MR_NONE, MR_NONE});
    queue *q = &streams->at[stream];
    block->stream = stream;
    block->next = MR_NONE;
    if (q->front == MR_NONE) q->front = id;
    else b->blocks.at[q->back].next = id;
    q->back = id;
}

static uint32_t pop(binning *b, uint32_t bin, uint32_t stream)
{
    if (stream >= b->bins[bin].n) return MR_NONE;
    queue *q = &b->bins[bin].at[stream];
    const uint32_t id = q->front;
    if (id != MR_NONE) q->front = b->blocks.at[id].next;
    return id;
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint32_t upstream(binning *b, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    if (b->settings.upstream == CUDA)
        return chunks_reserve(&b->pool.chunks, placer, bytes, stream);
    return rmm_lists_alloc(&b->pool, placer, bytes, stream);
}

static bool fill(binning *b, mr_placer *placer, uint32_t bin, uint32_t stream)
{
    const uint64_t bytes = (uint64_t)1 << bin;
    const uint32_t whole = upstream(b, placer, bytes * PREALLOCATED, stream);
    if (whole == MR_NONE) return false;
    const mr_block all = chunks_block(&b->pool.chunks, whole);
    for (uint32_t i = 0; i < PREALLOCATED; i++) {
        MR_PUSH(b->pool.chunks.ctx, &b->blocks,
                (fixed){.offset = all.offset + i * bytes, .segment = all.segment, .bin = bin});
        append(b, b->blocks.n - 1, stream);
    }
    return true;
}

static bool bin_alloc(binning *b, mr_placer *placer, uint32_t bin, uint32_t stream,
                      mr_block *out)
{
    uint32_t id = pop(b, bin, stream);
    for (uint32_t other = 0; id == MR_NONE && other < b->bins[bin].n; other++)
        id = pop(b, bin, other);
    if (id == MR_NONE && fill(b, placer, bin, stream)) id = pop(b, bin, stream);
    if (id == MR_NONE) return false;
    fixed *block = &b->blocks.at[id];
    block->stream = stream;
    *out = (mr_block){block->segment, id | OF_BIN, block->offset, (uint64_t)1 << bin};
    return true;
}

/* Each bin has its first blocks for the default stream, before anything is asked for. */
static void begin(binning *b, mr_placer *placer)
{
    b->begun = true;
    uint32_t bin = (uint32_t)b->settings.min_size_exponent;
    while (!b->broken && bin <= b->settings.max_size_exponent)
        b->broken = !fill(b, placer, bin++, 0);
}

static bool binning_alloc(void *self, mr_placer *placer, const mr_request *request,
                          mr_block *out)
{
    binning *b = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    if (!b->begun) begin(b, placer);
    if (b->broken) return false;
    uint32_t bin = (uint32_t)b->settings.min_size_exponent;
    const uint32_t last = (uint32_t)b->settings.max_size_exponent;
    while (bin <= last && (uint64_t)1 << bin < request->bytes) bin++;
    if (bin <= last) return bin_alloc(b, placer, bin, request->stream, out);
    uint64_t bytes;
    const uint64_t unit = b->settings.upstream == CUDA ? CPU_UNIT : RMM_UNIT;
    if (!chunks_round(request->bytes, unit, &bytes)) return false;
    const uint32_t id = upstream(b, placer, bytes, request->stream);
    if (id == MR_NONE) return false;
    *out = chunks_block(&b->pool.chunks, id);
    return true;
}

static void binning_free(void *self, mr_placer *placer, const mr_block *block)
{
    binning *b = self;
    if (!block->bytes) return;
    const uint32_t id = block->handle & ~OF_BIN;
    if (block->handle & OF_BIN) append(b, id, b->blocks.at[id].stream);
    else if (b->settings.upstream == CUDA) chunks_release(&b->pool.chunks, placer, id);
    else rmm_lists_free(&b->pool, id);
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    if (s->min_size_exponent > s->max_size_exponent)
        return mr_fail(ctx, MR_EUSAGE, "min_size_exponent is above max_size_exponent");
    return MR_OK;
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    const uint64_t initial = rmm_percent(out, s->percent_of_free_device_memory);
    binning b = {.settings = *s, .pool = rmm_lists_make(ctx, initial, 0)};
    const mr_online policy = {.self = &b, .alloc = binning_alloc, .free = binning_free};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_rmm_binning = {
    .name = "rmm_binning",
    .summary = "RMM's bins of fixed sizes, with its pool behind them",
    .source = "RMM, binning_memory_resource and fixed_size_memory_resource",
    .how =
        "rmm.mr.set_current_device_resource(rmm.mr.BinningMemoryResource(...)), then "
        "torch.cuda.memory.change_current_allocator(rmm.allocators.torch.rmm_torch_allocator)",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
