/* Ops as work, work as time, and steps whose time can be computed by hand. */
#include "cost.h"
#include "scripted.h"

/* ---- a device with round numbers, an op with tensors of its own -------------------------- */

static const mr_device round_device = {
    .name = "round",
    .memory = MR_GIB,
    .granularity = 1,
    .bandwidth = 1000000000, /* a byte takes 1 ns */
    .fp32 = 1000000000,      /* a FLOP likewise */
    .tf32 = 2000000000,
    .fp16 = 4000000000,
    .fp8 = 8000000000,
    .link = 500000000,
    .interconnect = 250000000,
    .interconnect_ns = 3,
    .link_ns = 7,
    .host_ns = 20,
    .launch_ns = 5,
    .view_ns = 2,
    .kernel_ns = 1,
    .malloc_ns = 100,
    .free_ns = 50,
    .pool_take_ns = 10,
    .pool_give_ns = 4,
    .pool_grow_ns = 30,
    .pool_grow_ns_per_mib = 1,
};

static uint32_t tensor(mr_ctx *ctx, mr_trace *trace, uint64_t bytes, const char *dtype,
                       uint32_t storage)
{
    if (storage == MR_NONE) {
        storage = trace->storages.n;
        MR_PUSH(ctx, &trace->storages, (mr_storage){.bytes = bytes, .stack = MR_NONE});
    }
    MR_PUSH(ctx, &trace->tensors,
            (mr_tensor){.name = "", .dtype = dtype, .storage = storage, .bytes = bytes});
    return trace->tensors.n - 1;
}

static mr_ids ids(mr_ctx *ctx, uint32_t n, const uint32_t *at)
{
    uint32_t *copy = MR_NEW_N(ctx, uint32_t, n);
    memcpy(copy, at, n * sizeof *copy);
    return (mr_ids){copy, n};
}

static void shaped(mr_ctx *ctx, mr_trace *trace, uint32_t t, const uint64_t shape[4])
{
    uint64_t *copy = MR_NEW_N(ctx, uint64_t, 4);
    memcpy(copy, shape, 4 * sizeof *copy);
    trace->tensors.at[t].rank = 4;
    trace->tensors.at[t].shape = copy;
}

static mr_op op_named(const char *name)
{
    return (mr_op){.name = name, .module = "", .again = MR_NONE, .of = MR_NONE};
}

/* a of 100 bytes and b of 60 -> c of 80 */
static mr_trace three_tensors(mr_ctx *ctx, const char *dtype, mr_op *op)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "three");
    const uint32_t a = tensor(ctx, &trace, 100, dtype, MR_NONE);
    const uint32_t b = tensor(ctx, &trace, 60, dtype, MR_NONE);
    const uint32_t c = tensor(ctx, &trace, 80, dtype, MR_NONE);
    op->in = ids(ctx, 2, (uint32_t[]){a, b});
    op->out = ids(ctx, 1, (uint32_t[]){c});
    return trace;
}

/* ---- work -------------------------------------------------------------------------------- */

TEST(bytes_are_those_recorded_else_those_of_the_tensors)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::add");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 240);
    op.read = 10;
    op.written = 5;
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 15);
    mr_ctx_clear(&ctx);
}

TEST(a_tensor_read_twice_counts_once)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::mul");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    op.in = ids(&ctx, 2, (uint32_t[]){0, 0});
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 180);
    mr_ctx_clear(&ctx);
}

TEST(a_view_leaves_nothing_for_the_device)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::view");
    mr_trace trace = three_tensors(&ctx, "float32", &op);
    op.in = ids(&ctx, 1, (uint32_t[]){0});
    op.out = ids(&ctx, 1, (uint32_t[]){tensor(&ctx, &trace, 100, "float32", 0)});
    const mr_work view = mr_work_of(&trace, &op);
    CHECK(view.idle);
    CHECK_EQ(mr_device_ns(&round_device, &view), 0);
    CHECK_EQ(mr_host_ns(&round_device, &view), 2);
    op = op_named("aten::empty");
    op.out = ids(&ctx, 1, (uint32_t[]){2});
    CHECK(mr_work_of(&trace, &op).idle);
    mr_ctx_clear(&ctx);
}

