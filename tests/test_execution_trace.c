/* Execution traces: what is an op, what is new, and what follows from who reads what. */
#include <unistd.h>

#include "read_text.h"
#include "rewritten.h"
#include "test.h"

extern const mr_format mr_format_execution_trace;

static mr_status read_text(mr_ctx *ctx, const char *text, mr_trace *out)
{
    return read_text_as(ctx, &mr_format_execution_trace, text, out);
}

#define NODE(id, parent, name, seq, schema, in, out)                                      \
    "{\"id\":" id ",\"parent\":" parent ",\"name\":\"" name "\",\"seq_id\":" seq            \
    ",\"op_schema\":\"" schema "\",\"inputs\":[" in "],\"input_shapes\":[],\"input_types\":[]," \
    "\"outputs\":[" out "],\"output_shapes\":[],\"output_types\":[]}"
#define T(id, storage, n) "[" id "," storage ",0," n ",4,\"cuda:0\"]"
#define TRACE(nodes)                                                                      \
    "{\"schema\":\"1.0.1\",\"nodes\":[" NODE("1", "1", "process", "-1", "", "", "") "," nodes "]}"

/* "op mm 0 1 > 2": what each op reads, what it makes, what it changes. */
static const char *story(mr_ctx *ctx, const mr_trace *t)
{
    const char *text = "";
    for (uint32_t o = 0; o < t->ops.n; o++) {
        const mr_op *op = &t->ops.at[o];
        const mr_ids lists[] = {op->in, op->out, op->mutates};
        static const char signs[] = ".>!";
        text = mr_printf(ctx, "%s%s%s", text, o ? " " : "", op->name);
        for (size_t l = 0; l < MR_COUNT(lists); l++)
            for (uint32_t i = 0; i < lists[l].n; i++)
                text = mr_printf(ctx, "%s%c%u", text, signs[l],
                                 (unsigned)t->tensors.at[lists[l].at[i]].storage);
    }
    return text;
}

static const char *told(const char *text)
{
    static char copy[512];
    mr_ctx ctx = {0};
    mr_trace t;
    const mr_status status = read_text(&ctx, text, &t);
    snprintf(copy, sizeof copy, "%s", status ? ctx.failure.text : story(&ctx, &t));
    mr_ctx_clear(&ctx);
    return copy;
}

TEST(who_calls_what_computes_is_no_op)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "linear", "-1", "linear(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("7", "7", "8")) ","
                  NODE("3", "2", "t", "-1", "t(Tensor(a) x) -> Tensor(a)", T("5", "5", "8"),
                       T("6", "5", "8")) ","
                  NODE("4", "2", "mm", "-1", "mm(Tensor x) -> Tensor", T("6", "5", "8"),
                       T("7", "7", "8")))),
              "t.0>0 mm.0>1");
}

TEST(what_makes_room_belongs_to_who_calls_it)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "norm", "-1", "norm(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("7", "7", "8")) ","
                  NODE("3", "2", "aten::empty", "-1", "aten::empty() -> Tensor", "",
                       T("7", "7", "8")) ","
                  NODE("4", "2", "view", "-1", "view(Tensor(a) x) -> Tensor(a)",
                       T("5", "5", "8"), T("8", "5", "8")))),
              "norm.0>1");
}

/* The product is a part of the work only: nobody below made the result. */
TEST(who_makes_a_result_itself_is_an_op)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "softmax", "-1", "softmax(Tensor x) -> Tensor",
                       T("5", "5", "8"), T("7", "7", "8")) ","
                  NODE("3", "2", "mul", "-1", "mul(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("6", "6", "8")))),
              "softmax.0>1");
}

TEST(what_autograd_numbers_innermost_is_an_op)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "embed", "7", "embed(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("7", "7", "8")) ","
                  NODE("3", "2", "lookup", "7", "lookup(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("7", "7", "8")) ","
                  NODE("4", "3", "select", "-1", "select(Tensor x) -> Tensor",
                       T("5", "5", "8"), T("7", "7", "8")))),
              "lookup.0>1");
}

