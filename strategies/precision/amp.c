/* amp -- torch.autocast over the forward pass, for float16 with a GradScaler.
 *
 * Matrix products and convolutions run with 16 bits and have what they read cast; norms, losses
 * and such with 32; everything else as what it reads.  Casts of parameters are kept until the
 * forward pass ends, casts of activations are not shared.  Gradients of parameters
 * have 32 bits.
 */
#include "strategy.h"

#include "autocast.h"

typedef struct settings {
    uint64_t dtype;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, dtype, "float16|bfloat16", "float16", "the 16 bits"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    return autocast_rewrite(ctx, in, s->dtype ? "bfloat16" : "float16", !s->dtype, out);
}

const mr_strategy mr_strategy_amp = {
    .name = "amp",
    .summary = "runs products with 16 bits and casts what they read, as torch.autocast does",
    .source = "PyTorch, torch.autocast and torch.amp.GradScaler",
    .how =
        "with torch.autocast(\"cuda\", dtype=torch.{dtype}): around forward pass and loss; "
        "for float16 with torch.amp.GradScaler(\"cuda\") too",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
