/* trace_row_writer -- cells become the fields of a row. */
#include "trace_row_writer.h"

#include <csv.h>
#include <string.h>

/* ---- fields ------------------------------------------------------------------------------ */

static void put(mr_row_writer *w, const char *text, size_t n)
{
    MR_RESERVE_N(w->ctx, &w->field, w->field.n + (uint32_t)n);
    if (n) memcpy(w->field.at + w->field.n, text, n);
    w->field.n += (uint32_t)n;
}

static void put_text(mr_row_writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_number(mr_row_writer *w, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(w, digits + at, sizeof digits - at);
}

static bool needs_quotes(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r') return true;
    return false;
}

/* Appends the field to the row, in quotes where it must be. */
static void end_field(mr_row_writer *w)
{
    const char *field = w->field.at;
    const size_t n = w->field.n, most = needs_quotes(field, n) ? 2 * n + 2 : n;
    MR_RESERVE_N(w->ctx, &w->row, w->row.n + (uint32_t)most + 1);
    char *to = w->row.at + w->row.n;
    if (w->row.n) *to++ = ',';
    if (most != n) to += csv_write(to, most, field, n);
    else if (n) to = (char *)memcpy(to, field, n) + n;
    w->row.n = (uint32_t)(to - w->row.at);
    w->field.n = 0;
}

void mr_row_text(mr_row_writer *w, const char *text)
{
    put_text(w, text);
    end_field(w);
}

void mr_row_end(mr_row_writer *w)
{
    MR_PUSH(w->ctx, &w->row, '\n');
    mr_sink_write(w->sink, w->row.at, w->row.n);
    w->row.n = 0;
}

/* ---- cells ------------------------------------------------------------------------------- */

static uint64_t id_of(const mr_row_writer *w, mr_thing thing, uint32_t index)
{
    if (thing == MR_THING_stream) return w->trace->streams.at[index];
    if (thing == MR_THING_pool) return w->trace->pools.at[index];
    return index;
}

static void put_cell(mr_row_writer *w, mr_column column)
{
    const mr_column_info *info = &mr_columns[column];
    const mr_cell *cell = &w->cells[column];
    switch (info->type) {
    case MR_CELL_FLAG: break;
    case MR_CELL_NUMBER: put_number(w, cell->number); break;
    case MR_CELL_TEXT: put_text(w, cell->text); break;
    case MR_CELL_WORD: put_text(w, info->word(cell->number)); break;
    case MR_CELL_THING:
        if (cell->number == MR_NONE) put_text(w, "none");
        else put_number(w, id_of(w, info->thing, (uint32_t)cell->number));
        break;
    case MR_CELL_LIST:
        for (uint32_t i = 0; i < cell->ids.n; i++) {
            if (i) put(w, " ", 1);
            put_number(w, cell->ids.at[i]);
        }
        break;
    case MR_CELL_SAVED:
        for (uint32_t i = 0; i < cell->saved.n; i++) {
            if (i) put(w, " ", 1);
            put_number(w, cell->saved.at[i].tensor);
            put(w, ":", 1);
            put_text(w, mr_saved_word(cell->saved.at[i].as));
        }
        break;
    case MR_CELL_SHAPE:
        for (uint32_t i = 0; i < cell->shape.n; i++) {
            if (i) put(w, "x", 1);
            put_number(w, cell->shape.at[i]);
        }
        break;
    }
}

/* Is there anything to say, or is it what a reader takes it for when it is left out? */
static bool is_given(const mr_cell *cell, const mr_column_info *info)
{
    switch (info->type) {
    case MR_CELL_TEXT: return *cell->text;
    case MR_CELL_LIST: return cell->ids.n;
    case MR_CELL_SAVED: return cell->saved.n;
    case MR_CELL_SHAPE: return cell->shape.n;
    default: return cell->number != info->missing;
    }
}

void mr_row_write(mr_row_writer *w, mr_row_kind kind, mr_column skip)
{
    const mr_row_info *info = &mr_rows[kind];
    mr_row_text(w, info->name);
    for (uint32_t c = 0; c < info->n; c++) {
        const mr_column column = info->columns[c];
        const mr_column_info *about = &mr_columns[column];
        if (c >= info->fixed) {
            if (column == skip) continue;
            if (!w->cells[column].given && !is_given(&w->cells[column], about)) continue;
            if (c >= info->fixed + info->bare) {
                put_text(w, about->name);
                if (about->type != MR_CELL_FLAG) put(w, "=", 1);
            }
        }
        put_cell(w, column);
        end_field(w);
    }
    mr_row_end(w);
}
