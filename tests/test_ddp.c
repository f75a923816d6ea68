/* ddp: what buckets take and when they are sent, what ZeRO leaves on a device, who is refused.
 */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

typedef struct sums {
    uint64_t peak, held; /* held: bytes that are there before the step */
    uint64_t sent[MR_ENGINE_N];
    uint64_t first, least,
        last; /* bytes of collectives: the first, the least between, the last */
    uint32_t collectives, beside; /* beside: how many begin before the backward pass ends */
} sums;

static void look_at(const mr_trace *t, sums *s)
{
    uint32_t waiting = 0;
    for (uint32_t e = 0; e < t->events.n; e++) {
        const mr_op *op = &t->ops.at[t->events.at[e].id];
        if (t->events.at[e].kind != MR_RUN) continue;
        if (op->phase == MR_BACKWARD && op->engine == MR_ENGINE_compute) {
            s->beside += waiting;
            waiting = 0;
        }
        if (op->engine == MR_ENGINE_compute) continue;
        s->sent[op->engine] += op->read > op->written ? op->read : op->written;
        if (op->phase != MR_BACKWARD) continue;
        if (!s->collectives++) s->first = op->read;
        else if (s->collectives > 2 && (!s->least || s->last < s->least)) s->least = s->last;
        s->last = op->read;
        waiting++;
    }
}

static sums predicted(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    sums s = {0};
    if (evaluated(&ctx, file, spec, &in, &answer)) {
        TEST_FAIL("%s: %s", spec, ctx.failure.text);
    } else {
        s.peak = mr_schedule_peak(&answer.schedule, &at);
        for (uint32_t i = 0; i < answer.trace.storages.n; i++)
            if (answer.trace.storages.at[i].before && answer.trace.storages.at[i].role
                && answer.trace.storages.at[i].role != MR_ROLE_input
                && answer.trace.storages.at[i].role != MR_ROLE_buffer)
                s.held += answer.trace.storages.at[i].bytes;
        look_at(&answer.trace, &s);
    }
    mr_ctx_clear(&ctx);
    return s;
}

/* BERT-base with its head, without the pooler: parameters that get a gradient, in bytes. */
#define GRADIENTS ((uint64_t)438057192)

TEST(buckets_take_a_copy_of_the_gradients)
{
    const sums plain = predicted(BERT, "accumulate:1"), ddp = predicted(BERT, "ddp");
    CHECK_EQ(ddp.peak - plain.peak, GRADIENTS);
    CHECK_EQ(ddp.held - plain.held, GRADIENTS);
    CHECK_EQ(ddp.held - predicted(BERT, "ddp:gradient_as_bucket_view=True").held, GRADIENTS);
    CHECK_EQ(ddp.sent[MR_ENGINE_all_reduce], GRADIENTS);
    CHECK_EQ(predicted(BERT, "ddp:ranks=1").collectives, 0);
}

/* Without views a gradient is copied back from its bucket, each once. */
TEST(gradients_come_back_from_their_buckets)
{
    for (int view = 0; view < 2; view++) {
        mr_ctx ctx = {0};
        mr_trace in, out;
        uint64_t back = 0;
        const char *spec = view ? "ddp:gradient_as_bucket_view=True" : "ddp";
        CHECK(!rewritten(&ctx, BERT, spec, &in, &out));
        for (uint32_t o = in.ops.n; o < out.ops.n; o++)
            if (!strcmp(out.ops.at[o].name, "aten::copy_")) back += out.ops.at[o].written;
        CHECK_EQ(back, view ? 0 : GRADIENTS);
        mr_ctx_clear(&ctx);
    }
}

/* The first reaches 1 MiB, those after it 25 MiB; all but the last go while others are
 * computed. */
TEST(buckets_are_sent_beside_the_backward_pass)
{
    const sums ddp = predicted(BERT, "ddp"),
               one = predicted(BERT, "ddp:bucket_cap_mb=1024");
    CHECK(ddp.first >= MR_MIB && ddp.least >= 25 * MR_MIB);
    CHECK(ddp.beside >= ddp.collectives - 1);
    CHECK(ddp.collectives > 10);
    CHECK_EQ(one.collectives, 1);
}

/* Micro-batches are not synchronised: one all-reduce a step. */
TEST(gradients_are_added_up_before_they_are_sent)
{
    const sums ddp = predicted(BERT, "accumulate:4+ddp");
    CHECK_EQ(ddp.sent[MR_ENGINE_all_reduce], GRADIENTS);
    CHECK_EQ(ddp.peak - predicted(BERT, "accumulate:4").peak, GRADIENTS);
}

static void near(const char *what, uint64_t x, double y)
{
    if ((double)x < y || (double)x > y + 1e5) /* every tensor rounds up by less than a rank */
        TEST_FAIL("%s: %" PRIu64 ", expected %.0f", what, x, y);
}

