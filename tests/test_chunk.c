/* chunk: attention, blocks and losses in slices; that PyTorch does the same is for the twins
 * (test_twins.c).
 */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define GPT "models/gpt2-small-b8-s1024.csv.gz"
#define VIT "models/vit-b16-b64-i224.csv.gz"

typedef struct sums {
    uint64_t peak, flops;
    const char *remark; /* the first */
} sums;

static sums predicted(mr_ctx *ctx, const char *file, const char *spec)
{
    mr_trace in;
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    sums s = {.remark = ""};
    uint32_t at;
    if (evaluated(ctx, file, spec, &in, answer)) {
        TEST_FAIL("%s: %s", spec, ctx->failure.text);
        return s;
    }
    s.peak = mr_schedule_peak(&answer->schedule, &at);
    for (uint32_t e = 0; e < answer->schedule.events.n; e++)
        if (answer->schedule.events.at[e].kind == MR_RUN)
            s.flops += answer->trace.ops.at[answer->schedule.events.at[e].id].flops;
    if (answer->trace.remarks.n) s.remark = answer->trace.remarks.at[0];
    return s;
}

/* Without running again, nothing is computed twice; with that, forward products are. */
TEST(slices_together_do_the_work_of_the_whole)
{
    mr_ctx ctx = {0};
    const sums plain = predicted(&ctx, BERT, "accumulate:1");
    CHECK_EQ(predicted(&ctx, BERT, "chunk:attention=4,recompute=False").flops, plain.flops);
    CHECK_EQ(predicted(&ctx, BERT, "chunk:mlp=4,loss=2,recompute=False").flops, plain.flops);
    const uint64_t inner = (uint64_t)2 * 32 * 128 * 768 * 3072; /* products before the last */
    CHECK_EQ(predicted(&ctx, BERT, "chunk:mlp=4").flops, plain.flops + 12 * 2 * inner);
    mr_ctx_clear(&ctx);
}

/* The more slices of the loss, the less memory: scores of all words are what is largest. */
TEST(smaller_slices_take_less)
{
    mr_ctx ctx = {0};
    uint64_t last = UINT64_MAX;
    static const char *const specs[] = {"accumulate:1", "chunk:loss=2", "chunk:loss=4",
                                        "chunk:loss=8"};
    for (size_t i = 0; i < MR_COUNT(specs); i++) {
        const uint64_t peak = predicted(&ctx, GPT, specs[i]).peak;
        CHECK(peak < last);
        last = peak;
    }
    mr_ctx_clear(&ctx);
}

/* Casts of parameters in a phase of the step. */
static uint32_t casts(const char *spec, mr_phase phase)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t n = 0;
    if (evaluated(&ctx, BERT, spec, &in, &answer)) TEST_FAIL("%s: %s", spec, ctx.failure.text);
    for (uint32_t o = 0; o < answer.trace.ops.n; o++) {
        const mr_op *op = &answer.trace.ops.at[o];
        if (op->phase != phase || strcmp(op->name, "aten::_to_copy") != 0) continue;
        const mr_tensor *t = &answer.trace.tensors.at[op->in.at[0]];
        n += t->role == MR_ROLE_parameter;
    }
    mr_ctx_clear(&ctx);
    return n;
}

/* Autocast keeps the cast of a weight for all slices of the forward pass; each that runs again
 * has its own.  12 blocks have two weights and two biases. */
TEST(slices_share_what_autocast_has_cast)
{
    CHECK_EQ(casts("amp+chunk:mlp=4", MR_FORWARD), casts("amp", MR_FORWARD));
    CHECK_EQ(casts("amp", MR_BACKWARD), 0);
    CHECK_EQ(casts("amp+chunk:mlp=4", MR_BACKWARD), 12 * 4 * 4);
    CHECK_EQ(casts("amp+chunk:mlp=4,recompute=False", MR_BACKWARD), 0);
}

static void same(const char *file, const char *x, const char *y)
{
    mr_ctx ctx = {0};
    const sums a = predicted(&ctx, file, x), b = predicted(&ctx, file, y);
    if (a.peak != b.peak || a.flops != b.flops)
        TEST_FAIL("%s: peak %" PRIu64 ", %" PRIu64 " flops, expected %" PRIu64 ", %" PRIu64
                  " as of %s",
                  x, a.peak, a.flops, b.peak, b.flops, y);
    mr_ctx_clear(&ctx);
}

