/* What a file of our format may say, and where and why it is wrong. */
#include "format.h"
#include "round_trip.h"

TEST(ids_are_any_numbers_and_comments_and_blank_lines_are_skipped)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(
        read_text(&ctx,
                  "memreuse,1\r\n\r\n#,x,\"y\n\"\r\nalloc,900,5,after\r\nalloc,7,6\r\nfree,7\r\n",
                  &t),
        MR_OK);
    CHECK_EQ(t.storages.n, 2);
    CHECK_EQ(t.events.at[2].id, 1);
    CHECK_EQ(t.has, 0);
    mr_ctx_clear(&ctx);
}

TEST(what_is_left_out_has_its_usual_value)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_text(&ctx,
                       "memreuse,1\nstorage,0,100,role=buffer,before\ntensor,0,0\n"
                       "tensor,1,0,offset=40\nop,0,f,backward,in=0 1,mutates=1\n",
                       &t),
             MR_OK);
    CHECK_EQ(t.tensors.at[0].bytes, 100);
    CHECK_EQ(t.tensors.at[1].bytes, 60);
    CHECK_EQ(t.tensors.at[1].role, MR_ROLE_buffer);
    CHECK_EQ(t.storages.at[0].stack, MR_NONE);
    CHECK_EQ(t.ops.at[0].again, MR_NONE);
    CHECK_EQ(t.has, MR_HAS_DATAFLOW | MR_HAS_PHASES);
    mr_ctx_clear(&ctx);
}

/* Text after the first row, and the beginning of where and of what is said about it. */
static const char *const wrong[][3] = {
    {"allok,1,5", "x.csv:2:1", "unknown kind of row 'allok'"},
    {"alloc", "x.csv:2:1", "the row has 1 field, expected alloc,id"},
    {"alloc,1,5,colour=red", "x.csv:2:11",
     "'colour=red' is no column of alloc, expected one of bytes=, per"},
    {"alloc,1,5,6", "x.csv:2:11", "'6' is no column of alloc"},
    {"alloc,1,5,deferred=1", "x.csv:2:11", "'deferred=1' is no column"},
    {"alloc,1,5,t", "x.csv:2:11", "'t' is no column"},
    {"alloc,-1,5", "x.csv:2:7",
     "id is '-1', expected a whole number of at most 18446744073709551615"},
    {"alloc,1,5.0", "x.csv:2:9", "bytes is '5.0'"},
    {"alloc,1,0x10", "x.csv:2:9", "bytes is '0x10'"},
    {"alloc,,5", "x.csv:2:7", "id is ''"},
    {"alloc,1 ,5", "x.csv:2:7", "id is '1 '"},
    {"alloc,1,18446744073709551616", "x.csv:2:9", "bytes is '18446744073709551616'"},
    {"alloc,1,5,device=65536", "x.csv:2:11",
     "device is '65536', expected a whole number of at most 65535"},
    {"alloc,1,5,role=weight", "x.csv:2:11",
     "role is 'weight', expected unknown, parameter, buffer"},
    {"alloc,1,5,stream=7", "x.csv:2:11", "stream 7 is not known here, expected a row before"},
    {"alloc,1,5,t=1,t=2", "x.csv:2:15", "t is given twice"},
    {"alloc,1,5\nalloc,1,6", "x.csv:3:7", "storage 1 is there twice"},
    {"alloc,1", "x.csv:2:7", "storage 1 is not declared by an earlier row"},
    {"storage,1,5\nalloc,1,role=input", "x.csv:3:9", "role is given but not bytes"},
    {"alloc,1,5,t=1\nfree,1", "x.csv:3:1", "the event has no t="},
    {"alloc,1,5\nfree,1,t=1", "x.csv:3:8", "the event has a t="},
    {"free,1", "x.csv:2:6", "storage 1 is not known here"},
    {"stream,9\nstream,9", "x.csv:3:8", "stream 9 follows stream 9, expected a larger one"},
    {"pool,0", "x.csv:2:6", "pool 0 is there twice"},
    {"storage,0,8\ntensor,0,0,offset=9", "x.csv:3:12",
     "offset is 9, expected at most the 8 bytes"},
    {"storage,0,8\ntensor,0,none", "x.csv:3:10", "storage is none"},
    {"storage,0,8\ntensor,0,0,shape=3x", "x.csv:3:12",
     "shape is '3x', expected whole numbers with x"},
    {"op,0,f,sideways", "x.csv:2:8",
     "phase is 'sideways', expected other, forward, backward or update"},
    {"op,0,f,other,in=1 ", "x.csv:2:14", "tensor 1 is not known"},
    {"storage,0,8,before\ntensor,0,0\nop,0,f,other,in=0,saved=0:x", "x.csv:4:19",
     "saved is '0:x'"},
    {"storage,0,8,before\ntensor,0,0\nop,0,f,other,saved=0", "x.csv:4:14", "saved is '0'"},
    {"op,0,f,other,later,t=4", "x.csv:2:20", "an op that runs later has a t="},
    {"mark,step,x", "x.csv:2:6", "kind is 'step', expected step-begin, step-end"},
    {"about,colour,red", "x.csv:2:7", "unknown field 'colour'"},
    {"about,batch,1\nabout,batch,2", "x.csv:3:7", "about batch is there twice"},
    {"note,a,b", "x.csv:2:1", "note has 2 fields"},
    {"has,wings", "x.csv:2:5", "unknown word 'wings'"},
    {"segment,0,0,512", "x.csv:2:1", "segment stands outside of a history"},
    {"history,0\nsegment,0,0,512\nsegment,1,0,512,held", "x.csv:4:17",
     "a held segment follows"},
    {"note,\"a\"b", "x.csv:2:9", "a quote or what follows it is out of place"},
    {"note,a\"b", "x.csv:2:7", "a quote or what follows it is out of place"},
    {"note,\"abc\nd\n", "x.csv:2:6", "a quoted field begins here and does not end"},
    {"note,\"a\nb\",c\n", "x.csv:2:1", "note has 2 fields"},
    {"about,\"a\nb\",c\n", "x.csv:2:7", "unknown field 'a?b'"},
    {"frame,0,\"a\nb\",x,f", "x.csv:3:4", "line is 'x'"},
    {"frame,0,\"a,\"\"\nb\",\"x\ny\",f", "x.csv:3:4", "line is 'x?y'"},
    /* what only the referee sees */
    {"alloc,1,5\nfree,1\nfree,1", "",
     "event 2 frees storage 0, expected it to be freed only once"},
    {"alloc,1,5", "", "storage 0 is never freed"},
    {"alloc,1,5\nalloc,1", "", "event 1 allocates storage 0"},
};