TEST(what_is_changed_in_place_is_written)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::add_");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    op.out = ids(&ctx, 1, (uint32_t[]){0});
    op.mutates = ids(&ctx, 1, (uint32_t[]){0});
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 100 + 60 + 100);
    mr_ctx_clear(&ctx);
}

TEST(some_ops_read_twice_and_some_only_what_they_give)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::cudnn_batch_norm");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 160 + 160 + 80);
    op.name = "aten::embedding";
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 80 + 80);
    op.name = "aten::embedding_dense_backward";
    CHECK_EQ(mr_work_of(&trace, &op).bytes, 240);
    mr_ctx_clear(&ctx);
}

TEST(what_a_convolution_takes_inside_is_as_wide_as_its_numbers)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::convolution");
    mr_trace full = three_tensors(&ctx, "float32", &op);
    mr_trace low = three_tensors(&ctx, "float16", &op);
    op.workspace = 1000;
    MR_PUSH(&ctx, &full.ops, op);
    MR_PUSH(&ctx, &low.ops, op);
    CHECK_EQ(mr_workspace_for(&full, &low, 0), 500);
    CHECK_EQ(mr_workspace_for(&low, &full, 0), 2000);
    CHECK_EQ(mr_workspace_for(&full, &full, 0), 1000);
    full.ops.at[0].name = low.ops.at[0].name = "aten::mm";
    CHECK_EQ(mr_workspace_for(&full, &low, 0), 1000);
    mr_ctx_clear(&ctx);
}

TEST(ops_whose_result_the_host_needs_are_waited_for)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::_local_scalar_dense");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    CHECK(mr_work_of(&trace, &op).waits);
    op.name = "aten::add";
    CHECK(!mr_work_of(&trace, &op).waits);
    mr_ctx_clear(&ctx);
}

/* ---- time -------------------------------------------------------------------------------- */

static uint64_t ns_of(const char *name, const char *dtype, uint64_t flops, mr_tf32 use)
{
    mr_ctx ctx = {0};
    mr_op op = op_named(name);
    const mr_trace trace = three_tensors(&ctx, dtype, &op);
    op.flops = flops;
    const mr_work work = mr_work_of(&trace, &op);
    mr_device device = round_device;
    device.use_tf32 = use;
    const uint64_t ns = mr_device_ns(&device, &work);
    mr_ctx_clear(&ctx);
    return ns;
}

TEST(a_kernel_takes_the_longer_of_arithmetic_and_memory)
{
    CHECK_EQ(ns_of("aten::mm", "float32", 1000, MR_TF32_OFF), 1 + 1000);
    CHECK_EQ(ns_of("aten::mm", "float32", 10, MR_TF32_OFF), 1 + 240);
    CHECK_EQ(ns_of("aten::add", "float32", 0, MR_TF32_OFF), 1 + 240);
}

TEST(the_unit_follows_from_dtype_and_op)
{
    CHECK_EQ(ns_of("aten::mm", "float16", 4000, MR_TF32_CONV), 1 + 1000);
    CHECK_EQ(ns_of("aten::mm", "float8_e4m3fn", 8000, MR_TF32_CONV), 1 + 1000);
    /* without units for bfloat16 it is computed as fp32 */
    CHECK_EQ(ns_of("aten::mm", "bfloat16", 4000, MR_TF32_CONV), 1 + 4000);
    CHECK_EQ(ns_of("aten::mm", "float32", 4000, MR_TF32_CONV), 1 + 4000);
    CHECK_EQ(ns_of("aten::mm", "float32", 4000, MR_TF32_ALL), 1 + 2000);
    CHECK_EQ(ns_of("aten::convolution", "float32", 4000, MR_TF32_CONV), 1 + 2000);
    CHECK_EQ(ns_of("aten::convolution_backward", "float32", 4000, MR_TF32_OFF), 1 + 4000);
}

