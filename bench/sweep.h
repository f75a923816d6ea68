/* sweep.h -- suites: which traces, specs and devices to compute, and what is claimed of them.
 *
 * A suite is a text, read line by line; bench/suites/README.md is its manual.  Its cells are
 * computed on several threads, kept in their order, and held against its claims.
 */
#ifndef MR_SWEEP_H
#define MR_SWEEP_H

#include "commands.h"
#include "lines.h"
#include "names.h"
#include "report.h"

/* ---- what is computed -------------------------------------------------------------------- */

typedef struct mr_place { /* in the text of the suite, counted from 1; the file is known */
    uint64_t line, column;
} mr_place;

typedef struct mr_suite_trace {
    const char *name;
    const char *path; /* as it can be opened from where the program runs */
    mr_place place;
    uint32_t cuda_device, iterations;
    mr_trace trace;
} mr_suite_trace;

typedef struct mr_suite_spec {
    const char *name; /* NULL: it has none, its text names it */
    mr_spec spec;
} mr_suite_spec;

typedef struct mr_suite_device {
    mr_device device;
    uint64_t capacity; /* UINT64_MAX: no limit */
} mr_suite_device;

typedef struct mr_suite_cell {
    uint32_t trace, device, spec;
    bool done;
    mr_failure failure; /* its status is MR_OK when the cell could be computed */
    mr_metrics metrics;
} mr_suite_cell;

/* ---- what is claimed --------------------------------------------------------------------- */

/* What a number is a number of: bytes to this power times nanoseconds to that. */
typedef struct mr_dimension {
    int bytes, time;
} mr_dimension;

typedef enum mr_expr_kind {
    MR_EXPR_NUMBER,
    MR_EXPR_METRIC, /* of a cell */
    MR_EXPR_FITS,   /* 1 when a cell is computed to its end, 0 when it runs out of memory */
    MR_EXPR_STATIC, /* bytes of a trace that are there before the step and after it */
    MR_EXPR_PARAMETERS,
    MR_EXPR_ADD,
    MR_EXPR_SUBTRACT,
    MR_EXPR_MULTIPLY,
    MR_EXPR_DIVIDE,
    MR_EXPR_SAVING,   /* 1 - left / right */
    MR_EXPR_OVERHEAD, /* left / right - 1 */
    MR_EXPR_SQRT,
    MR_EXPR_MIN, /* of the left, over all cells that it may mean */
    MR_EXPR_MAX,
} mr_expr_kind;

typedef struct mr_expr mr_expr;
struct mr_expr {
    mr_expr_kind kind;
    mr_place place;
    mr_dimension dimension;
    double number;
    const mr_metric *metric;
    mr_ids specs;    /* of a cell: one, or several below MIN and MAX */
    uint32_t trace;  /* of the suite; MR_NONE: that of the set-up */
    uint32_t device; /* likewise */
    const mr_expr *left, *right;
};

typedef enum mr_relation {
    MR_LESS,
    MR_LESS_EQUAL,
    MR_MORE,
    MR_MORE_EQUAL,
    MR_EQUAL
} mr_relation;

/* One line `expect`: a chain a < b < c, a = b within c, or a between b and c, whose two
 * relations both are of a. */
typedef struct mr_expect {
    const char *text;
    bool between;
    bool decimal;  /* somebody wrote GB, so that is how bytes are shown */
    bool percent;  /* likewise of plain numbers */
    bool relative; /* `within` is a part of the right side */
    MR_VEC(const mr_expr *) values;
    MR_VEC(mr_relation) relations; /* one less */
    const mr_expr *within;         /* NULL: exactly */
    bool uses_trace, uses_device;  /* some value is of the trace, the device of the set-up */
    uint32_t trace, device;        /* else of these; MR_NONE: of none */
} mr_expect;

typedef struct mr_claim {
    const char *text;
    mr_ids traces; /* set-ups, each on every device */
    MR_VEC(mr_expect) expects;
} mr_claim;

/* An expectation in one set-up. */
typedef struct mr_finding {
    uint32_t claim, expect, trace, device;
    bool known, holds;
    const char *why;  /* not known: the reason of the cell that lacks */
    double values[3]; /* the first of them */
} mr_finding;

typedef enum mr_verdict { MR_CONFIRMED, MR_CONDITIONAL, MR_REFUTED, MR_UNDECIDED } mr_verdict;

/* ---- the suite --------------------------------------------------------------------------- */

