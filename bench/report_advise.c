/* advice -- what none of the combinations beats, and how to have it. */
#include <inttypes.h>
#include <string.h>

#include "advise.h"
#include "how.h"
#include "twins.h"

/* "21.71 GiB reserved, 417.99 ms" */
static const char *show_cost(mr_ctx *ctx, const mr_cell *cell)
{
    const char *reserved = mr_show_bytes(ctx, cell->metrics.peak_reserved);
    return cell->metrics.time ? mr_printf(ctx, "%s reserved, %s", reserved,
                                          mr_show_ns(ctx, cell->metrics.time))
                              : mr_printf(ctx, "%s reserved", reserved);
}

static const char *show_change(mr_ctx *ctx, uint64_t now, uint64_t before)
{
    if (!before || !now) return "-";
    const double change = (double)now / (double)before - 1;
    return mr_printf(ctx, "%+.0f%%", change > -0.005 && change < 0.005 ? 0 : 100 * change);
}

/* ---- as it is ---------------------------------------------------------------------------- */

static void put_recorded(mr_ctx *ctx, const mr_advice *a, mr_sink *sink)
{
    const uint64_t capacity = a->scene->capacity;
    mr_sink_print(sink, "As recorded  %s  (%s)", show_cost(ctx, &a->recorded),
                  a->recorded.spec->text);
    if (capacity == UINT64_MAX) mr_sink_print(sink, "\n");
    else mr_sink_print(sink, ": %s\n", a->fits ? "fits" : "out of memory");
    if (a->settings.n) {
        const char *text = "";
        for (uint32_t i = 0; i < a->settings.n; i++)
            text = mr_printf(ctx, "%s%s%s", text, i ? ", " : "", a->settings.at[i]);
        mr_sink_print(sink, "Combined     %s\n", mr_fold(ctx, text, 13));
    }
    mr_sink_print(sink,
                  "Tried        %s with options of the allocator, %" PRIu32 " %s\n\n",
                  mr_show_count(ctx, a->tried, "combination", "combinations"), a->passed,
                  capacity == UINT64_MAX ? "can be" : "can be and fit");
}

/* ---- the front --------------------------------------------------------------------------- */

static const char *show_batch(mr_ctx *ctx, uint64_t batch)
{
    return mr_printf(ctx, "%" PRIu64 "%s", batch,
                     batch < MR_LARGEST_BATCH ? "" : " or more");
}

/* How many samples a part of a step takes in is not known. */
static bool tells_rate(const mr_advice *a)
{
    return a->recorded.metrics.throughput && !a->scene->is_part;
}

static void put_row(mr_ctx *ctx, const mr_advice *a, uint32_t row, mr_table *table)
{
    const mr_metrics *m = &a->rows[row].metrics, *recorded = &a->recorded.metrics;
    MR_PUSH(ctx, &table->cells, mr_show_spec(ctx, a->rows[row].spec->given));
    MR_PUSH(ctx, &table->cells, mr_show_bytes(ctx, m->peak_reserved));
    MR_PUSH(ctx, &table->cells, show_change(ctx, m->peak_reserved, recorded->peak_reserved));
    if (recorded->time) {
        MR_PUSH(ctx, &table->cells, mr_show_ns(ctx, m->time));
        MR_PUSH(ctx, &table->cells, show_change(ctx, m->time, recorded->time));
    }
    if (tells_rate(a)) MR_PUSH(ctx, &table->cells, mr_show_value(ctx, MR_PER_S, m->throughput));
    if (a->with_batches) {
        const mr_growth *g = &a->growth[row];
        MR_PUSH(ctx, &table->cells, g->batch ? show_batch(ctx, g->batch) : "-");
        MR_PUSH(ctx, &table->cells,
                g->batch ? mr_show_value(ctx, MR_PER_S, g->cell.metrics.throughput) : "-");
    }
}

static void put_front(mr_ctx *ctx, const mr_advice *a, mr_sink *sink)
{
    mr_words headings = {0};
    MR_PUSH(ctx, &headings, "settings");
    MR_PUSH(ctx, &headings, "peak\nreserved");
    MR_PUSH(ctx, &headings, "vs\nrecorded");
    if (a->recorded.metrics.time) {
        MR_PUSH(ctx, &headings, "\ntime");
        MR_PUSH(ctx, &headings, "vs\nrecorded");
    }
    if (tells_rate(a)) MR_PUSH(ctx, &headings, "\nthroughput");
    if (a->with_batches) {
        MR_PUSH(ctx, &headings, "largest\nbatch");
        MR_PUSH(ctx, &headings, "throughput\nwith it");
    }
    mr_table table = {.columns = headings.n, .headings = headings.at};
    for (uint32_t i = 0; i < a->n; i++) put_row(ctx, a, i, &table);
    mr_sink_print(sink, "None beats these in both memory and time\n");
    mr_table_text(ctx, &table, "  ", sink);
    mr_sink_print(sink, "\n");
}

