/* fidelity -- the cells of a suite carried out on a GPU of this machine, beside what was
 * predicted for them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measured.h"
#include "sweep.h"

typedef struct outcome {
    bool tried, measured;
    mr_metrics metrics;
    mr_failure failure; /* why it was not measured, where that was tried */
} outcome;

typedef struct fidelity {
    const mr_suite *suite;
    mr_manner manner;
    outcome *outcomes; /* by cell */
} fidelity;

/* ---- measuring --------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What failed may have left the context useless. */
static void measure_cell(const fidelity *f, mr_kept *kept, uint32_t i)
{
    mr_ctx ctx = {.seed = f->suite->seed};
    outcome *o = &f->outcomes[i];
    const mr_question question = mr_suite_question(f->suite, &f->suite->cells.at[i]);
    o->tried = true;
    if (mr_carry_out(&ctx, &question, &f->manner, &o->measured, &o->metrics))
        o->failure = ctx.failure;
    mr_ctx_clear(&ctx);
    if (!o->failure.status) return;
    mr_let_go(kept);
    mr_keep(kept, question.device, f->manner.gpu);
}

/* Only what is predicted to pass; no cell is begun when the time is over. */
static void measure(const fidelity *f, double begin, uint64_t limit)
{
    mr_kept kept = {0};
    mr_keep(&kept, &f->suite->devices.at[0].device, f->manner.gpu);
    for (uint32_t i = 0; i < f->suite->cells.n && !mr_signal_waits(); i++) {
        const mr_suite_cell *cell = &f->suite->cells.at[i];
        if (limit && seconds() - begin > (double)limit) break;
        if (!cell->failure.status && !cell->metrics.refusals) measure_cell(f, &kept, i);
    }
    mr_let_go(&kept);
}

/* ---- tables ------------------------------------------------------------------------------ */

static mr_measureds rows_of(mr_ctx *ctx, const fidelity *f, uint32_t trace, uint32_t device)
{
    mr_measureds rows = {0};
    for (uint32_t i = 0; i < f->suite->cells.n; i++) {
        const mr_suite_cell *cell = &f->suite->cells.at[i];
        if (cell->trace != trace || cell->device != device || !f->outcomes[i].measured)
            continue;
        MR_PUSH(ctx, &rows,
                (mr_measured){f->suite->specs.at[cell->spec].spec.text, &cell->metrics,
                              &f->outcomes[i].metrics});
    }
    return rows;
}

static void put_tables(mr_ctx *ctx, const fidelity *f, bool markdown, mr_sink *sink)
{
    const mr_suite *suite = f->suite;
    for (uint32_t t = 0; t < suite->traces.n; t++)
        for (uint32_t d = 0; d < suite->devices.n; d++) {
            const mr_measureds rows = rows_of(ctx, f, t, d);
            if (!rows.n) continue;
            mr_sink_print(sink, "%s%s: measured on %s; predicted for %s\n\n",
                          markdown ? "### " : "", suite->traces.at[t].name,
                          mr_show_manner(ctx, &f->manner), suite->devices.at[d].device.name);
            mr_report_measureds(ctx, &rows, markdown, sink);
            mr_sink_print(sink, "\n");
        }
}

/* ---- all of it in a few numbers ---------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct summary {
    uint32_t cells, left, peaks; /* measured, not begun, of these with a peak within a page */
    MR_VEC(double) off;          /* of times, without sign */
} summary;

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static summary sum_up(mr_ctx *ctx, const fidelity *f)
{
    summary s = {0};
    for (uint32_t i = 0; i < f->suite->cells.n; i++) {
        const mr_suite_cell *cell = &f->suite->cells.at[i];
        const outcome *o = &f->outcomes[i];
        const uint64_t page = f->suite->devices.at[cell->device].device.granularity;
        if (!cell->failure.status && !cell->metrics.refusals && !o->tried) s.left++;
        if (!o->measured) continue;
        s.cells++;
        if (distance(cell->metrics.peak_device, o->metrics.peak_device) <= page) s.peaks++;
        if (!o->metrics.time || !cell->metrics.time) continue;
        const double error = (double)cell->metrics.time / (double)o->metrics.time - 1;
        MR_PUSH(ctx, &s.off, error < 0 ? -error : error);
    }
    if (s.off.n) qsort(s.off.at, s.off.n, sizeof *s.off.at, by_size);
    return s;
}

static void put_summary(mr_ctx *ctx, const fidelity *f, mr_sink *sink)
{
    const summary s = sum_up(ctx, f);
    mr_sink_print(sink, "%s measured, %" PRIu32 " of their peaks within a page of the prediction",
                  mr_show_count(ctx, s.cells, "cell", "cells"), s.peaks);
    if (s.off.n && f->manner.compute == MR_COMPUTE_FULL && !f->manner.verify)
        mr_sink_print(sink, "; times are off by %.1f %% in the median, %.1f %% at the most",
                      100 * s.off.at[s.off.n / 2], 100 * s.off.at[s.off.n - 1]);
    mr_sink_print(sink, ".\n");
    if (s.left)
        mr_sink_print(sink, "There was no time left for %s.\n",
                      mr_show_count(ctx, s.left, "cell", "cells"));
}

