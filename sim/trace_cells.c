/* trace_cells -- fields become cells: numbers, words, ids of things known, lists of them. */
#include "trace_cells.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- ids --------------------------------------------------------------------------------- */

uint32_t mr_ids_find(const mr_id_book *book, uint64_t id)
{
    if (book->sparse) return mr_names_find(&book->names, &id, sizeof id);
    return id < book->n ? (uint32_t)id : MR_NONE;
}

bool mr_ids_add(mr_ctx *ctx, mr_id_book *book, uint64_t id)
{
    if (!book->sparse && id != book->n) {
        if (id < book->n) return false;
        for (uint64_t i = 0; i < book->n; i++) mr_names_add(ctx, &book->names, &i, sizeof i);
        book->sparse = true;
    }
    if (book->sparse && mr_names_add(ctx, &book->names, &id, sizeof id) != book->n)
        return false;
    book->n++;
    return true;
}

void mr_cells_begin(mr_cells *cells, mr_ctx *ctx, mr_csv *csv)
{
    cells->ctx = ctx;
    cells->csv = csv;
    mr_ids_add(ctx, &cells->books[MR_THING_stream], 0); /* the default stream and pool */
    mr_ids_add(ctx, &cells->books[MR_THING_pool], 0);
}

mr_status mr_cells_fail(mr_cells *cells, mr_column column, const char *format, ...)
{
    char text[sizeof cells->ctx->failure.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const uint32_t field = cells->at[column].given ? cells->fields[column] : 0;
    return mr_csv_fail(cells->csv, field, "%s", text);
}

/* ---- one value --------------------------------------------------------------------------- */

/* Decimal digits up to `end`, nothing else. */
static bool to_number(const char *text, const char *end, uint64_t *out)
{
    uint64_t number = 0;
    if (text == end) return false;
    for (; text < end; text++) {
        const unsigned digit = (unsigned)(unsigned char)*text - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

static mr_status bad(mr_cells *cells, mr_column column, const char *text, const char *expected)
{
    const int shown = 60; /* characters of a long field */
    return mr_cells_fail(cells, column, "%s is '%.*s', expected %s", mr_columns[column].name,
                         shown, text, expected);
}

static mr_status bad_number(mr_cells *cells, mr_column column, const char *text)
{
    const uint64_t max = mr_columns[column].max ? mr_columns[column].max : UINT64_MAX;
    return bad(cells, column, text,
               mr_printf(cells->ctx, "a whole number of at most %" PRIu64, max));
}

static mr_status find_thing(mr_cells *cells, mr_column column, const char *text,
                            const char *end, uint32_t *index)
{
    const mr_thing thing = mr_columns[column].thing;
    uint64_t id;
    if (!to_number(text, end, &id)) return bad_number(cells, column, text);
    *index = mr_ids_find(&cells->books[thing], id);
    if (*index != MR_NONE) return MR_OK;
    return mr_cells_fail(cells, column,
                         "%s %" PRIu64 " is not known here, expected a row before"
                         " that declares it",
                         mr_thing_name(thing), id);
}

static mr_status read_thing(mr_cells *cells, mr_column column, const char *text, size_t n)
{
    uint32_t index = MR_NONE;
    if (strcmp(text, "none") != 0) MR_TRY(find_thing(cells, column, text, text + n, &index));
    cells->at[column].number = index;
    return MR_OK;
}

static mr_status read_word(mr_cells *cells, mr_column column, const char *text)
{
    const mr_column_info *info = &mr_columns[column];
    for (uint64_t i = 0; i <= info->max; i++)
        if (!strcmp(info->word(i), text)) {
            cells->at[column].number = i;
            return MR_OK;
        }
    const char *all = info->word(0);
    for (uint64_t i = 1; i <= info->max; i++)
        all =
            mr_printf(cells->ctx, "%s%s%s", all, i < info->max ? ", " : " or ", info->word(i));
    return bad(cells, column, text, all);
}

/* ---- lists ------------------------------------------------------------------------------- */

static uint32_t count_parts(const char *text, size_t n, char separator)
{
    if (!n) return 0;
    uint32_t parts = 1;
    for (size_t i = 0; i < n; i++) parts += text[i] == separator;
    return parts;
}

/* The end of the part that begins here. */
static const char *part_end(const char *part, const char *end, char separator)
{
    const char *at = memchr(part, separator, (size_t)(end - part));
    return at ? at : end;
}

static mr_status read_list(mr_cells *cells, mr_column column, const char *text, size_t n)
{
    mr_ids *ids = &cells->at[column].ids;
    *ids = (mr_ids){NULL, count_parts(text, n, ' ')};
    if (ids->n) ids->at = MR_NEW_N(cells->ctx, uint32_t, ids->n);
    const char *part = text, *end = text + n;
    for (uint32_t i = 0; i < ids->n; i++) {
        const char *stop = part_end(part, end, ' ');
        MR_TRY(find_thing(cells, column, part, stop, &ids->at[i]));
        part = stop + 1;
    }
    return MR_OK;
}

static mr_status read_saved(mr_cells *cells, mr_column column, const char *text, size_t n)
{
    const uint32_t count = count_parts(text, n, ' ');
    mr_saved *at = count ? MR_NEW_N(cells->ctx, mr_saved, count) : NULL;
    const char *part = text, *end = text + n;
    for (uint32_t i = 0; i < count; i++) {
        const char *stop = part_end(part, end, ' '), *colon = part_end(part, stop, ':');
        MR_TRY(find_thing(cells, column, part, colon, &at[i].tensor));
        const char *word = colon + (colon < stop);
        const size_t length = (size_t)(stop - word);
        uint64_t as = 0;
        while (as <= MR_SAVED_MASK && (strlen(mr_saved_word(as)) != length
                                       || memcmp(mr_saved_word(as), word, length) != 0))
            as++;
        if (as > MR_SAVED_MASK)
            return bad(cells, column, part, "ID:input, ID:output or ID:mask");
        at[i].as = (mr_saved_as)as;
        part = stop + 1;
    }
    cells->at[column].saved.at = at;
    cells->at[column].saved.n = count;
    return MR_OK;
}

static mr_status read_shape(mr_cells *cells, mr_column column, const char *text, size_t n)
{
    const uint32_t rank = count_parts(text, n, 'x');
    uint64_t *at = rank ? MR_NEW_N(cells->ctx, uint64_t, rank) : NULL;
    const char *part = text, *end = text + n;
    for (uint32_t i = 0; i < rank; i++) {
        const char *stop = part_end(part, end, 'x');
        if (!to_number(part, stop, &at[i]))
            return bad(cells, column, text,
                       "whole numbers with x between them, such as 32x128");
        part = stop + 1;
    }
    cells->at[column].shape.at = at;
    cells->at[column].shape.n = rank;
    return MR_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

static void clear(mr_cells *cells, mr_column column)
{
    const mr_column_info *info = &mr_columns[column];
    mr_cell *cell = &cells->at[column];
    *cell = (mr_cell){.number = info->missing};
    if (info->type == MR_CELL_TEXT) cell->text = "";
}

static const char *kept(mr_cells *cells, const char *text, size_t n)
{
    const uint32_t i = mr_names_add(cells->ctx, &cells->texts, text, n);
    return cells->texts.all.at[i].text;
}

static mr_status read_value(mr_cells *cells, mr_column column, uint32_t field, const char *text,
                            size_t n)
{
    const mr_column_info *info = &mr_columns[column];
    mr_cell *cell = &cells->at[column];
    if (cell->given)
        return mr_csv_fail(cells->csv, field, "%s is given twice, expected it once",
                           info->name);
    cell->given = true;
    cells->fields[column] = field;
    switch (info->type) {
    case MR_CELL_NUMBER:
        if (!to_number(text, text + n, &cell->number) || cell->number > info->max)
            return bad_number(cells, column, text);
        return MR_OK;
    case MR_CELL_TEXT: cell->text = kept(cells, text, n); return MR_OK;
    case MR_CELL_FLAG: cell->number = 1; return MR_OK;
    case MR_CELL_WORD: return read_word(cells, column, text);
    case MR_CELL_THING: return read_thing(cells, column, text, n);
    case MR_CELL_LIST: return read_list(cells, column, text, n);
    case MR_CELL_SAVED: return read_saved(cells, column, text, n);
    case MR_CELL_SHAPE: return read_shape(cells, column, text, n);
    }
    return MR_OK;
}

/* A number where one may stand without a name. */
static bool is_negative(const mr_row_info *info, uint32_t field, const char *text)
{
    return field > info->fixed && field <= info->fixed + info->bare && text[0] == '-'
           && text[1] >= '0' && text[1] <= '9';
}

static mr_status unknown_column(mr_cells *cells, const mr_row_info *info, uint32_t field)
{
    const char *all = "";
    if (is_negative(info, field, cells->row->at[field]))
        return mr_csv_fail(cells->csv, field, "%s is '%.60s', which is negative, expected a "
                                              "whole number from 0 on",
                           mr_columns[info->columns[field - 1]].name, cells->row->at[field]);
    for (uint32_t c = info->fixed; c < info->n; c++) {
        const mr_column_info *column = &mr_columns[info->columns[c]];
        all = mr_printf(cells->ctx, "%s%s%s%s", all, *all ? ", " : "", column->name,
                        column->type == MR_CELL_FLAG ? "" : "=");
    }
    return mr_csv_fail(cells->csv, field, "'%.60s' is no column of %s, expected %s%s",
                       cells->row->at[field], info->name,
                       *all ? "one of " : "the end of the row", all);
}

static mr_status read_named(mr_cells *cells, const mr_row_info *info, uint32_t field)
{
    const char *text = cells->row->at[field], *equals = strchr(text, '=');
    const size_t n = equals ? (size_t)(equals - text) : cells->row->length[field];
    for (uint32_t c = info->fixed; c < info->n; c++) {
        const mr_column column = info->columns[c];
        const char *name = mr_columns[column].name;
        if (name[0] != text[0] || strncmp(name, text, n) != 0 || name[n]) continue;
        if ((mr_columns[column].type == MR_CELL_FLAG) != !equals) break;
        const char *value = equals ? equals + 1 : "";
        const size_t before = equals ? n + 1 : n;
        return read_value(cells, column, field, value, cells->row->length[field] - before);
    }
    return unknown_column(cells, info, field);
}

static mr_status too_short(mr_cells *cells, const mr_row_info *info)
{
    const char *all = info->name;
    for (uint32_t c = 0; c < info->fixed; c++)
        all = mr_printf(cells->ctx, "%s,%s", all, mr_columns[info->columns[c]].name);
    return mr_csv_fail(cells->csv, 0, "the row has %s, expected %s",
                       mr_show_count(cells->ctx, cells->row->n, "field", "fields"), all);
}

static mr_status kind_of(mr_cells *cells, mr_row_kind *kind)
{
    const char *word = cells->row->at[0];
    for (int k = 0; k < MR_ROW_N; k++)
        if (mr_rows[k].name[0] == word[0] && !strcmp(mr_rows[k].name, word)) {
            *kind = (mr_row_kind)k;
            return MR_OK;
        }
    return mr_csv_fail(cells->csv, 0, "unknown kind of row '%.60s', expected one of version %d"
                                      " of the format, such as op, alloc or free",
                       word, MR_TRACE_VERSION);
}

mr_status mr_cells_read(mr_cells *cells, const mr_csv_row *row, mr_row_kind *kind)
{
    cells->row = row;
    MR_TRY(kind_of(cells, kind));
    const mr_row_info *info = &mr_rows[*kind];
    for (uint32_t c = 0; c < info->n; c++) clear(cells, info->columns[c]);
    if (row->n <= info->fixed) return too_short(cells, info);
    uint32_t field = 1;
    for (; field <= info->fixed; field++)
        MR_TRY(read_value(cells, info->columns[field - 1], field, row->at[field],
                          row->length[field]));
    for (uint32_t c = 0; c < info->bare && field < row->n; c++, field++) {
        const char *text = row->at[field];
        if (*text < '0' || *text > '9') break;
        MR_TRY(
            read_value(cells, info->columns[info->fixed + c], field, text, row->length[field]));
    }
    for (; field < row->n; field++) MR_TRY(read_named(cells, info, field));
    return MR_OK;
}
