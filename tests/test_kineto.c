/* Profiler traces: lives as the allocator had them, whatever the order and the layout. */
#include <unistd.h>

#include "read_text.h"
#include "test.h"

extern const mr_format mr_format_kineto;

static mr_status read_text(mr_ctx *ctx, const char *text, mr_trace *out)
{
    return read_text_as(ctx, &mr_format_kineto, text, out);
}

/* A trace of these events: "ts bytes address total" of memory on device 0. */
static const char *profile(mr_ctx *ctx, const char *more, const int64_t (*rows)[4], size_t n)
{
    const char *text = mr_printf(ctx, "{\"schemaVersion\":1,\"traceEvents\":[%s", more);
    for (size_t i = 0; i < n; i++) {
        const int64_t *row = rows[i];
        text = mr_printf(ctx,
                         "%s%s{\"ph\":\"i\",\"name\":\"[memory]\",\"tid\":7,\"ts\":%d,\"args\":"
                         "{\"Device Type\":1,\"Device Id\":0,\"Bytes\":%d",
                         text, i || *more ? "," : "", (int)row[0], (int)row[1]);
        if (row[2]) text = mr_printf(ctx, "%s,\"Addr\":%d", text, (int)row[2]);
        if (row[3] >= 0)
            text = mr_printf(ctx, "%s,\"Total Allocated\":%d,\"Total Reserved\":9999", text,
                             (int)row[3]);
        text = mr_printf(ctx, "%s}}", text);
    }
    return mr_printf(ctx, "%s]}", text);
}

/* What happens, such as "+512 -512": storages by their bytes. */
static const char *story(mr_ctx *ctx, const mr_trace *t)
{
    const char *text = "";
    for (uint32_t e = 0; e < t->events.n; e++) {
        const mr_event event = t->events.at[e];
        if (event.kind == MR_MARK)
            text = mr_printf(ctx, "%s %s:%s", text,
                             mr_mark_kind_name(t->marks.at[event.id].kind),
                             t->marks.at[event.id].name);
        else
            text = mr_printf(ctx, "%s %c%d", text, event.kind == MR_ALLOC ? '+' : '-',
                             (int)t->storages.at[event.id].bytes);
    }
    return *text ? text + 1 : text;
}

static bool has_note(const mr_trace *t, const char *text)
{
    for (uint32_t i = 0; i < t->notes.n; i++)
        if (strstr(t->notes.at[i], text)) return true;
    return false;
}

TEST(events_are_put_in_order_of_time)
{
    static const int64_t rows[][4] = {
        {9, -512, 100, 0}, {5, 512, 100, 512}, {7, 1024, 200, 1536}, {8, -1024, 200, 512}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 4), &t));
    CHECK_STR(story(&ctx, &t), "+512 +1024 -1024 -512");
    CHECK_EQ(t.times.at[3], 4000);
    mr_ctx_clear(&ctx);
}

/* Microseconds are coarse: at one of them a block may be freed and its room be taken. */
TEST(totals_settle_the_order_within_a_moment)
{
    static const int64_t rows[][4] = {{5, 1024, 100, 1024},
                                      {6, 512, 100, 512},
                                      {6, 2048, 300, 2560},
                                      {6, -1024, 100, 0}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 4), &t));
    CHECK_STR(story(&ctx, &t), "+1024 -1024 +512 +2048");
    CHECK(!has_note(&t, "does not follow"));
    mr_ctx_clear(&ctx);
}

TEST(what_was_there_before_is_freed_or_stays)
{
    static const int64_t rows[][4] = {{5, 512, 100, 5512}, {6, -2000, 200, 3512}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 2), &t));
    CHECK_STR(story(&ctx, &t), "+512 -2000");
    CHECK_EQ(t.storages.n, 3);
    CHECK(!t.storages.at[0].before && t.storages.at[0].after);
    CHECK(t.storages.at[1].before && !t.storages.at[1].after);
    CHECK(t.storages.at[2].before && t.storages.at[2].after);
    CHECK_EQ(t.storages.at[2].bytes, 3000);
    CHECK(has_note(&t, "stayed"));
    mr_ctx_clear(&ctx);
}

