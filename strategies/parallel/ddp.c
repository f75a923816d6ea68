/* ddp -- one of several devices that train the same model on batches of their own.
 *
 * Gradients go through flat buckets, filled as they get ready in the backward pass; a full
 * bucket is summed over all devices on a stream of its own, while the backward pass goes on.
 * The first bucket is small, so that it starts early.  ZeRO divides what every device would
 * hold: optimizer state (1), gradients too (2), and parameters (3).
 */
#include "strategy.h"

#include "replica.h"
#include "shards.h"

static const mr_param params_table[] = {
    MR_PARAM_INT(replica_choice, ranks, "8", 1, 1048576, "number of devices"),
    MR_PARAM_INT(replica_choice, zero, "0", 0, 3,
                 "stage of ZeRO: 1 divides optimizer state, 2 gradients as well, 3 parameters"
                 " too, as fsdp does"),
    MR_PARAM_BOOL(replica_choice, gradient_as_bucket_view, "False",
                  "gradients are a part of their bucket"),
    MR_PARAM_INT(replica_choice, bucket_cap_mb, "0", 0, 1048576,
                 "when a bucket is full, in MiB; 0 for PyTorch's None: 25, of the first one 1"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const replica_choice *choice = params;
    const shards_choice all = {
        .ranks = choice->ranks, .module = "", .prefetch = 1, .limit_all_gathers = true};
    if (choice->zero == 3) return shards_rewrite(ctx, in, &all, out);
    return replica_rewrite(ctx, in, choice, out);
}

const mr_strategy mr_strategy_ddp = {
    .name = "ddp",
    .summary =
        "trains on several devices: buckets of gradients, all-reduce beside the backward pass",
    .source =
        "PyTorch's DistributedDataParallel, Li et al. 2020; ZeRO, Rajbhandari et al. 2020",
    .how =
        "torch.nn.parallel.DistributedDataParallel(model,"
        " gradient_as_bucket_view={gradient_as_bucket_view}); "
        "zero=1 and 2 are DeepSpeed's; nearest to 1 is"
        " torch.distributed.optim.ZeroRedundancyOptimizer",
    .params = params_table,
    .params_size = sizeof(replica_choice),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