typedef struct mr_group {
    const char *name;
    bool of_traces; /* else of specs */
    mr_ids members;
} mr_group;

typedef struct mr_suite {
    const char *path, *title;
    mr_words notes;
    MR_VEC(mr_suite_trace) traces;
    MR_VEC(mr_suite_spec) specs;
    MR_VEC(mr_suite_device) devices;
    MR_VEC(mr_group) groups;
    MR_VEC(mr_suite_cell) cells; /* by trace, device and spec as the suite names them */
    MR_VEC(mr_claim) claims;
    MR_VEC(mr_finding) findings;
    uint32_t *cell_of; /* by (trace * devices + device) * specs + spec; MR_NONE: not computed */
    bool device_assumed;
    uint32_t iterations; /* of all traces; 0: what is usual for each */
    uint64_t seed;
    const char *tf32;
    uint64_t hash; /* of the suite's text, of all recordings, and of the program */
} mr_suite;

/* MR_EINPUT at file:line:column for whatever is wrong with it.  Reads the recordings too. */
mr_status mr_suite_read(mr_ctx *ctx, const char *path, mr_suite *out);

/* "1 iteration", "3 iterations, of which ..." */
const char *mr_suite_iterations(mr_ctx *ctx, const mr_suite *suite);

/* An expectation, from what stands behind the word `expect` of a line, at `place`.  What it
 * refers to must be cells of the suite, for all traces of the claim. */
mr_status mr_expect_parse(mr_ctx *ctx, const mr_lines *lines, const mr_suite *suite,
                          const mr_claim *claim, const char *text, mr_place place,
                          mr_expect *out);

/* By name, or a spec's own text; MR_NONE when the suite has no such. */
uint32_t mr_suite_trace_named(const mr_suite *suite, const char *name);
uint32_t mr_suite_spec_named(mr_ctx *ctx, const mr_suite *suite, const char *name);
uint32_t mr_suite_spec_with(const mr_suite *suite, const char *text); /* canonical */
const mr_group *mr_suite_group_named(const mr_suite *suite, const char *name);
uint32_t mr_suite_device_named(const mr_suite *suite, const char *name);
const mr_suite_cell *mr_suite_cell_at(const mr_suite *suite, uint32_t trace, uint32_t device,
                                      uint32_t spec);

/* Computes what is not done yet.  `output` is the file that the cells will be written to, or
 * NULL: beside it, finished cells are kept until all are done, and found again. */
mr_status mr_suite_compute(mr_ctx *ctx, mr_suite *suite, const char *output, uint32_t jobs);
/* What a cell asks. */
mr_question mr_suite_question(const mr_suite *suite, const mr_suite_cell *cell);
void mr_suite_judge(mr_ctx *ctx, mr_suite *suite);
mr_verdict mr_claim_verdict(const mr_suite *suite, uint32_t claim);

/* ---- finished cells in a file ------------------------------------------------------------ */

typedef struct mr_kept mr_kept;

/* Takes over what an earlier run of the same suite, recordings and program has left beside
 * `output`, and begins to add to it. */
mr_status mr_kept_open(mr_ctx *ctx, mr_suite *suite, const char *output, mr_kept **out);
/* The next cell in order; errors wait until close. */
void mr_kept_add(mr_kept *kept, const mr_suite_cell *cell);
mr_status mr_kept_close(mr_kept *kept);
/* When the results are written. */
void mr_kept_remove(mr_ctx *ctx, const char *output);

/* ---- how it is shown --------------------------------------------------------------------- */

/* "fits", "OOM", "refused" or "failed" */
const char *mr_cell_result(const mr_suite_cell *cell);

/* Columns before the metrics; behind them stands the reason of a cell that has none. */
enum { MR_CELL_COLUMNS = 11 };

/* Lines of a CSV file, with their ends. */
const char *mr_cell_heading(mr_ctx *ctx);
const char *mr_cell_row(mr_ctx *ctx, const mr_suite *suite, const mr_suite_cell *cell);

void mr_report_cells_csv(mr_ctx *ctx, const mr_suite *suite, mr_sink *sink);
void mr_report_cells(mr_ctx *ctx, const mr_suite *suite, bool markdown, mr_sink *sink);

/* `format` is table, md or csv. */
void mr_report_verdicts(mr_ctx *ctx, const mr_suite *suite, const char *format, mr_sink *sink);
const char *mr_verdict_name(mr_verdict verdict);

#endif
