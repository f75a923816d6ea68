/* offload: what is copied and what that takes, who goes and comes back when, time beside what
 * computes, memory of the host, what the referee says, refusals. */
#include "rewritten.h"

#include "cost.h"

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define VGG "models/vgg16-b64-i224.csv.gz"
#define RESNET "models/resnet50-b64-i224.csv.gz"
#define GPT "models/gpt2-small-b8-s1024.csv.gz"

typedef struct measured {
    uint64_t peak, time, exposed;
    uint64_t out, in; /* bytes copied */
    uint32_t copies;  /* to the host */
    uint64_t host;    /* most bytes there at once */
} measured;

static uint64_t peak_on(mr_ctx *ctx, const mr_trace *trace, uint32_t device)
{
    mr_schedule schedule;
    uint32_t at;
    if (mr_schedule_make(ctx, trace, device, &schedule)) return 0;
    return mr_schedule_peak(&schedule, &at);
}

static const mr_device gpu = {.name = "test",
                              .memory = 1024 * MR_GIB,
                              .granularity = 1,
                              .bandwidth = 1000000000000,
                              .fp32 = 20000000000000,
                              .link = 20000000000,
                              .launch_ns = 1000};

static measured offloaded(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    mr_spec parsed;
    measured m = {0};
    CHECK_EQ(recording(&ctx, file, &in), MR_OK);
    CHECK_EQ(mr_spec_parse(&ctx, mr_strategies, mr_printf(&ctx, "%s/bound", spec), &parsed),
             MR_OK);
    const mr_question question = {
        .trace = &in, .spec = &parsed, .device = &gpu, .capacity = UINT64_MAX, .iterations = 1};
    if (mr_evaluate(&ctx, &question, &answer)) {
        TEST_FAIL("%s: %s", spec, ctx.failure.text);
        mr_ctx_clear(&ctx);
        return m;
    }
    m.peak = answer.metrics.peak_requested;
    m.time = answer.metrics.time;
    m.exposed = answer.metrics.exposed;
    for (uint32_t o = 0; o < answer.trace.ops.n; o++) {
        const mr_op *op = &answer.trace.ops.at[o];
        if (op->engine == MR_ENGINE_to_host) m.out += op->read;
        if (op->engine == MR_ENGINE_from_host) m.in += op->written;
        m.copies += op->engine == MR_ENGINE_to_host;
    }
    m.host =
        peak_on(&ctx, &answer.trace, MR_PINNED) + peak_on(&ctx, &answer.trace, MR_PAGEABLE);
    mr_ctx_clear(&ctx);
    return m;
}

/* ---- save_on_cpu ------------------------------------------------------------------------- */

/* What the real thing put on the host, as its recording counted: 64 storages. */
TEST(every_saved_tensor_is_copied_parameters_too)
{
    const measured m = offloaded(VGG, "offload:save_on_cpu");
    CHECK_EQ(m.copies, 64);
    CHECK_EQ(m.out, 8715218180);
    CHECK_EQ(m.in, m.out);
    CHECK(m.host <= m.out && m.host > m.out - m.out / 1000);
}

TEST(pinned_memory_only_saves_time)
{
    const measured slow = offloaded(VGG, "offload:save_on_cpu");
    const measured fast = offloaded(VGG, "offload:save_on_cpu,pin_memory=True");
    const measured none = offloaded(VGG, "release:activations");
    CHECK_EQ(fast.peak, slow.peak);
    CHECK_EQ(fast.out, slow.out);
    CHECK_EQ(fast.host, slow.host);
    CHECK(none.time < fast.time && fast.time < slow.time);
    CHECK(slow.time - none.time >= 2 * slow.out / 8); /* 8 bytes in a nanosecond */
}

/* The core of GPT-2's attention reads parts of one storage.  Recorded with four layers, there
 * are 16 copies fewer where it is a region, which is given three tensors, and 24 more with
 * three slices of the queries, whose regions are given three tensors each. */
TEST(what_a_region_is_given_is_copied_tensor_by_tensor)
{
    const measured plain = offloaded(GPT, "offload:save_on_cpu");
    const measured core = offloaded(GPT, "checkpoint:attention+offload:save_on_cpu");
    const measured slices = offloaded(GPT, "chunk:attention=3+offload:save_on_cpu");
    CHECK_EQ(plain.copies - core.copies, 12 * 4);
    CHECK_EQ(slices.copies - core.copies, 12 * 6);
    CHECK(core.peak <= plain.peak && slices.peak <= plain.peak);
    CHECK_EQ(slices.in, slices.out);
}

TEST(small_tensors_stay)
{
    const measured all = offloaded(BERT, "offload:save_on_cpu");
    const measured large = offloaded(BERT, "offload:save_on_cpu,min_bytes=1MiB");
    CHECK(large.copies < all.copies && large.out < all.out);
    CHECK(large.out > all.out - all.out / 100);
}