TEST(ids_come_again_after_a_free)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "a", "-1", "a(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("6", "6", "8")) ","
                  NODE("3", "1", "b", "-1", "b(Tensor x) -> Tensor", T("5", "5", "8"),
                       T("6", "6", "16")) ","
                  NODE("4", "1", "c", "-1", "c(Tensor x) -> Tensor", T("6", "6", "16"),
                       T("7", "7", "8")))),
              "a.0>1 b.0>2 c.2>3");
}

TEST(what_is_marked_is_changed)
{
    CHECK_STR(told(TRACE(NODE("2", "1", "add_", "-1",
                              "add_(Tensor other, int[2] n=[0, 0], *, Tensor(a!)[] self) -> ()",
                              T("5", "5", "8") ",[1,2],[" T("6", "6", "8") "]", ""))),
              "add_.0.1!1");
    CHECK_STR(told(TRACE(NODE("2", "1", "relu_", "-1", "relu_(Tensor(a!) x) -> Tensor(a!)",
                              T("5", "5", "8"), T("5", "5", "8")))),
              "relu_.0!0");
}

TEST(work_on_the_host_is_left_out)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "a", "-1", "a(Tensor x) -> Tensor", "[5,5,0,8,4,\"cpu\"]",
                       "[6,6,0,8,4,\"cpu\"]") ","
                  NODE("3", "1", "aten::_to_copy", "-1", "aten::_to_copy(Tensor x) -> Tensor",
                       "[6,6,0,8,4,\"cpu\"]", T("7", "7", "8")))),
              "aten::_to_copy>0");
}

/* Numbers of storages are addresses, which the host and a device may share. */
TEST(a_storage_of_the_host_is_another_one)
{
    CHECK_STR(told(TRACE(
                  NODE("2", "1", "a", "-1", "a(Tensor x) -> Tensor", "[5,5,0,8,4,\"cpu\"]",
                       T("5", "5", "8")) ","
                  NODE("3", "1", "b", "-1", "b(Tensor x) -> Tensor[]", T("5", "5", "8"),
                       "[6,6,0,8,4,\"cpu\"]," T("6", "6", "8")))),
              "a>0 b.0>1");
}

/* Weight 5, batch 6: product 7 is saved; its gradient 9 updates the weight and its state 8. */
static const char step[] = TRACE(
    NODE("2", "1", "aten::mm", "3", "aten::mm(Tensor x, Tensor w) -> Tensor",
         T("6", "6", "8") "," T("5", "5", "8"), T("7", "7", "8")) ","
    NODE("3", "1", "exp", "4", "exp(Tensor x) -> Tensor", T("7", "7", "8"), T("8", "8", "8")) ","
    NODE("4", "1", "autograd::engine::evaluate_function: ExpBackward0", "-1", "", "", "") ","
    NODE("5", "4", "ExpBackward0", "4", "", "", "") ","
    NODE("6", "5", "mul", "-1", "mul(Tensor x) -> Tensor", T("18", "8", "8"),
         T("9", "9", "8")) ","
    NODE("7", "1", "autograd::engine::evaluate_function: MmBackward0", "-1", "", "", "") ","
    NODE("8", "7", "MmBackward0", "3", "", "", "") ","
    NODE("9", "8", "aten::mm", "-1", "aten::mm(Tensor x, Tensor w) -> Tensor",
         T("9", "9", "8") "," T("6", "6", "8"), T("10", "10", "8")) ","
    NODE("10", "1", "Optimizer.step#AdamW.step", "-1", "", "", "") ","
    NODE("11", "10", "aten::zeros_like", "-1", "aten::zeros_like(Tensor x) -> Tensor",
         T("5", "5", "8"), T("11", "11", "8")) ","
    NODE("12", "10", "addcdiv_", "-1", "addcdiv_(Tensor(a!) w, Tensor g, Tensor(b!) s) -> ()",
         T("5", "5", "8") "," T("10", "10", "8") "," T("11", "11", "8"), ""));

