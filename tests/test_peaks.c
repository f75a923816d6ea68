/* Whole predictions against the allocator of PyTorch itself: what `pytorch` takes for a recording
 * of ops, and what a run of the same steps took from the caching allocator.
 *
 * traces/models/peaks.csv is what was measured (tests/oracle/torch/peaks.sh);
 * bench/results/allocator_peaks.csv says how far off the prediction is, with the workspaces of the
 * ops and without, in percent.  traces/models/twins/twin_peaks.csv and
 * bench/results/technique_peaks.csv are the same of techniques: predicted from the plain recording,
 * measured with the technique switched on.  No error may grow.  UPDATE=1 writes them anew.
 */
#include "evaluate.h"
#include "format.h"
#include "strategies.h"

#include <stdlib.h>

#include "tables.h"
#include "test.h"

#define FOLDER TRACES "/models"
#define BENCH TRACES "/../bench"
#define RESULTS BENCH "/results/allocator_peaks.csv"
#define TECHNIQUES BENCH "/results/technique_peaks.csv"

enum { REQUESTED, ALLOCATED, RESERVED, PEAKS, STEPS = 3 };
static const char *const names[PEAKS] = {"requested", "allocated", "reserved"};

typedef struct errors {
    double with[PEAKS], without[PEAKS]; /* the workspaces of ops; percent of what was measured */
} errors;

static mr_status predict(mr_ctx *ctx, const mr_trace *trace, const char *text,
                         const mr_csv_row *measured, double *out)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, text, spec));
    const mr_question question = {.trace = trace,
                                  .spec = spec,
                                  .device = &device,
                                  .capacity = UINT64_MAX,
                                  .iterations = STEPS};
    MR_TRY(mr_evaluate(ctx, &question, answer));
    const uint64_t peaks[PEAKS] = {answer->metrics.peak_requested,
                                   answer->metrics.peak_allocated,
                                   answer->metrics.peak_reserved};
    for (int p = 0; p < PEAKS; p++) {
        const double real = strtod(measured->at[1 + p], NULL);
        out[p] = 100 * ((double)peaks[p] - real) / real;
    }
    return MR_OK;
}

static mr_status compare(mr_ctx *ctx, const mr_csv_row *measured, errors *out)
{
    const mr_read_options options = {0};
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    const char *path = mr_printf(ctx, "%s/%s", FOLDER, measured->at[0]);
    MR_TRY(mr_recording_read(ctx, path, &options, trace));
    MR_TRY(predict(ctx, trace, "pytorch", measured, out->with));
    for (uint32_t o = 0; o < trace->ops.n; o++) trace->ops.at[o].workspace = 0;
    return predict(ctx, trace, "pytorch", measured, out->without);
}

static double size(double x)
{
    return x < 0 ? -x : x;
}

/* No error may be larger than the stored one, but for the last digit that is printed; in the
 * stored row they stand from this column on. */
static void hold_against(const rows *stored, const char *file, const double *found,
                         uint32_t column)
{
    const mr_csv_row *was = row_of(stored, file);
    if (!was) {
        TEST_FAIL("%s has no stored row (UPDATE=1 writes it)", file);
        return;
    }
    for (uint32_t p = 0; p < PEAKS; p++)
        if (size(found[p]) > size(strtod(was->at[column + p], NULL)) + 0.0001)
            TEST_FAIL("%s: what is %s is %.4f %% off, expected %s %%", file, names[p], found[p],
                      was->at[column + p]);
}

static void write_head(FILE *out)
{
    fprintf(out, "file");
    for (int p = 0; p < PEAKS; p++) fprintf(out, ",%s_error_percent", names[p]);
    for (int p = 0; p < PEAKS; p++) fprintf(out, ",%s_without_workspaces", names[p]);
    fprintf(out, "\n");
}

static void write_row(FILE *out, const char *file, const errors *found)
{
    fprintf(out, "%s", file);
    for (int p = 0; p < PEAKS; p++) fprintf(out, ",%.4f", found->with[p]);
    for (int p = 0; p < PEAKS; p++) fprintf(out, ",%.4f", found->without[p]);
    fprintf(out, "\n");
}

TEST(peaks_of_the_allocator_are_predicted_as_well_as_is_published)
{
    mr_ctx ctx = {0};
    const rows measured = read_table(&ctx, FOLDER "/peaks.csv");
    const rows stored = read_table(&ctx, RESULTS);
    const char *update = getenv("UPDATE");
    FILE *out = update && *update ? fopen(RESULTS, "w") : NULL;
    if (out) write_head(out);
    CHECK(measured.n > 5);
    for (uint32_t i = 1; i < measured.n; i++) {
        mr_ctx one = {0};
        errors found;
        const char *file = measured.at[i].at[0];
        if (compare(&one, &measured.at[i], &found)) TEST_FAIL("%s", one.failure.text);
        else if (out) write_row(out, file, &found);
        else hold_against(&stored, file, found.with, 1);
        mr_ctx_clear(&one);
    }
    if (out) fclose(out);
    mr_ctx_clear(&ctx);
}

