/* trace_cells.h -- the fields of one row of our trace format as cells, by the tables. */
#ifndef MR_TRACE_CELLS_H
#define MR_TRACE_CELLS_H

#include "csv_reader.h"
#include "names.h"
#include "trace_rows.h"

/* Ids as a file writes them.  As long as they count up from 0, nothing has to be remembered. */
typedef struct mr_id_book {
    uint32_t n;
    bool sparse;
    mr_names names; /* the ids' 8 bytes, once they are sparse */
} mr_id_book;

uint32_t mr_ids_find(const mr_id_book *book, uint64_t id); /* its number, or MR_NONE */
bool mr_ids_add(mr_ctx *ctx, mr_id_book *book, uint64_t id); /* false: it is there already */

typedef struct mr_cells {
    mr_ctx *ctx;
    mr_csv *csv;
    const mr_csv_row *row;
    mr_names texts; /* each is kept once */
    mr_id_book books[MR_THING_N];
    mr_cell at[MR_COLUMN_N];
    uint32_t fields[MR_COLUMN_N]; /* of the row: where a given cell stands */
} mr_cells;

void mr_cells_begin(mr_cells *cells, mr_ctx *ctx, mr_csv *csv);

/* Tells the kind of the row and fills the cells of its columns; others keep what they had. */
mr_status mr_cells_read(mr_cells *cells, const mr_csv_row *row, mr_row_kind *kind);

/* MR_EINPUT at the place of the column, or of the row where the column is left out. */
mr_status mr_cells_fail(mr_cells *cells, mr_column column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