TEST(what_is_wrong_is_said_with_its_place)
{
    for (size_t i = 0; i < MR_COUNT(wrong); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *text = mr_printf(&ctx, "memreuse,1\n%s\n", wrong[i][0]);
        if (read_text(&ctx, text, &t) != MR_EINPUT) TEST_FAIL("accepted: %s", wrong[i][0]);
        CHECK_STR(ctx.failure.where, wrong[i][1]);
        CHECK_HAS(ctx.failure.text, wrong[i][2]);
        mr_ctx_clear(&ctx);
    }
}

TEST(the_first_row_says_which_version)
{
    static const char *const texts[][2] = {
        {"memreuse,2\n", "the format has version '2', expected 1"},
        {"memreuse,1,x\n", "found 'x', expected 'closed' or the end of the row"},
        {"memreuse,1,closed,x\n", "found 'x', expected the end of the row"},
        {"alloc,1,2\n", "the first row is not 'memreuse,1'"},
        {"\n\n", "the first row is not 'memreuse,1'"},
    };
    for (size_t i = 0; i < MR_COUNT(texts); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_text(&ctx, texts[i][0], &t), MR_EINPUT);
        CHECK_HAS(ctx.failure.text, texts[i][1]);
        mr_ctx_clear(&ctx);
    }
}

/* ---- files that were cut off ------------------------------------------------------------- */

static const char *const ends[][3] = {
    {"memreuse,1,closed\nalloc,1,5,after\n", "x.csv:3:1",
     "the file ends here without the row 'closed', which its first row announces: it is cut"},
    {"memreuse,1\nalloc,1,5,after", "x.csv:2:11", "the last line has no line break: the file"},
    {"memreuse,1\nmark,step-begin,one\nalloc,1,5,after\n", "x.csv:4:1",
     "the file ends here inside the step 'one', expected mark,step-end: it is cut off"},
    {"memreuse,1\nalloc,1,5,after\nclosed\n", "x.csv:3:1",
     "'closed' was not announced, expected the first row to be 'memreuse,1,closed'"},
    {"memreuse,1,closed\nclosed,1\n", "x.csv:2:8", "found '1', expected 'closed' alone"},
    {"memreuse,1,closed\nclosed\nalloc,1,5,after\n", "x.csv:3:1", "a row follows 'closed'"},
};

