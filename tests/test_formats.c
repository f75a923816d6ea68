/* Readers of recordings: told by content, right on real files, clear about broken ones. */
#include "format.h"

#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static mr_status read_as(mr_ctx *ctx, const char *format, const char *text, bool inclusive,
                         mr_trace *out)
{
    mr_source *source;
    const mr_read_options options = {.ends_inclusive = inclusive};
    MR_TRY(mr_source_memory(ctx, "x", text, strlen(text), &source));
    mr_status status = MR_EUSAGE;
    for (size_t i = 0; mr_formats[i]; i++)
        if (!strcmp(mr_formats[i]->name, format))
            status = mr_formats[i]->read(ctx, source, &options, out);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, out);
}

/* Name of the first format that takes the text for its own. */
static const char *told(const char *text)
{
    for (size_t i = 0; mr_formats[i]; i++)
        if (mr_formats[i]->detect((const unsigned char *)text, strlen(text)))
            return mr_formats[i]->name;
    return "none";
}

TEST(formats_are_told_by_content)
{
    CHECK_STR(told("memreuse,1\n"), "memreuse");
    CHECK_STR(told("{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x1\"}\n"), "simrd");
    CHECK_STR(told("{\"ANNOTATION\":\"START\",\"INSTRUCTION\":\"ANNOTATE\"}"), "simrd");
    CHECK_STR(told("{\"traceEvents\":[\n\"INSTRUCTION\"]}"), "kineto");
    CHECK_STR(told(" {\"schemaVersion\": 1,"), "kineto");
    CHECK_STR(told("[{\"ph\":\"X\"}]"), "kineto");
    CHECK_STR(told("{\n \"schema\": \"1.0.1\", \"nodes\": ["), "execution_trace");
    CHECK_STR(told("[{\"phase\":\"X\"}]"), "none");
    CHECK_STR(told("id,lower,upper,size\n"), "lifetimes");
    CHECK_STR(told("id,lower,upper,size,offset\n1,2,3,4,5\n"), "lifetimes");
    CHECK_STR(told("0,10,20,4\n1,2,3,4\n"), "lifetimes");
    CHECK_STR(told("hello, world\n"), "none");
    CHECK_STR(told(""), "none");
}

static void written(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

TEST(what_is_no_recording_is_named)
{
    static const char *const files[][2] = {
        {"PK\3\4zip", "a zip archive"}, {"{\"a\":1}", "JSON"}, {"<html>", "a web page or XML"},
        {"hello\n", "text"},            {"\1\2\3", "binary data"},
    };
    const char *path = "test_formats_unknown";
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        written(path, files[i][0]);
        CHECK_EQ(mr_recording_read(&ctx, path, NULL, &t), MR_EINPUT);
        CHECK_STR(ctx.failure.where, path);
        CHECK_HAS(ctx.failure.text, mr_printf(&ctx, "the file looks like %s", files[i][1]));
        mr_ctx_clear(&ctx);
    }
    remove(path);
}

TEST(a_format_may_be_named_by_the_user)
{
    mr_ctx ctx = {0};
    mr_trace t;
    mr_read_options options = {.format = "lifetimes"};
    CHECK_EQ(mr_recording_read(&ctx, TRACES "/tiny/mlp.csv", &options, &t), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "'memreuse' is no column");
    options.format = "onnx";
    CHECK_EQ(mr_recording_read(&ctx, TRACES "/tiny/mlp.csv", &options, &t), MR_EUSAGE);
    CHECK_HAS(ctx.failure.text, "expected one of memreuse, snapshot, simrd, kineto, execution_trace, lifetimes");
    mr_ctx_clear(&ctx);
}

/* ---- simrd ------------------------------------------------------------------------------- */

/* Most bytes at once, when a storage dies with the last drop of its tensors: simrd's run
 * without a budget, with banishing. */
static uint64_t walked_peak(mr_ctx *ctx, const mr_trace *t)
{
    uint32_t *tensors = MR_NEW_N(ctx, uint32_t, t->storages.n);
    bool *live = MR_NEW_N(ctx, bool, t->storages.n);
    uint64_t now = 0, peak;
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (t->storages.at[t->tensors.at[i].storage].before) {
            now += live[t->tensors.at[i].storage] ? 0 : t->tensors.at[i].bytes;
            live[t->tensors.at[i].storage] = true;
        }
    peak = now;
    uint32_t known = 0; /* tensors that the events have reached */
    for (uint32_t e = 0; e < t->events.n; e++) {
        const mr_event *event = &t->events.at[e];
        const mr_op *op = event->kind == MR_RUN ? &t->ops.at[event->id] : NULL;
        uint32_t reached = event->kind == MR_DROP ? event->id + 1 : known;
        for (uint32_t i = 0; op && i < op->out.n; i++) reached = op->out.at[i] + 1;
        for (; known < reached; known++) {
            const uint32_t s = t->tensors.at[known].storage;
            tensors[s]++;
            if (!live[s]) now += t->storages.at[s].bytes;
            live[s] = true;
        }
        if (now > peak) peak = now;
        if (event->kind != MR_DROP) continue;
        const uint32_t s = t->tensors.at[event->id].storage;
        if (!--tensors[s]) now -= t->storages.at[s].bytes;
    }
    return peak;
}