/* ---- beside what computes ---------------------------------------------------------------- */

TEST(copies_run_beside_what_computes)
{
    const measured none = offloaded(BERT, "release:activations");
    const measured line = offloaded(BERT, "offload:save_on_cpu,pin_memory=True");
    const measured side = offloaded(BERT, "offload");
    CHECK(side.time < line.time && side.time >= none.time);
    CHECK(side.peak < none.peak);
    CHECK_EQ(side.in, side.out);
    CHECK(side.out < line.out); /* once each, no parameters */
}

TEST(what_comes_back_too_late_makes_computing_wait)
{
    const measured late = offloaded(BERT, "offload:prefetch=0");
    const measured early = offloaded(BERT, "offload:prefetch=4");
    CHECK(late.exposed > early.exposed && late.time > early.time);
    CHECK(late.peak <= early.peak);
}

TEST(a_large_stash_takes_memory_and_saves_time)
{
    const measured one = offloaded(VGG, "offload:stash=1"),
                   many = offloaded(VGG, "offload:stash=50");
    CHECK(one.peak <= many.peak);
    CHECK(one.time >= many.time);
}

TEST(the_last_ones_can_stay)
{
    const measured all = offloaded(BERT, "offload"),
                   less = offloaded(BERT, "offload:keep_last=20");
    CHECK(less.copies < all.copies && less.time <= all.time);
    refuses(BERT, "offload:keep_last=100000", "keeps all that could go");
}

TEST(inputs_of_convolutions_are_fewer)
{
    const measured all = offloaded(RESNET, "offload"), conv = offloaded(RESNET, "offload:conv");
    CHECK(conv.copies < all.copies && conv.out < all.out && conv.peak > all.peak);
    refuses(BERT, "offload:conv", "0 tensors are saved for convolutions");
}

/* What goes by the interval costs next to nothing, on a device as fast as the plan's. */
TEST(intervals_that_are_long_enough_are_free)
{
    const measured none = offloaded(BERT, "release:activations");
    const measured some = offloaded(BERT, "offload:interval,link=12GB");
    CHECK(some.peak < none.peak - none.peak / 20);
    CHECK(some.time < none.time + none.time / 20);
    const measured slow = offloaded(BERT, "offload:interval,link=5GB");
    CHECK(slow.copies < some.copies && slow.peak > some.peak);
}

/* ---- with others ------------------------------------------------------------------------- */

TEST(others_come_before)
{
    const measured some = offloaded(BERT, "checkpoint+offload"),
                   one = offloaded(BERT, "checkpoint");
    CHECK(some.peak < one.peak && some.out < one.peak);
    CHECK(offloaded(BERT, "checkpoint+offload:save_on_cpu").peak < one.peak);
    CHECK(offloaded(BERT, "amp+offload").peak < offloaded(BERT, "amp").peak);
    CHECK(offloaded(RESNET, "inplace+offload").peak < offloaded(RESNET, "inplace").peak);
    CHECK(offloaded(BERT, "accumulate:4+offload").peak < offloaded(BERT, "accumulate:4").peak);
    CHECK(offloaded(BERT, "offload+accumulate:4").peak < offloaded(BERT, "accumulate:4").peak);
    CHECK(offloaded(BERT, "offload+ddp").peak < offloaded(BERT, "ddp").peak);
    CHECK(offloaded(BERT, "release+offload").peak <= offloaded(BERT, "offload").peak);
    CHECK_EQ(offloaded(BERT, "offload+release").peak, offloaded(BERT, "release+offload").peak);
}

TEST(what_looks_at_saved_tensors_comes_before)
{
    static const char *const list[] = {"offload+checkpoint", "offload+amp",  "offload+nograd",
                                       "offload+sdpa",       "offload+chen", "offload+mincut"};
    for (size_t i = 0; i < MR_COUNT(list); i++) refuses(BERT, list[i], "copies to the host");
    refuses(BERT, "nograd+offload", "0 tensors are saved");
    refuses_as(MR_EUSAGE, BERT, "offload:pin_memory=True", "is of policy=save_on_cpu");
    refuses_as(MR_EUSAGE, BERT, "offload:save_on_cpu,keep_last=1", "with another policy");
}

static const char *remark(mr_ctx *ctx, const char *spec)
{
    mr_trace in, out;
    CHECK_EQ(rewritten(ctx, VGG, spec, &in, &out), MR_OK);
    return out.remarks.n ? out.remarks.at[out.remarks.n - 1] : "";
}

