/* fsdp: what a device holds and sends by ZeRO's formulas, what is gathered at a time, who is
 * refused, and what the referee sees.
 */
#include "csv_reader.h"
#include "rewritten.h"

#include <stdlib.h>

#define BERT "models/bert-base-mlm-b32-s128.csv.gz"
#define GPT2 "models/gpt2-small-b8-s1024.csv.gz"
#define LLAMA "models/llama-7b-b1-s2048-bf16.csv.gz"

typedef struct sums {
    uint64_t peak, held;     /* held: parameters, gradients and states that live on */
    uint64_t states;         /* of that, states */
    uint64_t parameters;     /* of that, parameters */
    uint64_t whole, buffers; /* most of gathered parameters, of what was received, at a time */
    uint64_t sent[MR_ENGINE_N];
    uint32_t gathers, tensors;
    uint64_t exposed; /* ns in which computing waits */
} sums;

static void look_at_storages(const mr_trace *t, sums *s)
{
    for (uint32_t i = 0; i < t->storages.n; i++) {
        const mr_storage *home = &t->storages.at[i];
        if (!home->after) continue;
        if (home->role == MR_ROLE_state) s->states += home->bytes;
        if (home->role == MR_ROLE_parameter) s->parameters += home->bytes, s->tensors++;
        if (home->role == MR_ROLE_state || home->role == MR_ROLE_parameter
            || home->role == MR_ROLE_gradient)
            s->held += home->bytes;
    }
}

static void look_at_ops(const mr_trace *t, sums *s)
{
    for (uint32_t o = 0; o < t->ops.n; o++) {
        const mr_op *op = &t->ops.at[o];
        s->gathers += op->engine == MR_ENGINE_all_gather;
        s->sent[op->engine] += op->read > op->written ? op->read : op->written;
    }
}

static void look_at_lives(const mr_schedule *schedule, sums *s)
{
    const mr_trace *t = schedule->trace;
    uint64_t whole = 0, buffers = 0;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind != MR_ALLOC && event.kind != MR_FREE) continue;
        const mr_storage *home = &t->storages.at[event.id];
        const uint64_t sign = event.kind == MR_ALLOC ? 1 : UINT64_MAX;
        if (home->role == MR_ROLE_parameter) whole += sign * home->bytes;
        if (home->role == MR_ROLE_temporary && home->stream) buffers += sign * home->bytes;
        if (whole > s->whole) s->whole = whole;
        if (buffers > s->buffers) s->buffers = buffers;
    }
}

/* A device that computes for long and has a fast interconnect. */
static mr_status timed(mr_ctx *ctx, const mr_trace *trace, const char *text, mr_answer *answer)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1,
                                     .fp32 = (uint64_t)20e12, .bandwidth = (uint64_t)1e12,
                                     .interconnect = (uint64_t)50e9};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", text), spec));
    const mr_question question = {.trace = trace, .spec = spec, .device = &device,
                                  .capacity = UINT64_MAX, .iterations = 1};
    return mr_evaluate(ctx, &question, answer);
}

static sums predicted(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    uint32_t at;
    sums s = {0};
    if (recording(&ctx, file, &in) || timed(&ctx, &in, spec, &answer)) {
        TEST_FAIL("%s: %s", spec, ctx.failure.text);
    } else {
        s.peak = mr_schedule_peak(&answer.schedule, &at);
        look_at_storages(&answer.trace, &s);
        look_at_ops(&answer.trace, &s);
        look_at_lives(&answer.schedule, &s);
        s.exposed = answer.metrics.exposed;
    }
    mr_ctx_clear(&ctx);
    return s;
}

/* Tensors are divided row by row: those whose rows do not divide evenly round up by less than
 * one of GPT-2's (for parameter, gradient and states); others, in buckets, by a number.  What
 * counts steps is not divided. */
static void near(const char *what, uint64_t x, double y, uint32_t tensors)
{
    const double slack = 16 * 768 + 8.0 * tensors + 1024;
    if ((double)x < y || (double)x > y + slack)
        TEST_FAIL("%s: %" PRIu64 ", expected %.0f and at most %.0f more", what, x, y, slack);
}

/* ---- PyTorch itself ---------------------------------------------------------------------- */

#define ORACLE TESTS "/oracle/fully-shard-live.csv"

/* Ops that the script of that name looks at. */
static bool is_looked_at(const char *name)
{
    return !strncmp(name, "fsdp::", 6) || !strncmp(name, "c10d::", 6)
           || !strcmp(name, "aten::mm") || !strcmp(name, "aten::addmm");
}

