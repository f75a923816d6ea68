/* rmm_pool -- RMM's pool_memory_resource (the pool itself is in rmm/). */
#include "rmm_lists.h"
#include "strategy.h"

typedef struct settings {
    uint64_t initial_pool_size, maximum_pool_size, percent_of_free_device_memory;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, initial_pool_size, "0", 0, 0,
                  "taken from the device at first; 0 for the percentage below"),
    MR_PARAM_SIZE(settings, maximum_pool_size, "0", 0, 0, "it grows no further; 0 for none"),
    MR_PARAM_INT(settings, percent_of_free_device_memory, "50", 0, 100,
                 "taken at first unless a size is given, RMM's default is half; 0 for nothing"),
    {0},
};

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    rmm_lists *pool = self;
    *out = (mr_block){.segment = MR_NONE};
    if (!request->bytes) return true;
    uint64_t bytes;
    if (!chunks_round(request->bytes, RMM_UNIT, &bytes)) return false;
    const uint32_t id = rmm_lists_alloc(pool, placer, bytes, request->stream);
    if (id == MR_NONE) return false;
    *out = chunks_block(&pool->chunks, id);
    return true;
}

static void pool_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    if (block->bytes) rmm_lists_free(self, block->handle);
}

static void pool_near(void *self, const mr_block *block, bool closer)
{
    const rmm_lists *pool = self;
    chunks_near(&pool->chunks, block, closer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    uint64_t initial = s->initial_pool_size;
    if (!initial) initial = rmm_percent(out, s->percent_of_free_device_memory);
    if (s->maximum_pool_size && !s->initial_pool_size && initial > s->maximum_pool_size)
        initial = s->maximum_pool_size / RMM_UNIT * RMM_UNIT;
    rmm_lists pool = rmm_lists_make(ctx, initial, s->maximum_pool_size);
    out->out->limit = s->maximum_pool_size;
    const mr_online policy = {
        .self = &pool, .alloc = pool_alloc, .free = pool_free, .near = pool_near};
    return mr_place_online(out, in, &policy);
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    if (s->initial_pool_size % RMM_UNIT || s->maximum_pool_size % RMM_UNIT)
        return mr_fail(ctx, MR_EUSAGE, "RMM takes pool sizes that are multiples of 256 bytes");
    if (s->maximum_pool_size && s->initial_pool_size > s->maximum_pool_size)
        return mr_fail(ctx, MR_EUSAGE, "initial_pool_size is above maximum_pool_size");
    return MR_OK;
}

const mr_strategy mr_strategy_rmm_pool = {
    .name = "rmm_pool",
    .summary = "RMM's pool: best fit in each stream, streams take from each other",
    .source = "RMM, pool_memory_resource and stream_ordered_memory_resource",
    .how =
        "rmm.reinitialize(pool_allocator=True), then "
        "torch.cuda.memory.change_current_allocator(rmm.allocators.torch.rmm_torch_allocator)",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