TEST(roles_phases_and_saved_tensors_are_inferred)
{
    static const mr_role roles[] = {MR_ROLE_unknown,    MR_ROLE_parameter, MR_ROLE_temporary,
                                    MR_ROLE_activation, MR_ROLE_temporary, MR_ROLE_gradient,
                                    MR_ROLE_state};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, step, &t));
    CHECK_STR(story(&ctx, &t), "aten::mm.0.1>2 exp.2>3 mul.3>4 aten::mm.4.0>5"
                               " aten::zeros_like.1>6 addcdiv_.1.5.6!1!6");
    for (uint32_t s = 0; s < MR_COUNT(roles); s++) CHECK_EQ(t.storages.at[s].role, roles[s]);
    CHECK_EQ(t.ops.at[2].of, 1);
    CHECK_EQ(t.ops.at[3].of, 0);
    CHECK_EQ(t.ops.at[0].saved.n, 1);
    CHECK_EQ(t.ops.at[1].saved.n, 1);
    CHECK_EQ(t.ops.at[1].saved.at[0].as, MR_SAVED_OUTPUT);
    CHECK_EQ(t.ops.at[1].saved.at[0].tensor, t.ops.at[1].out.at[0]);
    CHECK_EQ(t.ops.at[5].phase, MR_UPDATE);
    CHECK(t.storages.at[6].after && !t.storages.at[5].after);
    CHECK_STR(t.about[MR_ABOUT_optimizer], "adamw");
    mr_ctx_clear(&ctx);
}

/* That the backward pass is the first to look at a parameter by a view makes it no result. */
TEST(a_parameter_that_only_the_backward_pass_views_is_saved)
{
    static const char text[] = TRACE(
        NODE("2", "1", "aten::mm", "3", "aten::mm(Tensor x, Tensor w) -> Tensor",
             T("6", "6", "8") "," T("5", "5", "8"), T("7", "7", "8")) ","
        NODE("3", "1", "autograd::engine::evaluate_function: MmBackward0", "-1", "", "", "") ","
        NODE("4", "3", "MmBackward0", "3", "", "", "") ","
        NODE("5", "4", "aten::transpose", "-1", "aten::transpose(Tensor(a) x) -> Tensor(a)",
             T("5", "5", "8"), T("8", "5", "8")) ","
        NODE("6", "4", "aten::mm", "-1", "aten::mm(Tensor x, Tensor w) -> Tensor",
             T("7", "7", "8") "," T("8", "5", "8"), T("9", "9", "8")));
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, text, &t));
    CHECK_STR(story(&ctx, &t), "aten::mm.0.1>2 aten::transpose.1>1 aten::mm.2.1>3");
    CHECK_EQ(t.ops.at[0].saved.n, 2);
    CHECK_EQ(t.ops.at[0].saved.at[0].tensor, t.ops.at[0].in.at[1]);
    mr_ctx_clear(&ctx);
}

/* Beside the function the engine sums for a bias, and adds to what another function gave. */
TEST(what_the_engine_does_beside_a_function_is_of_its_op)
{
    static const char text[] = TRACE(
        NODE("2", "1", "aten::addmm", "3", "aten::addmm(Tensor b, Tensor x) -> Tensor",
             T("5", "5", "1") "," T("6", "6", "8"), T("7", "7", "8")) ","
        NODE("3", "1", "autograd::engine::evaluate_function: AddmmBackward0", "-1", "", "", "") ","
        NODE("4", "3", "AddmmBackward0", "3", "", "", "") ","
        NODE("5", "4", "aten::mul", "-1", "aten::mul(Tensor x) -> Tensor", T("7", "7", "8"),
             T("8", "8", "8")) ","
        NODE("6", "3", "aten::sum", "-1", "aten::sum(Tensor x) -> Tensor", T("8", "8", "8"),
             T("9", "9", "1")) ","
        NODE("7", "3", "aten::add_", "-1", "aten::add_(Tensor(a!) x, Tensor y) -> Tensor(a!)",
             T("9", "9", "1") "," T("8", "8", "8"), T("9", "9", "1")));
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, text, &t));
    CHECK_EQ(t.ops.n, 4);
    CHECK_EQ(t.ops.at[1].of, 0);
    CHECK_EQ(t.ops.at[2].of, 0);
    CHECK_EQ(t.ops.at[3].of, MR_NONE);
    mr_ctx_clear(&ctx);
}