/* Less in use than what was just taken: counted wrong, and nothing is known to be before. */
TEST(a_total_that_is_too_small_tells_nothing)
{
    static const int64_t rows[][4] = {{5, 1024, 100, 512}, {6, -1024, 100, 0}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 2), &t));
    CHECK_STR(story(&ctx, &t), "+1024 -1024");
    CHECK_EQ(t.storages.n, 1);
    mr_ctx_clear(&ctx);
}

TEST(missing_events_are_told)
{
    static const int64_t rows[][4] = {{5, 512, 100, 512}, {6, 512, 200, 4000}, {7, 512, 200, 9}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 3), &t));
    CHECK_STR(story(&ctx, &t), "+512 +512 -512 +512");
    CHECK(has_note(&t, "2 times the memory in use does not follow"));
    CHECK(has_note(&t, "1 blocks are taken where another one was"));
    mr_ctx_clear(&ctx);
}

TEST(without_addresses_the_latest_of_a_size_is_freed)
{
    static const int64_t rows[][4] = {
        {1, 512, 0, -1}, {2, 512, 0, -1}, {3, -512, 0, -1}, {4, -1024, 0, -1}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, "", rows, 4), &t));
    CHECK_STR(story(&ctx, &t), "+512 +512 -512 -1024");
    CHECK_EQ(t.events.at[2].id, 1);
    CHECK(t.storages.at[0].after && t.storages.at[2].before);
    CHECK(has_note(&t, "no addresses"));
    mr_ctx_clear(&ctx);
}

#define SPAN(category, name, tid, ts, dur, more)                                         \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"tid\":" tid          \
    ",\"ts\":" ts ",\"dur\":" dur ",\"args\":{" more "}}"

TEST(who_asked_is_what_ran_on_that_thread)
{
    static const char spans[] = SPAN("cpu_op", "aten::empty", "7", "10", "5", "") ","
        SPAN("cpu_op", "aten::mm", "7", "9", "20", "") ","
        SPAN("cpu_op", "aten::elsewhere", "8", "9", "20", "") ","
        SPAN("python_function", "net.py(12): forward", "7", "1", "90", "") ","
        SPAN("cpu_op", "aten::over", "7", "2", "3", "");
    static const int64_t rows[][4] = {{12, 512, 100, 512}, {40, 512, 200, 1024}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, spans, rows, 2), &t));
    const mr_stack first = t.stacks.at[t.storages.at[0].stack];
    const mr_stack second = t.stacks.at[t.storages.at[1].stack];
    CHECK_EQ(first.n, 3);
    CHECK_STR(t.frames.at[first.at[0]].function, "aten::empty");
    CHECK_STR(t.frames.at[first.at[1]].function, "aten::mm");
    CHECK_STR(t.frames.at[first.at[2]].file, "net.py");
    CHECK_STR(t.frames.at[first.at[2]].function, "forward");
    CHECK_EQ(t.frames.at[first.at[2]].line, 12);
    CHECK_EQ(second.n, 1);
    CHECK_EQ(second.at[0], first.at[2]);
    mr_ctx_clear(&ctx);
}

/* As in 2021: threads are texts, frames stand at the ops. */
TEST(call_stacks_of_the_old_layout_are_read)
{
    static const char spans[] = SPAN("Operator", "aten::mm", "\"7\"", "9", "20",
                                     "\"Call stack\":\"net.py(3): forward;<built-in>;a (1\"");
    static const int64_t rows[][4] = {{12, 512, 0, -1}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, spans, rows, 1), &t));
    const mr_stack stack = t.stacks.at[t.storages.at[0].stack];
    CHECK_EQ(stack.n, 4);
    CHECK_STR(t.frames.at[stack.at[0]].function, "aten::mm");
    CHECK_EQ(t.frames.at[stack.at[1]].line, 3);
    CHECK_STR(t.frames.at[stack.at[2]].function, "<built-in>");
    CHECK_STR(t.frames.at[stack.at[3]].function, "a (1");
    mr_ctx_clear(&ctx);
}

