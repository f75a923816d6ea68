/* half: everything that has 32 bits has 16, but for what norms note; and who is refused. */
#include "rewritten.h"

#include <stdlib.h>

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define GRADIENTS ((uint64_t)438057192) /* in 32 bits */

static uint64_t bytes_of(const mr_trace *trace, mr_role role)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].role == role) sum += trace->storages.at[s].bytes;
    return sum;
}

TEST(everything_is_halved_but_statistics)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    if (rewritten(&ctx, BERT, "half", &in, &out)) TEST_FAIL("%s", ctx.failure.text);
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_parameter), bytes_of(&in, MR_ROLE_parameter));
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_gradient), bytes_of(&in, MR_ROLE_gradient));
    CHECK_EQ(2 * bytes_of(&out, MR_ROLE_state), bytes_of(&in, MR_ROLE_state));
    CHECK_EQ(bytes_of(&out, MR_ROLE_input), bytes_of(&in, MR_ROLE_input));
    for (uint32_t o = 0; o < out.ops.n; o++)
        if (!strcmp(out.ops.at[o].name, "aten::native_layer_norm"))
            CHECK_STR(out.tensors.at[out.ops.at[o].out.at[1]].dtype, "float32");
    mr_ctx_clear(&ctx);
}

/* Recorded with 16 bits, the kernels of fused attention note sums in 32, under autocast too. */
TEST(sums_of_fused_attention_keep_32_bits)
{
    static const char *const specs[] = {"half", "amp:bfloat16"};
    for (size_t i = 0; i < MR_COUNT(specs); i++) {
        mr_ctx ctx = {0};
        mr_trace in, out;
        uint32_t n = 0;
        if (rewritten(&ctx, "models/bert-base-mlm-b32-s128-sdpa.csv.gz", specs[i], &in, &out))
            TEST_FAIL("%s", ctx.failure.text);
        for (uint32_t o = 0; o < out.ops.n; o++) {
            if (out.ops.at[o].phase != MR_FORWARD || out.ops.at[o].out.n < 2
                || !strstr(out.ops.at[o].name, "scaled_dot_product"))
                continue;
            CHECK_STR(out.tensors.at[out.ops.at[o].out.at[0]].dtype, "bfloat16");
            CHECK_STR(out.tensors.at[out.ops.at[o].out.at[1]].dtype, "float32");
            n++;
        }
        CHECK_EQ(n, 12);
        mr_ctx_clear(&ctx);
    }
}

TEST(what_is_half_already_is_refused)
{
    refuses("models/vit-b16-b64-i224-bf16.csv.gz", "half", "is of precision bfloat16");
}

/* ---- masters --------------------------------------------------------------------------- */

/* Numbers of parameters, and of those among them that the update changes. */
static void count(const mr_trace *in, uint64_t *all, uint64_t *trained)
{
    bool *seen = calloc(in->storages.n, sizeof *seen);
    *all = bytes_of(in, MR_ROLE_parameter) / 4;
    *trained = 0;
    for (uint32_t o = 0; o < in->ops.n; o++)
        for (uint32_t i = 0; i < in->ops.at[o].mutates.n && in->ops.at[o].phase == MR_UPDATE;
             i++) {
            const uint32_t s = in->tensors.at[in->ops.at[o].mutates.at[i]].storage;
            if (seen[s] || in->storages.at[s].role != MR_ROLE_parameter) continue;
            seen[s] = true;
            *trained += in->storages.at[s].bytes / 4;
        }
    free(seen);
}

/* Of what lives on after the step. */
static uint64_t lasting(const mr_trace *trace, mr_role role)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].after && trace->storages.at[s].role == role)
            sum += trace->storages.at[s].bytes;
    return sum;
}

static void has_sixteen_bytes(const char *file)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint64_t all, trained;
    if (rewritten(&ctx, file, "half:masters=True", &in, &out)) {
        TEST_FAIL("%s: %s", file, ctx.failure.text);
        return;
    }
    count(&in, &all, &trained);
    CHECK(trained > 0);
    CHECK_EQ(lasting(&out, MR_ROLE_parameter), 2 * all);
    CHECK_EQ(lasting(&out, MR_ROLE_gradient), 2 * trained);
    CHECK_EQ(lasting(&out, MR_ROLE_state) - lasting(&in, MR_ROLE_state), 4 * trained);
    mr_ctx_clear(&ctx);
}

/* With Adam 2 + 2 + 4 + 4 + 4; the states are those of before. */
TEST(a_parameter_takes_sixteen_bytes)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint64_t all, trained;
    has_sixteen_bytes("models/resnet50-b64-i224.csv.gz");
    has_sixteen_bytes("models/gpt2-small-b8-s1024.csv.gz");
    has_sixteen_bytes(BERT);
    CHECK_EQ(rewritten(&ctx, "models/gpt2-small-b8-s1024.csv.gz", "half:masters=True", &in, &out),
             MR_OK);
    count(&in, &all, &trained);
    CHECK_EQ(all, trained);
    const uint64_t steps = lasting(&in, MR_ROLE_state) - 8 * trained; /* how many steps were */
    CHECK(steps < 1024);
    CHECK_EQ(lasting(&out, MR_ROLE_parameter) + lasting(&out, MR_ROLE_gradient)
                 + lasting(&out, MR_ROLE_state) - steps,
             16 * trained);
    mr_ctx_clear(&ctx);
}