/* Of the peak, products reach a half, convolutions a quarter and attention an eighth. */
TEST(each_kind_of_op_reaches_its_own_part_of_the_peak)
{
    static const struct {
        mr_math math;
        uint64_t ns;
    } kinds[] = {{MR_MATMUL, 2000}, {MR_CONV, 4000}, {MR_WINOGRAD, 4000}, {MR_ATTENTION, 8000}};
    mr_device device = round_device;
    device.eff_matmul_half = 500;
    device.eff_conv_half = 250;
    device.eff_attention = 125;
    for (size_t i = 0; i < MR_COUNT(kinds); i++) {
        const mr_work work = {
            .flops = 4000, .fill = 1, .precision = MR_FP16, .math = kinds[i].math};
        CHECK_EQ(mr_device_ns(&device, &work), 1 + kinds[i].ns);
    }
}

TEST(transfers_take_what_their_link_takes)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("copy");
    const mr_trace trace = three_tensors(&ctx, "float32", &op);
    op.read = 600;
    op.written = 1200;
    op.engine = MR_ENGINE_to_host;
    mr_work work = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &work), 7 + 2400);
    op.engine = MR_ENGINE_all_reduce;
    op.ranks = 4; /* 2 (3/4 * 1200 * 4 + 3 * 3) */
    work = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &work), 2 * (3600 + 9));
    op.engine = MR_ENGINE_all_gather;
    work = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &work), 3600 + 9);
    op.ranks = 1;
    work = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &work), 0);
    mr_ctx_clear(&ctx);
}

/* Pageable memory is copied at 0.4 of the speed. */
TEST(the_host_waits_for_memory_that_is_not_pinned)
{
    mr_ctx ctx = {0};
    mr_op op = op_named("aten::_to_copy");
    mr_trace trace = three_tensors(&ctx, "float32", &op);
    mr_storage *host = &trace.storages.at[trace.tensors.at[op.out.at[0]].storage];
    op.read = 1200;
    op.engine = MR_ENGINE_to_host;
    CHECK(!mr_work_of(&trace, &op).waits);
    host->device = MR_PAGEABLE;
    const mr_work pageable = mr_work_of(&trace, &op);
    CHECK(pageable.waits);
    CHECK_EQ(mr_device_ns(&round_device, &pageable), 7 + 6000);
    host->device = MR_PINNED;
    const mr_work pinned = mr_work_of(&trace, &op);
    CHECK(pinned.waits); /* in line with what computes */
    CHECK_EQ(mr_device_ns(&round_device, &pinned), 7 + 2400);
    op.stream = 1;
    CHECK(!mr_work_of(&trace, &op).waits);
    op.engine = MR_ENGINE_wait;
    const mr_work wait = mr_work_of(&trace, &op);
    CHECK(wait.idle && !wait.waits);
    CHECK_EQ(mr_device_ns(&round_device, &wait), 0);
    mr_ctx_clear(&ctx);
}

/* out pictures x in pictures x side x side, pictures of `from` and `to` pixels a side */
static mr_work convolution(mr_ctx *ctx, uint64_t out, uint64_t in, uint64_t side, uint64_t from,
                           uint64_t to)
{
    mr_trace trace;
    mr_op op = op_named("aten::convolution");
    trace = three_tensors(ctx, "float32", &op);
    op.flops = 1000;
    shaped(ctx, &trace, 0, (uint64_t[]){2, in, from, from});
    shaped(ctx, &trace, 1, (uint64_t[]){out, in, side, side});
    shaped(ctx, &trace, 2, (uint64_t[]){2, out, to, to});
    return mr_work_of(&trace, &op);
}

TEST(convolutions_of_3x3_that_keep_the_size_suit_winograd)
{
    mr_ctx ctx = {0};
    CHECK(convolution(&ctx, 64, 64, 3, 56, 56).math == MR_WINOGRAD);
    CHECK(convolution(&ctx, 64, 64, 3, 56, 28).math == MR_CONV);
    CHECK(convolution(&ctx, 64, 64, 1, 56, 56).math == MR_CONV);
    mr_ctx_clear(&ctx);
}

TEST(narrow_convolutions_compute_full_tiles)
{
    mr_ctx ctx = {0};
    CHECK(convolution(&ctx, 64, 64, 1, 56, 56).fill == 1);
    CHECK(convolution(&ctx, 16, 64, 1, 56, 56).fill == 4);
    CHECK(convolution(&ctx, 65, 64, 1, 56, 56).fill > 1.9);
    CHECK(convolution(&ctx, 16, 1, 3, 56, 56).fill == 1); /* depthwise */
    mr_ctx_clear(&ctx);
}

