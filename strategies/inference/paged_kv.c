/* paged_kv -- keys and values of generated tokens in pools of blocks, without copies.
 *
 * What a program keeps with torch.cat is copied for each token, and the old and the new cache
 * are there together.  vLLM takes one pool for each layer before it begins and cuts it into
 * blocks of so many tokens: a sequence gets another block when its last one is full, a token is
 * written behind the others, and attention finds them by a table.  Nothing is copied, nothing
 * lies between blocks; what is lost is the unfilled part of each sequence's last block, and a
 * block that stands for none.
 *
 * Modelled is memory and the copies: pools have as many blocks as the step fills, or as many as
 * num_gpu_blocks_override says (vLLM takes what the device has left); keys and values of a
 * layer have a pool each; kernels of attention read what they read, through a table now.
 */
#include "strategy.h"

#include "kv_cache.h"

typedef struct settings {
    uint64_t block_size, num_gpu_blocks_override;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, block_size, "16", 1, 1e6, "tokens of a block"),
    MR_PARAM_INT(settings, num_gpu_blocks_override, "0", 0, 4e9,
                 "blocks of a pool, with the null block; 0 for what the step fills"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *s = params;
    return kv_page(ctx, in, s->block_size, s->num_gpu_blocks_override, out);
}

const mr_strategy mr_strategy_paged_kv = {
    .name = "paged_kv",
    .summary = "keys and values of generated tokens in pools of blocks, not copied",
    .source = "vLLM, v1/core/block_pool.py; PagedAttention, Kwon et al. 2023",
    .how = "an engine with a paged cache, such as vLLM",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW,
    .rewrite = rewrite,
};