/* The optimizer has 32 bits more of each gradient, until it is done. */
TEST(the_update_works_on_copies_of_gradients)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    CHECK_EQ(evaluated(&ctx, BERT, "half:float16,masters=True,scale=dynamic", &in, &answer),
             MR_OK);
    uint32_t copies = 0, last = 0;
    for (uint32_t o = 0; o < answer.trace.ops.n; o++) {
        const mr_op *op = &answer.trace.ops.at[o];
        const bool copy = !strcmp(op->name, "aten::_foreach_copy_");
        if (copy) CHECK_EQ(op->read + op->written, GRADIENTS / 2 * 3);
        copies += copy;
        last = o;
        for (uint32_t i = 0; i < op->in.n && op->phase == MR_UPDATE && !copy; i++)
            CHECK(strcmp(answer.trace.tensors.at[op->in.at[i]].dtype, "float16") != 0);
    }
    CHECK_EQ(copies, 2);
    CHECK_STR(answer.trace.ops.at[last].name, "aten::_foreach_copy_");
    mr_ctx_clear(&ctx);
}

TEST(masters_go_with_what_else_there_is)
{
    static const char *const specs[] = {
        "half:masters=True+checkpoint",
        "checkpoint+half:masters=True",
        "half:masters=True,scale=static+accumulate:4",
        "accumulate:4+half:masters=True,scale=dynamic",
        "accumulate:4,set_to_none=False+half:masters=True",
        "half:masters=True,scale=dynamic+ddp",
        "half:masters=True,scale=dynamic+ddp:zero=2",
        "half:masters=True+inplace:add=True",
        "optimizer:sgd-momentum+half:masters=True",
        "optimizer:adamw,form=fused+half:masters=True",
        "optimizer:adamw,form=for-loop+half:masters=True,scale=static",
        "half:masters=True+nograd",
        "sdpa+half:masters=True",
        "share:groups=[layers.*]+half:masters=True",
    };
    const uint64_t whole = predicted_peak(BERT, "accumulate:1");
    for (size_t i = 0; i < MR_COUNT(specs); i++) CHECK(predicted_peak(BERT, specs[i]) < whole);
    CHECK(predicted_peak("models/resnet50-b64-i224.csv.gz", "half:masters=True+inplace") > 0);
}

TEST(what_has_no_masters_is_refused)
{
    refuses(BERT, "nograd+half:masters=True", "has no update");
    refuses("models/twins/gpt2-small-release.csv.gz", "half:masters=True",
            "before its passes are over");
    refuses(BERT, "amp+half:masters=True", "is of precision amp-float16");
    refuses(BERT, "half:masters=True+amp", "is of precision bfloat16");
    refuses(BERT, "half:masters=True+half", "is of precision bfloat16");
    refuses_as(MR_EUSAGE, BERT, "half:scale=static", "goes with masters=True");
}

/* ---- planted mistakes ------------------------------------------------------------------ */

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    (void)ctx, (void)in;
    for (uint32_t t = 0; t < out->tensors.n && mistake == 0; t++)
        if (!strcmp(out->tensors.at[t].dtype, "bfloat16")) out->tensors.at[t].dtype = "float32";
}

TEST(the_referee_sees_shapes_that_changed)
{
    static const char *const said[] = {"expected the shape and place"};
    referee_says(BERT, "half", plant, said, MR_COUNT(said));
}

static void swap(mr_ctx *ctx, mr_ids *ids)
{
    *ids = mr_ids_of(ctx, ids->n, ids->at);
    const uint32_t first = ids->at[0];
    ids->at[0] = ids->at[1];
    ids->at[1] = first;
}

static void plant_masters(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    const uint32_t gradients = op_named(out, in->ops.n, "aten::_foreach_copy_");
    const uint32_t parameters = op_named(out, gradients + 1, "aten::_foreach_copy_");
    const uint32_t loss = op_named(out, in->ops.n, "aten::mul");
    const uint32_t step = op_named(out, 0, "aten::_foreach_addcdiv_");
    CHECK(gradients != MR_NONE && parameters != MR_NONE && loss != MR_NONE && step != MR_NONE);
    if (mistake == 0) forget_op(out, parameters);
    if (mistake == 1) swap(ctx, &out->ops.at[parameters].mutates);
    if (mistake == 2) swap(ctx, &out->ops.at[gradients].out);
    if (mistake == 3) out->ops.at[loss].in = out->ops.at[step].in;
    if (mistake == 4) run_instead(out, gradients, parameters);
    if (mistake == 5) out->copies.n--;
    if (mistake == 6) out->copies.at[0].of = out->copies.at[1].of;
    if (mistake == 7) out->ops.at[parameters].in.n--;
}

TEST(the_referee_sees_masters_that_went_astray)
{
    static const char *const said[] = {
        "begins as a copy of storage",
        "and ends with what",
        "expected what op",
        "holds what",
        "which holds nothing yet",
        "which holds nothing yet",
        "expected what storage",
        "expected it to write what it reads",
    };
    referee_says(BERT, "half:masters=True,scale=dynamic", plant_masters, said, MR_COUNT(said));
}

TEST_MAIN()
