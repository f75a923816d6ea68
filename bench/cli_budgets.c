/* budgets -- reads the runs of bench/dtr_grid.c: a step under budgets, by plans. */
#include <stdlib.h>
#include <string.h>

#include "csv_reader.h"
#include "results.h"

/* Columns of the table, in this order; more may follow. */
static const char heading[] =
    "log,heuristic,ratio,budget_bytes,result,clock_ns,remat_ns,peak_bytes";
enum { LOG, PLAN, RATIO, BUDGET, RESULT, CLOCK, REMAT, PEAK, COLUMNS };

bool mr_budgets_told(mr_ctx *ctx, const char *path)
{
    return mr_file_begins(ctx, path, heading);
}

static uint32_t number_of(mr_ctx *ctx, mr_words *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0) return i;
    MR_PUSH(ctx, names, mr_strdup(ctx, name));
    return names->n - 1;
}

static mr_status take_number(mr_csv *csv, const mr_csv_row *row, uint32_t field, double *out)
{
    char *end;
    const char *text = row->at[field];
    *out = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && !*end && *out < 1e15) return MR_OK;
    return mr_csv_fail(csv, field, "found '%.40s', expected a number below 1e15", text);
}

/* The clock of these runs begins at 1. */
static double overhead_of(const double *number)
{
    const double once = number[CLOCK] - 1 - number[REMAT];
    return once > 0 ? 100 * number[REMAT] / once : 0;
}

static mr_status take_row(mr_ctx *ctx, mr_csv *csv, const mr_csv_row *row, mr_budgets *out)
{
    double number[COLUMNS] = {0};
    if (row->n < COLUMNS)
        return mr_csv_fail(csv, row->n - 1, "the row ends here, expected %d fields", COLUMNS);
    for (uint32_t i = RATIO; i < COLUMNS; i++)
        if (i != RESULT) MR_TRY(take_number(csv, row, i, &number[i]));
    if (number[RATIO] < 0.001)
        return mr_csv_fail(csv, RATIO, "found '%s', expected at least 0.001", row->at[RATIO]);
    const bool passes = strcmp(row->at[RESULT], "pass") == 0;
    const mr_budget b = {number_of(ctx, &out->logs, row->at[LOG]),
                         number_of(ctx, &out->plans, row->at[PLAN]), 100 * number[RATIO],
                         passes ? overhead_of(number) : -1};
    MR_PUSH(ctx, &out->rows, b);
    while (out->peak.n < out->logs.n) {
        MR_PUSH(ctx, &out->peak, 0);
        MR_PUSH(ctx, &out->floor, 0);
    }
    out->peak.at[b.log] = (uint64_t)(number[BUDGET] / number[RATIO] + 0.5);
    if (strcmp(row->at[PLAN], "bound") == 0) out->floor.at[b.log] = (uint64_t)number[PEAK];
    return MR_OK;
}

static mr_status take_rows(mr_ctx *ctx, mr_csv *csv, mr_budgets *out)
{
    const mr_csv_row *row;
    MR_TRY(mr_csv_next(csv, &row));
    for (;;) {
        MR_TRY(mr_csv_next(csv, &row));
        if (!row->n) break;
        MR_TRY(mr_csv_check_whole(csv));
        MR_TRY(take_row(ctx, csv, row, out));
    }
    return out->rows.n ? MR_OK : mr_csv_fail(csv, 0, "the file has no rows, expected some");
}

mr_status mr_budgets_read(mr_ctx *ctx, const char *path, mr_budgets *out)
{
    mr_source *source;
    MR_TRY(mr_source_open(ctx, path, &source));
    *out = (mr_budgets){.name = mr_source_name(source)};
    mr_csv *csv = mr_csv_open(ctx, source);
    const mr_status status = take_rows(ctx, csv, out);
    mr_csv_close(csv);
    mr_source_close(source);
    return mr_source_blame(ctx, path, status);
}
