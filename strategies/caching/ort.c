/* ort -- the arena of ONNX Runtime, which is TensorFlow's allocator with rules of its own.
 *
 * As its CPU and non-stream paths use it: chunks know no streams.  A flush is its Shrink().
 */
#include "bfc_heap.h"
#include "strategy.h"

enum { NEXT_POWER_OF_TWO, SAME_AS_REQUESTED };

typedef struct settings {
    uint64_t arena_extend_strategy;
    uint64_t gpu_mem_limit, initial_chunk_size_bytes, max_dead_bytes_per_chunk;
    uint64_t initial_growth_chunk_size_bytes;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, arena_extend_strategy, "kNextPowerOfTwo|kSameAsRequested",
                    "kNextPowerOfTwo", "size of a new region"),
    MR_PARAM_SIZE(settings, gpu_mem_limit, "0", 0, 0, "of all regions; 0 for none"),
    MR_PARAM_SIZE(settings, initial_chunk_size_bytes, "1MiB", 256, 1e15,
                  "size of the first region"),
    MR_PARAM_SIZE(settings, max_dead_bytes_per_chunk, "128MiB", 256, 1e15,
                  "a rest of this size is always split off"),
    MR_PARAM_SIZE(settings, initial_growth_chunk_size_bytes, "2MiB", 256, 1e15,
                  "size of the next region after the arena was shrunk"),
    {0},
};

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    const uint64_t limit = s->gpu_mem_limit ? s->gpu_mem_limit : UINT64_MAX / 2;
    out->out->limit = s->gpu_mem_limit;
    const bfc_rules rules = {
        .limit = limit,
        .region = limit < s->initial_chunk_size_bytes ? limit : s->initial_chunk_size_bytes,
        .most_rest = s->max_dead_bytes_per_chunk,
        .as_requested = s->arena_extend_strategy == SAME_AS_REQUESTED,
        .least = 8 * MR_KIB,
        .after_shrink = s->initial_growth_chunk_size_bytes,
    };
    return bfc_place(ctx, &rules, in, out);
}

const mr_strategy mr_strategy_ort = {
    .name = "ort",
    .summary = "the arena of ONNX Runtime: best fit with coalescing, regions double or fit",
    .source = "ONNX Runtime, onnxruntime/core/framework/bfc_arena.cc",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