TEST(the_end_of_a_file_tells_whether_it_is_whole)
{
    for (size_t i = 0; i < MR_COUNT(ends); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_text(&ctx, ends[i][0], &t), MR_EINPUT);
        CHECK_STR(ctx.failure.where, ends[i][1]);
        CHECK_HAS(ctx.failure.text, ends[i][2]);
        mr_ctx_clear(&ctx);
    }
}

/* A part of a recording may end inside of a step: what is written says that it is whole. */
TEST(what_says_that_it_is_closed_may_end_inside_a_step)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_text(&ctx,
                       "memreuse,1,closed\nmark,step-begin,one\nalloc,1,5,after\nclosed\n#,x\n",
                       &t),
             MR_OK);
    mr_ctx_clear(&ctx);
}

/* Of every length below its own that holds the first bytes. */
static void cuts_are_refused(const char *text, size_t first)
{
    for (size_t n = strlen(text); n-- > first;) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *part = mr_strndup(&ctx, text, n);
        if (read_text(&ctx, part, &t) == MR_OK) TEST_FAIL("accepted: its first %zu bytes", n);
        mr_ctx_clear(&ctx);
    }
}

TEST(a_file_that_was_cut_off_is_refused_wherever_that_was)
{
    static const char *const files[] = {"/tiny/mlp.csv", "/tiny/blocks.csv",
                                        "/tiny/streams.csv", "/tiny/history.csv"};
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        mr_trace trace;
        const char *path = mr_printf(&ctx, "%s%s", TRACES, files[i]);
        CHECK_EQ(mr_recording_read(&ctx, path, NULL, &trace), MR_OK);
        cuts_are_refused(written(&ctx, &trace, ""), 0);
        mr_ctx_clear(&ctx);
    }
}

/* What was written by hand, or by the recorder, says nothing of its end; steps have one. */
TEST(a_step_that_was_cut_off_is_refused)
{
    mr_ctx ctx = {0};
    const char *text = file_text(&ctx, TRACES "/tiny/blocks.csv");
    const char *begin = strstr(text, "mark,step-begin,");
    CHECK(begin);
    if (begin) cuts_are_refused(text, (size_t)(begin - text) + strlen("mark,step-begin,"));
    mr_ctx_clear(&ctx);
}

/* ---- limits ------------------------------------------------------------------------------ */

static mr_status read_bytes(mr_ctx *ctx, const char *data, size_t n)
{
    mr_source *source;
    mr_trace t;
    MR_TRY(mr_source_memory(ctx, "x.csv", data, n, &source));
    const mr_status status = mr_trace_csv_read(ctx, source, &t);
    mr_source_close(source);
    return status;
}

TEST(fields_have_limits)
{
    mr_ctx ctx = {0};
    const size_t n = 3 * MR_MIB;
    char *data = MR_NEW_N(&ctx, char, n);
    memset(data, 'x', n);
    memcpy(data, "memreuse,1\nnote,", 16);
    CHECK_EQ(read_bytes(&ctx, data, n), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:1");
    CHECK_HAS(ctx.failure.text, "the line is longer than 1 MiB");
    memcpy(data, "memreuse,1\nnote,\"", 17);
    for (size_t i = 20; i < n; i += 1000) data[i] = '\n';
    CHECK_EQ(read_bytes(&ctx, data, n), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:6");
    CHECK_HAS(ctx.failure.text, "the field is longer than 1 MiB");
    CHECK_EQ(read_bytes(&ctx, "memreuse,1\nnote,a\0b\n", 20), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:7");
    CHECK_HAS(ctx.failure.text, "a NUL byte");
    memset(data, ',', 100);
    memcpy(data, "memreuse,1\nnote,", 16);
    CHECK_EQ(read_bytes(&ctx, data, 100), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:1");
    CHECK_HAS(ctx.failure.text, "the row has 86 fields, expected at most 64");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