typedef struct walk {
    mr_ctx ctx;
    mr_answer answer;
    const char *spec;
    uint32_t event;
    uint64_t live;
} walk;

static void begin(walk *w, const char *spec)
{
    mr_trace in;
    *w = (walk){.spec = spec};
    if (evaluated(&w->ctx, "../tests/oracle/fully-shard-plain.csv.gz", spec, &in, &w->answer))
        TEST_FAIL("%s: %s", spec, w->ctx.failure.text);
    for (uint32_t s = 0; s < w->answer.trace.storages.n; s++)
        if (w->answer.trace.storages.at[s].before)
            w->live += w->answer.trace.storages.at[s].bytes;
}

/* The next of those ops, NULL when there is none. */
static const char *next(walk *w)
{
    while (w->event < w->answer.schedule.events.n) {
        const mr_event event = w->answer.schedule.events.at[w->event++];
        if (event.kind == MR_ALLOC) w->live += w->answer.trace.storages.at[event.id].bytes;
        if (event.kind == MR_FREE) w->live -= w->answer.trace.storages.at[event.id].bytes;
        if (event.kind == MR_RUN && is_looked_at(w->answer.trace.ops.at[event.id].name))
            return w->answer.trace.ops.at[event.id].name;
    }
    return NULL;
}

static void compare(walk *w, const mr_csv_row *row)
{
    const char *name = next(w);
    const uint64_t live = strtoull(row->at[2], NULL, 10);
    CHECK_STR(name ? name : "nothing", row->at[1]);
    if (w->live < live || w->live > live + 4) /* the script does not see the loss at first */
        TEST_FAIL("%s: %" PRIu64 " bytes live after %s, expected %" PRIu64, w->spec, w->live,
                  row->at[1], live);
}

