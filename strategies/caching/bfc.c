/* bfc -- TensorFlow's allocator, best fit with coalescing; XLA and JAX use it too.
 *
 * Knows no streams: whatever is free is for everybody.  A chunk is handed out whole unless half
 * of it, or 128 MiB, would be left.
 */
#include "bfc_heap.h"
#include "strategy.h"

typedef struct settings {
    bool allow_growth, garbage_collection;
    double per_process_gpu_memory_fraction, prealloc, fragmentation_fraction;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_BOOL(settings, allow_growth, "True",
                  "regions of 2 MiB and doubling; False: all at once, TensorFlow's default"),
    MR_PARAM_REAL(settings, per_process_gpu_memory_fraction, "0", 0, 1,
                  "part of the device it may take; 0 for what there is"),
    MR_PARAM_REAL(settings, prealloc, "0", 0, 1,
                  "part of the device taken at once and never more, JAX: 0.75; 0 for none"),
    MR_PARAM_BOOL(settings, garbage_collection, "False",
                  "gives free regions back before it refuses"),
    MR_PARAM_REAL(settings, fragmentation_fraction, "0", 0, 1,
                  "part of the limit that a rest must have to be split off; 0 for 128 MiB"),
    {0},
};

static uint64_t part(double fraction, uint64_t of)
{
    return (uint64_t)(fraction * (double)of);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    const bool growing = s->allow_growth && !(s->prealloc > 0);
    const double fraction =
        s->prealloc > 0 ? s->prealloc : s->per_process_gpu_memory_fraction;
    const uint64_t all = out->total < out->capacity ? out->total : out->capacity;
    const uint64_t limit = fraction > 0 ? part(fraction, out->total) : all;
    if (fraction > 0) out->out->limit = limit;
    const bfc_rules rules = {
        .limit = limit,
        .region = growing && limit > 2 * MR_MIB ? 2 * MR_MIB : limit,
        .most_rest = s->fragmentation_fraction > 0 ? part(s->fragmentation_fraction, limit)
                                                   : 128 * MR_MIB,
        .collect = s->garbage_collection,
        .backpedal_once = true,
    };
    return bfc_place(ctx, &rules, in, out);
}

const mr_strategy mr_strategy_bfc = {
    .name = "bfc",
    .summary = "TensorFlow's and JAX's: best fit with coalescing, in regions that double",
    .source = "TensorFlow and XLA, tsl/framework/bfc_allocator.cc",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
