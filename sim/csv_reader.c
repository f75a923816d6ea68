/* csv_reader -- libcsv fed line by line, so that every field has a line and a column.
 *
 * libcsv does not say where a field stood.  Within one line the number of a field does, and the
 * column is found by looking at the line again, which only a failure needs.  When a quoted
 * field goes on in the next line, the places of what this line holds are looked up before it
 * is gone.
 */
#include "csv_reader.h"

#include "lines.h"

#include <csv.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct place {
    uint64_t line, column;
} place;

struct mr_csv {
    mr_ctx *ctx;
    struct csv_parser parser;

    mr_lines line;
    bool inside; /* the line began inside a quoted field */
    bool ended;  /* the row has */

    mr_csv_row row;
    uint32_t begins[MR_CSV_FIELDS]; /* of fields, in text */
    uint32_t too_many;              /* fields beyond MR_CSV_FIELDS */
    MR_VEC(char) text;
    uint32_t earlier; /* fields that ended on an earlier line, and the places of those */
    place places[MR_CSV_FIELDS + 1];
};

/* RFC 4180 knows no space that may be left out; the CR before an LF is treated as one. */
static int is_carriage_return(unsigned char c)
{
    return c == CSV_CR;
}

static int is_line_feed(unsigned char c)
{
    return c == CSV_LF;
}

mr_csv *mr_csv_open(mr_ctx *ctx, mr_source *source)
{
    mr_csv *csv = MR_NEW(ctx, mr_csv);
    csv->ctx = ctx;
    csv->line = (mr_lines){.ctx = ctx, .source = source};
    csv_init(&csv->parser, CSV_STRICT);
    csv_set_space_func(&csv->parser, is_carriage_return);
    csv_set_term_func(&csv->parser, is_line_feed);
    csv_set_blk_size(&csv->parser, 4096); /* by so much its buffer grows at a time */
    return csv;
}

void mr_csv_close(mr_csv *csv)
{
    csv_free(&csv->parser);
}

/* ---- places ------------------------------------------------------------------------------ */

/* Column of the n-th field that ends in the current line or behind it, counted from 0. */
static uint64_t column_of(const mr_csv *csv, uint32_t n)
{
    bool quoted = csv->inside;
    for (size_t i = 0; n && i < csv->line.n; i++) {
        if (csv->line.at[i] == '"') quoted = !quoted;
        if (csv->line.at[i] == ',' && !quoted && !--n) return i + 2;
    }
    return n ? csv->line.n : 1;
}

static place place_of(const mr_csv *csv, uint32_t field)
{
    const bool kept = field < csv->earlier || (field == csv->earlier && csv->inside);
    if (kept) return csv->places[field];
    return (place){csv->line.number, column_of(csv, field - csv->earlier)};
}

/* Called at the end of a line that does not end its row. */
static void keep_places(mr_csv *csv)
{
    const uint32_t n = csv->row.n;
    for (uint32_t i = csv->earlier; i <= n; i++) csv->places[i] = place_of(csv, i);
    csv->earlier = n;
}

static mr_status fail_at(const mr_csv *csv, place at, const char *text)
{
    return mr_lines_fail(&csv->line, at.line, at.column, "%s", text);
}

mr_status mr_csv_fail(mr_csv *csv, uint32_t field, const char *format, ...)
{
    char text[sizeof csv->ctx->failure.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_at(csv, place_of(csv, field), text);
}

bool mr_csv_is_cut(const mr_csv *csv)
{
    return csv->line.n && csv->line.at[csv->line.n - 1] != '\n';
}

mr_status mr_csv_check_whole(mr_csv *csv)
{
    if (!mr_csv_is_cut(csv)) return MR_OK;
    return mr_csv_fail(csv, csv->row.n ? csv->row.n - 1 : 0,
                       "the last line has no line break: the file is cut off");
}

/* ---- rows -------------------------------------------------------------------------------- */

static void take_field(void *text, size_t n, void *self)
{
    mr_csv *csv = self;
    mr_csv_row *row = &csv->row;
    if (row->n == MR_CSV_FIELDS) {
        csv->too_many++;
        return;
    }
    const uint32_t begin = csv->text.n;
    MR_RESERVE_N(csv->ctx, &csv->text, begin + (uint32_t)n + 1);
    if (n) memcpy(csv->text.at + begin, text, n);
    csv->text.at[begin + n] = '\0';
    csv->text.n = begin + (uint32_t)n + 1;
    csv->begins[row->n] = begin;
    row->length[row->n++] = (uint32_t)n;
}

static void take_row(int end, void *self)
{
    (void)end;
    ((mr_csv *)self)->ended = true;
}

static mr_status feed_line(mr_csv *csv)
{
    csv->inside = csv->parser.pstate != 0;
    const mr_lines *line = &csv->line;
    const size_t done = csv_parse(&csv->parser, line->at, line->n, take_field, take_row, csv);
    if (done < line->n)
        return fail_at(csv, (place){line->number, done + 1},
                       "a quote or what follows it is out of place, expected quotes around a"
                       " whole field and each quote inside doubled");
    if (line->at[line->n - 1] != '\n') /* the last line may do without */
        csv_parse(&csv->parser, "\n", 1, take_field, take_row, csv);
    if (csv->too_many)
        return mr_csv_fail(csv, 0, "the row has %u fields, expected at most %d",
                           MR_CSV_FIELDS + csv->too_many, MR_CSV_FIELDS);
    const uint32_t n = csv->row.n;
    if (csv->parser.entry_pos > MR_LINE_LONGEST
        || (n && csv->row.length[n - 1] > MR_LINE_LONGEST))
        return mr_csv_fail(csv, csv->ended ? n - 1 : n,
                           "the field is longer than 1 MiB, expected a shorter one");
    return MR_OK;
}

mr_status mr_csv_next(mr_csv *csv, const mr_csv_row **row)
{
    csv->row.n = csv->text.n = csv->earlier = 0;
    csv->ended = false;
    *row = &csv->row;
    while (!csv->ended) {
        MR_TRY(mr_lines_next(&csv->line));
        if (!csv->line.n) {
            if (csv->parser.pstate == 0) return MR_OK;
            return fail_at(
                csv, csv->places[csv->row.n],
                "a quoted field begins here and does not end, expected a closing quote");
        }
        MR_TRY(feed_line(csv));
        if (!csv->ended) keep_places(csv);
    }
    for (uint32_t i = 0; i < csv->row.n; i++) csv->row.at[i] = csv->text.at + csv->begins[i];
    return MR_OK;
}
