/* fuse -- ops that work number by number, one after another, as one kernel.
 *
 * As torch.compile's Inductor does it with a chain of pointwise ops: fewer kernels, and what is
 * only handed on inside a chain is neither written nor read.  What ops of a chain save for the
 * backward pass is kept as before; Inductor's partitioner, which would rather compute some of
 * that again, is `mincut`.
 */
#include "strategy.h"

#include "pointwise.h"

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    (void)params;
    return pointwise_fuse(ctx, in, out);
}

const mr_strategy mr_strategy_fuse = {
    .name = "fuse",
    .summary = "makes one kernel of ops that work number by number, one after another",
    .source = "torch.compile with TorchInductor, Ansel et al. 2024",
    .how = "torch.compile(model)",
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
