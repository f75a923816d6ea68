/* fsdp -- one of several devices, each of which holds a part of every parameter.
 *
 *     forward    gather unit 1 ─► compute it ─► let it go, gather unit 2 ─► compute it ─► ...
 *     backward   ... gather unit 2 ─► gradients ─► let it go, send gradients ─► gather unit 1
 *
 * Parameters, gradients and optimizer state are divided: ZeRO's stage 3.  A unit is a module
 * that is wrapped, usually the repeated blocks; what is in none is the root, which is gathered
 * first and stays.  Collectives have streams of their own, so that they go beside computing.
 */
#include "strategy.h"

#include "shards.h"

static const mr_param params_table[] = {
    MR_PARAM_INT(shards_choice, ranks, "8", 1, 1048576, "number of devices"),
    MR_PARAM_TEXT(shards_choice, module, "",
                  "paths of modules that are units, * standing for a name; usually the repeated"
                  " blocks"),
    MR_PARAM_CHOICE(shards_choice, reshard, "default|True|False", "default",
                    "reshard_after_forward: parameters are let go between forward and backward"
                    " pass; usually all but the root's"),
    MR_PARAM_INT(shards_choice, prefetch, "1", 0, 1048576,
                 "how many units are gathered ahead in the backward pass"),
    MR_PARAM_INT(shards_choice, forward_prefetch, "0", 0, 1048576, "and in the forward pass"),
    MR_PARAM_BOOL(shards_choice, limit_all_gathers, "True",
                  "False: the host issues all gathers of a pass when that begins, as where it"
                  " runs far ahead of the device"),
    MR_PARAM_CHOICE(shards_choice, param_dtype, "none|bfloat16|float16", "none",
                    "of a MixedPrecisionPolicy, behind half, which computes in that: parts,"
                    " states and the update are in float32"),
    MR_PARAM_CHOICE(shards_choice, reduce_dtype, "float32|bfloat16|float16", "float32",
                    "of that: gradients are sent so"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    return shards_rewrite(ctx, in, params, out);
}

const mr_strategy mr_strategy_fsdp = {
    .name = "fsdp",
    .summary = "trains on several devices that divide parameters, gradients and states: ZeRO 3",
    .source = "PyTorch's fully_shard and FullyShardedDataParallel; ZeRO, Rajbhandari et al."
              " 2020",
    .how = "torch.distributed.fsdp.fully_shard(block) for each block, then fully_shard(model)",
    .params = params_table,
    .params_size = sizeof(shards_choice),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