/* ---- techniques -------------------------------------------------------------------------- */

/* The plain recording of a twin, which may be a twin itself. */
static mr_status read_plain(mr_ctx *ctx, const char *name, mr_trace *out)
{
    const mr_read_options options = {0};
    const char *path = mr_printf(ctx, FOLDER "/%s.csv.gz", name);
    if (!mr_recording_read(ctx, path, &options, out)) return MR_OK;
    return mr_recording_read(ctx, mr_printf(ctx, FOLDER "/twins/%s.csv.gz", name), &options, out);
}

static void try_technique(const rows *stored, const mr_csv_row *measured, const char *plain,
                          const char *spec, FILE *out)
{
    mr_ctx ctx = {0};
    mr_trace *trace = MR_NEW(&ctx, mr_trace);
    double found[PEAKS];
    const char *file = measured->at[0];
    const char *text = mr_printf(&ctx, "%s/pytorch", spec);
    if (read_plain(&ctx, plain, trace) || predict(&ctx, trace, text, measured, found))
        TEST_FAIL("%s: %s", file, ctx.failure.text);
    else if (!out) hold_against(stored, file, found, 2);
    else
        fprintf(out, "%s,\"%s\",%.4f,%.4f,%.4f\n", file, spec, found[REQUESTED],
                found[ALLOCATED], found[RESERVED]);
    mr_ctx_clear(&ctx);
}

TEST(peaks_under_techniques_are_predicted_from_plain_recordings)
{
    mr_ctx ctx = {0};
    const rows measured = read_table(&ctx, FOLDER "/twins/twin_peaks.csv");
    const rows manifest = read_table(&ctx, FOLDER "/twins/MANIFEST.csv");
    const rows specs = read_table(&ctx, BENCH "/twin_specs.csv");
    const rows stored = read_table(&ctx, TECHNIQUES);
    const char *update = getenv("UPDATE");
    FILE *out = update && *update ? fopen(TECHNIQUES, "w") : NULL;
    uint32_t tried = 0;
    if (out)
        fprintf(out, "file,spec,requested_error_percent,allocated_error_percent,"
                     "reserved_error_percent\n");
    for (uint32_t i = 1; i < measured.n; i++) {
        const char *file = measured.at[i].at[0];
        const mr_csv_row *spec = row_of(&specs, file);
        if (!spec) continue;
        try_technique(&stored, &measured.at[i], field(&manifest, file, "plain"),
                      spec->at[1], out);
        tried++;
    }
    CHECK(tried > 40);
    if (out) fclose(out);
    mr_ctx_clear(&ctx);
}

/* ---- workspaces -------------------------------------------------------------------------- */

/* A workspace is a block of its own from the end of the results to the end of the op. */
TEST(a_workspace_lives_while_its_op_runs)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace trace;
    mr_schedule schedule;
    CHECK(!mr_recording_read(&ctx, TRACES "/tiny/mlp.csv", &options, &trace));
    CHECK(!mr_schedule_make(&ctx, &trace, 0, &schedule));
    const uint32_t storages = trace.storages.n, events = schedule.events.n;
    uint32_t takers = 0, found = 0;
    for (uint32_t o = 0; o < trace.ops.n; o++) takers += trace.ops.at[o].workspace > 0;
    mr_schedule_workspaces(&ctx, &trace, &schedule);
    CHECK(takers > 0);
    CHECK_EQ(trace.storages.n, storages + takers);
    CHECK_EQ(schedule.events.n, events + 2 * takers);
    for (uint32_t e = 1; e + 1 < schedule.events.n; e++) {
        const mr_event *event = &schedule.events.at[e];
        if (event->kind != MR_RUN || !trace.ops.at[event->id].workspace) continue;
        CHECK_EQ(event[-1].kind, MR_ALLOC);
        CHECK_EQ(event[1].kind, MR_FREE);
        CHECK_EQ(event[-1].id, event[1].id);
        CHECK(trace.storages.at[event[1].id].workspace);
        CHECK_EQ(trace.storages.at[event[1].id].op, event->id);
        CHECK_EQ(trace.storages.at[event[1].id].bytes, trace.ops.at[event->id].workspace);
        found++;
    }
    CHECK_EQ(found, takers);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