/* A device whose arithmetic is what counts, or, with little bandwidth, its memory. */
static uint64_t convolution_ns(const mr_work *work, uint64_t fp32, uint64_t bandwidth)
{
    const mr_device d = {.fp32 = fp32, .bandwidth = bandwidth, .processors = 1};
    return mr_device_ns(&d, work);
}

TEST(a_convolution_is_a_product_for_each_of_its_results)
{
    mr_ctx ctx = {0};
    const mr_work work = convolution(&ctx, 128, 64, 1, 56, 28);
    CHECK_EQ(work.passes.n, 1);
    CHECK_EQ(work.passes.at[0].product.rows, 2 * 28 * 28);
    CHECK_EQ(work.passes.at[0].product.columns, 128);
    CHECK_EQ(work.passes.at[0].tiles.n, 0);
    CHECK(!work.passes.at[0].strided);

    mr_op op = op_named("aten::convolution_backward");
    mr_trace trace = three_tensors(&ctx, "float32", &op); /* gradient, picture, filter */
    const uint32_t more[] = {tensor(&ctx, &trace, 60, "float32", MR_NONE),
                             tensor(&ctx, &trace, 80, "float32", MR_NONE)};
    op.flops = 1000;
    op.in = ids(&ctx, 3, (uint32_t[]){0, 1, 2});
    op.out = ids(&ctx, 2, more);
    shaped(&ctx, &trace, 0, (uint64_t[]){2, 128, 28, 28});
    shaped(&ctx, &trace, 1, (uint64_t[]){2, 64, 56, 56});
    shaped(&ctx, &trace, 2, (uint64_t[]){128, 64, 3, 3});
    shaped(&ctx, &trace, 3, (uint64_t[]){2, 64, 56, 56});
    shaped(&ctx, &trace, 4, (uint64_t[]){128, 64, 3, 3});
    const mr_work back = mr_work_of(&trace, &op);
    CHECK_EQ(back.passes.n, 2);
    CHECK(back.passes.at[0].strided);
    CHECK_EQ(back.passes.at[0].product.rows, 2 * 56 * 56);
    CHECK_EQ(back.passes.at[0].product.columns, 64);
    CHECK_EQ(back.passes.at[1].product.rows, 128);
    CHECK_EQ(back.passes.at[1].product.columns, 64 * 9);
    CHECK_EQ((uint64_t)back.passes.at[1].flops, 500);
    mr_ctx_clear(&ctx);
}

TEST(of_two_ways_to_convolve_the_faster_is_taken)
{
    mr_ctx ctx = {0};
    mr_work work = convolution(&ctx, 128, 128, 3, 56, 56);
    mr_pass *pass = &work.passes.at[0];
    CHECK_EQ(work.passes.n, 1);
    CHECK_EQ(pass->tiles.n, 36);
    CHECK_EQ(pass->tiles.rows, 2 * 14 * 14);
    CHECK(pass->padding == 1);
    CHECK(convolution(&ctx, 128, 128, 3, 7, 7).passes.at[0].padding > 1.3);
    pass->flops = 1e6;
    pass->pictures = pass->filter = 0;
    CHECK(convolution_ns(&work, 1000000000, 0) < 500000); /* a quarter of the products */
    pass->pictures = 1e6; /* back and forth they pass more often than once */
    CHECK(convolution_ns(&work, 1000000000000, 1000000000) == 1000000);
    mr_ctx_clear(&ctx);
}

TEST(what_is_strided_or_summed_takes_longer)
{
    mr_ctx ctx = {0};
    mr_work work = convolution(&ctx, 128, 128, 1, 56, 56);
    work.passes.at[0].flops = 1e6;
    const uint64_t plain = convolution_ns(&work, 1000000000, 0);
    work.passes.at[0].strided = true;
    CHECK_EQ(convolution_ns(&work, 1000000000, 0), plain * 16 / 10);

    mr_op op = op_named("aten::add");
    mr_trace trace = three_tensors(&ctx, "float32", &op);
    op.read = 600;
    op.written = 400;
    const mr_work add = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &add), 1 + 1000);
    op.name = "aten::_foreach_add_";
    const mr_work update = mr_work_of(&trace, &op);
    CHECK_EQ(mr_device_ns(&round_device, &update), 1 + 1400);
    mr_ctx_clear(&ctx);
}

