/* share -- parameters that several modules have in common, as in ALBERT, or tied embeddings.
 *
 * The first module of a group lends its parameters to the others: theirs, their gradients and
 * their optimizer state are gone.  Autograd adds up the gradients as they arrive; the update
 * reads the sum.  This is another model: what it learns is not what the recorded one did.
 */
#include "strategy.h"

#include "sharing.h"

static const mr_param params_table[] = {
    MR_PARAM_TEXT(sharing_choice, groups, "",
                  "modules that share, such as layers.* or [layer,more.*]; the largest stack of"
                  " equal modules when neither this nor tie is given"),
    MR_PARAM_INT(sharing_choice, span, "0", 0, 65536,
                 "how many neighbours share, such as 2 for pairs; 0 for all"),
    MR_PARAM_TEXT(sharing_choice, tie, "",
                  "parameters that are one, such as [token.weight,head.weight], or embeddings"),
    {0},
};

static mr_status rewrite(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out)
{
    return sharing_rewrite(ctx, in, params, out);
}

const mr_strategy mr_strategy_share = {
    .name = "share",
    .summary = "lets modules of a stack share parameters, or ties embeddings",
    .source = "ALBERT, Lan et al. 2020; Press and Wolf 2017 for embeddings",
    .how =
        "one module in several places: layers[1] = layers[0]; for embeddings head.weight = "
        "token.weight",
    .params = params_table,
    .params_size = sizeof(sharing_choice),
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES,
    .rewrite = rewrite,
};
