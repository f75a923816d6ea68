/* kept -- finished cells beside the file that they will be written to, so that a sweep can be
 * interrupted.
 *
 * FILE.part begins with a row that says what the cells are of: a hash of the suite, its
 * recordings and the program.  Below stand rows of cells as in FILE itself, in their order.  A
 * row that was being written when the program ended is not whole, and is computed again with
 * all that follow.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "csv_reader.h"
#include "sweep.h"

struct mr_kept {
    mr_ctx *ctx;
    const mr_suite *suite;
    const char *path;
    FILE *file;
    int problem; /* errno of the first write that failed */
};

static const char *key_of(mr_ctx *ctx, const mr_suite *suite)
{
    return mr_printf(ctx, "memreuse %s sweep %016" PRIx64, MR_VERSION, suite->hash);
}

/* ---- what an earlier run left ------------------------------------------------------------ */

static bool parse_whole(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* "12.345" of a rate, which is kept in thousandths. */
static bool parse_metric(const char *text, mr_unit unit, uint64_t *out)
{
    char whole[32];
    const char *dot = strchr(text, '.');
    if (unit != MR_PER_S) return parse_whole(text, out);
    if (!dot || strlen(dot) != 4 || dot - text > 20) return false;
    snprintf(whole, sizeof whole, "%.*s%s", (int)(dot - text), text, dot + 1);
    return parse_whole(whole, out);
}

static bool take_failure(const char *result, const char *reason, mr_failure *out)
{
    if (strcmp(result, "refused") == 0) out->status = MR_EUNSUPPORTED;
    else if (strcmp(result, "failed") == 0) out->status = MR_EINVARIANT;
    snprintf(out->text, sizeof out->text, "%s", reason);
    return out->status != MR_OK;
}

/* A number that the row leaves out, as the time of a step that did not end, is 0. */
static bool take_metrics(const mr_csv_row *row, uint32_t first, mr_metrics *out)
{
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        const mr_metric *metric = &mr_metric_list[i];
        uint64_t value = 0;
        const char *text = row->at[first + i];
        if (*text && !parse_metric(text, metric->unit, &value)) return false;
        memcpy((char *)out + metric->offset, &value, sizeof value);
    }
    return true;
}

static bool take_row(const mr_suite *suite, const mr_csv_row *row, mr_suite_cell *cell)
{
    const uint32_t metrics = MR_CELL_COLUMNS, reason = metrics + mr_metric_count;
    if (row->n != reason + 1) return false;
    if (strcmp(row->at[0], suite->traces.at[cell->trace].name) != 0) return false;
    if (strcmp(row->at[2], suite->specs.at[cell->spec].spec.text) != 0) return false;
    cell->done = take_failure(row->at[metrics - 1], row->at[reason], &cell->failure)
                 || take_metrics(row, metrics, &cell->metrics);
    return cell->done;
}

static bool is_key(mr_ctx *ctx, const mr_suite *suite, const mr_csv_row *row)
{
    return row->n == 1 && strcmp(row->at[0], key_of(ctx, suite)) == 0;
}

/* Reads until something is not as it should be: the rest is computed anew. */
static void read_rows(mr_ctx *ctx, mr_suite *suite, mr_csv *csv)
{
    const mr_csv_row *row;
    if (mr_csv_next(csv, &row) != MR_OK || !is_key(ctx, suite, row)) return;
    if (mr_csv_next(csv, &row) != MR_OK || !row->n) return; /* the heading */
    for (uint32_t i = 0; i < suite->cells.n; i++) {
        if (mr_csv_next(csv, &row) != MR_OK || !row->n || mr_csv_is_cut(csv)) return;
        if (!take_row(suite, row, &suite->cells.at[i])) return;
    }
}

static void read_back(mr_ctx *ctx, mr_suite *suite, const char *path)
{
    mr_ctx own = {0};
    mr_source *source;
    if (access(path, F_OK) == 0 && mr_source_open(&own, path, &source) == MR_OK) {
        mr_csv *csv = mr_csv_open(&own, source);
        read_rows(ctx, suite, csv);
        mr_csv_close(csv);
        mr_source_close(source);
    }
    mr_ctx_clear(&own);
}

/* ---- what this one adds ------------------------------------------------------------------ */

static mr_status fail(mr_kept *kept, int problem)
{
    return mr_fail_at(kept->ctx, MR_EIO, kept->path, "cannot be written: %s",
                      strerror(problem));
}

/* A row is given to the system at once: nothing is lost but the row that is being written. */
static void put(mr_kept *kept, const char *text)
{
    const bool written = fputs(text, kept->file) >= 0 && fflush(kept->file) == 0;
    if (!written && !kept->problem) kept->problem = errno;
}

mr_status mr_kept_open(mr_ctx *ctx, mr_suite *suite, const char *output, mr_kept **out)
{
    mr_kept *kept = MR_NEW(ctx, mr_kept);
    kept->ctx = ctx;
    kept->suite = suite;
    kept->path = mr_printf(ctx, "%s.part", output);
    *out = kept;
    read_back(ctx, suite, kept->path);
    kept->file = fopen(kept->path, "w");
    if (!kept->file) return fail(kept, errno);
    put(kept, mr_printf(ctx, "%s\n%s", key_of(ctx, suite), mr_cell_heading(ctx)));
    for (uint32_t i = 0; i < suite->cells.n && suite->cells.at[i].done; i++)
        mr_kept_add(kept, &suite->cells.at[i]);
    return MR_OK;
}

void mr_kept_add(mr_kept *kept, const mr_suite_cell *cell)
{
    mr_ctx own = {0};
    put(kept, mr_cell_row(&own, kept->suite, cell));
    mr_ctx_clear(&own);
}

mr_status mr_kept_close(mr_kept *kept)
{
    if (fclose(kept->file) != 0 && !kept->problem) kept->problem = errno;
    return kept->problem ? fail(kept, kept->problem) : MR_OK;
}

void mr_kept_remove(mr_ctx *ctx, const char *output)
{
    unlink(mr_printf(ctx, "%s.part", output));
}