TEST(the_host_takes_longer_for_cudnn_and_for_modules)
{
    mr_ctx ctx = {0};
    mr_device device = round_device;
    device.module_ns = 9;
    const mr_work convolving = convolution(&ctx, 64, 64, 3, 56, 56);
    CHECK_EQ(mr_host_ns(&device, &convolving), 4 * 20 + 5);
    mr_op query = op_named("aten::mm"), score = query, dense = query, back = query;
    query.module = "layers.0.attention.query";
    score.module = "layers.0.attention";
    dense.module = "layers.0.attention.dense";
    CHECK_EQ(mr_call_ns(&device, NULL, &query), 9);
    CHECK_EQ(mr_call_ns(&device, &query, &query), 0);
    CHECK_EQ(mr_call_ns(&device, &query, &score), 0); /* goes on */
    CHECK_EQ(mr_call_ns(&device, &score, &dense), 9);
    mr_op second = dense;
    second.call = 1;
    CHECK_EQ(mr_call_ns(&device, &dense, &second), 9);
    back.module = "layers.0.attention.dense";
    back.phase = MR_BACKWARD;
    CHECK_EQ(mr_call_ns(&device, &query, &back), 0);
    back.again = 0;
    CHECK_EQ(mr_call_ns(&device, &query, &back), 9); /* computed again, in Python */
    mr_ctx_clear(&ctx);
}

static uint64_t product_ns(uint64_t n, uint64_t rows, uint64_t columns, uint64_t terms,
                           uint64_t processors)
{
    mr_device device = {.fp16 = 1000000000000000, .processors = processors};
    const mr_work work = {.precision = MR_FP16,
                          .flops = 2 * n * rows * columns * terms,
                          .fill = 1,
                          .products = {n, rows, columns}};
    return mr_device_ns(&device, &work);
}

TEST(the_last_wave_of_tiles_takes_as_long_as_a_full_one)
{
    const uint64_t full = product_ns(1, 1280, 1024, 4096, 80); /* 10 x 8 tiles */
    CHECK_EQ(full, 2ull * 1280 * 1024 * 4096 / 1000000);
    /* One more row of tiles and there are 88: two waves, or more and smaller tiles. */
    CHECK(product_ns(1, 1408, 1024, 4096, 80) > full * 12 / 10);
    CHECK(product_ns(1, 1408, 1024, 4096, 80) <= full * 2);
    /* A long sum is shared by processors that would have no tile. */
    CHECK(product_ns(1, 128, 128, 65536, 80) < product_ns(1, 128, 128, 256, 80) * 10);
    CHECK_EQ(product_ns(8, 1280, 1024, 4096, 80) / 8, full);
}

TEST(more_bandwidth_or_a_higher_peak_never_takes_longer)
{
    mr_device device = round_device;
    uint64_t last = UINT64_MAX;
    for (uint64_t speed = 1; speed < 1ull << 40; speed *= 3) {
        device.bandwidth = device.fp32 = speed;
        const mr_work work = {.flops = 123456, .fill = 1, .bytes = 7891011};
        const uint64_t ns = mr_device_ns(&device, &work);
        CHECK(ns <= last);
        last = ns;
    }
}

TEST(absurd_work_takes_long_but_not_forever)
{
    mr_device device = round_device;
    device.bandwidth = 1;
    const mr_work work = {.flops = UINT64_MAX, .fill = 1, .bytes = UINT64_MAX};
    CHECK(mr_device_ns(&device, &work) <= 1000000000000000);
}

/* ---- whole steps ------------------------------------------------------------------------- */

