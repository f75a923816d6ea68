/* twins -- looks up what predictions with the same rewrites were worth. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "csv_reader.h"
#include "report.h"
#include "twins.h"

extern const unsigned char mr_twins_csv[]; /* made by embed.cmake */
extern const unsigned long mr_twins_csv_size;

static int by_letters(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Rewrites in either order are the same technique. */
static const char *technique_of(mr_ctx *ctx, const mr_spec *spec)
{
    const char **names = MR_NEW_N(ctx, const char *, spec->rewrites.n + 1), *text = "";
    for (uint32_t i = 0; i < spec->rewrites.n; i++)
        names[i] = spec->rewrites.at[i].strategy->name;
    qsort(names, spec->rewrites.n, sizeof *names, by_letters);
    for (uint32_t i = 0; i < spec->rewrites.n; i++)
        text = mr_printf(ctx, "%s%s%s", text, i ? "+" : "", names[i]);
    return text;
}

/* A file that was built in is as the tests left it; columns are found by their names. */
static mr_status read_rows(mr_ctx *ctx, mr_csv *csv, mr_twins *out)
{
    const mr_csv_row *row;
    uint32_t spec_column = MR_NONE, error_column = MR_NONE;
    MR_TRY(mr_csv_next(csv, &row));
    for (uint32_t i = 0; i < row->n; i++) {
        if (strcmp(row->at[i], "spec") == 0) spec_column = i;
        if (strcmp(row->at[i], "peak_error_percent") == 0) error_column = i;
    }
    for (;;) {
        mr_spec spec;
        MR_TRY(mr_csv_next(csv, &row));
        if (row->n <= spec_column || row->n <= error_column) return MR_OK;
        MR_TRY(mr_scene_spec(ctx, mr_printf(ctx, "%s/bound", row->at[spec_column]), &spec));
        if (strcmp(technique_of(ctx, &spec), out->technique) != 0) continue;
        const double error = fabs(strtod(row->at[error_column], NULL));
        if (error > out->worst) out->worst = error;
        out->n++;
    }
}

mr_status mr_twins_add(mr_ctx *ctx, const mr_spec *spec, mr_twins_list *list)
{
    mr_source *source;
    mr_twins twins = {.technique = technique_of(ctx, spec)};
    if (!*twins.technique) return MR_OK;
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].technique, twins.technique) == 0) return MR_OK;
    MR_TRY(mr_source_memory(ctx, "twins.csv", mr_twins_csv, mr_twins_csv_size, &source));
    mr_csv *csv = mr_csv_open(ctx, source);
    const mr_status status = read_rows(ctx, csv, &twins);
    mr_csv_close(csv);
    mr_source_close(source);
    MR_PUSH(ctx, list, twins);
    return status;
}

static const char *show_worst(mr_ctx *ctx, const mr_twins *twins)
{
    if (twins->worst == 0) return "peak exact";
    const double shown = ceil(twins->worst * 100) / 100; /* never less than it was */
    return mr_printf(ctx, "peak within %.2f %%", shown);
}

const char *mr_twins_text(mr_ctx *ctx, const mr_twins *twins)
{
    if (!twins->n) return mr_printf(ctx, "%s: unchecked", twins->technique);
    return mr_printf(ctx, "%s: checked on %s, %s", twins->technique,
                     mr_show_count(ctx, twins->n, "twin", "twins"), show_worst(ctx, twins));
}

const char *mr_twins_brief(mr_ctx *ctx, const mr_twins *twins)
{
    if (!twins->n) return mr_printf(ctx, "%s: unchecked", twins->technique);
    return mr_printf(ctx, "%s: %s", twins->technique, show_worst(ctx, twins));
}
