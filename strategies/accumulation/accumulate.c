/* accumulate -- the batch in k micro-batches: forward and backward k times, one update.
 *
 * Every op between the first of the forward and the last of the backward pass is done in k
 * parts, on sizes that follow from bytes per sample.  The first part leaves its gradients where
 * they were; those of the others are added to them, each when the engine has finished it, and
 * let go.  With set_to_none=False the gradients live through the whole step, are zeroed at its
 * beginning, and the first part adds as well.  The loss is divided by k.
 */
#include "strategy.h"

#include "micro_batches.h"

typedef struct settings {
    uint64_t k;
    bool set_to_none;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, k, "4", 1, 65536, "number of micro-batches, cut as torch.chunk does: the last has the rest"),
    MR_PARAM_BOOL(settings, set_to_none, "True",
                  "whether zero_grad() lets gradients go; False keeps and zeroes them"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *chosen = params;
    return micro_batches(ctx, in, chosen->k, chosen->set_to_none, out);
}

const mr_strategy mr_strategy_accumulate = {
    .name = "accumulate",
    .summary = "does the batch in micro-batches, adds their gradients and updates once",
    .how =
        "for each of {k} parts of the batch (loss / {k}).backward(); then optimizer.step() "
        "and optimizer.zero_grad(set_to_none={set_to_none}) once",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
