/* fuse: chains of pointwise ops as one kernel each.  Eager PyTorch does not do that, so there
 * is no twin: what must hold is that the work is the same, of fewer bytes and kernels.
 */
#include "rewritten.h"

#define LLAMA "models/llama-7b-b1-s2048-bf16.csv.gz"
#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

typedef struct sums {
    uint64_t peak, flops, ops, moved, saved;
} sums;

/* Bytes that ops save for the backward pass, storage by storage. */
static uint64_t saved_bytes(mr_ctx *ctx, const mr_trace *t)
{
    bool *counted = MR_NEW_N(ctx, bool, t->storages.n);
    uint64_t sum = 0;
    for (uint32_t o = 0; o < t->ops.n; o++)
        for (uint32_t i = 0; i < t->ops.at[o].saved.n; i++) {
            const uint32_t s = t->tensors.at[t->ops.at[o].saved.at[i].tensor].storage;
            if (!counted[s]) sum += t->storages.at[s].bytes;
            counted[s] = true;
        }
    return sum;
}

static sums predicted(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    sums s = {0};
    uint32_t at;
    if (evaluated(&ctx, file, spec, &in, &answer)) {
        TEST_FAIL("%s: %s", spec, ctx.failure.text);
    } else {
        s.peak = mr_schedule_peak(&answer.schedule, &at);
        s.saved = saved_bytes(&ctx, &answer.trace);
        for (uint32_t e = 0; e < answer.schedule.events.n; e++) {
            if (answer.schedule.events.at[e].kind != MR_RUN) continue;
            const mr_op *op = &answer.trace.ops.at[answer.schedule.events.at[e].id];
            s.ops++;
            s.flops += op->flops;
            s.moved += op->read + op->written;
        }
    }
    mr_ctx_clear(&ctx);
    return s;
}

TEST(the_same_work_of_fewer_bytes_and_kernels)
{
    static const char *const files[] = {BERT, LLAMA, "models/resnet50-b64-i224.csv.gz",
                                        "models/sd-unet-b4-i512.csv.gz"};
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        const sums plain = predicted(files[i], "accumulate:1");
        const sums fused = predicted(files[i], "fuse");
        CHECK_EQ(fused.flops, plain.flops);
        CHECK_EQ(fused.saved, plain.saved);
        CHECK(fused.peak <= plain.peak);
        CHECK(fused.ops < plain.ops);
        CHECK(fused.moved < plain.moved);
    }
}

/* A layer of BERT adds a dropped-out tensor to another one twice. */
TEST(a_dropout_and_the_sum_after_it_are_one)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    uint32_t n = 0;
    CHECK(!rewritten(&ctx, BERT, "fuse", &in, &out));
    for (uint32_t o = in.ops.n; o < out.ops.n; o++) {
        if (strcmp(out.ops.at[o].name, "triton_poi_fused_native_dropout_add") != 0) continue;
        const uint64_t bytes = (uint64_t)32 * 128 * 768;
        CHECK_EQ(out.ops.at[o].read, 2 * 4 * bytes);
        CHECK_EQ(out.ops.at[o].written, (4 + 1) * bytes); /* the sum and the mask */
        CHECK(out.ops.at[o].random);
        n++;
    }
    CHECK_EQ(n, 24);
    mr_ctx_clear(&ctx);
}

TEST(it_goes_with_others)
{
    static const char *const specs[] = {
        "fuse+checkpoint", "checkpoint+fuse",  "fuse+accumulate:4",     "accumulate:4+fuse",
        "amp+fuse",        "sdpa+fuse",        "inplace:add=True+fuse", "fuse+inplace:add=True",
        "nograd+fuse",     "chunk:mlp=4+fuse", "fuse+optimizer:sgd",    "half+fuse"};
    for (size_t i = 0; i < MR_COUNT(specs); i++) CHECK(predicted(BERT, specs[i]).peak);
    CHECK_EQ(predicted(BERT, "fuse+accumulate:4").peak,
             predicted(BERT, "accumulate:4+fuse").peak);
}

TEST(what_has_no_chain_is_refused)
{
    refuses("models/lstm-650-b20-s35.csv.gz", "fuse", "no two ops one after another");
    refuses(BERT, "fuse+fuse", "no two ops one after another");
    refuses(BERT, "fuse+chunk:mlp=4", "nothing is known of the rows");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

enum { NOT_WRITTEN, NOT_READ, NOT_RUN, TOO_MUCH, UNSPOKEN, NOT_SAVED, OTHER_RESULT, MISTAKES };

static uint32_t fused_named(const mr_trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->stand_ins.n; i++)
        if (!strcmp(t->ops.at[t->stand_ins.at[i].op].name, name)) return i;
    return MR_NONE;
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t m)
{
    const uint32_t i = fused_named(t, "triton_poi_fused_native_dropout_add");
    CHECK(i != MR_NONE);
    mr_stand_in *stand = &t->stand_ins.at[i];
    mr_op *op = &t->ops.at[stand->op];
    switch (m) {
    case NOT_WRITTEN: stand->gives.n = stand->holds.n = 1; break; /* no mask, no sum */
    case NOT_READ: op->in.n--; break;
    case NOT_RUN: forget_op(t, stand->op); break;
    case TOO_MUCH:
        stand->ops = mr_ids_of(ctx, 1, (uint32_t[]){op_named(in, 0, "aten::gelu")});
        break;
    case UNSPOKEN: stand->ops.n--; break;
    case NOT_SAVED: op->saved.n = 0; break;
    case OTHER_RESULT:
        stand->gives = mr_ids_of(ctx, 2, stand->gives.at);
        stand->gives.at[0] = stand->gives.at[1];
        break;
    case MISTAKES: break;
    }
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[MISTAKES] = {
        [NOT_WRITTEN] = "expected what",    [NOT_READ] = "no new op has read what",
        [NOT_RUN] = "holds nothing yet",    [TOO_MUCH] = "no new op has read what",
        [UNSPOKEN] = "do not write tensor", [NOT_SAVED] = "autograd does not keep",
        [OTHER_RESULT] = "expected what",
    };
    referee_says(BERT, "fuse", plant, said, MISTAKES);
}

TEST_MAIN()