/* x -> 1 -> 2 -> ... -> n, each of 1000 bytes; op i takes `ns`, or what its bytes take. */
static mr_trace chain(mr_ctx *ctx, uint32_t n, uint64_t ns)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "chain");
    trace.has = MR_HAS_DATAFLOW | (ns ? MR_HAS_TIMES : 0);
    trace.about[MR_ABOUT_batch] = "4";
    for (uint32_t i = 0; i <= n; i++) tensor(ctx, &trace, 1000, "float32", MR_NONE);
    trace.storages.at[0].before = trace.storages.at[0].after = true;
    for (uint32_t i = 0; i < n; i++) {
        mr_op op = op_named("aten::exp");
        op.in = ids(ctx, 1, (uint32_t[]){i});
        op.out = ids(ctx, 1, (uint32_t[]){i + 1});
        op.ns = ns;
        MR_PUSH(ctx, &trace.ops, op);
        MR_PUSH(ctx, &trace.events, (mr_event){MR_RUN, i});
    }
    return trace;
}

static mr_metrics measured(mr_ctx *ctx, const mr_trace *trace, const char *spec, uint32_t times)
{
    mr_question question = {
        .trace = trace, .device = &round_device, .capacity = UINT64_MAX, .iterations = times};
    mr_spec *parsed = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    CHECK(mr_spec_parse(ctx, mr_strategies, spec, parsed) == MR_OK);
    question.spec = parsed;
    if (mr_evaluate(ctx, &question, answer)) TEST_FAIL("%s", ctx->failure.text);
    return answer->metrics;
}

TEST(a_step_takes_what_its_ops_take)
{
    mr_ctx ctx = {0};
    const mr_trace trace = chain(&ctx, 3, 0);
    const mr_metrics m = measured(&ctx, &trace, "bound", 2);
    CHECK_EQ(m.time, 25 + 3 * 2001); /* the first launch, then memory all the time */
    CHECK_EQ(m.starved, 25);
    CHECK_EQ(m.throughput, 663570007); /* 4 in 6028 ns */
    mr_ctx_clear(&ctx);
}

TEST(measured_durations_are_believed)
{
    mr_ctx ctx = {0};
    const mr_trace trace = chain(&ctx, 3, 500);
    const mr_metrics m = measured(&ctx, &trace, "bound", 1);
    CHECK_EQ(m.time, 1500);
    CHECK_EQ(m.starved, 0);
    mr_ctx_clear(&ctx);
}

TEST(giving_memory_back_waits_for_the_device)
{
    mr_ctx ctx = {0};
    const mr_trace trace = chain(&ctx, 2, 500);
    /* native: 1 is taken, op 0 runs from 100 on, 2 is taken by 200, op 1 runs from 600 to 1100,
     * and only then 1 can be freed */
    const mr_metrics m = measured(&ctx, &trace, "native", 1);
    CHECK(m.time >= 1100 + 50);
    CHECK_EQ(m.device_time, 2 * 100 + 2 * 50);
    mr_ctx_clear(&ctx);
}

TEST(a_pool_of_the_driver_is_asked_for_every_storage)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 2, 500);
    /* it has grown for what was there before, and 1 and 2 come and go */
    CHECK_EQ(measured(&ctx, &trace, "cudamallocasync", 1).device_time, 2 * 10 + 2 * 4);
    trace.storages.at[0].before = trace.storages.at[0].after = false;
    trace.tensors.at[0].bytes = trace.storages.at[0].bytes = 0;
    CHECK_EQ(measured(&ctx, &trace, "cudamallocasync", 1).device_time,
             2 * 10 + 2 * 4 + 30 + 32);
    mr_ctx_clear(&ctx);
}

TEST(what_is_recomputed_is_told)
{
    mr_ctx ctx = {0};
    mr_trace trace = chain(&ctx, 3, 500);
    trace.ops.at[2].again = 0;
    CHECK_EQ(measured(&ctx, &trace, "bound", 3).recompute, 500);
    mr_ctx_clear(&ctx);
}

TEST(a_recording_without_ops_tells_no_time)
{
    mr_ctx ctx = {0};
    const mr_trace trace = scripted(&ctx, "1+100 1- 2+50 2-");
    const mr_metrics m = measured(&ctx, &trace, "native", 2);
    CHECK_EQ(m.time, 0);
    CHECK_EQ(m.throughput, 0);
    CHECK(m.device_time > 0);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