static uint64_t constant_bytes(const mr_trace *t)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < t->storages.n; s++)
        if (t->storages.at[s].before) sum += t->storages.at[s].bytes;
    for (uint32_t o = 0; o < t->ops.n; o++)
        if (!strcmp(t->ops.at[o].name, "constant"))
            sum += t->storages.at[t->tensors.at[t->ops.at[o].out.at[0]].storage].bytes;
    return sum;
}

static uint64_t compute_ns(const mr_trace *t)
{
    uint64_t sum = 0;
    for (uint32_t o = 0; o < t->ops.n; o++) sum += t->ops.at[o].ns;
    return sum;
}

/* The sums of every log agree with what simrd itself computed for it. */
TEST(simrd_logs_have_the_sums_that_simrd_has)
{
    FILE *file = fopen(SHARED "/recordings/dtr-logs/simrd-baselines.csv", "r");
    if (!file) SKIP("no recordings");
    char line[256], log[100];
    int logs = 0;
    CHECK(fgets(line, sizeof line, file) != NULL); /* the header */
    while (fgets(line, sizeof line, file)) {
        uint64_t peak, ns, constants;
        if (sscanf(line, "%99[^,],%" SCNu64 ",%" SCNu64 ",%" SCNu64, log, &peak, &ns,
                   &constants)
            != 4)
            break;
        mr_ctx ctx = {0};
        mr_trace t;
        const char *path = mr_printf(&ctx, "%s/recordings/dtr-logs/%s.log.gz", SHARED, log);
        const mr_status status = mr_recording_read(&ctx, path, NULL, &t);
        if (status) TEST_FAIL("%s: %s", ctx.failure.where, ctx.failure.text);
        if (!status) {
            CHECK_EQ(compute_ns(&t), ns);
            CHECK_EQ(constant_bytes(&t), constants);
            CHECK_EQ(walked_peak(&ctx, &t), peak);
            CHECK_EQ(t.has, MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS | MR_HAS_PHASES);
        }
        mr_ctx_clear(&ctx);
        logs++;
    }
    fclose(file);
    CHECK_EQ(logs, 4);
}

#define START "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n"
#define X1 "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x1\"}\n" \
           "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"x1\",\"MEMORY\":\"40\"}\n"
#define CALL(args, result)                                                          \
    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"f\",\"ARGS\":" args ",\"RESULT\":" result \
    ",\"TIME\":\"9\"}\n"
#define RESULT(name, alias)                                                       \
    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"" name "\",\"MEMORY\":\"40\"}\n"      \
    "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"" name "\",\"ALIAS\":\"" alias "\"}\n"
#define COPY(kind, dst, src) \
    "{\"INSTRUCTION\":\"" kind "\",\"DST\":\"" dst "\",\"SRC\":\"" src "\"}\n"
#define RELEASE(name) "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"" name "\"}\n"

TEST(names_of_a_tensor_are_counted)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_as(&ctx, "simrd",
                     RELEASE("before") START RELEASE("unknown") X1 COPY("COPY", "x2", "x1")
                         RELEASE("x1") CALL("[\"x2\"]", "[\"x3\",\"x4\"]") RESULT("x3", "0")
                             RESULT("x4", "-1") COPY("COPY_FROM", "x2", "x4")
                                 COPY("COPY_FROM", "x2", "x2") RELEASE("x4") RELEASE("x3"),
                     false, &t),
             MR_OK);
    CHECK_EQ(t.tensors.n, 3);
    CHECK_EQ(t.storages.n, 2);
    CHECK_EQ(t.tensors.at[1].storage, 0);
    CHECK_EQ(t.events.n, 3); /* the call, x2 no longer x1, and x3 */
    CHECK_EQ(t.events.at[1].kind, MR_DROP);
    CHECK_EQ(t.events.at[1].id, 0);
    CHECK_EQ(t.events.at[2].id, 1);
    CHECK(t.storages.at[0].before && !t.storages.at[0].after);
    CHECK(!t.storages.at[1].before && t.storages.at[1].after);
    mr_ctx_clear(&ctx);
}

