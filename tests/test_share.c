/* share: what is gone and what is added up, in which order it goes with others, who is refused.
 */
#include "rewritten.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"

typedef struct sums {
    uint64_t peak, ops, flops, kept; /* kept: bytes of parameters and of state */
} sums;

static sums predicted(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    sums s = {0};
    if (evaluated(&ctx, file, spec, &in, &answer)) {
        TEST_FAIL("%s", ctx.failure.text);
    } else {
        const mr_trace *t = &answer.trace;
        s.peak = mr_schedule_peak(&answer.schedule, &at);
        s.ops = t->ops.n;
        for (uint32_t o = 0; o < t->ops.n; o++) s.flops += t->ops.at[o].flops;
        for (uint32_t i = 0; i < t->storages.n; i++)
            if (t->storages.at[i].before
                && (t->storages.at[i].role == MR_ROLE_parameter
                    || t->storages.at[i].role == MR_ROLE_state))
                s.kept += t->storages.at[i].bytes;
    }
    mr_ctx_clear(&ctx);
    return s;
}

/* A layer of BERT-base has 7,087,872 parameters, each with two moments. */
#define LAYER ((uint64_t)7087872 * 4 * 3)

TEST(a_group_keeps_one_layer)
{
    const sums plain = predicted(BERT, "accumulate:1");
    const sums all = predicted(BERT, "share"), pairs = predicted(BERT, "share:span=2");
    const sums named = predicted(BERT, "share:groups=layers.*");
    const sums two = predicted(BERT, "share:groups=[layers.3,layers.7]");
    CHECK_EQ(plain.kept - all.kept, 11 * LAYER);
    CHECK_EQ(plain.kept - pairs.kept, 6 * LAYER);
    CHECK_EQ(plain.kept - two.kept, LAYER);
    CHECK_EQ(all.peak, named.peak);
    CHECK_EQ(all.flops, plain.flops);
    CHECK_EQ(all.ops, plain.ops + 11 * 16); /* each gradient is added to the others */
    CHECK(all.peak < pairs.peak && pairs.peak < plain.peak);
}

TEST(a_second_time_changes_nothing)
{
    const sums once = predicted(BERT, "share"), twice = predicted(BERT, "share+share");
    CHECK(!memcmp(&once, &twice, sizeof once));
}

TEST(it_goes_with_what_comes_after)
{
    const sums shared = predicted(BERT, "share+checkpoint");
    CHECK(shared.peak < predicted(BERT, "checkpoint").peak);
    CHECK_EQ(shared.peak, predicted(BERT, "checkpoint+share").peak);
    CHECK(predicted(BERT, "share+accumulate:4").peak < predicted(BERT, "share").peak);
    CHECK_EQ(predicted(BERT, "share+sdpa").peak, predicted(BERT, "sdpa+share").peak);
}

TEST(what_does_not_fit_is_refused)
{
    refuses("tiny/mlp.csv", "share", "no parameters with names such as layers.0.weight");
    refuses(BERT, "share:groups=stages.*", "has 0 modules with parameters like stages.*");
    refuses(BERT, "share:tie=[embeddings.word.weight,pooler.weight]", "not as large");
    refuses(BERT, "share:tie=[embeddings.word.weight,head.weight]", "no parameter head.weight");
    refuses(BERT, "share:tie=embeddings", "no matrix as large as an embedding's");
    refuses(BERT, "share:groups=[layers.0.attention,layers.1.output]", "there is no");
    refuses(BERT, "accumulate:2+share", "share parameters before that");
    refuses("models/twins/bert-base-keep-gradients.csv.gz", "share", "keeps gradients");
    refuses("models/twins/gpt2-small-release.csv.gz", "share", "updates parameters before");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

/* Pairs of parameters of one size in one layer: the first, and the next behind `after`. */
static mr_shared *pair_of(mr_trace *t, const mr_shared *after)
{
    for (uint32_t i = 0; i < t->shared.n; i++) {
        mr_shared *pair = &t->shared.at[i];
        const mr_storage *kept = &t->storages.at[pair->kept];
        if (kept->role != MR_ROLE_parameter || kept->bytes != 768 * 768 * 4) continue;
        if (!after || (pair > after && pair->kept != after->kept)) return pair;
    }
    return NULL;
}

static void move_tensors(mr_trace *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (t->tensors.at[i].storage == from) t->tensors.at[i].storage = to;
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    (void)ctx;
    mr_shared *pair = pair_of(t, NULL), *other = pair_of(t, pair);
    CHECK(pair && other);
    if (mistake == 0) forget_op(t, op_named(t, in->ops.n, "aten::add"));
    if (mistake == 1) forget_op(t, op_named(t, in->ops.n, "aten::add_"));
    if (mistake == 2) forget_op(t, op_named(t, in->ops.n, "aten::_foreach_addcdiv_"));
    if (mistake == 3) t->shared.n = 0;
    if (mistake == 4) pair->kept = other->kept;
    if (mistake == 5) t->storages.at[pair->gone].before = true;
    if (mistake == 6) move_tensors(t, pair->kept, other->kept);
    if (mistake == 7) t->stand_ins.n--;
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {
        "no new op has read what",
        "no new op has read what",
        "(aten::_foreach_addcdiv_) is not run any more",
        "expected what storage 21 held before the first event",
        "expected what storage 7 held before the first event",
        "expected both of one size and the other gone",
        "holds what storage 7 held before the first event",
        "(aten::_foreach_addcdiv_) is not run any more",
    };
    referee_says(BERT, "share", plant, said, MR_COUNT(said));
}

/* The last op of a region runs once, and reads a cast of the parameter that all blocks share. */
TEST(shared_casts_are_there_for_the_gradient_of_a_checkpoint)
{
    static const char file[] = "models/vit-b16-b64-i224.csv.gz";
    CHECK_EQ(predicted_peak(file, "share+amp+checkpoint"),
             predicted_peak(file, "amp+share+checkpoint"));
}

TEST_MAIN()
