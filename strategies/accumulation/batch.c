/* batch -- the same step with another number of samples.
 *
 * Everything to which a sample adds bytes or operations has as many of them as the new batch
 * says; parameters and what else does not depend on the batch stays.
 */
#include "strategy.h"

#include "part_sizes.h"

#include <inttypes.h>

typedef struct settings {
    uint64_t samples;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_INT(settings, samples, "1", 1, 1048576, "how many samples a step has"),
    {0},
};

static mr_status find_batch(mr_ctx *ctx, const mr_trace *in, mr_share *share)
{
    const char *batch = in->about[MR_ABOUT_batch];
    bool known = false;
    for (uint32_t s = 0; s < in->storages.n; s++) known |= in->storages.at[s].per_sample != 0;
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].part)
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "'%s' does its batch in parts already, expected batch before what"
                           " divides it (accumulate, chunk)",
                           in->name);
    if (known && batch && mr_parse_size(batch, &share->batch) && share->batch) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' does not say %s, expected it to compute that of another batch",
                   in->name, known ? "how large its batch is" : "how many bytes a sample takes");
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *chosen = of;
    mr_share share = {.parts = 1, .instead = chosen->samples};
    mr_rewrite r;
    MR_TRY(find_batch(ctx, in, &share));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
    const uint32_t *dimensions = mr_share_dimensions(ctx, &share, in);
    for (uint32_t e = 0; e < in->events.n; e++) mr_rewrite_keep(&r, NULL, e);
    for (uint32_t s = 0; s < in->storages.n; s++)
        out->storages.at[s].bytes = mr_share_bytes(&share, &in->storages.at[s]);
    for (uint32_t t = 0; t < in->tensors.n; t++) {
        const mr_tensor *whole = &in->tensors.at[t];
        const mr_storage *home = &in->storages.at[whole->storage];
        const uint64_t bytes = out->storages.at[whole->storage].bytes;
        out->tensors.at[t] = mr_share_tensor(ctx, &share, whole, dimensions[t], home, bytes);
    }
    for (uint32_t o = 0; o < in->ops.n; o++)
        mr_share_op(&share, in, &in->ops.at[o], &out->ops.at[o]);
    mr_share_remark(&r, &share, dimensions);
    out->about[MR_ABOUT_batch] = mr_printf(ctx, "%" PRIu64, chosen->samples);
    return MR_OK;
}

const mr_strategy mr_strategy_batch = {
    .name = "batch",
    .summary = "does the same step with another number of samples",
    .how = "a DataLoader with batch_size={samples}",
    .params = params_table,
    .params_size = sizeof(settings),
    .needs = MR_HAS_DATAFLOW,
    .other_result = true,
    .rewrite = rewrite,
};