TEST(memory_of_the_host_is_reported)
{
    mr_ctx ctx = {0};
    CHECK_HAS(remark(&ctx, "offload:save_on_cpu"), "of pageable memory on the host are needed");
    CHECK_HAS(remark(&ctx, "offload"), "of pinned memory on the host are needed at once, for");
    mr_ctx_clear(&ctx);
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static uint32_t copy_number(const mr_trace *t, mr_engine engine, uint32_t n)
{
    for (uint32_t o = 0; o < t->ops.n; o++)
        if (t->ops.at[o].engine == engine && !n--) return o;
    return 0;
}

static uint32_t event_of(const mr_trace *t, mr_event_kind kind, uint32_t id)
{
    for (uint32_t e = 0; e < t->events.n; e++)
        if (t->events.at[e].kind == kind && t->events.at[e].id == id) return e;
    return 0;
}

static void move_event(mr_trace *t, uint32_t from, uint32_t to)
{
    const mr_event event = t->events.at[from];
    for (; from < to; from++) t->events.at[from] = t->events.at[from + 1];
    for (; from > to; from--) t->events.at[from] = t->events.at[from - 1];
    t->events.at[to] = event;
}

/* The third copy is that of the first activation function's result; the first that come back
 * are what the loss has saved. */
static void plant_in_hooks(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t out = copy_number(t, MR_ENGINE_to_host, 2);
    const uint32_t back = copy_number(t, MR_ENGINE_from_host, 0);
    const uint32_t relu = op_named(t, 0, "aten::relu");
    const uint32_t grad = op_named(t, 0, "aten::nll_loss_backward");
    const uint32_t unpacked = t->ops.at[back].out.at[0];
    if (mistake == 0) forget_op(t, out);
    if (mistake == 1) t->ops.at[back].in = t->ops.at[back + 1].in;
    if (mistake == 2) move_event(t, event_of(t, MR_DROP, unpacked), event_of(t, MR_RUN, grad));
    if (mistake == 3) t->ops.at[grad].in = mr_ids_of(ctx, 4, in->ops.at[grad].in.at);
    if (mistake == 4) move_event(t, event_of(t, MR_RUN, out), event_of(t, MR_RUN, relu));
    if (mistake == 5) t->ops.at[back].moves = false;
    if (mistake == 6) t->ops.at[grad].in.at[1] = t->ops.at[grad].in.at[0];
    if (mistake == 7)
        move_event(t, event_of(t, MR_DROP, t->ops.at[back].in.at[0]),
                   event_of(t, MR_RUN, back));
}

TEST(the_referee_sees_what_is_wrong_with_hooks)
{
    static const char *const said[] = {
        "which holds nothing yet",
        "expected what op 45 (aten::_log_softmax) wrote",
        "the program has dropped",
        "the program has dropped",
        "holds nothing",
        "holds what a new op wrote",
        "expected what op 45 (aten::_log_softmax) wrote",
        "the program has dropped",
    };
    referee_says(VGG, "offload:save_on_cpu", plant_in_hooks, said, MR_COUNT(said));
}

static uint32_t wait_number(const mr_trace *t, const char *name, uint32_t n)
{
    uint32_t o = op_named(t, 0, name);
    while (n--) o = op_named(t, o + 1, name);
    return o;
}

static void plant_in_swaps(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t out = copy_number(t, MR_ENGINE_to_host, 0);
    const uint32_t back = copy_number(t, MR_ENGINE_from_host, 0);
    const uint32_t take = wait_number(t, "aten::empty_like", 0);
    const uint32_t wait = wait_number(t, "cuda::stream_wait_event", 0);
    const uint32_t gone = t->ops.at[out].in.at[0], relu = op_named(t, 0, "aten::relu");
    const uint32_t last = op_named(t, 110, "aten::convolution_backward");
    (void)ctx;
    if (mistake == 0) forget_op(t, wait);
    if (mistake == 1) forget_op(t, back);
    if (mistake == 2) move_event(t, event_of(t, MR_DROP, gone), event_of(t, MR_RUN, out));
    if (mistake == 3) t->ops.at[back].in = t->ops.at[copy_number(t, MR_ENGINE_from_host, 1)].in;
    if (mistake == 4) t->ops.at[last - 1].in = in->ops.at[last - 1].in;
    if (mistake == 5) move_event(t, event_of(t, MR_RUN, out), event_of(t, MR_RUN, relu));
    if (mistake == 6) {
        t->ops.at[back].out = t->ops.at[back].mutates;
        t->ops.at[back].mutates.n = 0;
        forget_op(t, take);
    }
    if (mistake == 7)
        move_event(t, event_of(t, MR_DROP, t->ops.at[back].in.at[0]),
                   event_of(t, MR_RUN, back));
}

TEST(the_referee_sees_what_is_wrong_with_swaps)
{
    static const char *const said[] = {
        "to wait for that",
        "holds what a new op wrote",
        "the program has dropped",
        "expected what op",
        "the program has dropped",
        "holds nothing",
        "expected that to be taken on its own",
        "the program has dropped",
    };
    referee_says(VGG, "offload", plant_in_swaps, said, MR_COUNT(said));
}

TEST_MAIN()