TEST(broken_traces_are_refused_with_a_sentence)
{
    static const char *const texts[][2] = {
        {"{\"schema\":\"1.0.1\",\"nodes\":[", "the file ends here"},
        {"{\"schema\":\"1.0.1\"}", "no list 'nodes'"},
        {"{\"schema\":\"1.0.1\",\"nodes\":[]}", "no op works on tensors of a device"},
        {"{\"nodes\":[3]}", "a node is no object"},
        {"{\"nodes\":[{\"id\":1}]}", "the node has no 'ctrl_deps'"},
        {"{\"nodes\":[{\"id\":-1}]}", "the node has no 'id'"},
        {"{\"nodes\":[{\"id\":1,\"parent\":2}]}", "expected one that began before it"},
        {"{\"nodes\":[{\"id\":1,\"parent\":1},{\"id\":1,\"parent\":1}]}", "node 1 is there twice"},
        {TRACE(NODE("2", "1", "a", "-1", "a(Tensor x) -> ()",
                    "[5,5,0,4611686018427387904,4,\"cuda:0\"]", "")),
         "a tensor of 4611686018427387904 numbers"},
        {TRACE(NODE("2", "1", "a", "-1", "a(Tensor x) -> ()", "[5,-5,0,4,4,\"cuda:0\"]", "")),
         "no 'value'"},
    };
    for (size_t i = 0; i < MR_COUNT(texts); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_text(&ctx, texts[i][0], &t), MR_EINPUT);
        CHECK_HAS(ctx.failure.text, texts[i][1]);
        mr_ctx_clear(&ctx);
    }
}

/* ---- durations --------------------------------------------------------------------------- */

#define SPAN(category, name, tid, ts, dur, correlation)                                   \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"tid\":" tid ",\"ts\":" ts \
    ",\"dur\":" dur ",\"args\":{\"correlation\":" correlation "}},"

/* An op that runs from `ts` for 8 us and launches one kernel, which takes `dur` later on. */
#define OP(name, thread, ts, dur, correlation)                                            \
    SPAN("cpu_op", name, thread, ts, "8", "0")                                            \
    SPAN("cuda_runtime", "cudaLaunchKernel", thread, ts, "1", correlation)                \
    SPAN("kernel", "k", "99", "1000", dur, correlation)

static mr_status read_times(mr_ctx *ctx, const char *profile, mr_trace *out)
{
    static const char *const paths[] = {"test_execution_trace.json",
                                        "test_execution_trace.profile"};
    const char *texts[] = {step, profile};
    for (size_t i = 0; i < MR_COUNT(paths); i++) {
        FILE *file = fopen(paths[i], "wb");
        if (!file) return MR_EIO;
        fputs(texts[i], file);
        fclose(file);
    }
    const mr_read_options options = {.times = paths[1]};
    const mr_status status = mr_recording_read(ctx, paths[0], &options, out);
    for (size_t i = 0; i < MR_COUNT(paths); i++) unlink(paths[i]);
    return status;
}

/* Three steps, of which the first is slow, and an op that belongs to none. */
TEST(durations_are_medians_of_the_steps_of_a_profile)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_times(&ctx,
                      "{\"traceEvents\":["
                      OP("aten::mm", "7", "10", "70", "1") OP("aten::mm", "8", "20", "30", "2")
                      OP("aten::zeros_like", "7", "30", "9", "3")
                      OP("aten::add", "7", "40", "500", "4")
                      OP("aten::mm", "7", "50", "20", "5") OP("aten::mm", "8", "60", "25", "6")
                      OP("aten::zeros_like", "7", "70", "9.5", "7")
                      OP("aten::mm", "7", "80", "21", "8") OP("aten::mm", "8", "90", "24", "9")
                      OP("aten::zeros_like", "7", "100", "8", "10")
                      "{}]}",
                      &t));
    CHECK_EQ(t.ops.at[0].ns, 21000);
    CHECK_EQ(t.ops.at[1].ns, 0); /* no op of PyTorch's own: its name is none of the profile's */
    CHECK_EQ(t.ops.at[3].ns, 25000);
    CHECK_EQ(t.ops.at[4].ns, 9000);
    CHECK(t.has & MR_HAS_TIMES);
    mr_ctx_clear(&ctx);
}

