/* trace_row_writer.h -- rows of our trace format, written from cells by the tables. */
#ifndef MR_TRACE_ROW_WRITER_H
#define MR_TRACE_ROW_WRITER_H

#include "sink.h"
#include "trace_rows.h"

typedef struct mr_row_writer {
    mr_ctx *ctx;
    mr_sink *sink;
    const mr_trace *trace; /* for the ids of streams and pools */
    MR_VEC(char) row;
    MR_VEC(char) field; /* being made */
    mr_cell cells[MR_COLUMN_N];
} mr_row_writer;

/* Writes the row from the cells of its columns.  What a reader would assume anyway is left out,
 * unless the cell says it is given; `skip` is always left out, MR_COLUMN_N for none. */
void mr_row_write(mr_row_writer *w, mr_row_kind kind, mr_column skip);

/* Rows of words and texts: one field after another, then the end. */
void mr_row_text(mr_row_writer *w, const char *text);
void mr_row_end(mr_row_writer *w);

#endif
