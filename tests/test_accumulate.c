/* accumulate: what micro-batches need, what the referee makes of them, and who is refused. */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define BERT_FOUR_COPIES ((double)1761678240) /* fp32 weights, gradients and two moments */

/* peak(k) = 4P + A/k, what activations take being divided and nothing else.  From k=16 the peak
 * is no longer in the backward pass but where the optimizer has a copy of its own. */
TEST(activations_take_a_kth)
{
    const double a = 2 * ((double)predicted_peak(BERT, "accumulate:2") - BERT_FOUR_COPIES);
    for (int k = 4; k <= 8; k *= 2) {
        char spec[32];
        snprintf(spec, sizeof spec, "accumulate:%d", k);
        const double peak = (double)predicted_peak(BERT, spec), law = BERT_FOUR_COPIES + a / k;
        if (peak < 0.99 * law || peak > 1.01 * law)
            TEST_FAIL("k=%d: %.0f bytes, expected %.0f within 1 %%", k, peak, law);
    }
}

/* 32 samples in 5 parts are 7, 7, 7, 7 and 4, as torch.chunk has them. */
TEST(the_last_part_has_the_rest)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    CHECK(!evaluated(&ctx, "tiny/mlp.csv", "accumulate:5", &in, &answer));
    uint64_t sizes[5] = {0}, n = 0;
    for (uint32_t o = 0; o < answer.trace.ops.n; o++) {
        const mr_op *op = &answer.trace.ops.at[o];
        if (strcmp(op->name, "aten::relu") != 0) continue;
        CHECK(op->part >= 1 && op->part <= 5);
        const uint32_t s = answer.trace.tensors.at[op->out.at[0]].storage;
        if (op->part && op->part <= 5) sizes[op->part - 1] = answer.trace.storages.at[s].bytes;
        n++;
    }
    CHECK_EQ(n, 5);
    for (int i = 0; i < 5; i++) CHECK_EQ(sizes[i], (i < 4 ? 7u : 4u) * 128 * 4);
    mr_ctx_clear(&ctx);
}

/* In BERT-base, 768 is a multiple of the batch of 32, too. */
TEST(the_dimension_of_samples_has_fewer)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t wrong = 0, n = 0;
    CHECK(!evaluated(&ctx, "models/bert-base-mlm-b32-s128.csv.gz", "accumulate:4", &in,
                     &answer));
    for (uint32_t o = 0; o < answer.trace.ops.n; o++) {
        const mr_op *op = &answer.trace.ops.at[o];
        if (strcmp(op->name, "aten::mm") != 0 || op->phase != MR_BACKWARD) continue;
        const mr_tensor *x = &answer.trace.tensors.at[op->in.at[0]],
                        *y = &answer.trace.tensors.at[op->in.at[1]];
        n++;
        wrong += x->shape[1] != y->shape[0];
    }
    CHECK(n > 500);
    CHECK_EQ(wrong, 0);
    mr_ctx_clear(&ctx);
}

/* PyTorch's own parts of one sample have 48 copies less: the twin gpt2-small-accumulate-8. */
TEST(copies_that_one_sample_needs_not_are_counted)
{
    static const struct {
        const char *spec;
        bool remarks;
    } cases[] = {{"accumulate:8", true}, {"batch:1", true}, {"accumulate:4", false}};
    for (size_t i = 0; i < MR_COUNT(cases); i++) {
        mr_ctx ctx = {0};
        mr_trace in;
        mr_answer answer;
        CHECK(!evaluated(&ctx, "models/gpt2-small-b8-s1024.csv.gz", cases[i].spec, &in,
                         &answer));
        CHECK_EQ(answer.trace.remarks.n, cases[i].remarks);
        if (answer.trace.remarks.n)
            CHECK_HAS(answer.trace.remarks.at[0],
                      "in each part 48 copies, such as in blocks.0.attention");
        mr_ctx_clear(&ctx);
    }
}

TEST(what_is_no_single_batch_is_refused)
{
    refuses("models/bert-base-changing-b16.csv.gz", "accumulate:2", "after a backward pass");
    refuses("models/gpt2-small-generate-b8-s128.csv.gz", "accumulate:2",
            "no forward and backward pass");
    refuses("tiny/mlp.csv", "accumulate:33", "cannot be divided in 33");
    refuses("tiny/mlp.csv", "accumulate:2+accumulate:2", "after a backward pass");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

/* A gradient that is not added, added twice, or to another one. */
static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    uint32_t sums[2] = {0}, n = 0;
    (void)in;
    for (uint32_t o = 0; o < t->ops.n && n < 2; o++)
        if (t->ops.at[o].sums) sums[n++] = o;
    CHECK_EQ(n, 2);
    mr_op *one = &t->ops.at[sums[0]], *other = &t->ops.at[sums[1]];
    if (mistake == 0) one->sums = false;
    if (mistake == 1) one->in = other->in, one->mutates = other->mutates;
    if (mistake == 2)
        one->in = mr_ids_of(ctx, 2, (uint32_t[]){one->in.at[0], other->in.at[1]});
    if (mistake == 3) run_instead(t, sums[0], sums[1]);
}

TEST(the_referee_sees_what_is_wrong_with_a_sum)
{
    static const char *const said[] = {
        "in part 3 to what a new op wrote, expected the parts of a value in their order",
        "adds nothing yet to what op 15",
        "adds nothing yet to what op 14",
        "adds nothing yet to what op 15",
    };
    referee_says("tiny/mlp.csv", "accumulate:3", plant, said, MR_COUNT(said));
}

TEST_MAIN()
