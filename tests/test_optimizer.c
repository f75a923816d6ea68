/* optimizer: states and temporaries by name and form, what the referee says, refusals. */
#include "rewritten.h"

#define MLP "tiny/mlp.csv"

typedef struct counted {
    uint64_t states, temporaries, parameters; /* bytes */
    uint32_t ops;                             /* of the update */
} counted;

static counted count(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    counted c = {0};
    if (rewritten(&ctx, file, spec, &in, &out)) TEST_FAIL("%s: %s", spec, ctx.failure.text);
    mr_rewrite_settle(&ctx, &out);
    for (uint32_t s = 0; s < out.storages.n; s++) {
        const mr_storage *storage = &out.storages.at[s];
        if (storage->role == MR_ROLE_state && storage->before) c.states += storage->bytes;
        if (storage->role == MR_ROLE_parameter) c.parameters += storage->bytes;
    }
    for (uint32_t o = 0; o < out.ops.n; o++) {
        const mr_op *op = &out.ops.at[o];
        if (op->phase != MR_UPDATE) continue;
        c.ops++;
        for (uint32_t i = 0; i < op->out.n; i++)
            c.temporaries += out.tensors.at[op->out.at[i]].bytes;
    }
    mr_ctx_clear(&ctx);
    return c;
}

TEST(states_are_those_of_the_optimizer)
{
    static const struct {
        const char *spec;
        uint32_t states, temporaries, ops; /* in parameters, ops for one parameter or for all */
    } list[] = {
        {"optimizer:sgd", 0, 0, 1},
        {"optimizer:sgd-momentum", 1, 0, 3},
        {"optimizer:adam", 2, 1, 7},
        {"optimizer:adamw", 2, 1, 8},
        {"optimizer:adamw,form=foreach", 2, 1, 8},
        {"optimizer:rmsprop", 1, 1, 5},
        {"optimizer:sgd,form=fused", 0, 0, 1},
        {"optimizer:sgd-momentum,form=fused", 1, 0, 1},
    };
    for (size_t i = 0; i < MR_COUNT(list); i++) {
        const counted c = count(MLP, list[i].spec);
        if (c.states != list[i].states * c.parameters)
            TEST_FAIL("%s: states of %" PRIu64 " bytes", list[i].spec, c.states);
        CHECK_EQ(c.temporaries, list[i].temporaries * c.parameters);
        CHECK_EQ(c.ops, list[i].ops);
    }
    const counted loop = count(MLP, "optimizer:adamw,form=for-loop");
    CHECK_EQ(loop.states, 2 * loop.parameters);
    CHECK_EQ(loop.temporaries, 2 * loop.parameters);
}

/* The scale of a GradScaler is no state of the optimizer's. */
TEST(a_scaler_stays_what_it_is)
{
    static const char *const files[] = {MLP, "models/resnet50-b64-i224.csv.gz"};
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        const counted before = count(files[i], "optimizer:sgd-momentum+amp");
        const counted after = count(files[i], "amp+optimizer:sgd-momentum");
        CHECK_EQ(after.states, before.states);
        CHECK_EQ(after.temporaries, before.temporaries);
        CHECK_EQ(after.ops, before.ops);
    }
    const char *scaled = "models/twins/bert-base-amp-float16.csv.gz";
    const counted none = count(scaled, "optimizer:sgd"), two = count(scaled, "optimizer:adamw");
    const counted one = count(scaled, "optimizer:sgd-momentum");
    CHECK(one.states > none.states);
    CHECK_EQ(two.states - none.states, 2 * (one.states - none.states));
    CHECK_EQ(two.ops - none.ops, 7);
}

/* What torch.utils.checkpoint saves when it runs ops again is in no recording. */
TEST(a_checkpointed_step_can_have_another_optimizer)
{
    const counted c = count("models/twins/bert-base-checkpoint.csv.gz", "optimizer:sgd");
    CHECK_EQ(c.states, 0);
    CHECK_EQ(c.ops, 1);
}

/* A quarter of Adam's states, and a number for each 256 of theirs. */
TEST(eight_bits_take_a_quarter)
{
    const counted c = count("models/bert-base-mlm-b32-s128.csv.gz", "optimizer:adam8bit");
    const double states = (double)c.states / (double)c.parameters;
    if (states < 0.5 || states > 0.52) TEST_FAIL("states of %.3f parameters", states);
}

TEST(other_forms_are_refused)
{
    static const char *const list[] = {"optimizer:adafactor,form=foreach",
                                       "optimizer:adam8bit,form=for-loop",
                                       "optimizer:rmsprop,form=fused"};
    for (size_t i = 0; i < MR_COUNT(list); i++)
        refuses_as(MR_EUSAGE, MLP, list[i], "a form that this optimizer has");
}

TEST(what_has_no_single_update_is_refused)
{
    static const char *const list[] = {"models/gpt2-small-generate-b8-s128.csv.gz",
                                       "models/bert-base-changing-b16.csv.gz"};
    for (size_t i = 0; i < MR_COUNT(list); i++)
        refuses(list[i], "optimizer:sgd", "updates of parameters, expected one step");
}

/* ---- planted mistakes -------------------------------------------------------------------- */

/* The states of before are there, but nothing reads them. */
static void keep_old_states(mr_trace *out)
{
    for (uint32_t s = 0; s < out->storages.n; s++)
        if (out->storages.at[s].role == MR_ROLE_state) out->storages.at[s].before = true;
}

static void update_first(mr_trace *out)
{
    for (uint32_t e = 0; e < out->events.n; e++) {
        if (out->events.at[e].kind != MR_RUN) continue;
        const mr_event first = out->events.at[e];
        out->events.at[e].id = out->ops.n - 1;
        for (uint32_t l = e + 1; l < out->events.n; l++)
            if (out->events.at[l].kind == MR_RUN && out->events.at[l].id == out->ops.n - 1)
                out->events.at[l] = first;
        return;
    }
}

/* The gradients are read by the second of three ops. */
static void plant(mr_ctx *ctx, const mr_trace *in, mr_trace *out, uint32_t mistake)
{
    mr_op *sum = &out->ops.at[out->ops.n - 2], *update = &out->ops.at[out->ops.n - 1];
    (void)in;
    if (mistake == 0) out->stand_ins.n = 0;
    if (mistake == 1) sum->in = mr_ids_of(ctx, sum->in.n - 1, sum->in.at);
    if (mistake == 2) update->in = mr_ids_of(ctx, update->in.n - 1, update->in.at + 1);
    if (mistake == 3) keep_old_states(out);
    if (mistake == 4) update_first(out);
}

TEST(the_referee_sees_what_is_wrong_with_an_update)
{
    static const char *const said[] = {
        "is not run any more",
        "no new op has read",
        "no new op has read",
        "no new op has read",
        "(aten::add_), but no new op has read",
    };
    referee_says(MLP, "optimizer:sgd-momentum", plant, said, MR_COUNT(said));
}

TEST_MAIN()
