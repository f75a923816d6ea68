/* csv_reader.h -- rows of a CSV file (RFC 4180), one at a time, each field with its place.
 *
 * Malformed quoting, NUL bytes, lines and fields of more than 1 MiB and rows of more than
 * MR_CSV_FIELDS fields are errors.  Blank lines are skipped; a line may end with LF or CR LF.
 */
#ifndef MR_CSV_READER_H
#define MR_CSV_READER_H

#include "source.h"

#define MR_CSV_FIELDS 64

typedef struct mr_csv mr_csv;

typedef struct mr_csv_row {
    uint32_t n;
    const char *at[MR_CSV_FIELDS]; /* each ends with 0; valid until the next row */
    uint32_t length[MR_CSV_FIELDS];
} mr_csv_row;

mr_csv *mr_csv_open(mr_ctx *ctx, mr_source *source);
void mr_csv_close(mr_csv *csv); /* always, else memory of libcsv is lost */

/* The next row; n is 0 at the end of the file. */
mr_status mr_csv_next(mr_csv *csv, const mr_csv_row **row);

/* Did the row read last end with the file, without a line break?  Text that a program writes ends
 * with one: what does not has lost its end. */
bool mr_csv_is_cut(const mr_csv *csv);
mr_status mr_csv_check_whole(mr_csv *csv); /* MR_EINPUT when it did */

/* MR_EINPUT at file:line:column of a field of the row that was read last. */
mr_status mr_csv_fail(mr_csv *csv, uint32_t field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
