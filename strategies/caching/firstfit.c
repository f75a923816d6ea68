/* firstfit -- the lowest free place that is large enough.
 *
 * A reference, no program's allocator: one range of addresses for all streams, mapped page by
 * page at its end and never given back.
 */
#include "fit_arena.h"
#include "strategy.h"

typedef struct settings {
    uint64_t alignment;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_SIZE(settings, alignment, "512", 1, 1e15, "sizes are rounded up to a multiple"),
    {0},
};

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    return fit_place(ctx, true, s->alignment, in, out);
}

const mr_strategy mr_strategy_firstfit = {
    .name = "firstfit",
    .summary = "the lowest free place that is large enough, in one growing range",
    .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
    .params = params_table,
    .params_size = sizeof(settings),
    .place = place,
};
