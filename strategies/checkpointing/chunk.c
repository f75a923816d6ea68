/* chunk -- does parts of the model on a slice of the tokens, or of the queries, at a time.
 *
 * What only a slice needs then has a slice's size: scores of attention, the inner layer of a
 * block, the scores of all words.  In training that pays only if every slice forgets what it
 * saved and runs again in the backward pass, as it does when each is wrapped in
 * torch.utils.checkpoint; recompute=False leaves that out, as Hugging Face's
 * apply_chunking_to_forward does.
 */
#include "recompute.h"
#include "slices.h"
#include "strategy.h"

#include <string.h>

typedef struct settings {
    uint64_t attention, loss, mlp;
    bool recompute;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, attention, "1", 1, 65536, "slices of the queries of each attention"),
    MR_PARAM_INT(settings, loss, "1", 1, 65536,
                 "slices of the tokens from the last product to the loss"),
    MR_PARAM_INT(settings, mlp, "1", 1, 65536,
                 "slices of the tokens of two products with an activation between"),
    MR_PARAM_BOOL(settings, recompute, "True",
                  "each slice is computed again in the backward pass"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    if (s->attention > 1 || s->loss > 1 || s->mlp > 1) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "expected how many slices of what, such as attention=4, loss=8 or mlp=4");
}

static void find(slices *s, const settings *chosen)
{
    slices_begin(s);
    if (chosen->attention > 1) slices_find_attention(s, (uint32_t)chosen->attention);
    if (chosen->loss > 1) slices_find_losses(s, (uint32_t)chosen->loss);
    if (chosen->mlp > 1) slices_find_blocks(s, (uint32_t)chosen->mlp);
    slices_look(s);
}

static bool is_in_parts(const mr_trace *in)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].part) return true;
    return false;
}

static mr_status check_there_is_one(slices *s)
{
    const char *hint = is_in_parts(s->in) ? " (slices come before micro-batches, as in"
                                            " chunk+accumulate)"
                                          : "";
    const char *why = NULL;
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->all.n; i++) {
        const slice_region *r = &s->all.at[i];
        if (r->refused) why = r->refused;
        else left++;
        if (r->refused)
            mr_rewrite_remark(&s->r, "chunk leaves %s whole: %s", r->name, r->refused);
    }
    if (left) return MR_OK;
    if (why)
        return mr_fail(s->ctx, MR_EUNSUPPORTED,
                       "none of %s of '%s' can be done in slices: of the last, %s%s",
                       mr_show_count(s->ctx, s->all.n, "part", "parts"), s->in->name, why, hint);
    return mr_fail(s->ctx, MR_EUNSUPPORTED,
                   "'%s' has nothing of what is to be done in slices: no softmax between two"
                   " products, no activation between two products, no loss of tokens after one",
                   s->in->name);
}

static void remark_means(slices *s)
{
    for (uint32_t i = 0; i < s->all.n; i++) {
        const slice_region *r = &s->all.at[i];
        if (r->refused || r->length % r->parts == 0) continue;
        mr_rewrite_remark(&s->r, "the last slice of %s has fewer rows than the others",
                          r->name);
        return;
    }
}

static bool trains(const slices *s)
{
    for (uint32_t i = 0; i < s->all.n; i++)
        if (!s->all.at[i].refused && s->all.at[i].back != MR_NONE) return true;
    return false;
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *chosen = of;
    const recompute_how how = {.keep = ""};
    mr_trace *sliced = MR_NEW(ctx, mr_trace);
    slices *s = MR_NEW(ctx, slices);
    regions pieces = {0};
    s->ctx = ctx;
    s->in = in;
    MR_TRY(mr_rewrite_before_evictions(ctx, in, "chunk"));
    MR_TRY(mr_rewrite_begin(ctx, in, sliced, &s->r));
    find(s, chosen);
    MR_TRY(check_there_is_one(s));
    remark_means(s);
    slices_write(s, &pieces);
    if (chosen->recompute && trains(s)) return recompute(ctx, sliced, &pieces, &how, out);
    *out = *sliced;
    return MR_OK;
}

const mr_strategy mr_strategy_chunk = {
    .name = "chunk",
    .summary = "does attention, blocks or the loss on a slice of the tokens at a time",
    .source =
        "Rabe and Staats, Self-attention Does Not Need O(n^2) Memory, 2021; Hugging Face's"
        " apply_chunking_to_forward",
    .how =
        "a loop over x.split(n, dim=1), each part in torch.utils.checkpoint.checkpoint; in "
        "Diffusers pipe.enable_attention_slicing()",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .validate = validate,
    .rewrite = rewrite,
};
