/* release: gradients that end one by one, variables that end early, what the referee says,
 * refusals. */
#include "rewritten.h"

#define MLP "tiny/mlp.csv"
#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define VGG "models/vgg16-b64-i224.csv.gz"
#define RESNET "models/resnet50-b64-i224.csv.gz"

/* ---- gradients --------------------------------------------------------------------------- */

/* Bytes of gradients that live at once, at most. */
static uint64_t most_gradients(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint64_t live = 0, most = 0;
    if (evaluated(&ctx, file, spec, &in, &answer)) TEST_FAIL("%s", ctx.failure.text);
    const mr_trace *t = &answer.trace;
    for (uint32_t s = 0; s < t->storages.n; s++)
        if (t->storages.at[s].before && t->storages.at[s].role == MR_ROLE_gradient)
            live += t->storages.at[s].bytes;
    most = live;
    for (uint32_t e = 0; e < answer.schedule.events.n; e++) {
        const mr_event event = answer.schedule.events.at[e];
        if (event.kind != MR_ALLOC && event.kind != MR_FREE) continue;
        if (t->storages.at[event.id].role != MR_ROLE_gradient) continue;
        if (event.kind == MR_ALLOC) live += t->storages.at[event.id].bytes;
        else live -= t->storages.at[event.id].bytes;
        if (live > most) most = live;
    }
    mr_ctx_clear(&ctx);
    return most;
}

/* 38440 bytes of parameters; the first layer's gradients are the largest pair. */
TEST(there_are_never_more_than_a_few_gradients)
{
    CHECK_EQ(most_gradients(MLP, "inplace"), 38440);
    CHECK_EQ(most_gradients(MLP, "release"), 32768);
    CHECK_EQ(most_gradients(MLP, "release:both"), 32768);
    CHECK_EQ(most_gradients(MLP, "release:activations"), 38440);
}

/* The update of each follows the op that finishes its gradient, in an order that reads well. */
static const char *shown_ops(mr_ctx *ctx, const mr_trace *t, uint32_t from)
{
    const char *text = "";
    bool begun = false;
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind != MR_RUN) continue;
        begun |= t->events.at[e].id == from;
        const char *name = t->ops.at[t->events.at[e].id].name;
        if (begun) text = mr_printf(ctx, "%s %s", text, name + strlen("aten::"));
    }
    return text;
}

TEST(an_update_follows_its_gradient)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    CHECK_EQ(rewritten(&ctx, MLP, "release", &in, &out), MR_OK);
    CHECK_STR(shown_ops(&ctx, &out, op_named(&out, 12, "aten::t")),
              " t mm mul_ add_ add_ sum mul_ add_ add_ native_dropout_backward"
              " threshold_backward t mm mul_ add_ add_ sum mul_ add_ add_");
    mr_ctx_clear(&ctx);
}

/* ---- variables --------------------------------------------------------------------------- */

static uint64_t peak(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    if (evaluated(&ctx, file, spec, &in, &answer)) TEST_FAIL("%s", ctx.failure.text);
    const uint64_t bytes = mr_schedule_peak(&answer.schedule, &at);
    mr_ctx_clear(&ctx);
    return bytes;
}

/* A program that holds what it has read for one op longer than it needs it. */
static void make_wasteful(mr_ctx *ctx, mr_trace *t)
{
    const mr_trace was = *t;
    t->events.at = NULL;
    t->events.n = t->events.cap = 0;
    MR_VEC(uint32_t) held = {0};
    for (uint32_t e = 0; e < was.events.n; e++) {
        if (was.events.at[e].kind == MR_DROP) {
            MR_PUSH(ctx, &held, was.events.at[e].id);
            continue;
        }
        MR_PUSH(ctx, &t->events, was.events.at[e]);
        if (was.events.at[e].kind != MR_RUN) continue;
        while (held.n > 1) MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, held.at[--held.n]});
    }
    while (held.n) MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, held.at[--held.n]});
}

static uint64_t peak_of(mr_ctx *ctx, const mr_trace *t)
{
    mr_schedule schedule;
    uint32_t at;
    CHECK_EQ(mr_schedule_make(ctx, t, 0, &schedule), MR_OK);
    return mr_schedule_peak(&schedule, &at);
}