/* Op for op, and what lives after each of them to the byte. */
TEST(a_step_under_fully_shard_is_as_predicted)
{
    mr_ctx ctx = {0};
    mr_source *source;
    const mr_csv_row *row;
    walk w = {0};
    uint32_t rows = 0;
    CHECK_EQ(mr_source_open(&ctx, ORACLE, &source), MR_OK);
    mr_csv *csv = mr_csv_open(&ctx, source);
    CHECK(!mr_csv_next(csv, &row) && row->n == 3);
    while (!mr_csv_next(csv, &row) && row->n) {
        const char *spec = mr_strndup(&ctx, row->at[0], row->length[0]);
        if (!w.spec || strcmp(w.spec, spec) != 0) {
            CHECK(!w.spec || !next(&w));
            if (w.spec) mr_ctx_clear(&w.ctx);
            begin(&w, spec);
        }
        compare(&w, row);
        rows++;
    }
    CHECK(!next(&w) && rows == 364);
    mr_ctx_clear(&w.ctx);
    mr_csv_close(csv);
    mr_source_close(source);
    mr_ctx_clear(&ctx);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Adam in mixed precision: 16 bytes for each parameter, of which ZeRO divides 12, 14, all. */
TEST(each_stage_leaves_what_the_paper_says)
{
    const double n = (double)predicted(GPT2, "half:masters=True").parameters / 2;
    const sums whole =
        predicted(GPT2, "half:masters=True+ddp:gradient_as_bucket_view=True,ranks=64");
    const uint32_t k = 5 * whole.tensors;
    near("none", whole.held, 16 * n, k);
    near("stage 1", predicted(GPT2, "half:masters=True+ddp:zero=1,ranks=64").held,
         4 * n + 12 * n / 64, k);
    near("stage 2", predicted(GPT2, "half:masters=True+ddp:zero=2,ranks=64").held,
         2 * n + 14 * n / 64, k);
    near("stage 3", predicted(GPT2, "half:masters=True+ddp:zero=3,ranks=64").held, 16 * n / 64,
         k);
    near("fsdp", predicted(GPT2, "half:masters=True+fsdp:ranks=64").held, 16 * n / 64, k);
    near("fp32", predicted(GPT2, "fsdp:ranks=4").held, 16 * n / 4, k);
    near("one rank", predicted(GPT2, "fsdp:ranks=1").held, 16 * n, k);
}

/* GPT-2 has twelve equal blocks; tied embeddings, positions and the last norm are the root. */
#define BLOCK ((uint64_t)7087872 * 4)
#define ROOT ((uint64_t)(50257 + 1024 + 2) * 768 * 4)
#define PADDED ((uint64_t)(50264 + 1024 + 2) * 768 * 4) /* eight devices have as many rows */

TEST(the_root_and_one_unit_are_whole_at_a_time)
{
    const sums fsdp = predicted(GPT2, "fsdp");
    CHECK_EQ(fsdp.whole, PADDED + BLOCK);
    CHECK_EQ(predicted(GPT2, "fsdp:reshard=True").whole, PADDED + BLOCK);
    CHECK_EQ(predicted(GPT2, "fsdp:reshard=False").whole, PADDED + 12 * BLOCK);
    CHECK_EQ(predicted(GPT2, "fsdp:module=[blocks.0,blocks.1]").whole, PADDED + 11 * BLOCK);
    CHECK_EQ(predicted("models/vgg16-b64-i224.csv.gz", "fsdp").gathers, 1);
}

/* One buffer is held in the forward pass while the next is received; those that are prefetched
 * are on top of that. */
TEST(prefetching_takes_buffers)
{
    CHECK_EQ(predicted(GPT2, "fsdp:reshard=True,prefetch=0").buffers, PADDED + BLOCK);
    const uint64_t two = predicted(GPT2, "fsdp:forward_prefetch=2").buffers;
    const uint64_t five = predicted(GPT2, "fsdp:forward_prefetch=5").buffers;
    const uint64_t all = predicted(GPT2, "fsdp:limit_all_gathers=False").buffers;
    CHECK_EQ(five - two, 3 * BLOCK);
    CHECK_EQ(all, PADDED + 12 * BLOCK);
    CHECK(predicted(LLAMA, "fsdp:limit_all_gathers=False").peak
          > predicted(LLAMA, "fsdp").peak);
}

/* ---- communication ----------------------------------------------------------------------- */

/* Each parameter is gathered twice and its gradient reduced once, 3 bytes for each byte; twice
 * as much as is gathered when nothing is let go between the passes. */
TEST(a_step_sends_three_times_the_parameters)
{
    const uint64_t p = PADDED + 12 * BLOCK;
    const sums all = predicted(GPT2, "fsdp:reshard=True"), one = predicted(GPT2, "fsdp"),
               none = predicted(GPT2, "fsdp:reshard=False");
    near("all", all.sent[MR_ENGINE_all_gather], (double)(2 * p), 16 * all.tensors);
    near("but the root", one.sent[MR_ENGINE_all_gather], (double)(2 * p - PADDED),
         16 * all.tensors);
    near("none", none.sent[MR_ENGINE_all_gather], (double)p, 8 * all.tensors);
    near("gradients", all.sent[MR_ENGINE_reduce_scatter], (double)p, 8 * all.tensors);
    CHECK_EQ(one.sent[MR_ENGINE_reduce_scatter], all.sent[MR_ENGINE_reduce_scatter]);
    CHECK_EQ(all.gathers, 2 * 13);
    CHECK_EQ(one.gathers, 2 * 13 - 1);
    CHECK_EQ(predicted(GPT2, "half:masters=True+fsdp:reshard=True").sent[MR_ENGINE_all_gather],
             all.sent[MR_ENGINE_all_gather] / 2);
    CHECK_EQ(predicted(GPT2, "accumulate:4+fsdp").sent[MR_ENGINE_reduce_scatter],
             all.sent[MR_ENGINE_reduce_scatter]);
    CHECK_EQ(predicted(GPT2, "checkpoint+fsdp:reshard=True").gathers, 2 * 13);
    CHECK_EQ(predicted(GPT2, "accumulate:4+fsdp:reshard=True").gathers, 4 * 2 * 13);
}

/* Most of it goes beside computing; who gathers ahead waits no longer than who does not. */
TEST(collectives_go_beside_computing)
{
    const sums fsdp = predicted(GPT2, "fsdp"), late = predicted(GPT2, "fsdp:prefetch=0");
    const double sent = (double)(fsdp.sent[MR_ENGINE_all_gather]
                                 + fsdp.sent[MR_ENGINE_reduce_scatter]);
    const double alone = sent * 7 / 8 / 50e9 * 1e9;
    CHECK((double)fsdp.exposed < alone / 2);
    CHECK(fsdp.exposed <= late.exposed);
}

/* ---- who goes with it -------------------------------------------------------------------- */

TEST(other_rewrites_come_before)
{
    static const char *const specs[] = {
        "checkpoint+fsdp", "checkpoint:reentrant=True+fsdp", "accumulate:4+fsdp", "amp+fsdp",
        "amp:bfloat16+checkpoint+fsdp", "inplace:add=True+fsdp", "half+fsdp",
        "half:masters=True,scale=dynamic+fsdp", "share:groups=[layers.*]+fsdp", "sdpa+fsdp",
        "optimizer:sgd+fsdp", "optimizer:adamw,form=for-loop+fsdp", "batch:8+fsdp",
        "checkpoint+accumulate:2+half:masters=True,scale=dynamic+fsdp:limit_all_gathers=False",
    };
    const uint64_t whole = predicted(BERT, "accumulate:1").peak;
    for (size_t i = 0; i < MR_COUNT(specs); i++) CHECK(predicted(BERT, specs[i]).peak < whole);
    CHECK_EQ(predicted("models/albert-base-b32-s128.csv.gz", "fsdp:module=layer").gathers, 25);
    CHECK(predicted("models/unet-b8-i256.csv.gz", "fsdp:module=[down.*,up.*]").gathers > 4);
    CHECK(predicted("models/sd-unet-b4-i512.csv.gz", "checkpoint+fsdp").gathers > 4);
    CHECK(predicted("models/moe-small-b8-s512.csv.gz", "fsdp").gathers > 4);
}

TEST(what_cannot_be_is_refused)
{
    refuses(BERT, "fsdp+checkpoint", "expected fsdp to come last");
    refuses(BERT, "fsdp+ddp", "expected fsdp to come last");
    refuses(BERT, "fsdp+fsdp", "expected fsdp to come last");
    refuses(BERT, "ddp+fsdp", "on several devices already");
    refuses(BERT, "nograd+fsdp", "no gradients");
    refuses(BERT, "accumulate:4,set_to_none=False+fsdp", "keeps gradients");
    refuses("models/twins/gpt2-small-release.csv.gz", "fsdp",
            "before its backward pass is over");
    refuses_as(MR_EUSAGE, BERT, "fsdp:module=none.*", "no module of");
    refuses_as(MR_EUSAGE, BERT, "fsdp:param_dtype=bfloat16", "half makes it so");
    refuses_as(MR_EUSAGE, BERT, "half:float16+fsdp:param_dtype=bfloat16", "expected bfloat16");
    refuses_as(MR_EUSAGE, BERT, "half+fsdp:param_dtype=bfloat16,reduce_dtype=float16",
               "expected float32 or what param_dtype says");
}

/* As older recorders left it out. */
TEST(who_does_not_say_whose_gradients_is_refused)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    mr_answer answer;
    CHECK_EQ(recording(&ctx, BERT, &trace), MR_OK);
    for (uint32_t o = 0; o < trace.ops.n; o++) trace.ops.at[o].of = MR_NONE;
    CHECK_EQ(step_evaluate(&ctx, &trace, "fsdp", &answer), MR_EUNSUPPORTED);
    CHECK(strstr(ctx.failure.text, "does not say whose gradients"));
    mr_ctx_clear(&ctx);
}

