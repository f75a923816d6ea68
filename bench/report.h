/* report.h -- how things are shown: numbers with units, tables, failures, progress. */
#ifndef MR_REPORT_H
#define MR_REPORT_H

#include <stdio.h>

#include "metrics.h"
#include "sink.h"

/* ---- numbers ----------------------------------------------------------------------------- */

/* "512 B", "2.00 MiB", "1.50 GiB": binary units, two decimals. */
const char *mr_show_bytes(mr_ctx *ctx, uint64_t bytes);
const char *mr_show_ns(mr_ctx *ctx, uint64_t ns); /* "12 ns", "861 us", "3.83 ms", "1.20 s" */
const char *mr_show_value(mr_ctx *ctx, mr_unit unit, uint64_t value);

/* A step that did not come to its end took no time that could be told. */
bool mr_is_told(const mr_failure *failure, const mr_metrics *metrics, const mr_metric *metric);

/* How a cell came out, in a word: fits, OOM, refused (the strategy will not do this to the
 * recording) or failed. */
const char *mr_show_result(const mr_failure *failure, const mr_metrics *metrics);

/* How the cells of a sweep begin as CSV. */
#define MR_RESULTS_BEGIN "trace,file,spec,device,"

/* A long spec on several lines, cut behind a comma, a plus or the slash. */
const char *mr_show_spec(mr_ctx *ctx, const char *text);

/* A sink for what people read: nothing that a recording holds moves their terminal's cursor. */
mr_status mr_report_open(mr_ctx *ctx, const char *path, mr_sink **out);

/* ---- tables ------------------------------------------------------------------------------ */

/* Cells are texts; the first column is aligned left, numbers are aligned right.  A heading may
 * have several lines, separated by '\n', and so may a cell of text. */
typedef struct mr_table {
    uint32_t columns;
    const char *const *headings;
    const bool *left; /* per column; NULL: only the first */
    MR_VEC(const char *) cells; /* row by row */
} mr_table;

void mr_table_text(mr_ctx *ctx, const mr_table *table, const char *indent, mr_sink *sink);
void mr_table_rows(mr_ctx *ctx, const mr_table *table, const char *indent,
                   mr_sink *sink); /* without headings */
void mr_table_markdown(mr_ctx *ctx, const mr_table *table, mr_sink *sink);

/* The text cut into lines between words, to be printed from this column on. */
const char *mr_fold(mr_ctx *ctx, const char *text, uint32_t column);

/* A name on one line: line breaks, tabs and what else moves a terminal's cursor are escaped as
 * C does it. */
const char *mr_show_name(mr_ctx *ctx, const char *name);

/* Text as a field of CSV (RFC 4180) and as a string of JSON, quotes included. */
void mr_write_csv_field(mr_sink *sink, const char *text);
void mr_write_json_string(mr_sink *sink, const char *text);

/* ---- storages ---------------------------------------------------------------------------- */

typedef struct mr_makers mr_makers; /* an index of who made what */
mr_makers *mr_makers_new(mr_ctx *ctx, const mr_trace *trace);
/* Who asked for it, in a few words: a line of the user's program, a tensor's name, an op. */
const char *mr_show_maker(mr_ctx *ctx, const mr_makers *makers, uint32_t storage);
/* "blocks.7.mlp" -> "blocks.*.mlp": layers of a stack are told apart by numbers. */
const char *mr_without_numbers(mr_ctx *ctx, const char *text);
/* The frames of who asked for it, a line each; nothing when there are none. */
void mr_write_frames(const mr_trace *trace, uint32_t storage, uint32_t most, const char *indent,
                     mr_sink *sink);

/* ---- failures and progress --------------------------------------------------------------- */

/* "memreuse: file:3:7: sentence", or the sentence and the words it is about underlined. */
void mr_report_failure(FILE *stream, const mr_failure *failure);

/* Shows on a terminal how far the work is, once it has taken more than a second.  Several
 * contexts may be watched together: each does one of `parts` equal parts of it. */
typedef struct mr_watch mr_watch;
mr_watch *mr_watch_new(mr_ctx *ctx, uint32_t parts);
void mr_watch_attach(mr_watch *watch, mr_ctx *ctx, uint32_t part, const char *label);
void mr_watch_done(mr_watch *watch, uint32_t part); /* its context is watched no longer */
void mr_watch_finish(mr_watch *watch); /* wipes the line */

#endif