TEST(a_variable_ends_with_its_last_reader)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer early;
    CHECK_EQ(recording(&ctx, MLP, &in), MR_OK);
    make_wasteful(&ctx, &in);
    const uint64_t wasteful = peak_of(&ctx, &in);
    CHECK_EQ(step_evaluate(&ctx, &in, "release:activations", &early), MR_OK);
    CHECK(peak_of(&ctx, &early.trace) < wasteful);
    mr_ctx_clear(&ctx);
    CHECK(peak(BERT, "release:activations") <= peak(BERT, "inplace"));
}

/* ---- with others ------------------------------------------------------------------------- */

TEST(checkpoint_composes_in_either_order)
{
    const uint64_t one = peak(BERT, "checkpoint+release");
    CHECK_EQ(peak(BERT, "release+checkpoint"), one);
    CHECK(one < peak(BERT, "release"));
    CHECK(peak(RESNET, "inplace+release") <= peak(RESNET, "inplace"));
    CHECK(peak(BERT, "amp:bfloat16+release") <= peak(BERT, "amp:bfloat16"));
    CHECK(peak(BERT, "optimizer:adafactor+release") <= peak(BERT, "optimizer:adafactor"));
}

TEST(what_looks_at_all_gradients_is_refused)
{
    refuses(BERT, "accumulate:4+release", "several micro-batches");
    refuses(BERT, "release+accumulate:4", "gradients of one micro-batch would be used");
    refuses("models/twins/bert-base-accumulate-4.csv.gz", "release", "several micro-batches");
    refuses(BERT, "amp+release", "looks at all gradients");
    refuses(BERT, "release+amp", "expected amp before");
    refuses(BERT, "ddp+release", "sums gradients over devices");
    refuses(BERT, "release+ddp", "before its backward pass is over");
    refuses("models/twins/bert-base-keep-gradients.csv.gz", "release", "keeps gradients");
    refuses(BERT, "nograd+release", "0 updates of parameters");
    refuses(BERT, "release+release", "expected one step");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static uint32_t event_of(const mr_trace *t, mr_event_kind kind, uint32_t id)
{
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind == kind && t->events.at[e].id == id) return e;
    return MR_NONE;
}

static void move_event(mr_trace *t, uint32_t from, uint32_t to)
{
    const mr_event event = t->events.at[from];
    for (; from < to; from++) t->events.at[from] = t->events.at[from + 1];
    for (; from > to; from--) t->events.at[from] = t->events.at[from - 1];
    t->events.at[to] = event;
}

static void keep_old_states(const mr_trace *in, mr_trace *t)
{
    for (uint32_t s = 0; s < in->storages.n; s++)
        if (in->storages.at[s].role == MR_ROLE_state) t->storages.at[s].before = true;
}

/* Three ops update a bias, the next three a weight, which the first product still reads. */
static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t add = in->ops.n + 1, weight = in->ops.n + 5;
    const uint32_t gradient = t->ops.at[add].in.at[1];
    const uint32_t made = op_named(t, 0, "aten::sum"), product = op_named(t, 0, "aten::mm");
    const uint32_t before_it = event_of(t, MR_RUN, made);
    (void)ctx;
    if (mistake == 0) t->stand_ins.n = 0;
    if (mistake == 1) forget_op(t, add);
    if (mistake == 2) t->ops.at[add].in.at[1] = t->ops.at[add].in.at[0];
    if (mistake == 3) move_event(t, event_of(t, MR_DROP, gradient), before_it + 2);
    if (mistake == 4) move_event(t, event_of(t, MR_RUN, weight), event_of(t, MR_RUN, product));
    if (mistake == 5) keep_old_states(in, t);
    if (mistake == 6) forget_op(t, made);
    if (mistake == 7) move_event(t, event_of(t, MR_RUN, add), before_it);
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {
        "is not run any more",     "no new op has read what",   "no new op has read what",
        "the program has dropped", "holds what a new op wrote", "no new op has read",
        "which holds nothing",     "no new op has read what",
    };
    referee_says(VGG, "release", plant, said, MR_COUNT(said));
}

/* A variable that ends before its last reader. */
static void plant_early_end(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t relu = op_named(t, 0, "aten::relu");
    (void)ctx, (void)in;
    if (mistake) return;
    const uint32_t drop = event_of(t, MR_DROP, t->ops.at[relu].in.at[0]);
    move_event(t, drop, event_of(t, MR_RUN, relu));
}

TEST(the_referee_sees_an_early_end)
{
    static const char *const said[] = {"the program has dropped"};
    referee_says(VGG, "release:activations", plant_early_end, said, MR_COUNT(said));
}

TEST_MAIN()