TEST(the_order_does_not_matter)
{
    same(BERT, "checkpoint+chunk:loss=8", "chunk:loss=8+checkpoint");
    same(BERT, "inplace:add=True+chunk:mlp=4", "chunk:mlp=4+inplace:add=True");
    same(BERT, "nograd+chunk:mlp=4", "chunk:mlp=4+nograd");
    same(BERT, "chunk:loss=8+chunk:mlp=4", "chunk:loss=8,mlp=4");
    same(BERT, "half+chunk:loss=8", "chunk:loss=8+half");
    same(GPT, "accumulate:4+chunk:attention=4", "chunk:attention=4+accumulate:4");
}

/* 197 positions are not four equal slices; torch.chunk makes the last one shorter. */
TEST(the_last_slice_may_be_shorter)
{
    mr_ctx ctx = {0};
    const sums plain = predicted(&ctx, VIT, "accumulate:1");
    const sums sliced = predicted(&ctx, VIT, "chunk:attention=4,recompute=False");
    CHECK_EQ(sliced.flops, plain.flops);
    CHECK_HAS(sliced.remark, "has fewer rows");
    mr_ctx_clear(&ctx);
}

/* Of what reads nothing that the batch was cut from, in either order, as recorded. */
TEST(blocks_of_micro_batches_can_be_cut)
{
    CHECK_EQ(predicted_peak(BERT, "accumulate:4+chunk:mlp=4"),
             predicted_peak(BERT, "chunk:mlp=4+accumulate:4"));
}

TEST(what_cannot_be_cut_is_refused)
{
    refuses_as(MR_EUSAGE, BERT, "chunk", "expected how many slices");
    refuses(BERT, "chunk:loss=100", "128 rows are too few for slices of equal size");
    refuses(BERT, "chunk:loss=8+amp", "expected amp before what makes it do so");
    refuses(BERT, "sdpa+chunk:attention=4", "nothing of what is to be done in slices");
    refuses(BERT, "checkpoint+chunk:mlp=4", "it is computed again already");
    refuses(BERT, "chunk:mlp=4+checkpoint", "it is computed again already");
    refuses(BERT, "accumulate:4+chunk:loss=4", "slices come before micro-batches");
    refuses(VIT, "chunk:loss=4", "no dimension of tokens");
    refuses("models/resnet50-b64-i224.csv.gz", "chunk:mlp=2", "nothing of what is to be done");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

typedef struct around { /* ops of the last attention, which comes first in the backward pass */
    uint32_t cut, cat;  /* forward */
    uint32_t slice, join; /* backward */
    uint32_t sums[3];     /* of one gradient, in the order of the step */
} around;

static bool says(const mr_op *op, mr_phase phase, bool flag)
{
    return flag && op->phase == phase;
}

static around around_last(const mr_trace *t)
{
    around a = {MR_NONE, MR_NONE, MR_NONE, MR_NONE, {MR_NONE, MR_NONE, MR_NONE}};
    uint32_t n = 0, target = MR_NONE;
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const uint32_t o = t->events.at[e].id;
        const mr_op *op = &t->ops.at[o];
        if (says(op, MR_FORWARD, op->cuts)) a.cut = o;
        if (says(op, MR_FORWARD, op->joins)) a.cat = o;
        if (says(op, MR_BACKWARD, op->cuts) && a.slice == MR_NONE) a.slice = o;
        if (says(op, MR_BACKWARD, op->joins) && a.join == MR_NONE) a.join = o;
        if (!op->sums || n == 3) continue;
        const uint32_t to = op->out.n ? op->out.at[0] : op->mutates.at[0];
        if (!n) target = to;
        if (to == target) a.sums[n++] = o;
    }
    return a;
}

/* The op that reads the tensor first, from an event on. */
static uint32_t reader_of(const mr_trace *t, uint32_t tensor, bool again)
{
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        if (op->joins || (op->again != MR_NONE) != again) continue;
        for (uint32_t i = 0; i < op->in.n; i++)
            if (op->in.at[i] == tensor) return t->events.at[e].id;
    }
    return MR_NONE;
}

static void read_instead(mr_ctx *ctx, mr_trace *t, uint32_t o, uint32_t tensor, uint32_t other)
{
    mr_op *op = &t->ops.at[o];
    op->in = mr_ids_of(ctx, op->in.n, op->in.at);
    for (uint32_t i = 0; i < op->in.n; i++)
        if (op->in.at[i] == tensor) op->in.at[i] = other;
}

static void swap(uint32_t *x, uint32_t *y)
{
    const uint32_t z = *x;
    *x = *y;
    *y = z;
}

static void grow(mr_ctx *ctx, mr_tensor *t, uint32_t dim)
{
    uint64_t *shape = MR_NEW_N(ctx, uint64_t, t->rank);
    memcpy(shape, t->shape, t->rank * sizeof *shape);
    shape[dim]++;
    t->shape = shape;
}

