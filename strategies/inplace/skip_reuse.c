/* skip_reuse -- what skips a part of a network is made where it will be joined with others.
 *
 *     x ──► [ skip | room ] ──► ... the part that is skipped ... ──► y
 *                    ▲                                              │
 *                    └──────────────────────────────────────────────┘   copied here
 *
 * The memory of the result of torch.cat is there from the beginning, so the skip is not copied,
 * nor there twice as long as the backward pass needs both.  That pays where it does: in a U-Net
 * the skip is saved by what reads it on the way down, the result by the convolution behind it.
 * What lies apart in memory, as channels of a sample then do, kernels may copy inside; that is
 * not in the prediction.
 */
#include "strategy.h"

#include "skips.h"

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    (void)params;
    return skips_place(ctx, in, out);
}

const mr_strategy mr_strategy_skip_reuse = {
    .name = "skip_reuse",
    .summary = "makes what skips a part of the network where torch.cat would copy it to",
    .source = "memory-efficient DenseNets' shared storage, Pleiss et al. 2017; done in PyTorch"
              " with torch.autograd.Function",
    .how = "a torch.autograd.Function that writes the skip into the memory of the result of"
           " torch.cat, and another one that copies the rest behind it",
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED,
    .rewrite = rewrite,
};
