/* sdpa -- attention by one fused kernel instead of by its formula.
 *
 * What is replaced is softmax(mask(scale * q k^T)) v with everything around it that
 * torch.matmul and torch.nn.functional.dropout add; its backward pass becomes one op too.
 * Scores are never stored: the backward pass computes them again from q, k and a number for
 * each row.
 */
#include "strategy.h"

#include "attention.h"

typedef struct settings {
    uint64_t kernel, mask;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(
        settings, kernel, "auto|flash|efficient", "auto",
        "which one; auto takes flash for half precision without a mask, as PyTorch; what"
        " comes after, as amp, leaves it as it is"),
    MR_PARAM_CHOICE(settings, mask, "pass|none", "pass",
                    "none leaves out a mask that is not causal: all sentences are full"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    const settings *chosen = params;
    return attention_fuse(ctx, in, (attention_kernel)chosen->kernel, chosen->mask == 1, out);
}

const mr_strategy mr_strategy_sdpa = {
    .name = "sdpa",
    .summary = "computes attention by one fused kernel that stores no scores",
    .source =
        "torch.nn.functional.scaled_dot_product_attention; FlashAttention, Dao et al. 2022",
    .how =
        "torch.nn.functional.scaled_dot_product_attention(q, k, v); in Transformers "
        "from_pretrained(..., attn_implementation=\"sdpa\")",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
