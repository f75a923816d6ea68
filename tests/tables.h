/* tables.h -- CSV files of the project as rows, found by the name of a file in their first column. */
#ifndef TABLES_H
#define TABLES_H

#include "csv_reader.h"

#include <string.h>

typedef MR_VEC(mr_csv_row) rows;

static inline mr_csv_row kept(mr_ctx *ctx, const mr_csv_row *row)
{
    mr_csv_row copy = *row;
    for (uint32_t i = 0; i < row->n; i++)
        copy.at[i] = mr_strndup(ctx, row->at[i], row->length[i]);
    return copy;
}

/* All rows, the first being names of columns.  None when there is no such file. */
static inline rows read_table(mr_ctx *ctx, const char *path)
{
    rows all = {0};
    mr_source *source;
    const mr_csv_row *row;
    if (mr_source_open(ctx, path, &source)) return all;
    mr_csv *csv = mr_csv_open(ctx, source);
    while (!mr_csv_next(csv, &row) && row->n) MR_PUSH(ctx, &all, kept(ctx, row));
    mr_csv_close(csv);
    mr_source_close(source);
    return all;
}

static inline const mr_csv_row *row_of(const rows *table, const char *file)
{
    for (uint32_t r = 1; r < table->n; r++)
        if (!strcmp(table->at[r].at[0], file)) return &table->at[r];
    return NULL;
}

/* The field of the row for a file, "" when there is none. */
static inline const char *field(const rows *table, const char *file, const char *column)
{
    const mr_csv_row *row = row_of(table, file);
    for (uint32_t c = 0; row && c < row->n && c < table->at[0].n; c++)
        if (!strcmp(table->at[0].at[c], column)) return row->at[c];
    return "";
}

#endif
