/* trace_csv_words.h -- the rows about, note and has of our trace format (trace_csv_read.c). */
#ifndef MR_TRACE_CSV_WORDS_H
#define MR_TRACE_CSV_WORDS_H

#include "trace_cells.h"

mr_status mr_csv_about(mr_cells *cells, const mr_csv_row *row, mr_trace *trace);
mr_status mr_csv_note(mr_cells *cells, const mr_csv_row *row, mr_trace *trace);
/* *had: there was such a row already */
mr_status mr_csv_has(mr_cells *cells, const mr_csv_row *row, bool *had, mr_trace *trace);

#endif
