/* table -- aligned columns for a terminal, Markdown, and fields of CSV and JSON. */
#include <string.h>

#include "report.h"

#define GAP 2 /* blanks between two columns */

/* Characters, not bytes, of UTF-8 text. */
static uint32_t width_of(const char *text, size_t n)
{
    uint32_t width = 0;
    for (size_t i = 0; i < n; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/* Line `line` of a text of several; *n is 0 when it has fewer. */
static const char *line_of(const char *text, uint32_t line, size_t *n)
{
    while (line > 0 && *text) {
        text += strcspn(text, "\n");
        if (*text) text++;
        line--;
    }
    *n = line ? 0 : strcspn(text, "\n");
    return text;
}

static uint32_t lines_in(const char *text)
{
    uint32_t n = 1;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static uint32_t widest_line(const char *text)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < lines_in(text); i++) {
        size_t n;
        const char *line = line_of(text, i, &n);
        const uint32_t width = width_of(line, n);
        if (width > widest) widest = width;
    }
    return widest;
}

static uint32_t *column_widths(mr_ctx *ctx, const mr_table *table)
{
    uint32_t *widths = MR_NEW_N(ctx, uint32_t, table->columns);
    for (uint32_t i = 0; i < table->columns; i++) widths[i] = widest_line(table->headings[i]);
    for (uint32_t i = 0; i < table->cells.n; i++) {
        const char *cell = table->cells.at[i];
        const uint32_t width = widest_line(cell);
        if (width > widths[i % table->columns]) widths[i % table->columns] = width;
    }
    return widths;
}

static bool is_left(const mr_table *table, uint32_t column)
{
    return table->left ? table->left[column] : column == 0;
}

/* One line of a row.  Blanks wait for the text behind them, so that no line ends with some. */
static void put_line(const mr_table *table, const uint32_t *widths, const char *const *cells,
                     const uint32_t *line, const char *indent, mr_sink *sink)
{
    uint32_t blanks = 0;
    mr_sink_print(sink, "%s", indent);
    for (uint32_t i = 0; i < table->columns; i++) {
        size_t n = 0;
        const char *text = line[i] == MR_NONE ? "" : line_of(cells[i], line[i], &n);
        const uint32_t pad = widths[i] - width_of(text, n);
        if (!is_left(table, i)) blanks += pad;
        if (n) {
            mr_sink_print(sink, "%*s", (int)blanks, "");
            mr_sink_write(sink, text, n);
            blanks = 0;
        }
        if (is_left(table, i)) blanks += pad;
        blanks += GAP;
    }
    mr_sink_print(sink, "\n");
}

/* A row is as high as its highest cell.  Headings stand at its bottom, other texts at its top.
 */
static void put_row(mr_ctx *ctx, const mr_table *table, const uint32_t *widths,
                    const char *const *cells, bool heading, const char *indent, mr_sink *sink)
{
    uint32_t *line = MR_NEW_N(ctx, uint32_t, table->columns), lines = 1;
    for (uint32_t i = 0; i < table->columns; i++)
        if (lines_in(cells[i]) > lines) lines = lines_in(cells[i]);
    for (uint32_t at = 0; at < lines; at++) {
        for (uint32_t i = 0; i < table->columns; i++) {
            const uint32_t above = heading ? lines - lines_in(cells[i]) : 0;
            line[i] = at < above ? MR_NONE : at - above;
        }
        put_line(table, widths, cells, line, indent, sink);
    }
}

static void put_rows(mr_ctx *ctx, const mr_table *table, const uint32_t *widths,
                     const char *indent, mr_sink *sink)
{
    for (uint32_t i = 0; i < table->cells.n; i += table->columns)
        put_row(ctx, table, widths, table->cells.at + i, false, indent, sink);
}

void mr_table_text(mr_ctx *ctx, const mr_table *table, const char *indent, mr_sink *sink)
{
    const uint32_t *widths = column_widths(ctx, table);
    put_row(ctx, table, widths, table->headings, true, indent, sink);
    put_rows(ctx, table, widths, indent, sink);
}

void mr_table_rows(mr_ctx *ctx, const mr_table *table, const char *indent, mr_sink *sink)
{
    put_rows(ctx, table, column_widths(ctx, table), indent, sink);
}

static void put_markdown(mr_sink *sink, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') mr_sink_print(sink, "\\");
        mr_sink_print(sink, "%c", *text == '\n' ? ' ' : *text);
    }
}

void mr_table_markdown(mr_ctx *ctx, const mr_table *table, mr_sink *sink)
{
    (void)ctx;
    for (uint32_t i = 0; i < table->columns; i++) {
        mr_sink_print(sink, i ? " | " : "| ");
        put_markdown(sink, table->headings[i]);
    }
    mr_sink_print(sink, " |\n");
    for (uint32_t i = 0; i < table->columns; i++)
        mr_sink_print(sink, "%s%s", i ? "" : "|", is_left(table, i) ? "---|" : "---:|");
    mr_sink_print(sink, "\n");
    for (uint32_t i = 0; i < table->cells.n; i++) {
        mr_sink_print(sink, i % table->columns ? " | " : "| ");
        put_markdown(sink, table->cells.at[i]);
        if (i % table->columns + 1 == table->columns) mr_sink_print(sink, " |\n");
    }
}

void mr_write_csv_field(mr_sink *sink, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        mr_sink_print(sink, "%s", text);
        return;
    }
    mr_sink_print(sink, "\"");
    for (; *text; text++) {
        if (*text == '"') mr_sink_write(sink, text, 1); /* a quote is written twice */
        mr_sink_write(sink, text, 1);
    }
    mr_sink_print(sink, "\"");
}

/* Names of files are bytes; JSON is UTF-8. */
void mr_write_json_string(mr_sink *sink, const char *text)
{
    mr_sink_print(sink, "\"");
    for (size_t n; *text; text += n ? n : 1) {
        const unsigned char c = (unsigned char)*text;
        n = mr_utf8_length(text);
        if (!n) mr_sink_print(sink, "\\ufffd");
        else if (c == '"' || c == '\\') mr_sink_print(sink, "\\%c", c);
        else if (c < 0x20) mr_sink_print(sink, "\\u%04x", c);
        else mr_sink_write(sink, text, n);
    }
    mr_sink_print(sink, "\"");
}

/* ---- folding ----------------------------------------------------------------------------- */

#define PAGE 92 /* last column of folded text */

const char *mr_fold(mr_ctx *ctx, const char *text, uint32_t column)
{
    const char *out = "";
    uint32_t used = column;
    while (*text) {
        const size_t n = strcspn(text, " ");
        const bool first = used == column;
        const bool next = !first && used + 1 + width_of(text, n) > PAGE;
        if (next) used = column;
        out = mr_printf(ctx, "%s%s%*s%.*s", out,
                        next    ? "\n"
                        : first ? ""
                                : " ",
                        next ? (int)column : 0, "", (int)n, text);
        used += (first || next ? 0 : 1) + width_of(text, n);
        text += n;
        while (*text == ' ') text++;
    }
    return out;
}