/* ---- what to do -------------------------------------------------------------------------- */

static void add_choice(mr_ctx *ctx, const char *what, const mr_cell *cell, const char *more,
                       mr_table *table, mr_hows *hows)
{
    const char *time = cell->metrics.time ? mr_show_ns(ctx, cell->metrics.time) : "";
    MR_PUSH(ctx, &table->cells, what);
    MR_PUSH(ctx, &table->cells, mr_show_bytes(ctx, cell->metrics.peak_reserved));
    MR_PUSH(ctx, &table->cells, time);
    MR_PUSH(ctx, &table->cells, mr_printf(ctx, "%s%s", cell->spec->given, more));
    mr_hows_add(ctx, cell->spec, hows);
}

static uint32_t most_samples(const mr_advice *a)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < a->n; i++)
        if (a->growth[i].cell.metrics.throughput > a->growth[most].cell.metrics.throughput)
            most = i;
    return most;
}

static void put_choices(mr_ctx *ctx, const mr_advice *a, mr_hows *hows, mr_sink *sink)
{
    static const char *const headings[] = {"", "", "", ""};
    static const bool left[] = {true, false, false, true};
    mr_table table = {.columns = MR_COUNT(left), .headings = headings, .left = left};
    if (!a->fits) add_choice(ctx, "least change", &a->simplest, "", &table, hows);
    if (a->recorded.metrics.time) add_choice(ctx, "fastest", a->rows, "", &table, hows);
    add_choice(ctx, "least memory", &a->rows[a->n - 1], "", &table, hows);
    if (a->with_batches) {
        const uint32_t most = most_samples(a);
        const char *with = mr_printf(ctx, ", with batch %s",
                                     show_batch(ctx, a->growth[most].batch));
        add_choice(ctx, "most samples", &a->rows[most], with, &table, hows);
    }
    mr_table_rows(ctx, &table, "", sink);
}

/* ---- how good it is ---------------------------------------------------------------------- */

/* Rows of the front, and after them each with its largest batch. */
static mr_comparison as_comparison(mr_ctx *ctx, const mr_advice *a)
{
    mr_comparison c = {.scene = mr_scene_alone(ctx, a->scene),
                       .cells = MR_NEW_N(ctx, mr_cell, 2 * (size_t)a->n)};
    for (uint32_t i = 0; i < a->n; i++) c.cells[c.specs++] = a->rows[i];
    for (uint32_t i = 0; i < a->n; i++)
        if (a->growth[i].batch) c.cells[c.specs++] = a->growth[i].cell;
    return c;
}

static void put_errors(mr_ctx *ctx, const mr_advice *a, mr_sink *sink)
{
    const mr_comparison c = as_comparison(ctx, a);
    mr_twins_list list = {0};
    if (a->settings.n || a->recorded.metrics.time || a->scene->device_assumed)
        mr_sink_print(sink, "\n");
    for (uint32_t i = 0; i < a->n; i++)
        if (mr_twins_add(ctx, a->rows[i].spec, &list) != MR_OK) return;
    mr_report_twins(ctx, &list, false, sink);
    mr_report_times(ctx, &c, sink);
}

static void put_nothing(mr_ctx *ctx, const mr_advice *a, mr_sink *sink)
{
    mr_sink_print(sink, "Nothing that was tried fits; nearest is %s with %s reserved.\n",
                  a->least.spec->given, mr_show_bytes(ctx, a->least.metrics.peak_reserved));
}

/* The only row is the step as it is. */
static bool is_best_already(const mr_advice *a)
{
    return a->n == 1 && strcmp(a->rows[0].spec->text, a->recorded.spec->text) == 0;
}

static void put_text(mr_ctx *ctx, const mr_advice *a, mr_sink *sink)
{
    mr_hows hows = {0};
    mr_report_title(ctx, a->scene, a->cuda_device, sink);
    put_recorded(ctx, a, sink);
    if (!a->n) {
        put_nothing(ctx, a, sink);
        return;
    }
    if (is_best_already(a)) {
        mr_sink_print(sink, "None of these takes 1 %% less memory or time than as recorded.\n");
        return;
    }
    put_front(ctx, a, sink);
    put_choices(ctx, a, &hows, sink);
    put_errors(ctx, a, sink);
    if (!hows.names.n) return;
    mr_sink_print(sink, "\nTo have it in PyTorch\n");
    mr_hows_put(ctx, &hows, sink);
    mr_sink_print(sink, "\nmemreuse explain FILE SPEC says what a setting leaves as it was, and "
                        "why.\n");
}

void mr_report_advice(mr_ctx *ctx, const mr_advice *a, const char *format, mr_sink *sink)
{
    const mr_comparison c = as_comparison(ctx, a);
    if (strcmp(format, "csv") == 0) mr_report_comparison_csv(&c, sink);
    else if (strcmp(format, "json") == 0) mr_report_comparison_json(&c, sink);
    else put_text(ctx, a, sink);
}
