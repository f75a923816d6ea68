/* The referee of rewrites, fed with deliberate mistakes: each must be noticed, and named.
 *
 * The step is traces/tiny/blocks.csv: two blocks of linear, norm, relu, view and dropout.  It
 * is rewritten as it should be, block 0 being computed again in the backward pass; then one
 * thing is broken at a time.
 */
#include "rewrite_check.h"

#include "format.h"
#include "rewrite.h"

#include "test.h"

/* Ops of blocks.csv, and of the rewritten step behind them. */
enum {
    LINEAR_0,
    COUNT_0,
    NORM_0,
    RELU_0,
    VIEW_0,
    DROPOUT_0,
    LINEAR_1,
    COUNT_1,
    NORM_1,
    RELU_1,
    VIEW_1,
    DROPOUT_1,
    SUM,
    ONES,
    EXPAND,
    DROPOUT_1_BACK,
    VIEW_1_BACK,
    RELU_1_BACK,
    NORM_1_BACK,
    WEIGHT_1_BACK,
    INPUT_1_BACK,
    DROPOUT_0_BACK,
    VIEW_0_BACK,
    RELU_0_BACK,
    NORM_0_BACK,
    WEIGHT_0_BACK,
    UPDATE_0,
    UPDATE_1,
    AGAIN /* LINEAR_0, and then the rest of block 0 */
};

typedef struct step {
    mr_ctx ctx;
    mr_trace in, out;
} step;

static void recompute_block_0(step *s)
{
    mr_rewrite r;
    mr_where where;
    CHECK_EQ(mr_rewrite_begin(&s->ctx, &s->in, &s->out, &r), MR_OK);
    mr_where_init(&r, &where);
    for (uint32_t e = 0; e < s->in.events.n; e++) {
        const mr_event event = s->in.events.at[e];
        if (event.kind == MR_RUN && event.id == DROPOUT_0_BACK)
            for (uint32_t o = LINEAR_0; o <= DROPOUT_0; o++) mr_rewrite_replay(&r, &where, o);
        const bool back = event.kind == MR_RUN && s->in.ops.at[event.id].phase == MR_BACKWARD;
        mr_rewrite_keep(&r, back ? &where : NULL, e);
    }
    for (uint32_t o = LINEAR_0; o <= DROPOUT_0; o++) s->out.ops.at[o].saved.n = 0;
}

static void begin(step *s)
{
    const mr_read_options options = {0};
    memset(s, 0, sizeof *s);
    if (mr_recording_read(&s->ctx, TRACES "/tiny/blocks.csv", &options, &s->in))
        TEST_FAIL("%s", s->ctx.failure.text);
    recompute_block_0(s);
}

static const char *verdict(step *s)
{
    const char *text = "fair";
    if (mr_rewrite_check(&s->ctx, &s->in, &s->out) || mr_trace_check(&s->ctx, &s->out))
        text = s->ctx.failure.text;
    return text;
}

/* ---- what mistakes are made of ----------------------------------------------------------- */

static uint32_t at(const step *s, uint32_t op)
{
    uint32_t e = 0;
    while (s->out.events.at[e].kind != MR_RUN || s->out.events.at[e].id != op) e++;
    return e;
}

static void take_away(step *s, uint32_t event)
{
    memmove(&s->out.events.at[event], &s->out.events.at[event + 1],
            (s->out.events.n - event - 1) * sizeof *s->out.events.at);
    s->out.events.n--;
}

static void put(step *s, uint32_t event, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(&s->ctx, &s->out.events, (mr_event){kind, id});
    memmove(&s->out.events.at[event + 1], &s->out.events.at[event],
            (s->out.events.n - event - 1) * sizeof *s->out.events.at);
    s->out.events.at[event] = (mr_event){kind, id};
}

static mr_op *op_of(step *s, uint32_t op)
{
    return &s->out.ops.at[op];
}

/* The lists of an op may be shared with the trace before. */
static void read_instead(step *s, uint32_t op, uint32_t i, uint32_t tensor)
{
    op_of(s, op)->in = mr_ids_of(&s->ctx, op_of(s, op)->in.n, op_of(s, op)->in.at);
    op_of(s, op)->in.at[i] = tensor;
}

static uint32_t made(step *s, uint32_t op)
{
    return op_of(s, op)->out.at[0];
}

static void expect(void (*mistake)(step *), const char *sentence)
{
    step s;
    begin(&s);
    mistake(&s);
    CHECK_HAS(verdict(&s), sentence);
    mr_ctx_clear(&s.ctx);
}

/* ---- the tests --------------------------------------------------------------------------- */

TEST(a_step_that_recomputes_a_block_is_fair)
{
    step s;
    begin(&s);
    CHECK_STR(verdict(&s), "fair");
    CHECK_EQ(s.out.ops.n, AGAIN + 6);
    mr_ctx_clear(&s.ctx);
}

