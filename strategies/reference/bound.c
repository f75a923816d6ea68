/* bound -- the largest sum of bytes live at once: what no placement beats.
 *
 * Every tensor has addresses of its own for ever, and exactly its bytes stand behind them
 * while it lives; so nothing is rounded, nothing lies idle and nothing has to fit between
 * other things.  No device can do that for free, therefore its calls cost nothing here and
 * are not counted.
 */
#include "strategy.h"

static bool bound_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    (void)self;
    *out = (mr_block){.segment = MR_NONE, .bytes = request->bytes};
    if (!request->bytes) return true;
    if (request->bytes > mr_available(placer)) return false;
    const mr_segment want = {
        .bytes = request->bytes, .stream = request->stream, .page = 1, .expandable = true};
    return mr_reserve(placer, &want, &out->segment)
           && mr_map(placer, out->segment, 0, request->bytes);
}

static void bound_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)self;
    if (!block->bytes) return;
    mr_unmap(placer, block->segment, 0, block->bytes);
    mr_release(placer, block->segment);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    (void)ctx, (void)params;
    const mr_online policy = {.alloc = bound_alloc, .free = bound_free};
    out->out->ideal = true;
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_bound = {
    .name = "bound",
    .summary = "the largest sum of bytes live at once, which no placement beats",
    .fixed_inputs = true,
    .place = place,
};