/* ---- planted mistakes -------------------------------------------------------------------- */

static void swap(mr_ctx *ctx, mr_ids *ids, uint32_t i, uint32_t j)
{
    *ids = mr_ids_of(ctx, ids->n, ids->at);
    const uint32_t first = ids->at[i];
    ids->at[i] = ids->at[j];
    ids->at[j] = first;
}

/* The drop of a tensor comes where the first event was. */
static void drop_early(mr_trace *t, uint32_t tensor, uint32_t op)
{
    uint32_t drop = 0, run = 0;
    for (uint32_t e = 0; e < t->events.n; e++) {
        if (t->events.at[e].kind == MR_DROP && t->events.at[e].id == tensor) drop = e;
        if (t->events.at[e].kind == MR_RUN && t->events.at[e].id == op) run = e;
    }
    const mr_event event = t->events.at[drop];
    for (uint32_t e = drop; e > run + 1; e--) t->events.at[e] = t->events.at[e - 1];
    t->events.at[run + 1] = event;
}

/* What parameters are gathered by, and gradients are sent by. */
static void plant_in_buffers(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t root = op_named(t, in->ops.n, "fsdp::all_gather_copy_in");
    const uint32_t filled = op_named(t, root + 1, "fsdp::all_gather_copy_in");
    const uint32_t gathered = op_named(t, filled, "c10d::_allgather_base_");
    const uint32_t taken = op_named(t, filled, "fsdp::split_with_sizes_copy");
    const uint32_t first = op_named(t, in->ops.n, "c10d::_reduce_scatter_base_");
    const uint32_t second = op_named(t, first + 1, "c10d::_reduce_scatter_base_");
    CHECK(gathered != MR_NONE && taken != MR_NONE && second != MR_NONE);
    if (mistake == 11) swap(ctx, &t->ops.at[filled].in, 0, 1);
    if (mistake == 12) t->ops.at[filled].in.n--;
    if (mistake == 13) forget_op(t, gathered);
    if (mistake == 14) t->ops.at[taken].in.n--;
    if (mistake == 15) t->ops.at[second].in.n = 0;
}

