/* nograd -- inference: the forward pass under torch.no_grad(), the model in eval().
 *
 * No gradients, no optimizer, nothing saved: activations end with the program's own references.
 * Dropout is the identity, and gives its input itself.  Batch normalization reads its running
 * statistics, keeps none of the batch and does not count batches.
 */
#include "strategy.h"

#include "inference.h"

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    (void)params;
    return inference(ctx, in, out);
}

const mr_strategy mr_strategy_nograd = {
    .name = "nograd",
    .summary = "runs the forward pass alone, as for inference: no gradients, nothing saved",
    .source = "PyTorch's torch.no_grad() and Module.eval()",
    .how = "model.eval(), and with torch.no_grad(): around the forward pass",
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_DROPS,
    .other_result = true,
    .rewrite = rewrite,
};