/* Thread 8 runs two backward passes, between which thread 7 goes on; 9 loads data. */
TEST(steps_and_phases_are_marked)
{
    static const char spans[] =
        SPAN("user_annotation", "ProfilerStep#3", "7", "1", "98", "") ","
        SPAN("cpu_op", "aten::mm", "7", "2", "5", "") ","
        SPAN("cpu_op", "A: MmBackward", "8", "10", "5", "\"Fwd thread id\":1") ","
        SPAN("cpu_op", "aten::mm", "8", "11", "2", "") ","
        SPAN("cpu_op", "aten::load", "9", "15", "2", "") ","
        SPAN("cpu_op", "B: MmBackward", "8", "20", "5", "\"Fwd thread id\":1") ","
        SPAN("cpu_op", "aten::mm", "7", "30", "5", "") ","
        SPAN("cpu_op", "C: MmBackward", "8", "40", "5", "\"Fwd thread id\":1") ","
        SPAN("user_annotation", "Optimizer.step#AdamW.step", "7", "50", "40", "");
    static const int64_t rows[][4] = {{3, 512, 100, 512}, {60, -512, 100, 0}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, spans, rows, 2), &t));
    CHECK_STR(story(&ctx, &t),
              "step-begin:ProfilerStep#3 +512 phase-begin:backward phase-end:backward"
              " phase-begin:backward phase-end:backward phase-begin:update -512"
              " phase-end:update step-end:ProfilerStep#3");
    CHECK_STR(t.about[MR_ABOUT_optimizer], "adamw");
    mr_ctx_clear(&ctx);
}

TEST(a_run_on_the_cpu_counts_where_there_is_no_other)
{
    static const char host[] = "{\"ph\":\"i\",\"name\":\"[memory]\",\"tid\":7,\"ts\":1.25,"
                               "\"args\":{\"Device Type\":0,\"Device Id\":-1,\"Bytes\":64,"
                               "\"Addr\":16,\"Total Allocated\":0,\"Total Reserved\":0}}";
    static const int64_t rows[][4] = {{2, 512, 100, 512}};
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK(!read_text(&ctx, profile(&ctx, host, rows, 0), &t));
    CHECK_STR(story(&ctx, &t), "+64");
    CHECK(has_note(&t, "run on the CPU"));
    CHECK(!read_text(&ctx, profile(&ctx, host, rows, 1), &t));
    CHECK_STR(story(&ctx, &t), "+512");
    mr_ctx_clear(&ctx);
}

/* What the text of an event must be for which sentence. */
TEST(broken_profiles_are_refused_with_the_place)
{
    static const char *const texts[][2] = {
        {"{\"traceEvents\":[", "the file ends here, expected a value"},
        {"{\"traceEvents\":[{\"ph\":\"i\"}", "expected a comma or ]"},
        {"{\"traceEvents\":[]", "expected a comma or }"},
        {"{\"traceEvents\":[],}", "expected a name in quotes"},
        {"{\"traceEvents\":[]}x", "expected the end of the file"},
        {"{\"traceEvents\":[{\"ph\":}]}", "this is no JSON"},
        {"{\"traceEvents\":[7]}", "an event is no object"},
        {"{\"traceEvents\":7}", "expected a list"},
        {"{\"traceEvents\":[],\"traceEvents\":[]}", "is there twice"},
        {"{\"other\":[]}", "no list 'traceEvents'"},
        {"{\"traceEvents\":[]}", "the profile has no memory events"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\"}]", "has no time 'ts'"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":-1}]", "has no time 'ts'"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1}]", "has no 'Bytes'"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Bytes\":1.5}}]",
         "'Bytes' of a memory event is something else"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Bytes\":1,\"Device Id\":"
         "70000}}]",
         "'Device Id' of a memory event is 70000"},
        {"[{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Bytes\":8,\"Addr\":1}},"
         "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":2,\"args\":{\"Bytes\":-9,\"Addr\":1}}]",
         "9 bytes at address 0x1 are freed, expected the 8"},
    };
    for (size_t i = 0; i < MR_COUNT(texts); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_text(&ctx, texts[i][0], &t), MR_EINPUT);
        CHECK_HAS(ctx.failure.text, texts[i][1]);
        mr_ctx_clear(&ctx);
    }
}