static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t root = op_named(t, in->ops.n, "fsdp::split_with_sizes_copy");
    const uint32_t taken = op_named(t, root + 1, "fsdp::split_with_sizes_copy");
    const uint32_t next = op_named(t, taken + 1, "fsdp::split_with_sizes_copy");
    const uint32_t reduced = op_named(t, in->ops.n, "fsdp::chunk_cat_mixed_dtype");
    const uint32_t update = op_named(t, in->ops.n, "aten::_foreach_addcdiv_");
    CHECK(taken != MR_NONE && next != MR_NONE && reduced != MR_NONE && update != MR_NONE);
    if (mistake == 0) swap(ctx, &t->ops.at[taken].in, 0, 1);
    if (mistake == 1) swap(ctx, &t->ops.at[taken].out, 0, 1);
    if (mistake == 2) t->ops.at[next].in = t->ops.at[taken].in;
    if (mistake == 3) forget_op(t, taken);
    if (mistake == 4) drop_early(t, t->ops.at[taken].out.at[0], taken);
    if (mistake == 5) forget_op(t, reduced);
    if (mistake == 6) t->ops.at[reduced].in.n--;
    if (mistake == 7) forget_op(t, update);
    if (mistake == 8) t->stand_ins.n = 0;
    if (mistake == 9) t->ops.at[taken].in.n = t->ops.at[taken].out.n - 1;
    uint32_t scatter = in->ops.n;
    while (t->ops.at[scatter].engine != MR_ENGINE_reduce_scatter) scatter++;
    if (mistake == 10) forget_op(t, scatter);
    plant_in_buffers(ctx, in, t, mistake);
}

TEST(the_referee_sees_what_is_wrong)
{
    static const char *const said[] = {
        "expected what storage", "expected what storage",
        "expected what storage", "holds nothing yet",
        "has dropped",           "no new op has read what",
        "no new op has read what", "is not run any more",
        "is not run any more",   "expected it to write what it reads",
        "expected a collective",  "has not filled with it",
        "has not filled with it", "expected a buffer with",
        "expected a buffer with", "expected a collective to send it",
    };
    referee_says(GPT2, "fsdp", plant, said, MR_COUNT(said));
}

/* Parts in float32 are cast before they are sent. */
static void plant_in_cast(mr_ctx *ctx, const mr_trace *in, mr_trace *t, uint32_t mistake)
{
    const uint32_t root = op_named(t, in->ops.n, "aten::_foreach_copy_");
    const uint32_t cast = op_named(t, root + 1, "aten::_foreach_copy_");
    const uint32_t filled = op_named(t, root, "fsdp::all_gather_copy_in");
    CHECK(cast != MR_NONE && filled != MR_NONE);
    if (mistake == 0) swap(ctx, &t->ops.at[cast].in, 0, 1);
    if (mistake == 1) t->ops.at[cast].in.n--;
    if (mistake == 2) t->ops.at[cast].in = t->ops.at[root].in;
    const uint32_t next = op_named(t, filled + 1, "fsdp::all_gather_copy_in");
    if (mistake == 3) t->ops.at[next].in = t->ops.at[filled].in;
}

TEST(the_referee_sees_what_is_cast_wrongly)
{
    static const char *const said[] = {"has not filled with it", "has not filled with it",
                                       "has not filled with it", "has dropped"};
    referee_says(GPT2, "half+fsdp:param_dtype=bfloat16", plant_in_cast, said, MR_COUNT(said));
}

/* In 16 bits whole parameters take half; what stays is as it was, and so is what is reduced. */
TEST(a_policy_keeps_parts_in_float32)
{
    const sums plain = predicted(GPT2, "fsdp");
    const sums mixed = predicted(GPT2, "half+fsdp:param_dtype=bfloat16");
    const sums low = predicted(GPT2, "half+fsdp:param_dtype=bfloat16,reduce_dtype=bfloat16");
    CHECK_EQ(mixed.held, plain.held);
    CHECK_EQ(2 * mixed.whole, plain.whole);
    CHECK_EQ(2 * mixed.sent[MR_ENGINE_all_gather], plain.sent[MR_ENGINE_all_gather]);
    CHECK_EQ(mixed.sent[MR_ENGINE_reduce_scatter], plain.sent[MR_ENGINE_reduce_scatter]);
    CHECK_EQ(2 * low.sent[MR_ENGINE_reduce_scatter], plain.sent[MR_ENGINE_reduce_scatter]);
    CHECK_EQ(low.held, plain.held);
}

TEST_MAIN()
