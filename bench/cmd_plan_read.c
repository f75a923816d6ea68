/* plan_read -- what to plan: a table of lifetimes with all its columns, or any recording.
 *
 *     id,lower,upper,size,alignment,gaps,offset
 *     b1,0,9,4096,512,2-4 6-7@0:1024,
 *
 * Columns go by the names that minimalloc knows.  In a gap a buffer is not in use, or only the
 * bytes from the first number behind the @ up to the second.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd_plan.h"
#include "csv_reader.h"

/* column, name in a header */
#define COLUMN_LIST(X)                                                                         \
    X(id, "id")                                                                                \
    X(id, "buffer")                                                                            \
    X(id, "buffer_id") X(lower, "lower") X(lower, "start") X(lower, "begin") X(upper, "upper") \
        X(last, "end") X(size, "size") X(alignment, "alignment") X(gaps, "gaps")               \
            X(offset, "offset") X(hint, "hint")

typedef enum column {
    id,
    lower,
    upper,
    last,
    size,
    alignment,
    gaps,
    offset,
    hint,
    COLUMNS
} column;

static const struct {
    column column;
    const char *name;
} headings[] = {
#define X(column, name) {column, name},
    COLUMN_LIST(X)
#undef X
};

typedef struct reader {
    mr_ctx *ctx;
    mr_csv *csv;
    const mr_args *args;
    mr_plan_task *task;
    const mr_csv_row *row;
    uint32_t field[COLUMNS], fields; /* where a column stands, MR_NONE where it does not */
    MR_VEC(uint64_t) given;
} reader;

/* ---- cells ------------------------------------------------------------------------------- */

static bool take_number(const char **text, uint64_t *out)
{
    const char *at = *text;
    for (*out = 0; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (*out > (UINT64_MAX - digit) / 10) return false;
        *out = *out * 10 + digit;
    }
    const bool some = at > *text;
    *text = at;
    return some;
}

static const char *cell(const reader *r, column c)
{
    return r->field[c] == MR_NONE ? "" : r->row->at[r->field[c]];
}

static mr_status get_number(const reader *r, column c, uint64_t fallback, uint64_t *out)
{
    const char *text = cell(r, c);
    *out = fallback;
    if (!*text && (c == alignment || c == offset)) return MR_OK;
    if (take_number(&text, out) && !*text) return MR_OK;
    return mr_csv_fail(r->csv, r->field[c] == MR_NONE ? 0 : r->field[c],
                       "'%.60s' is no whole number from 0 to %" PRIu64, cell(r, c), UINT64_MAX);
}

/* "2-4", "6-7@0:1024" */
static bool take_gap(const char **text, plan_gap *out)
{
    *out = (plan_gap){0};
    if (!take_number(text, &out->lower) || *(*text)++ != '-') return false;
    if (!take_number(text, &out->upper)) return false;
    if (**text != '@') return true;
    ++*text;
    return take_number(text, &out->low) && *(*text)++ == ':' && take_number(text, &out->high);
}

