/* amp: what is cast and what is kept, what the referee makes of it, and who is refused. */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define RESNET "models/resnet50-b64-i224.csv.gz"

static bool is_full(const mr_trace *trace, uint32_t tensor)
{
    return !strcmp(trace->tensors.at[tensor].dtype, "float32");
}

static bool any_full(const mr_trace *trace, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (is_full(trace, ids.at[i])) return true;
    return false;
}

/* Bytes of those that live on. */
static uint64_t gradients(const mr_trace *trace)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        const mr_storage *storage = &trace->storages.at[s];
        if (storage->role == MR_ROLE_gradient && storage->after) sum += storage->bytes;
    }
    return sum;
}

TEST(products_read_16_bits_and_norms_32)
{
    static const char *const low[] = {"aten::addmm", "aten::bmm", "aten::mm"};
    mr_ctx ctx = {0};
    mr_trace in, out;
    if (rewritten(&ctx, BERT, "amp", &in, &out)) TEST_FAIL("%s", ctx.failure.text);
    mr_rewrite_settle(&ctx, &out);
    for (uint32_t o = 0; o < out.ops.n; o++) {
        const mr_op *op = &out.ops.at[o];
        for (size_t i = 0; i < MR_COUNT(low); i++)
            if (!strcmp(op->name, low[i]))
                CHECK(!any_full(&out, op->in) && !any_full(&out, op->out));
        if (strstr(op->name, "layer_norm")) CHECK(is_full(&out, op->in.at[0]));
    }
    CHECK_EQ(gradients(&out), gradients(&in));
    mr_ctx_clear(&ctx);
}

/* Each parameter of a linear layer once, however often it is used (the decoder has the weight
 * of the embedding), each activation as often as it is read. */
TEST(parameters_are_cast_once)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    if (rewritten(&ctx, "models/albert-base-b32-s128.csv.gz", "amp", &in, &out))
        TEST_FAIL("%s", ctx.failure.text);
    uint32_t *casts = MR_NEW_N(&ctx, uint32_t, out.storages.n);
    for (uint32_t o = in.ops.n; o < out.ops.n; o++)
        if (out.ops.at[o].moves && out.ops.at[o].phase == MR_FORWARD
            && out.ops.at[o].in.n == 1)
            casts[out.tensors.at[out.ops.at[o].in.at[0]].storage]++;
    uint32_t parameters = 0;
    for (uint32_t s = 0; s < in.storages.n; s++) {
        if (in.storages.at[s].role != MR_ROLE_parameter) continue;
        CHECK(casts[s] < 2);
        parameters += casts[s];
    }
    CHECK(parameters > 10);
    mr_ctx_clear(&ctx);
}

static uint32_t count(const mr_trace *trace, const char *name)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < trace->events.n; e++)
        n += trace->events.at[e].kind == MR_RUN
             && strstr(trace->ops.at[trace->events.at[e].id].name, name) != NULL;
    return n;
}

TEST(only_float16_is_scaled)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK(!rewritten(&ctx, RESNET, "amp", &in, &out));
    CHECK_EQ(count(&out, "unscale"), 1);
    CHECK_EQ(count(&out, "_amp_update_scale_"), 1);
    CHECK(!rewritten(&ctx, RESNET, "amp:bfloat16", &in, &out));
    CHECK_EQ(count(&out, "unscale"), 0);
    mr_ctx_clear(&ctx);
}

TEST(orders_that_cannot_work_are_refused)
{
    refuses(BERT, "checkpoint+amp", "expected amp before");
    refuses(BERT, "accumulate+amp", "expected amp before");
    refuses(BERT, "amp+amp", "is of precision amp-float16");
    refuses("models/vit-b16-b64-i224-bf16.csv.gz", "amp", "is of precision bfloat16");
    refuses("models/bert-base-changing-b16.csv.gz", "amp", "and one step");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static mr_op *first_cast(const mr_trace *in, mr_trace *out, mr_phase phase)
{
    uint32_t o = in->ops.n;
    while (!out->ops.at[o].moves || out->ops.at[o].phase != phase || out->ops.at[o].in.n != 1)
        o++;
    return &out->ops.at[o];
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    mr_op *forward = first_cast(in, out, MR_FORWARD);
    mr_op *backward = first_cast(in, out, MR_BACKWARD);
    (void)ctx;
    if (mistake == 0) forward->moves = false;
    if (mistake == 1) backward->moves = false;
    if (mistake == 2) forward->in = (forward + 1)->in;
    if (mistake == 3) backward->in = (backward + 1)->in;
}

TEST(the_referee_sees_what_is_wrong_with_a_cast)
{
    static const char *const said[] = {"expected what", "expected what", "expected what",
                                       "expected what"};
    referee_says(RESNET, "amp:bfloat16", plant, said, MR_COUNT(said));
}

static void change_parameter(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    mr_op *op =
        &out->ops
             .at[op_named(out, in->ops.n, "aten::_amp_foreach_non_finite_check_and_unscale_")];
    (void)ctx;
    for (uint32_t t = 0; t < in->tensors.n && mistake == 0; t++)
        if (in->storages.at[in->tensors.at[t].storage].role == MR_ROLE_parameter)
            op->in.at[0] = op->mutates.at[0] = t;
    if (mistake == 1) op->phase = MR_BACKWARD;
}

TEST(the_referee_sees_that_a_move_changes_something)
{
    static const char *const said[] = {"onto itself, which changes",
                                       "onto itself, which changes"};
    referee_says(RESNET, "amp", change_parameter, said, MR_COUNT(said));
}

/* What a sum in place makes has the precision of what it is written over, and so has its
 * gradient: nothing is cast there and back. */
TEST(sums_in_place_cost_no_more_than_others)
{
    const char *unet = "models/unet-b8-i256.csv.gz";
    CHECK(predicted_peak(unet, "inplace:add=True+amp") <= predicted_peak(unet, "amp"));
    CHECK(predicted_peak(RESNET, "inplace+amp") <= predicted_peak(RESNET, "amp"));
}

TEST_MAIN()