TEST(so_is_the_step_itself_without_allocations)
{
    step s;
    mr_rewrite r;
    begin(&s);
    CHECK_EQ(mr_rewrite_begin(&s.ctx, &s.in, &s.out, &r), MR_OK);
    for (uint32_t e = 0; e < s.in.events.n; e++) mr_rewrite_keep(&r, NULL, e);
    CHECK_STR(verdict(&s), "fair");
    mr_ctx_clear(&s.ctx);
}

static void forgets_an_op(step *s)
{
    take_away(s, at(s, UPDATE_1));
}
static void runs_an_op_twice(step *s)
{
    put(s, s->out.events.n, MR_RUN, UPDATE_0);
}
static void swaps_updates_and_gradient(step *s)
{
    take_away(s, at(s, UPDATE_1));
    put(s, at(s, WEIGHT_1_BACK), MR_RUN, UPDATE_1);
}

TEST(the_same_work_is_done_once_and_in_order)
{
    expect(forgets_an_op, "op 27 (aten::sgd_) is not run any more");
    expect(runs_an_op_twice, "does the work of op 26 (aten::sgd_), which is done already");
    expect(swaps_updates_and_gradient, "op 27");
}

static void recomputes_too_late(step *s)
{
    take_away(s, at(s, AGAIN + RELU_0));
    put(s, at(s, RELU_0_BACK) + 1, MR_RUN, AGAIN + RELU_0);
}
static void recomputes_too_early(step *s)
{
    take_away(s, at(s, AGAIN));
    put(s, at(s, LINEAR_0), MR_RUN, AGAIN);
}
static void recomputes_without_the_norm(step *s)
{
    take_away(s, at(s, AGAIN + NORM_0));
}
static void recomputes_out_of_order(step *s)
{
    take_away(s, at(s, AGAIN + NORM_0));
    put(s, at(s, AGAIN + LINEAR_0), MR_RUN, AGAIN + NORM_0);
}
static void says_the_wrong_original(step *s)
{
    op_of(s, AGAIN)->again = LINEAR_1;
}
static void has_no_original(step *s)
{
    op_of(s, AGAIN + RELU_0)->again = MR_NONE;
}

TEST(recomputation_brings_back_what_is_read)
{
    expect(recomputes_too_late,
           "op 32 (aten::view of blocks.0) reads storage 29, which holds nothing"
           " yet, expected what op 3 (aten::relu of blocks.0.relu) wrote");
    expect(recomputes_too_early,
           "recomputes op 0 (aten::mm of blocks.0.linear), expected that to"
           " run before");
    expect(recomputes_without_the_norm,
           "expected what op 2 (aten::norm of blocks.0.norm) wrote");
    expect(recomputes_out_of_order,
           "op 30 (aten::norm of blocks.0.norm) reads storage 27, which");
    expect(says_the_wrong_original,
           "expected what op 5 (aten::native_dropout of blocks.0.dropout)");
    expect(has_no_original, "what a new op wrote, expected what op 3 (aten::relu");
}

static void draws_no_numbers(step *s)
{
    op_of(s, AGAIN + DROPOUT_0)->random = false;
}
static void draws_anew(step *s)
{
    op_of(s, AGAIN + DROPOUT_0)->again = MR_NONE;
}

TEST(random_ops_draw_the_same_numbers_again)
{
    expect(draws_no_numbers, "draws no random numbers, expected the opposite");
    expect(draws_anew,
           "op 21 (aten::native_dropout_backward of blocks.0.dropout) reads storage");
}

static void reads_another_block(step *s)
{
    read_instead(s, NORM_0_BACK, 1, made(s, LINEAR_1));
}
static void reads_the_view(step *s)
{
    read_instead(s, RELU_0_BACK, 1, made(s, AGAIN + VIEW_0));
}
static void reads_an_input_less(step *s)
{
    op_of(s, NORM_0_BACK)->in.n--;
}
static void reads_in_another_order(step *s)
{
    read_instead(s, INPUT_1_BACK, 0, op_of(s, INPUT_1_BACK)->in.at[1]);
    op_of(s, INPUT_1_BACK)->in.at[1] = made(s, NORM_1_BACK);
}
static void leaves_the_view_behind(step *s)
{
    const uint32_t t = made(s, AGAIN + VIEW_0);
    s->out.tensors.at[t].storage = s->out.tensors.at[made(s, LINEAR_1)].storage;
}
static void shifts_the_view(step *s)
{
    const uint32_t t = op_of(s, RELU_0_BACK)->in.at[1];
    s->out.tensors.at[t].bytes = 128;
    s->out.tensors.at[t].offset = 128;
}
static void shares_two_living_storages(step *s)
{
    const uint32_t t = made(s, DROPOUT_1);
    s->out.tensors.at[t].storage = s->out.tensors.at[made(s, RELU_1)].storage;
}
static void overwrites_what_is_saved(step *s)
{
    mr_op *norm = op_of(s, NORM_1);
    s->out.tensors.at[norm->out.at[0]].storage = s->out.tensors.at[norm->in.at[0]].storage;
    norm->mutates = norm->out;
    norm->out.n = 0;
}
static void overwrites_a_weight(step *s)
{
    const mr_op op = {.name = "decay_",
                      .module = "",
                      .again = MR_NONE,
                      .of = MR_NONE,
                      .in = mr_ids_of(&s->ctx, 1, &op_of(s, LINEAR_1)->in.at[1]),
                      .mutates = mr_ids_of(&s->ctx, 1, &op_of(s, LINEAR_1)->in.at[1])};
    MR_PUSH(&s->ctx, &s->out.ops, op);
    put(s, at(s, LINEAR_1), MR_RUN, s->out.ops.n - 1);
}

