/* checkpoint -- forgets what a part of the forward pass saved and runs it again for the
 * backward.
 *
 * By default the parts are the repeated blocks of the model, each wrapped in
 * torch.utils.checkpoint: `checkpoint`.  Others: `checkpoint:module=encoder.layer.*`, or,
 * without a look at modules, equally many stages of the chain that the forward pass is:
 * `checkpoint:sqrt`.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; what happens when is
 * PyTorch's (see checkpoint/recompute.c).
 */
#include "strategy.h"

#include "recompute.h"

typedef struct settings {
    uint64_t by, every, segments;
    const char *module, *groups, *keep;
    bool reentrant;
} settings;

enum { BY_MODULE, BY_SQRT, BY_ATTENTION };

static const mr_param params[] = {
    MR_PARAM_CHOICE(
        settings, by, "module|sqrt|attention", "module",
        "what runs again: calls of modules; segments of the chain of stages, as many"
        " as each has stages; the core of attention"),
    MR_PARAM_INT(settings, every, "0", 0, 1000000, "segments of so many stages instead"),
    MR_PARAM_INT(settings, segments, "0", 0, 1000000,
                 "so many segments instead; of modules, where these are named"),
    MR_PARAM_TEXT(settings, module, "",
                  "paths of modules, with * for a name; usually the repeated blocks"),
    MR_PARAM_TEXT(settings, groups, "",
                  "how many of these modules are one part each, such as [5,5,7]"),
    MR_PARAM_TEXT(settings, keep, "",
                  "ops whose results are kept all the same, such as [mm,addmm,bmm]"),
    MR_PARAM_BOOL(settings, reentrant, "False", "as with use_reentrant=True"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    const bool chain = s->every || (s->segments && !*s->module);
    const int said = (s->by != BY_MODULE) + chain + (*s->module != 0);
    if (said > 1 || (s->every && s->segments))
        return mr_fail(
            ctx, MR_EUSAGE,
            "expected only one of sqrt, attention, every, segments and module (segments"
            " goes with module)");
    if (*s->groups && (!*s->module || s->segments))
        return mr_fail(ctx, MR_EUSAGE, "groups goes with module, and not with segments");
    if (s->reentrant && *s->keep)
        return mr_fail(ctx, MR_EUSAGE, "a reentrant checkpoint cannot keep anything");
    return MR_OK;
}

static mr_status find_regions(mr_ctx *ctx, const settings *s, const mr_trace *in, regions *out)
{
    if (s->by == BY_SQRT) return region_find_cuts(ctx, in, REGION_SQRT, 0, out);
    if (s->by == BY_ATTENTION) return region_find_attention(ctx, in, out);
    if (s->every) return region_find_cuts(ctx, in, REGION_EVERY, (uint32_t)s->every, out);
    if (s->segments && !*s->module)
        return region_find_cuts(ctx, in, REGION_SEGMENTS, (uint32_t)s->segments, out);
    MR_TRY(region_find_modules(ctx, in, s->module, out));
    if (*s->groups) return region_join(ctx, in, out, s->groups);
    if (!s->segments) return MR_OK;
    region_group(ctx, in, out, (uint32_t)s->segments);
    if (out->n) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' has fewer such modules than segments, or one only", in->name);
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    const recompute_how how = {.reentrant = s->reentrant, .keep = s->keep};
    regions list = {0};
    MR_TRY(find_regions(ctx, s, in, &list));
    return recompute(ctx, in, &list, &how, out);
}

const mr_strategy mr_strategy_checkpoint = {
    .name = "checkpoint",
    .summary = "runs parts of the forward pass again instead of keeping what they saved",
    .source = "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; PyTorch's"
              " torch.utils.checkpoint",
    .how =
        "torch.utils.checkpoint.checkpoint(block, x, use_reentrant={reentrant}) in place of "
        "block(x), for each block; in Transformers model.gradient_checkpointing_enable()",
    .params = params,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .validate = validate,
    .rewrite = rewrite,
};