static const char *const wrong_logs[][3] = {
    {"", "x:2:1", "the log has no START"},
    {START "[1]", "x:2:1", "the line is no JSON object"},
    {START "{\"INSTRUCTION\":", "x:2:15", "the line is no JSON"},
    {START "{\"a\":1,\"a\":1}", "x:2:", "duplicate object key"},
    {START "{}", "x:2:1", "INSTRUCTION is missing or no text"},
    {START "{\"INSTRUCTION\":\"FLY\"}", "x:2:1", "the instruction is 'FLY'"},
    {START CALL("[\"x9\"]", "[]"), "x:2:1", "'x9' is no tensor here"},
    {START CALL("[7]", "[]"), "x:2:1", "'' is no tensor here"},
    {START CALL("7", "[]"), "x:2:1", "ARGS is missing or no list"},
    {START CALL("[]", "[7]"), "x:2:1", "RESULT holds something else"},
    {START X1 X1, "x:4:1", "'x1' is the name of a tensor already"},
    {START X1 CALL("[\"x1\"]", "[\"x2\"]"), "x:5:1", "the log ends inside of an instruction"},
    {START X1 CALL("[\"x1\"]", "[\"x2\"]") RELEASE("x1"), "x:5:1",
     "the instruction is RELEASE of 'x1', expected MEMORY of 'x2'"},
    {START X1 CALL("[\"x1\"]", "[\"x2\"]") RESULT("x2", "1"), "x:6:1",
     "ALIAS is 1, expected -1 or one of 1"},
    {START X1 CALL("[\"x1\"]", "[\"x2\"]") RESULT("x2", "-2"), "x:6:1",
     "ALIAS is missing or no number"},
    {START "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x1\"}\n"
           "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"x1\",\"MEMORY\":\"4.0\"}",
     "x:3:1", "MEMORY is missing or no number"},
    {START X1 "{\"INSTRUCTION\":\"MUTATE\",\"NAME\":\"f_\",\"ARGS\":[\"x1\"],\"MUTATE\":[1],"
              "\"TIME\":\"1\"}",
     "x:4:1", "MUTATE holds something else, expected numbers below 1"},
    {START COPY("COPY", "x2", "x1"), "x:2:1", "'x1' is no tensor here"},
    {START X1 COPY("COPY_FROM", "x2", "x1"), "x:4:1", "'x2' is no tensor here"},
};

TEST(broken_logs_are_refused_with_their_line)
{
    for (size_t i = 0; i < MR_COUNT(wrong_logs); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *text = *wrong_logs[i][0] ? wrong_logs[i][0] : RELEASE("x");
        CHECK_EQ(read_as(&ctx, "simrd", text, false, &t), MR_EINPUT);
        CHECK_HAS(ctx.failure.where, wrong_logs[i][1]);
        CHECK_HAS(ctx.failure.text, wrong_logs[i][2]);
        mr_ctx_clear(&ctx);
    }
}

TEST(deep_nesting_is_refused)
{
    mr_ctx ctx = {0};
    mr_trace t;
    char *text = MR_NEW_N(&ctx, char, 900000);
    memset(text, '[', 899999);
    CHECK_EQ(read_as(&ctx, "simrd", text, false, &t), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "the line is no JSON");
    mr_ctx_clear(&ctx);
}

/* ---- lifetimes --------------------------------------------------------------------------- */

/* + alloc, - free, by name: how a table was understood. */
static const char *shown(mr_ctx *ctx, const mr_trace *t)
{
    const char *text = "";
    for (uint32_t e = 0; e < t->events.n; e++)
        text = mr_printf(ctx, "%s%s%c%s", text, e ? " " : "",
                         t->events.at[e].kind == MR_ALLOC ? '+' : '-',
                         t->tensors.at[t->events.at[e].id].name);
    return text;
}

TEST(what_ends_makes_room_for_what_begins)
{
    static const char table[] =
        "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\n";
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_as(&ctx, "lifetimes", table, false, &t), MR_OK);
    CHECK_STR(shown(&ctx, &t), "+b1 +b3 -b1 +b2 -b2 -b3 +b4 -b4");
    CHECK_EQ(read_as(&ctx, "lifetimes", table, true, &t), MR_OK);
    CHECK_STR(shown(&ctx, &t), "+b1 +b3 +b2 -b1 +b4 -b2 -b3 -b4");
    mr_ctx_clear(&ctx);
}