/* In single precision, of 16 bytes for each parameter ZeRO divides 8, then 12. */
TEST(zero_leaves_what_the_paper_says)
{
    const double four = (double)predicted(BERT, "ddp:gradient_as_bucket_view=True").held;
    const double g = (double)GRADIENTS, p = four - 3 * g; /* the pooler has no gradient */
    near("stage 1", predicted(BERT, "ddp:ranks=8,zero=1").held, p + g + 2 * g / 8);
    near("stage 2", predicted(BERT, "ddp:ranks=8,zero=2").held, p + (g + 2 * g) / 8);
    near("64 ranks", predicted(BERT, "ddp:ranks=64,zero=2").held, p + (g + 2 * g) / 64);
    const sums one = predicted(BERT, "ddp:zero=1"), two = predicted(BERT, "ddp:zero=2");
    CHECK_EQ(one.sent[MR_ENGINE_all_reduce], GRADIENTS);
    CHECK_EQ(two.sent[MR_ENGINE_reduce_scatter], GRADIENTS);
    CHECK_EQ(two.sent[MR_ENGINE_all_gather], one.sent[MR_ENGINE_all_gather]);
    CHECK(two.peak < one.peak);
}

/* PyTorch's ZeroRedundancyOptimizer has 187527168 bytes of states on the first of eight devices:
 * those of the word embedding, two numbers for each of its parameters. */
TEST(whole_parameters_are_dealt_out_unevenly)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    CHECK(!evaluated(&ctx, BERT, "ddp:zero=1", &in, &answer));
    CHECK_EQ(answer.trace.remarks.n, 1);
    char part[16];
    snprintf(part, sizeof part, "%.1f %%", 100.0 * 187527168 / (2.0 * (double)GRADIENTS));
    if (answer.trace.remarks.n) CHECK_HAS(answer.trace.remarks.at[0], part);
    mr_ctx_clear(&ctx);
}

/* Gradients of a scaled loss are divided in place by the update, all by one op. */
TEST(gradients_in_buckets_can_be_scaled)
{
    for (int zero = 0; zero <= 2; zero++) {
        char spec[32];
        snprintf(spec, sizeof spec, "ddp:zero=%d", zero);
        CHECK(predicted("models/twins/bert-base-amp-float16.csv.gz", spec).peak > 0);
    }
}

TEST(what_is_no_such_step_is_refused)
{
    refuses(BERT, "ddp+ddp", "on several devices already");
    refuses(BERT, "nograd+ddp", "no gradients");
    refuses("models/twins/bert-base-keep-gradients.csv.gz", "ddp", "keeps gradients");
    refuses("models/twins/gpt2-small-release.csv.gz", "ddp",
            "before its backward pass is over");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    (void)ctx;
    const uint32_t copy = op_named(t, in->ops.n, "aten::mul");
    const uint32_t other = op_named(t, copy + 1, "aten::mul");
    const uint32_t update = op_named(t, in->ops.n, "aten::_foreach_lerp_");
    CHECK(copy != MR_NONE && other != MR_NONE && update != MR_NONE);
    if (mistake == 0) forget_op(t, copy);
    if (mistake == 1) t->ops.at[copy].in = t->ops.at[other].in;
    if (mistake == 2) forget_op(t, update);
    if (mistake == 3) t->stand_ins.n = 0;
    if (mistake == 4) t->stand_ins.at[0].gives.n = t->stand_ins.at[0].holds.n = 0;
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {
        "no new op has read what",
        "no new op has read what",
        "expected what op 1977 (aten::_foreach_lerp_) wrote",
        "holds what a new op wrote, expected what",
        "holds what a new op wrote, expected what",
    };
    referee_says(BERT, "ddp:gradient_as_bucket_view=True", plant, said, MR_COUNT(said));
}

/* Of the ops of that name all, or only the last. */
static void forget_ops(mr_trace *t, const char *name, bool all)
{
    uint32_t last = MR_NONE;
    for (uint32_t o = op_named(t, 0, name); o != MR_NONE; o = op_named(t, o + 1, name)) {
        if (all) forget_op(t, o);
        last = o;
    }
    if (last != MR_NONE) forget_op(t, last);
}

static void forget_collective(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    (void)ctx, (void)in;
    const bool sharded = op_named(t, 0, "c10d::reduce_scatter_") != MR_NONE;
    if (mistake < 2)
        forget_ops(t, sharded ? "c10d::reduce_scatter_" : "c10d::allreduce_", !mistake);
    if (mistake == 2) forget_ops(t, "c10d::allgather_", true);
}

/* Each would go its own way by gradients that have not been added up. */
TEST(the_referee_sees_that_devices_part_ways)
{
    static const char *const said[] = {"expected a collective", "expected a collective",
                                       "expected an all-gather"};
    referee_says(BERT, "ddp", forget_collective, said, 2);
    referee_says(BERT, "ddp:gradient_as_bucket_view=True", forget_collective, said, 2);
    referee_says(BERT, "ddp:zero=1", forget_collective, said, MR_COUNT(said));
    referee_says(BERT, "ddp:zero=2", forget_collective, said, MR_COUNT(said));
    referee_says("models/twins/bert-base-amp-float16.csv.gz", "ddp", forget_collective, said,
                 2);
}

TEST_MAIN()
