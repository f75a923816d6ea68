/* trace_csv_words.h -- rows of our trace format without columns: the first, about, note, has,
 * the last (trace_csv_read.c). */
#ifndef MR_TRACE_CSV_WORDS_H
#define MR_TRACE_CSV_WORDS_H

#include "trace_cells.h"

mr_status mr_csv_about(mr_cells *cells, const mr_csv_row *row, mr_trace *trace);
mr_status mr_csv_note(mr_cells *cells, const mr_csv_row *row, mr_trace *trace);
/* *had: there was such a row already */
mr_status mr_csv_has(mr_cells *cells, const mr_csv_row *row, bool *had, mr_trace *trace);

/* ---- the first row and the last ---------------------------------------------------------- */

typedef struct mr_csv_end {
    bool announced, closed; /* the last row is, and was there */
    uint32_t open_step;     /* mark of a step that has not ended; MR_NONE for none */
} mr_csv_end;

mr_status mr_csv_first(mr_cells *cells, mr_csv_end *end);
/* `closed`, or what stands behind it. */
mr_status mr_csv_closed(mr_cells *cells, const mr_csv_row *row, mr_csv_end *end);
mr_status mr_csv_ended(mr_cells *cells, const mr_csv_end *end, const mr_trace *trace);

#endif
