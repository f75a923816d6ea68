/* sdpa: equal to the fused kernel as PyTorch records it, in any order with what it goes with.
 */
#include "rewritten.h"

#define PLAIN "models/bert-base-mlm-b32-s128.csv.gz"

typedef struct sums {
    uint64_t peak, flops, ops, bytes, storages;
} sums;

/* Without the workspaces of other ops, which a schedule has only when it is to be placed. */
static sums sums_of(const mr_trace *trace, const mr_schedule *schedule)
{
    uint32_t at;
    sums s = {.peak = mr_schedule_peak(schedule, &at)};
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind == MR_ALLOC && !trace->storages.at[event.id].workspace) {
            s.storages++;
            s.bytes += trace->storages.at[event.id].bytes;
        }
        if (event.kind != MR_RUN) continue;
        s.ops++;
        s.flops += trace->ops.at[event.id].flops;
    }
    return s;
}

static sums predicted(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    sums s = {0};
    if (evaluated(&ctx, file, spec, &in, &answer)) TEST_FAIL("%s", ctx.failure.text);
    else s = sums_of(&answer.trace, &answer.schedule);
    mr_ctx_clear(&ctx);
    return s;
}

static void same(const char *what, sums x, sums y)
{
    if (memcmp(&x, &y, sizeof x) != 0)
        TEST_FAIL("%s: peak %" PRIu64 ", %" PRIu64 " flops, %" PRIu64 " ops, %" PRIu64
                  " bytes in %" PRIu64 " storages, expected %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  ", %" PRIu64 ", %" PRIu64,
                  what, x.peak, x.flops, x.ops, x.bytes, x.storages, y.peak, y.flops, y.ops,
                  y.bytes, y.storages);
}

/* The recorded kernel has no mask, for all sentences are full. */
TEST(it_is_what_pytorch_does)
{
    mr_ctx ctx = {0};
    mr_trace twin;
    mr_schedule schedule;
    CHECK(!recording(&ctx, "models/bert-base-mlm-b32-s128-sdpa.csv.gz", &twin));
    CHECK(!mr_schedule_make(&ctx, &twin, 0, &schedule));
    same("mask=none", predicted(PLAIN, "sdpa:mask=none"), sums_of(&twin, &schedule));
    mr_ctx_clear(&ctx);
}

/* A mask that is passed is kept for the backward pass, once for all layers. */
TEST(a_mask_is_passed_unless_told_otherwise)
{
    const sums with = predicted(PLAIN, "sdpa"), without = predicted(PLAIN, "sdpa:mask=none");
    CHECK_EQ(with.peak, without.peak + 32 * 128 * 4);
    CHECK_EQ(with.ops, without.ops + 5);
    CHECK_EQ(with.flops, without.flops);
}

/* Five products backward instead of four: of 12 layers, one of each more. */
TEST(scores_are_computed_twice)
{
    const sums plain = predicted(PLAIN, "accumulate:1"), fused = predicted(PLAIN, "sdpa");
    CHECK_EQ(fused.flops - plain.flops, (uint64_t)12 * 2 * 32 * 12 * 128 * 128 * 64);
}

/* Half precision without a mask is for flash: a log for each row and no padding. */
TEST(the_kernel_can_be_chosen)
{
    const sums efficient = predicted("models/vit-b16-b64-i224.csv.gz", "sdpa");
    const sums flash = predicted("models/vit-b16-b64-i224.csv.gz", "sdpa:flash");
    CHECK_EQ(efficient.bytes - flash.bytes, (uint64_t)12 * (64 * 12 * (224 - 197) * 4 - 8));
}

TEST(the_order_does_not_matter)
{
    same("accumulate", predicted(PLAIN, "accumulate:4+sdpa"),
         predicted(PLAIN, "sdpa+accumulate:4"));
    const sums x = predicted(PLAIN, "nograd+sdpa"), y = predicted(PLAIN, "sdpa+nograd");
    CHECK_EQ(x.peak, y.peak);
    CHECK_EQ(x.ops, y.ops);
}

TEST(what_has_no_attention_is_refused)
{
    refuses("models/resnet50-b64-i224.csv.gz", "sdpa", "no bmm, softmax and bmm");
    refuses("models/bert-base-mlm-b32-s128-sdpa.csv.gz", "sdpa", "no bmm, softmax and bmm");
    refuses(PLAIN, "sdpa+sdpa", "no bmm, softmax and bmm");
    refuses(PLAIN, "checkpoint+sdpa", "fuse it before checkpointing");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static mr_stand_in *stand_of(mr_trace *t, uint32_t op)
{
    for (uint32_t i = 0; i < t->stand_ins.n; i++)
        if (t->stand_ins.at[i].op == op) return &t->stand_ins.at[i];
    return NULL;
}

static void swap(uint32_t *x, uint32_t *y)
{
    const uint32_t z = *x;
    *x = *y;
    *y = z;
}

enum {
    NO_LOG,
    NO_VALUES,
    SWAPPED,
    NOT_RUN,
    NO_GRADIENT,
    UNSPOKEN,
    TOO_MUCH,
    NOT_SAVED,
    COPIED,
    MISTAKES
};

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t m)
{
    (void)in;
    const uint32_t f = op_named(t, 0, "aten::_scaled_dot_product_efficient_attention");
    const uint32_t b = op_named(t, 0, "aten::_scaled_dot_product_efficient_attention_backward");
    uint32_t copy = MR_NONE;
    for (uint32_t i = 0; i < t->stand_ins.n; i++)
        if (t->stand_ins.at[i].op != MR_NONE && t->stand_ins.at[i].ops.n == 2)
            copy = t->stand_ins.at[i].op;
    CHECK(f != MR_NONE && b != MR_NONE && copy != MR_NONE);
    switch (m) {
    case NO_LOG: t->ops.at[b].in.n -= 3; break;
    case NO_VALUES: t->ops.at[f].in.at[2] = t->ops.at[f].in.at[1]; break;
    case SWAPPED:
        stand_of(t, b)->gives = mr_ids_of(ctx, 3, stand_of(t, b)->gives.at);
        swap(&stand_of(t, b)->gives.at[0], &stand_of(t, b)->gives.at[1]);
        break;
    case NOT_RUN: forget_op(t, f); break;
    case NO_GRADIENT: forget_op(t, b); break;
    case UNSPOKEN: stand_of(t, f)->ops.n--; break;
    case TOO_MUCH:
        stand_of(t, f)->ops = mr_ids_of(ctx, 1, (uint32_t[]){op_named(t, 0, "aten::gelu")});
        break;
    case NOT_SAVED: t->ops.at[f].saved.n = 0; break;
    case COPIED: stand_of(t, copy)->gives.n = 0; break;
    case MISTAKES: break;
    }
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[MISTAKES] = {
        [NO_LOG] = "does not read tensor 2916, which that saved",
        [NO_VALUES] = "no new op has read what op 31",
        [SWAPPED] = "(aten::bmm of layers.11.attention) wrote, expected what op 832",
        [NOT_RUN] = "holds nothing yet, expected what op 53",
        [NO_GRADIENT] = "holds nothing yet, expected what op 822",
        [UNSPOKEN] = "(aten::_unsafe_view of layers.0.attention) is not run any more",
        [TOO_MUCH] = "no new op has read what op 67",
        [NOT_SAVED] = "has dropped and autograd does not keep",
        [COPIED] = "expected what op 1956 (aten::clone of layers.0.attention) wrote",
    };
    referee_says(PLAIN, "sdpa", plant, said, MISTAKES);
}

TEST_MAIN()
