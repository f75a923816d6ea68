/* native -- one device allocation per tensor, given back as soon as it is freed.
 *
 * What a program does that calls cudaMalloc and cudaFree by hand.  Memory is rounded up to
 * whole pages by the device; every allocation and every free is a call, and the calls are
 * what it costs.
 */
#include "strategy.h"

static bool native_alloc(void *self, mr_placer *placer, const mr_request *request,
                         mr_block *out)
{
    (void)self;
    *out = (mr_block){.segment = MR_NONE, .bytes = request->bytes};
    if (!request->bytes) return true; /* cudaMalloc of nothing gives nothing */
    const mr_segment want = {.bytes = request->bytes, .stream = request->stream};
    return mr_reserve(placer, &want, &out->segment);
}

static void native_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)self;
    if (block->bytes) mr_release(placer, block->segment);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    (void)ctx, (void)params;
    const mr_online policy = {.alloc = native_alloc, .free = native_free};
    return mr_place_online(out, in, &policy);
}

const mr_strategy mr_strategy_native = {
    .name = "native",
    .summary = "one device allocation per tensor, no reuse at all",
    .how = "PYTORCH_NO_CUDA_MEMORY_CACHING=1 in the environment",
    .place = place,
};