static uint32_t part_named(const mr_trace *t, uint32_t part, const char *name)
{
    for (uint32_t o = 0; o < t->ops.n; o++)
        if (t->ops.at[o].part == part && !strcmp(t->ops.at[o].name, name)) return o;
    return MR_NONE;
}

enum {
    MISSING,
    ORDER,
    TWICE,
    NO_JOIN,
    OTHER_SLICE,
    ALL_OF_IT,
    OTHER_AGAIN,
    TOO_LARGE,
    ELSEWHERE,
    NOT_CUT,
    NOT_RUN,
    LESS_WORK,
    OTHER_GRADIENT,
    NOT_JOINED,
    NOT_SUMMED,
    SUM_ORDER,
    SUMMED_TWICE,
    MISTAKES
};

static void plant_forward(mr_ctx *ctx, mr_trace *t, const around *a, uint32_t m)
{
    const uint32_t *slices = t->ops.at[a->cut].out.at, whole = t->ops.at[a->cut].in.at[0];
    uint32_t *joined = t->ops.at[a->cat].in.at;
    switch (m) {
    case MISSING: t->ops.at[a->cat].in.n--; break;
    case ORDER: swap(&joined[0], &joined[1]); break;
    case TWICE: joined[1] = joined[0]; break;
    case NO_JOIN: forget_op(t, a->cat); break;
    case OTHER_SLICE:
        read_instead(ctx, t, reader_of(t, slices[1], false), slices[1], slices[0]);
        break;
    case ALL_OF_IT:
        read_instead(ctx, t, reader_of(t, slices[1], false), slices[1], whole);
        break;
    case OTHER_AGAIN:
        read_instead(ctx, t, reader_of(t, slices[1], true), slices[1], slices[2]);
        break;
    case TOO_LARGE: grow(ctx, &t->tensors.at[slices[3]], 2); break;
    case ELSEWHERE: t->tensors.at[slices[2]].offset += 4; break;
    case NOT_CUT: forget_op(t, a->cut); break;
    case NOT_RUN: forget_op(t, part_named(t, 2, "aten::_softmax")); break;
    case LESS_WORK: t->ops.at[part_named(t, 2, "aten::bmm")].flops--; break;
    }
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t m)
{
    (void)in;
    const around a = around_last(t);
    CHECK(a.cut != MR_NONE && a.cat != MR_NONE && a.join != MR_NONE && a.sums[2] != MR_NONE);
    const uint32_t *gradients = t->ops.at[a.slice].out.at;
    switch (m) {
    case OTHER_GRADIENT:
        read_instead(ctx, t, reader_of(t, gradients[1], false), gradients[1], gradients[0]);
        break;
    case NOT_JOINED: swap(&t->ops.at[a.join].in.at[0], &t->ops.at[a.join].in.at[3]); break;
    case NOT_SUMMED: forget_op(t, a.sums[2]); break;
    case SUM_ORDER: swap(&t->ops.at[a.sums[1]].in.at[1], &t->ops.at[a.sums[2]].in.at[1]); break;
    case SUMMED_TWICE: t->ops.at[a.sums[2]].in.at[1] = t->ops.at[a.sums[1]].in.at[1]; break;
    default: plant_forward(ctx, t, &a, m); break;
    }
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[MISTAKES] = {
        [MISSING] = "its pieces have 768 rows, expected the 1024 of the whole",
        [ORDER] = "expected all parts of a value in their order",
        [TWICE] = "expected all parts of a value in their order",
        [NO_JOIN] = "holds nothing yet",
        [OTHER_SLICE] = "in part 1, expected what",
        [ALL_OF_IT] = "do not read the same of",
        [OTHER_AGAIN] = "in part 3, expected what",
        [TOO_LARGE] = "its pieces have 1025 rows, expected the 1024 of the whole",
        [ELSEWHERE] = "is no piece of the whole",
        [NOT_CUT] = "expected the shape and place of",
        [NOT_RUN] = "holds nothing yet",
        [LESS_WORK] = "all parts of",
        [OTHER_GRADIENT] = "in part 1, expected what",
        [NOT_JOINED] = "expected all parts of a value in their order",
        [NOT_SUMMED] = "in parts from 2, expected what",
        [SUM_ORDER] = "expected the parts of a value in their order",
        [SUMMED_TWICE] = "expected the parts of a value in their order",
    };
    referee_says(GPT, "chunk:attention=4", plant, said, MISTAKES);
}

TEST_MAIN()