static mr_status read_gaps(reader *r)
{
    const char *text = cell(r, gaps);
    while (*text) {
        plan_gap gap;
        const bool good = take_gap(&text, &gap) && (!*text || *text == ' ');
        if (!good)
            return mr_csv_fail(r->csv, r->field[gaps],
                               "gaps are '%.60s', expected such as '2-4 6-7@0:1024'",
                               cell(r, gaps));
        plan_add_gap(r->ctx, &r->task->problem, &gap);
        while (*text == ' ') text++;
    }
    return MR_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

static mr_status read_header(reader *r)
{
    for (uint32_t c = 0; c < COLUMNS; c++) r->field[c] = MR_NONE;
    r->fields = r->row->n;
    for (uint32_t f = 0; f < r->row->n; f++) {
        size_t h = 0;
        while (h < MR_COUNT(headings) && strcmp(headings[h].name, r->row->at[f]) != 0) h++;
        if (h == MR_COUNT(headings))
            return mr_csv_fail(r->csv, f, "'%.60s' is no column of a table of lifetimes",
                               r->row->at[f]);
        if (r->field[headings[h].column] != MR_NONE)
            return mr_csv_fail(r->csv, f, "'%.60s' is there twice, expected it once",
                               r->row->at[f]);
        r->field[headings[h].column] = f;
    }
    const bool ends = r->field[upper] != MR_NONE || r->field[last] != MR_NONE;
    if (r->field[id] != MR_NONE && r->field[lower] != MR_NONE && ends
        && r->field[size] != MR_NONE)
        return MR_OK;
    return mr_csv_fail(r->csv, 0, "the header lacks a column, expected id,lower,upper,size");
}

static mr_status read_times(reader *r, plan_buffer *b)
{
    const bool exclusive = r->field[upper] != MR_NONE;
    MR_TRY(get_number(r, lower, 0, &b->lower));
    MR_TRY(get_number(r, exclusive ? upper : last, 0, &b->upper));
    const bool asked = r->args->ends && strcmp(r->args->ends, "inclusive") == 0;
    if ((asked || !exclusive) && b->upper < UINT64_MAX) b->upper++;
    if (b->upper > b->lower) return MR_OK;
    return mr_csv_fail(r->csv, r->field[exclusive ? upper : last],
                       "'%.60s' ends at %s and begins at %s, expected an end behind the beginning",
                       b->name, cell(r, exclusive ? upper : last), cell(r, lower));
}

static mr_status read_row(reader *r)
{
    plan_buffer b = {.name = mr_strdup(r->ctx, cell(r, id))};
    uint64_t at;
    if (r->row->n != r->fields)
        return mr_csv_fail(r->csv, 0, "the row has %u fields, expected %u as in the header",
                           r->row->n, r->fields);
    MR_TRY(read_times(r, &b));
    MR_TRY(get_number(r, size, 0, &b.bytes));
    if (!b.bytes)
        return mr_csv_fail(r->csv, r->field[size], "size is 0, expected some bytes");
    MR_TRY(get_number(r, alignment, r->args->align, &b.align));
    MR_TRY(get_number(r, offset, PLAN_ANYWHERE, &at));
    b.fixed = r->args->fixed ? at : PLAN_ANYWHERE;
    plan_add(r->ctx, &r->task->problem, &b);
    MR_PUSH(r->ctx, &r->given, at);
    return read_gaps(r);
}

/* Offsets for all buffers are a layout, to be compared with others. */
static void find_given(reader *r)
{
    plan_layout *out = &r->task->given;
    for (uint32_t i = 0; i < r->given.n; i++)
        if (r->given.at[i] == PLAN_ANYWHERE) return;
    for (uint32_t i = 0; i < r->given.n; i++) {
        const uint64_t end = r->given.at[i] + r->task->problem.buffers.at[i].bytes;
        if (end > out->height) out->height = end;
    }
    out->offset = r->given.at;
}

static mr_status read_rows(reader *r)
{
    for (bool header = true;; header = false) {
        MR_TRY(mr_csv_next(r->csv, &r->row));
        if (!r->row->n) break;
        MR_TRY(header ? read_header(r) : read_row(r));
    }
    if (!r->task->problem.buffers.n)
        return mr_csv_fail(r->csv, 0, "the table has no rows, expected some after the header");
    MR_TRY(plan_prepare(r->ctx, &r->task->problem));
    find_given(r);
    return MR_OK;
}

/* ---- files ------------------------------------------------------------------------------- */

static bool line_has(const char *line, size_t n, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(line + i, word, length) == 0) return true;
    return false;
}

static bool is_table(mr_source *source)
{
    size_t n;
    const char *head = (const char *)mr_source_peek(source, 4096, &n);
    const char *end = n ? memchr(head, '\n', n) : NULL;
    const size_t line = end ? (size_t)(end - head) : n;
    return line_has(head, line, "size")
           && (line_has(head, line, "lower") || line_has(head, line, "start")
               || line_has(head, line, "begin"));
}

static mr_status read_table(mr_ctx *ctx, const mr_args *args, mr_source *source,
                            mr_plan_task *out)
{
    reader r = {.ctx = ctx, .args = args, .task = out};
    r.csv = mr_csv_open(ctx, source);
    const mr_status status = read_rows(&r);
    mr_csv_close(r.csv);
    if (status == MR_OK || *ctx->failure.where) return status;
    return mr_fail_at(ctx, status, mr_source_name(source), "%s", ctx->failure.text);
}

static mr_status read_recording(mr_ctx *ctx, const mr_args *args, mr_plan_task *out)
{
    mr_scene *scene = MR_NEW(ctx, mr_scene);
    mr_schedule *once = MR_NEW(ctx, mr_schedule), *all = MR_NEW(ctx, mr_schedule);
    MR_TRY(mr_scene_read(ctx, args, scene));
    if (scene->cuda_device_count > 1)
        return mr_fail(ctx, MR_EUSAGE,
                       "a plan is of one device, '%s' has %" PRIu32
                       ": choose with --cuda-device",
                       scene->trace.name, scene->cuda_device_count);
    MR_TRY(mr_schedule_make(ctx, &scene->trace, scene->cuda_devices[0], once));
    mr_schedule_workspaces(ctx, &scene->trace, once);
    MR_TRY(mr_schedule_repeat(ctx, once, scene->iterations, all));
    if (scene->iterations > 1 && !all->history)
        mr_schedule_first_step(ctx, &scene->trace, all); /* as compare has it */
    MR_TRY(plan_listen(ctx, all, args->align, &out->problem));
    if (out->problem.buffers.n) return MR_OK;
    return mr_fail(ctx, MR_EINPUT, "'%s' asks for no memory: nothing to plan",
                   scene->trace.name);
}

mr_status mr_plan_read(mr_ctx *ctx, const mr_args *args, mr_plan_task *out)
{
    mr_source *source;
    *out = (mr_plan_task){0};
    MR_TRY(mr_source_open(ctx, args->words.at[0], &source));
    const bool table = is_table(source);
    const mr_status status = table ? read_table(ctx, args, source, out) : MR_OK;
    mr_source_close(source);
    if (!table) return read_recording(ctx, args, out);
    return mr_source_blame(ctx, args->words.at[0], status);
}