TEST(everybody_reads_what_was_read_before)
{
    expect(reads_another_block, "expected what op 0 (aten::mm of blocks.0.linear) wrote");
    expect(reads_the_view, "expected the shape and place of tensor 7");
    expect(reads_an_input_less, "reads 2 tensors, expected 3 as before");
    expect(reads_in_another_order, "op 20 (aten::mm of blocks.1.linear) reads storage");
    expect(leaves_the_view_behind, "(aten::native_dropout of blocks.0.dropout) reads storage");
    expect(shifts_the_view, "expected the shape and place of tensor 7");
    expect(shares_two_living_storages,
           "op 12 (aten::sum) reads storage 12, which holds what op 9");
    expect(overwrites_what_is_saved,
           "op 18 (aten::norm_backward of blocks.1.norm) reads storage");
    expect(overwrites_a_weight, "holds what a new op wrote, expected what storage 2 held");
}

static void forgets_to_save(step *s)
{
    op_of(s, RELU_1)->saved.n = 0;
}
static void drops_before_the_replay(step *s)
{
    op_of(s, LINEAR_1)->saved.n = 0;
}
static void drops_before_the_reader(step *s)
{
    put(s, at(s, EXPAND), MR_DROP, made(s, ONES));
}
static void allocates(step *s)
{
    put(s, at(s, LINEAR_0), MR_ALLOC, s->out.tensors.at[made(s, LINEAR_0)].storage);
}

/* Nobody reads it, and yet PyTorch would complain. */
static void overwrites_what_is_saved_for_nothing(step *s)
{
    const mr_saved more[] = {op_of(s, NORM_1)->saved.at[0], {made(s, NORM_1), MR_SAVED_OUTPUT}};
    mr_op *relu = op_of(s, RELU_1);
    s->out.tensors.at[made(s, VIEW_1)].storage = s->out.tensors.at[made(s, NORM_1)].storage;
    s->out.tensors.at[made(s, RELU_1)].storage = s->out.tensors.at[made(s, NORM_1)].storage;
    relu->mutates = relu->out;
    relu->out.n = 0;
    op_of(s, NORM_1)->saved.at = memcpy(mr_alloc(&s->ctx, sizeof more), more, sizeof more);
    op_of(s, NORM_1)->saved.n = 2;
}

TEST(what_is_saved_keeps_its_version)
{
    expect(overwrites_what_is_saved_for_nothing,
           "op 18 (aten::norm_backward of blocks.1.norm) computes the gradient of op 8 "
           "(aten::norm),"
           " which has saved tensor 12; storage 11 has been written since");
}

TEST(somebody_holds_what_is_read)
{
    expect(forgets_to_save,
           "op 17 (aten::threshold_backward of blocks.1.relu) reads tensor 13,"
           " whose storage 12 the program has dropped and autograd does not keep");
    expect(drops_before_the_replay,
           "op 19 (aten::mm of blocks.1.linear) reads tensor 9, whose");
    expect(drops_before_the_reader, "op 14 (aten::expand_copy) reads tensor 18");
    expect(allocates, "says when storage 5 lives, expected that to follow from ops");
}

static void works_less(step *s)
{
    op_of(s, AGAIN)->flops = 2;
}
static void takes_away_storages(step *s)
{
    s->out.ops.n = 3;
}

TEST(work_is_not_made_less)
{
    expect(works_less, "takes 2 operations, expected 2048 as before");
    expect(takes_away_storages, "op");
}

/* ---- declared replacements --------------------------------------------------------------- */