/* ---- CSV --------------------------------------------------------------------------------- */

static const char *without_end(mr_ctx *ctx, const char *line)
{
    return mr_printf(ctx, "%.*s", (int)strcspn(line, "\n"), line);
}

static void put_csv(mr_ctx *ctx, const fidelity *f, mr_sink *sink)
{
    mr_sink_print(sink, "%s", without_end(ctx, mr_cell_heading(ctx)));
    mr_report_measured_names(sink);
    mr_sink_print(sink, ",not_measured\n");
    for (uint32_t i = 0; i < f->suite->cells.n; i++) {
        const outcome *o = &f->outcomes[i];
        mr_sink_print(sink, "%s",
                      without_end(ctx, mr_cell_row(ctx, f->suite, &f->suite->cells.at[i])));
        mr_report_measured_values(o->measured ? &o->metrics : NULL, sink);
        mr_sink_print(sink, ",");
        mr_write_csv_field(sink, o->failure.status ? o->failure.text : "");
        mr_sink_print(sink, "\n");
    }
}

/* ---- the command ------------------------------------------------------------------------- */

static mr_status write_out(mr_ctx *ctx, const mr_args *args, const fidelity *f)
{
    mr_sink *sink;
    const bool data = strcmp(args->format, "csv") == 0;
    if (args->output) {
        MR_TRY(mr_sink_open(ctx, args->output, &sink));
        put_csv(ctx, f, sink);
        MR_TRY(mr_sink_commit(sink));
    }
    MR_TRY(mr_sink_open(ctx, "-", &sink));
    if (data && !args->output) put_csv(ctx, f, sink);
    else put_tables(ctx, f, strcmp(args->format, "md") == 0, sink);
    if (!data || args->output) put_summary(ctx, f, sink);
    return mr_sink_commit(sink);
}

/* A cell that the device would not carry out does not take the others with it. */
static void report_failures(mr_ctx *ctx, const fidelity *f, int *answer)
{
    for (uint32_t i = 0; i < f->suite->cells.n; i++) {
        const mr_suite_cell *cell = &f->suite->cells.at[i];
        mr_failure failure = f->outcomes[i].failure;
        if (!failure.status) continue;
        const char *text = mr_printf(ctx, "%s of %s: %s",
                                     f->suite->specs.at[cell->spec].spec.text,
                                     f->suite->traces.at[cell->trace].name, failure.text);
        snprintf(failure.text, sizeof failure.text, "%s", text);
        fflush(stdout);
        mr_report_failure(stderr, &failure);
        *answer = mr_status_exit(failure.status);
    }
}

/* Who interrupts gets what has been measured. */
static mr_status measure_and_write(mr_ctx *ctx, const mr_args *args, const fidelity *f,
                                   double begin)
{
    mr_signals_hold();
    measure(f, begin, args->seconds);
    const mr_status status = write_out(ctx, args, f);
    mr_signals_let();
    return status;
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    const double begin = seconds();
    mr_suite suite;
    const uint32_t *gpu;
    fidelity f = {.suite = &suite, .manner = mr_manner_of(args)};
    MR_TRY(mr_suite_read(ctx, args->words.at[0], &suite));
    MR_TRY(mr_gpus_of(ctx, args, 1, &gpu));
    f.manner.gpu = *gpu;
    if (args->output) MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_probe(ctx, &suite.devices.at[0].device, &f.manner));
    MR_TRY(mr_suite_compute(ctx, &suite, NULL, (uint32_t)args->jobs));
    f.outcomes = MR_NEW_N(ctx, outcome, suite.cells.n);
    MR_TRY(measure_and_write(ctx, args, &f, begin));
    report_failures(ctx, &f, answer);
    return MR_OK;
}

static const mr_option options[] = {
    MR_OPTIONS_MEASURE,
    MR_OPTION("seconds", 0, NUMBER, seconds, 1, 86400, "N",
              "begin no cell after so many seconds"),
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "FILE", "write all cells there, as CSV"),
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|md", "how to print (table)"),
    MR_OPTION_JOBS,
    {0},
};

const mr_command mr_command_fidelity = {
    .name = "fidelity",
    .usage = "SUITE",
    .summary = "carries the cells of a suite out on a GPU, beside what was predicted",
    .more = "A suite is that of sweep; its device should be the GPU of this machine (see "
            "calibrate),\nor times cannot agree.  Cells that are predicted not to fit are not "
            "tried.",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