TEST(a_profile_of_another_program_is_refused)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_times(&ctx,
                        "{\"traceEvents\":[" OP("aten::mm", "7", "10", "70", "1")
                        OP("aten::mm", "8", "20", "30", "2") OP("aten::add", "7", "30", "9", "3")
                        "{}]}",
                        &t),
             MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "the first 2 are found");
    mr_ctx_clear(&ctx);
}

/* ---- real ones --------------------------------------------------------------------------- */

/* What kernels of an RTX 2080 Ti took in a step, which both programs ran many times. */
TEST(real_profiles_time_every_product_and_convolution)
{
    static const struct {
        const char *name;
        uint64_t low, high; /* us, of the step */
    } files[] = {{"linear", 9000, 9500}, {"resnet", 155000, 160000}};
    if (access(SHARED "/recordings/execution-traces", R_OK)) SKIP("no shared recordings");
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        uint64_t ns = 0;
        const char *tree = mr_printf(&ctx, SHARED "/recordings/execution-traces/%s-1.0.1.json.gz",
                                     files[i].name);
        const mr_read_options options = {
            .times = mr_printf(&ctx, SHARED "/recordings/kineto/%s-matching-et.json.gz",
                               files[i].name)};
        CHECK(!mr_recording_read(&ctx, tree, &options, &t));
        for (uint32_t o = 0; o < t.ops.n; o++) {
            ns += t.ops.at[o].ns;
            if (t.ops.at[o].flops) CHECK(t.ops.at[o].ns > 0);
        }
        CHECK(ns / 1000 >= files[i].low && ns / 1000 <= files[i].high);
        mr_ctx_clear(&ctx);
    }
}

/* The same step, watched by another recorder that sees frees, saved tensors and roles: all but
 * the labels of the batch (64 KiB), which the program holds longer than it uses them. */
TEST(a_step_is_the_one_that_fake_tensors_give)
{
    static const char *const specs[] = {
        "nograd", "mincut:budget=0.5", "offload", "chen", "sdpa", "release", "rotor",
    };
    for (size_t i = 0; i < MR_COUNT(specs); i++) {
        const uint64_t ours = predicted_peak("models/gpt2-small-b8-s1024.csv.gz", specs[i]);
        const uint64_t theirs =
            predicted_peak("../tests/oracle/profiles/gpt2-small.et.json.gz", specs[i]);
        if (theirs > ours || ours - theirs > 2 * 65536 + 8)
            TEST_FAIL("%s: %" PRIu64 " bytes, expected %" PRIu64, specs[i], theirs, ours);
    }
}

/* Parameters, gradients and the two states of Adam are as large as one another. */
TEST(real_traces_have_the_parts_of_a_step)
{
    static const struct {
        const char *file;
        uint32_t parameters, states, gradients;
    } files[] = {{"gpt2-training-step-1.1.0.json.gz", 436, 872, 436},
                 {"linear-1.0.1.json.gz", 42, 0, 42},
                 {"resnet-1.0.1.json.gz", 62, 62, 62}};
    if (access(SHARED "/recordings/execution-traces", R_OK)) SKIP("no shared recordings");
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *path =
            mr_printf(&ctx, SHARED "/recordings/execution-traces/%s", files[i].file);
        CHECK(!mr_recording_read(&ctx, path, NULL, &t));
        uint32_t n[MR_ROLE_N] = {0};
        uint64_t bytes[MR_ROLE_N] = {0};
        for (uint32_t s = 0; s < t.storages.n; s++) {
            n[t.storages.at[s].role]++;
            bytes[t.storages.at[s].role] += t.storages.at[s].bytes;
        }
        CHECK_EQ(n[MR_ROLE_parameter], files[i].parameters);
        CHECK_EQ(n[MR_ROLE_state], files[i].states);
        CHECK_EQ(n[MR_ROLE_gradient], files[i].gradients);
        CHECK_EQ(bytes[MR_ROLE_gradient], bytes[MR_ROLE_parameter]);
        if (files[i].states)
            CHECK_EQ(bytes[MR_ROLE_state],
                     bytes[MR_ROLE_parameter] * (files[i].states / files[i].parameters));
        mr_ctx_clear(&ctx);
    }
}

TEST_MAIN()
