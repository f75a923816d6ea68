/* checkpoint -- forgets what a part of the forward pass saved and runs it again for the
 * backward.
 *
 * By default the parts are the repeated blocks of the model, each wrapped in
 * torch.utils.checkpoint: `checkpoint`.  Others: `checkpoint:module=encoder.layer.*`.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; what happens when is
 * PyTorch's (see checkpoint/recompute.c).
 */
#include "strategy.h"

#include "recompute.h"

typedef struct settings {
    const char *module;
    bool reentrant;
} settings;

static const mr_param params[] = {
    MR_PARAM_TEXT(
        settings, module, "",
        "paths of modules to run again, with * for a name; usually the repeated blocks"),
    MR_PARAM_BOOL(settings, reentrant, "False", "as with use_reentrant=True"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    regions list = {0};
    const recompute_how how = {.reentrant = s->reentrant};
    MR_TRY(region_find_modules(ctx, in, s->module, &list));
    return recompute(ctx, in, &list, &how, out);
}

const mr_strategy mr_strategy_checkpoint = {
    .name = "checkpoint",
    .summary = "runs parts of the forward pass again instead of keeping what they saved",
    .source = "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; PyTorch's"
              " torch.utils.checkpoint",
    .params = params,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
