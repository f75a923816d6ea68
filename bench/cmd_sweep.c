/* sweep -- computes the cells of a suite and says which of its claims hold. */
#include <string.h>

#include "sweep.h"

/* The file is written when all cells are there; then what was kept beside it is not needed. */
static mr_status write_cells(mr_ctx *ctx, const mr_suite *suite, const char *output)
{
    mr_sink *sink;
    MR_TRY(mr_sink_open(ctx, output, &sink));
    mr_report_cells_csv(ctx, suite, sink);
    MR_TRY(mr_sink_commit(sink));
    mr_kept_remove(ctx, output);
    return MR_OK;
}

/* Cells stand above the verdicts unless they went to a file of their own. */
static mr_status print_results(mr_ctx *ctx, const mr_args *args, const mr_suite *suite)
{
    mr_sink *sink;
    const bool data = strcmp(args->format, "csv") == 0;
    MR_TRY(mr_sink_open(ctx, "-", &sink));
    if (!data) mr_sink_for_people(sink);
    if (data && !args->output) mr_report_cells_csv(ctx, suite, sink);
    else if (!args->output) mr_report_cells(ctx, suite, strcmp(args->format, "md") == 0, sink);
    if (!data || args->output) mr_report_verdicts(ctx, suite, args->format, sink);
    return mr_sink_commit(sink);
}

/* A strategy that breaks a step is a fault of the program, whatever else went well. */
static void report_failures(mr_ctx *ctx, const mr_suite *suite, int *answer)
{
    for (uint32_t i = 0; i < suite->cells.n; i++) {
        const mr_suite_cell *cell = &suite->cells.at[i];
        mr_failure failure = cell->failure;
        if (strcmp(mr_cell_result(cell), "failed") != 0) continue;
        snprintf(failure.text, sizeof failure.text, "%s",
                 mr_printf(ctx, "%s of %s: %s", suite->specs.at[cell->spec].spec.text,
                           suite->traces.at[cell->trace].name, cell->failure.text));
        fflush(stdout);
        mr_report_failure(stderr, &failure);
        *answer = mr_status_exit(failure.status);
    }
}

static const mr_heads ours = {{MR_RESULTS_BEGIN}, 1, "a file of cells that a sweep wrote"};

/* Neither the suite nor a recording of it is written over, nor what is something else. */
static mr_status check_output(mr_ctx *ctx, const mr_suite *suite, const char *output)
{
    MR_TRY(mr_output_check(ctx, suite->path, output));
    for (uint32_t t = 0; t < suite->traces.n; t++)
        MR_TRY(mr_output_check(ctx, suite->traces.at[t].path, output));
    return mr_output_replaces(ctx, output, &ours);
}

/* For scripts that must not go on when something no longer holds. */
static void hold_to_claims(mr_ctx *ctx, const mr_suite *suite, int *answer)
{
    mr_failure failure = {.status = MR_EINVARIANT};
    for (uint32_t c = 0; c < suite->claims.n; c++) {
        const mr_verdict verdict = mr_claim_verdict(suite, c);
        if (verdict == MR_CONFIRMED) continue;
        snprintf(failure.text, sizeof failure.text, "%s",
                 mr_printf(ctx, "--strict: '%s' is %s", suite->claims.at[c].text,
                           mr_verdict_name(verdict)));
        fflush(stdout);
        mr_report_failure(stderr, &failure);
        *answer = 1;
    }
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    mr_suite suite;
    const char *output = args->output && strcmp(args->output, "-") != 0 ? args->output : NULL;
    MR_TRY(mr_suite_read(ctx, args->words.at[0], &suite));
    if (args->strict && !suite.claims.n)
        return mr_fail(ctx, MR_EUSAGE, "--strict: '%s' has no claims, expected some to hold",
                       suite.path);
    if (output) MR_TRY(check_output(ctx, &suite, output));
    MR_TRY(mr_suite_compute(ctx, &suite, output, (uint32_t)args->jobs));
    mr_suite_judge(ctx, &suite);
    if (output) MR_TRY(write_cells(ctx, &suite, output));
    MR_TRY(print_results(ctx, args, &suite));
    if (args->strict) hold_to_claims(ctx, &suite, answer);
    report_failures(ctx, &suite, answer);
    return MR_OK;
}

static const mr_option options[] = {
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "FILE",
              "write the cells there as CSV and print only the verdicts; run again after an "
              "interruption, it goes on with what was done"),
    MR_OPTION("strict", 0, SWITCH, strict, 0, 0, NULL,
              "exit with 1 unless all claims are confirmed"),
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|md",
              "how to print (table); csv prints cells, or with -o verdicts"),
    MR_OPTION_JOBS,
    {0},
};

const mr_command mr_command_sweep = {
    .name = "sweep",
    .usage = "SUITE",
    .summary = "computes all cells of a suite and says which of its claims hold",
    .more =
        "A suite is a text that names recordings, specs, devices and claims about the results\n"
        "(bench/suites/README.md; bench/suites/ has some).  A claim is confirmed when it "
        "holds\n"
        "in all its set-ups, refuted when in none, conditional when in some.  That a cell "
        "runs\n"
        "out of memory or is refused is a result.",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
