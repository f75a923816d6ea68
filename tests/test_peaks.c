/* Whole predictions against the allocator of PyTorch itself: what `pytorch` takes for a recording
 * of ops, and what a run of the same steps took from the caching allocator.
 *
 * traces/models/peaks.csv is what was measured (tests/oracle/torch/peaks.sh);
 * bench/results/allocator_peaks.csv says how far off the prediction is, with the workspaces of the
 * ops and without, in percent.  No error in it may grow.  UPDATE=1 writes it anew.
 */
#include "csv_reader.h"
#include "evaluate.h"
#include "format.h"
#include "strategies.h"

#include <stdlib.h>

#include "test.h"

#define FOLDER TRACES "/models"
#define RESULTS TRACES "/../bench/results/allocator_peaks.csv"

enum { REQUESTED, ALLOCATED, RESERVED, PEAKS, STEPS = 3 };
static const char *const names[PEAKS] = {"requested", "allocated", "reserved"};

typedef MR_VEC(mr_csv_row) rows;

static mr_csv_row kept(mr_ctx *ctx, const mr_csv_row *row)
{
    mr_csv_row copy = *row;
    for (uint32_t i = 0; i < row->n; i++)
        copy.at[i] = mr_strndup(ctx, row->at[i], row->length[i]);
    return copy;
}

/* All rows, the first being names of columns.  None when there is no such file. */
static rows read_table(mr_ctx *ctx, const char *path)
{
    rows all = {0};
    mr_source *source;
    const mr_csv_row *row;
    if (mr_source_open(ctx, path, &source)) return all;
    mr_csv *csv = mr_csv_open(ctx, source);
    while (!mr_csv_next(csv, &row) && row->n) MR_PUSH(ctx, &all, kept(ctx, row));
    mr_csv_close(csv);
    mr_source_close(source);
    return all;
}

static const mr_csv_row *row_of(const rows *table, const char *file)
{
    for (uint32_t r = 1; r < table->n; r++)
        if (!strcmp(table->at[r].at[0], file)) return &table->at[r];
    return NULL;
}

typedef struct errors {
    double with[PEAKS], without[PEAKS]; /* the workspaces of ops; percent of what was measured */
} errors;

static mr_status predict(mr_ctx *ctx, const mr_trace *trace, const mr_csv_row *measured,
                         double *out)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, "pytorch", spec));
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
    MR_TRY(predict(ctx, trace, measured, out->with));
    for (uint32_t o = 0; o < trace->ops.n; o++) trace->ops.at[o].workspace = 0;
    return predict(ctx, trace, measured, out->without);
}

static double size(double x)
{
    return x < 0 ? -x : x;
}

/* No error may be larger than the stored one, but for the last digit that is printed. */
static void hold_against(const rows *stored, const char *file, const errors *found)
{
    const mr_csv_row *was = row_of(stored, file);
    if (!was) {
        TEST_FAIL("%s is not in bench/results/allocator_peaks.csv (UPDATE=1 writes it)", file);
        return;
    }
    for (int p = 0; p < PEAKS; p++)
        if (size(found->with[p]) > size(strtod(was->at[1 + p], NULL)) + 0.0001)
            TEST_FAIL("%s: what is %s is %.4f %% off, expected %s %%", file, names[p],
                      found->with[p], was->at[1 + p]);
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
        else hold_against(&stored, file, &found);
        mr_ctx_clear(&one);
    }
    if (out) fclose(out);
    mr_ctx_clear(&ctx);
}

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