TEST(offsets_are_what_an_allocator_did)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_as(&ctx, "lifetimes",
                     "offset,id,size,upper,lower\n0,a,4,2,0\n4,b,8,3,1\n0,c,4,4,2\n", false,
                     &t),
             MR_OK);
    CHECK_EQ(t.has, MR_HAS_HISTORY);
    const mr_history *h = mr_trace_history(&t, 0);
    CHECK_EQ(h->segments.at[0].bytes, 12);
    CHECK_EQ(h->cmds.n, 7);
    CHECK_EQ(h->cmds.at[2].kind, MR_BIND);
    CHECK_EQ(h->cmds.at[2].block.offset, 4);
    CHECK_EQ(read_as(&ctx, "lifetimes", "id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,8,3\n",
                     false, &t),
             MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "binds storage 1 where storage 0 lives");
    mr_ctx_clear(&ctx);
}

static const char *const wrong_tables[][3] = {
    {"0,1,2,3\n", "x:1:1", "'0' is no column of a table of lifetimes"},
    {"id,lower,upper\n", "x:1:1", "the header has no column size"},
    {"id,lower,upper,size,size\n", "x:1:21", "column size is there twice"},
    {"id,lower,upper,size\n", "x:2:1", "the table has no rows"},
    {"id,lower,upper,size\na,1,2\n", "x:2:1", "the row has 3 fields, expected 4"},
    {"id,lower,upper,size\na,1,2,3,4\n", "x:2:1", "the row has 5 fields, expected 4"},
    {"id,lower,upper,size\na,1,2,3\na,1,2,3\n", "x:3:1", "id 'a' is there twice"},
    {"id,lower,upper,size\n,1,2,3\n", "x:2:1", "id is blank"},
    {"id,lower,upper,size\na,2,2,3\n", "x:2:5",
     "upper is 2, with lower 2, expected it to be larger"},
    {"id,lower,upper,size\na,-2,2,3\n", "x:2:3", "lower is '-2'"},
    {"id,lower,upper,size\na,1,2,0\n", "x:2:7", "size is 0"},
    {"id,lower,upper,size\na,1,2,1e3\n", "x:2:7", "size is '1e3'"},
    {"id,lower,upper,size\na,1,2,99999999999999999999\n", "x:2:7", "size is '9999"},
    {"id,lower,upper,size\na,1,2,4611686018427387904\nb,1,2,1\n", "x:3:7",
     "size is 1, with which all"},
    {"id,lower,upper,size,offset\na,1,2,4,18446744073709551615\n", "x:2:9",
     "expected the buffer to end"},
};

TEST(broken_tables_are_refused_with_their_place)
{
    for (size_t i = 0; i < MR_COUNT(wrong_tables); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_as(&ctx, "lifetimes", wrong_tables[i][0], false, &t), MR_EINPUT);
        CHECK_STR(ctx.failure.where, wrong_tables[i][1]);
        CHECK_HAS(ctx.failure.text, wrong_tables[i][2]);
        mr_ctx_clear(&ctx);
    }
}

static uint64_t live_peak(const mr_trace *t)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t e = 0; e < t->events.n; e++) {
        const uint64_t bytes = t->storages.at[t->events.at[e].id].bytes;
        now = t->events.at[e].kind == MR_ALLOC ? now + bytes : now - bytes;
        if (now > peak) peak = now;
    }
    return peak;
}

/* minimalloc's challenging set is known to fit into 1048576, so its live sums cannot exceed
 * that. */
TEST(minimallocs_tables_fit_where_they_are_known_to_fit)
{
    if (access(SHARED "/recordings/lifetimes", F_OK) != 0) SKIP("no recordings");
    for (char name = 'A'; name <= 'K'; name++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *path =
            mr_printf(&ctx, "%s/recordings/lifetimes/%c.1048576.csv", SHARED, name);
        CHECK_EQ(mr_recording_read(&ctx, path, NULL, &t), MR_OK);
        CHECK(live_peak(&t) <= 1048576);
        mr_ctx_clear(&ctx);
    }
}

/* The compiler's own offsets do not overlap where ends are taken as its authors mean them. */
TEST(irees_offsets_agree_with_inclusive_ends)
{
    mr_ctx ctx = {0};
    mr_trace t;
    const mr_read_options options = {.ends_inclusive = true};
    const char *path = SHARED "/recordings/lifetimes/iree-mobilebert.csv";
    if (access(path, F_OK) != 0) SKIP("no recordings");
    CHECK_EQ(mr_recording_read(&ctx, path, &options, &t), MR_OK);
    CHECK_EQ(t.has, MR_HAS_HISTORY);
    CHECK(live_peak(&t) <= mr_trace_history(&t, 0)->segments.at[0].bytes);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