/* ---- held against the allocator ---------------------------------------------------------- */

static uint32_t block_before(const mr_history *history, uint32_t c)
{
    while (c-- > 0)
        if (history->cmds.at[c].kind == MR_BIND || history->cmds.at[c].kind == MR_UNBIND)
            return c;
    return MR_NONE;
}

/* A request is rounded up to 512 bytes; a large block may keep up to 1 MiB more. */
static bool is_block_for(uint64_t block, uint64_t asked)
{
    const uint64_t rounded = (asked + 511) / 512 * 512;
    return block == rounded || (asked > MR_MIB && block > rounded && block <= rounded + MR_MIB);
}

/* Backwards from the end: how many events are what the allocator did, by the snapshot of the
 * same run. */
static uint32_t count_equal(const mr_trace *profile, const mr_trace *snapshot)
{
    const mr_history *history = mr_trace_history(snapshot, 0);
    uint32_t n = 0, c = history->cmds.n;
    for (uint32_t e = profile->events.n; e-- > 0;) {
        const mr_event event = profile->events.at[e];
        if (event.kind == MR_MARK) continue;
        if ((c = block_before(history, c)) == MR_NONE) break;
        const mr_cmd *cmd = &history->cmds.at[c];
        if (cmd->kind != (event.kind == MR_ALLOC ? MR_BIND : MR_UNBIND)) break;
        if (!is_block_for(profile->storages.at[event.id].bytes,
                          snapshot->storages.at[cmd->id].bytes))
            break;
        n++;
    }
    return n;
}

TEST(a_profile_is_what_the_allocator_did)
{
    static const struct {
        const char *name;
        uint32_t both; /* events that both recorded: the profile, the snapshot begins later */
    } runs[] = {{"gpt2-2", 1012}, {"mlp", 172}};
    for (size_t i = 0; i < MR_COUNT(runs); i++) {
        mr_ctx ctx = {0};
        mr_trace profile, snapshot;
        const char *base = mr_printf(&ctx, TESTS "/oracle/profiles/%s", runs[i].name);
        CHECK(!mr_recording_read(&ctx, mr_printf(&ctx, "%s.json.gz", base), NULL, &profile));
        CHECK(!mr_recording_read(&ctx, mr_printf(&ctx, "%s.pickle.gz", base), NULL,
                                   &snapshot));
        CHECK_EQ(count_equal(&profile, &snapshot), runs[i].both);
        CHECK(!has_note(&profile, "does not follow"));
        mr_ctx_clear(&ctx);
    }
}

/* Two real profiles, whose frees all find what they free, and two without memory. */
TEST(real_profiles_are_whole)
{
    static const struct {
        const char *file;
        uint32_t storages, events;
    } files[] = {{"ddp-5-steps-v100-memory.json.gz", 13386, 26770},
                 {"resnet50-2021-memory-no-address.pt.trace.json.gz", 4110, 8220}};
    if (access(SHARED "/recordings/kineto", R_OK)) SKIP("no shared recordings");
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *path = mr_printf(&ctx, SHARED "/recordings/kineto/%s", files[i].file);
        CHECK(!mr_recording_read(&ctx, path, NULL, &t));
        CHECK_EQ(t.storages.n, files[i].storages);
        CHECK_EQ(t.events.n - t.marks.n, files[i].events);
        CHECK(!has_note(&t, "does not follow"));
        CHECK(!has_note(&t, "its free is not recorded"));
        mr_ctx_clear(&ctx);
    }
}

TEST_MAIN()
