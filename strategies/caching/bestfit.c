/* bestfit -- the smallest free place that is large enough, of equal ones the lowest.
 *
 * A reference, no program's allocator: one range of addresses for all streams, mapped page by
 * page at its end and never given back.
 */
#include "fit_arena.h"
#include "strategy.h"

static const mr_param params_table[] = {FIT_PARAMS, {0}};

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    return fit_place(ctx, false, params, in, out);
}

const mr_strategy mr_strategy_bestfit = {
    .name = "bestfit",
    .summary = "the smallest free place that is large enough, in one growing range",
    .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
    .params = params_table,
    .params_size = sizeof(fit_settings),
    .place = place,
};