/* One op in the place of norm and relu of block 1. */
static uint32_t fuse(step *s, bool reads_count)
{
    mr_op op = *op_of(s, NORM_1);
    mr_stand_in stand = {.gives = op_of(s, RELU_1)->out, .holds = op_of(s, RELU_1)->out};
    const uint32_t ops[] = {NORM_1, RELU_1};
    op.name = "norm_relu";
    op.again = MR_NONE;
    op.out = op_of(s, RELU_1)->out;
    op.saved.at = MR_NEW_N(&s->ctx, mr_saved, 2);
    op.saved.at[0] = op_of(s, NORM_1)->saved.at[0];
    op.saved.at[1] = op_of(s, RELU_1)->saved.at[0];
    op.saved.n = 2;
    if (!reads_count) op.in.n = 1;
    MR_PUSH(&s->ctx, &s->out.ops, op);
    stand.op = s->out.ops.n - 1;
    op_of(s, RELU_1_BACK)->of = op_of(s, NORM_1_BACK)->of = stand.op;
    stand.ops = mr_ids_of(&s->ctx, 2, ops);
    s->out.events.at[at(s, NORM_1)].id = stand.op;
    take_away(s, at(s, RELU_1));
    MR_PUSH(&s->ctx, &s->out.stand_ins, stand);
    return s->out.stand_ins.n - 1;
}

static void fuses(step *s)
{
    fuse(s, true);
}
static void fuses_without_an_input(step *s)
{
    fuse(s, false);
}
static void fuses_for_nobody(step *s)
{
    const uint32_t i = fuse(s, true);
    s->out.stand_ins.at[i].ops.n = 1;
}
static void gives_something_else(step *s)
{
    const uint32_t i = fuse(s, true);
    s->out.stand_ins.at[i].holds = op_of(s, DROPOUT_1)->out;
}
static void leaves_out_what_is_read(step *s)
{
    const uint32_t op = NORM_1;
    take_away(s, at(s, NORM_1));
    MR_PUSH(&s->ctx, &s->out.stand_ins,
            (mr_stand_in){.op = MR_NONE, .ops = mr_ids_of(&s->ctx, 1, &op)});
}
static void leaves_out_the_update(step *s)
{
    const uint32_t op = UPDATE_1;
    take_away(s, at(s, UPDATE_1));
    MR_PUSH(&s->ctx, &s->out.stand_ins,
            (mr_stand_in){.op = MR_NONE, .ops = mr_ids_of(&s->ctx, 1, &op)});
}

TEST(a_stand_in_does_what_it_declares)
{
    expect(fuses, "fair");
    expect(leaves_out_the_update, "fair");
    expect(fuses_without_an_input, "but no new op has read what storage 3 held");
    expect(fuses_for_nobody, "stands in for ops that do not write tensor 13");
    expect(gives_something_else, "stands in for ops that do not write tensor 15");
    expect(leaves_out_what_is_read,
           "op 9 (aten::relu of blocks.1.relu) reads storage 11, which holds"
           " nothing yet");
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Block 1's linear in two halves, and the rest of the forward pass too. */
static void halve(step *s)
{
    mr_rewrite r;
    CHECK_EQ(mr_rewrite_begin(&s->ctx, &s->in, &s->out, &r), MR_OK);
    mr_where half[2];
    for (uint32_t p = 0; p < 2; p++) mr_where_init(&r, &half[p]);
    for (uint32_t e = 0; e < s->in.events.n; e++) {
        const mr_event event = s->in.events.at[e];
        const bool forward = event.kind == MR_RUN && event.id <= SUM;
        for (uint32_t p = 0; p < 2 && forward; p++) {
            const uint32_t copy = mr_rewrite_copy(&r, &half[p], event.id);
            mr_op *op = &s->out.ops.at[copy];
            op->part = p + 1;
            op->origin = event.id;
            op->flops /= 2;
        }
    }
    for (uint32_t o = ONES; o <= UPDATE_1; o++) { /* only the forward pass is asked for */
        MR_PUSH(&s->ctx, &s->out.stand_ins,
                (mr_stand_in){.op = MR_NONE, .ops = mr_ids_of(&s->ctx, 1, &o)});
    }
}

static void halves_with_a_slip(step *s)
{
    halve(s);
    const uint32_t first = s->in.ops.n + 2 * RELU_1;
    read_instead(s, first, 0, op_of(s, first + 1)->in.at[0]);
}
static void halves_one_only(step *s)
{
    halve(s);
    take_away(s, at(s, s->in.ops.n + 2 * SUM + 1));
}
static void halves_and_works_less(step *s)
{
    halve(s);
    op_of(s, s->in.ops.n + 2 * LINEAR_1)->flops = 0;
}

TEST(parts_read_parts_of_their_own_number)
{
    expect(halve, "fair");
    expect(halves_with_a_slip, "in part 2, expected what op 8");
    expect(halves_and_works_less, "all parts of op 6 (aten::mm of blocks.1.linear) take 1024");
    expect(halves_one_only, "op 12 (aten::sum) is done in 1 parts, expected 2");
}

TEST_MAIN()
