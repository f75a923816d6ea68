/* clip -- gradients are scaled down together when they are long, as clip_grad_norm_ does it.
 *
 * The length of each gradient, then of all lengths, then one pass over all gradients: nobody
 * asks how long they are before the update, unless error_if_nonfinite makes the host wait.
 * That is memory of no size, and time: gradients are read twice and written once.
 */
#include "strategy.h"

#include "norms.h"

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(norms_choice, form, "foreach|for-loop", "foreach",
                    "all gradients at once, or one by one as before PyTorch 2.0"),
    MR_PARAM_BOOL(norms_choice, error_if_nonfinite, "False",
                  "the host waits for the length, to see whether it is a number"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    mr_rewrite r;
    norms n;
    MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
    MR_TRY(norms_look(&r, &n));
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (e == n.begin) norms_write(&n, of);
        mr_rewrite_keep(&r, NULL, e);
    }
    return MR_OK;
}

const mr_strategy mr_strategy_clip = {
    .name = "clip",
    .summary = "scales gradients down together before the update, when they are too long",
    .how = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()",
    .source = "PyTorch's torch.nn.utils.clip_grad_norm_",
    .params = params_table,
    .params_size = sizeof(norms_choice),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
