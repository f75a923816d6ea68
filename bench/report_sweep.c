/* sweep -- the cells of a suite as CSV and as tables, one for each trace and device. */
#include <inttypes.h>
#include <string.h>

#include "sweep.h"

const char *mr_cell_result(const mr_suite_cell *cell)
{
    return mr_show_result(&cell->failure, &cell->metrics);
}

/* ---- CSV --------------------------------------------------------------------------------- */

const char *mr_cell_heading(mr_ctx *ctx)
{
    const char *text =
        MR_RESULTS_BEGIN "cuda_device,capacity,iterations,tf32,seed,version,"
        "result";
    for (uint32_t i = 0; i < mr_metric_count; i++)
        text = mr_printf(ctx, "%s,%s", text, mr_metric_list[i].name);
    return mr_printf(ctx, "%s,reason\n", text);
}

static const char *field(mr_ctx *ctx, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) return text;
    const char *out = "\"";
    for (; *text; text++) out = mr_printf(ctx, "%s%s%c", out, *text == '"' ? "\"" : "", *text);
    return mr_printf(ctx, "%s\"", out);
}

static const char *number(mr_ctx *ctx, const mr_suite_cell *cell, const mr_metric *metric)
{
    const uint64_t value = mr_metric_value(&cell->metrics, metric);
    if (!mr_is_told(&cell->failure, &cell->metrics, metric)) return "";
    if (metric->unit != MR_PER_S) return mr_printf(ctx, "%" PRIu64, value);
    return mr_printf(ctx, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
}

const char *mr_cell_row(mr_ctx *ctx, const mr_suite *suite, const mr_suite_cell *cell)
{
    const mr_suite_trace *trace = &suite->traces.at[cell->trace];
    const mr_suite_device *device = &suite->devices.at[cell->device];
    const char *capacity =
        device->capacity == UINT64_MAX ? "" : mr_printf(ctx, "%" PRIu64, device->capacity);
    const char *text = mr_printf(
        ctx, "%s,%s,%s,%s,%" PRIu32 ",%s,%" PRIu32 ",%s,%" PRIu64 ",%s,%s", trace->name,
        field(ctx, trace->trace.name), field(ctx, suite->specs.at[cell->spec].spec.text),
        device->device.name, trace->cuda_device, capacity, trace->iterations, suite->tf32,
        suite->seed, MR_VERSION, mr_cell_result(cell));
    for (uint32_t i = 0; i < mr_metric_count; i++)
        text = mr_printf(ctx, "%s,%s", text, number(ctx, cell, &mr_metric_list[i]));
    return mr_printf(ctx, "%s,%s\n", text,
                     cell->failure.status ? field(ctx, cell->failure.text) : "");
}

void mr_report_cells_csv(mr_ctx *ctx, const mr_suite *suite, mr_sink *sink)
{
    mr_sink_print(sink, "%s", mr_cell_heading(ctx));
    for (uint32_t i = 0; i < suite->cells.n; i++)
        mr_sink_print(sink, "%s", mr_cell_row(ctx, suite, &suite->cells.at[i]));
}

/* ---- tables ------------------------------------------------------------------------------ */

typedef struct layout {
    mr_ctx *ctx;
    const mr_suite *suite;
    uint32_t first, end; /* cells */
    mr_words headings;
    mr_table table;
    MR_VEC(const mr_metric *) metrics;
} layout;

static bool any_told(const layout *l, const mr_metric *metric)
{
    for (uint32_t i = l->first; i < l->end; i++) {
        const mr_suite_cell *cell = &l->suite->cells.at[i];
        if (mr_is_told(&cell->failure, &cell->metrics, metric)
            && mr_metric_value(&cell->metrics, metric))
            return true;
    }
    return false;
}

static const char *against(mr_ctx *ctx, const mr_suite_cell *first, const mr_suite_cell *cell,
                           size_t metric)
{
    const uint64_t base = *(const uint64_t *)((const char *)&first->metrics + metric);
    const uint64_t value = *(const uint64_t *)((const char *)&cell->metrics + metric);
    if (!base || !value || first->failure.status || cell->failure.status) return "-";
    if (first->metrics.refusals || cell->metrics.refusals) return "-";
    const double change = (double)value / (double)base - 1;
    return mr_printf(ctx, "%+.1f%%", change > -0.0005 && change < 0.0005 ? 0 : 100 * change);
}

static void add_row(layout *l, const mr_suite_cell *cell)
{
    const mr_suite_spec *spec = &l->suite->specs.at[cell->spec];
    const mr_suite_cell *first = &l->suite->cells.at[l->first];
    MR_PUSH(l->ctx, &l->table.cells,
            spec->name ? mr_printf(l->ctx, "%s: %s", spec->name, spec->spec.text)
                       : spec->spec.text);
    MR_PUSH(l->ctx, &l->table.cells, mr_cell_result(cell));
    for (uint32_t i = 0; i < l->metrics.n; i++) {
        const mr_metric *m = l->metrics.at[i];
        const uint64_t value = mr_metric_value(&cell->metrics, m);
        MR_PUSH(l->ctx, &l->table.cells,
                mr_is_told(&cell->failure, &cell->metrics, m)
                    ? mr_show_value(l->ctx, m->unit, value)
                    : "-");
    }
    MR_PUSH(l->ctx, &l->table.cells,
            against(l->ctx, first, cell, offsetof(mr_metrics, peak_reserved)));
    MR_PUSH(l->ctx, &l->table.cells, against(l->ctx, first, cell, offsetof(mr_metrics, time)));
}

/* What most people ask for; all else is in the CSV. */
static void choose_metrics(layout *l)
{
    static const size_t shown[] = {
        offsetof(mr_metrics, peak_allocated), offsetof(mr_metrics, peak_reserved),
        offsetof(mr_metrics, peak_device),    offsetof(mr_metrics, time),
        offsetof(mr_metrics, recompute),      offsetof(mr_metrics, throughput)};
    for (uint32_t i = 0; i < mr_metric_count; i++)
        for (size_t k = 0; k < MR_COUNT(shown); k++)
            if (mr_metric_list[i].offset == shown[k] && any_told(l, &mr_metric_list[i]))
                MR_PUSH(l->ctx, &l->metrics, &mr_metric_list[i]);
}

static void put_title(const layout *l, bool markdown, mr_sink *sink)
{
    const mr_suite *suite = l->suite;
    const mr_suite_cell *cell = &suite->cells.at[l->first];
    const mr_suite_device *device = &suite->devices.at[cell->device];
    mr_sink_print(sink, "%s%s: %s", markdown ? "### " : "", suite->traces.at[cell->trace].name,
                  mr_show_name(l->ctx, suite->traces.at[cell->trace].trace.name));
    mr_sink_print(sink, "%s",
                  mr_show_iterations(l->ctx, suite->traces.at[cell->trace].iterations));
    mr_sink_print(sink, ", %s %s", suite->device_assumed ? "costs of" : "on",
                  device->device.name);
    if (device->capacity == UINT64_MAX) mr_sink_print(sink, ", memory unlimited\n\n");
    else
        mr_sink_print(sink, ", %s for the process\n\n",
                      mr_show_bytes(l->ctx, device->capacity));
}

static void put_reasons(const layout *l, mr_sink *sink)
{
    for (uint32_t i = l->first; i < l->end; i++) {
        const mr_suite_cell *cell = &l->suite->cells.at[i];
        if (cell->failure.status)
            mr_sink_print(sink, "%s: %s\n", l->suite->specs.at[cell->spec].spec.text,
                          cell->failure.text);
    }
}

static void put_table(layout *l, bool markdown, mr_sink *sink)
{
    static const char *const last[] = {"reserved\nvs first", "time\nvs first"};
    choose_metrics(l);
    MR_PUSH(l->ctx, &l->headings, "spec");
    MR_PUSH(l->ctx, &l->headings, "result");
    for (uint32_t i = 0; i < l->metrics.n; i++) {
        char *heading = mr_strdup(l->ctx, l->metrics.at[i]->name);
        if (strchr(heading, '_')) *strchr(heading, '_') = '\n';
        MR_PUSH(l->ctx, &l->headings, heading);
    }
    for (size_t i = 0; i < MR_COUNT(last); i++) MR_PUSH(l->ctx, &l->headings, last[i]);
    l->table.columns = l->headings.n;
    l->table.headings = l->headings.at;
    for (uint32_t i = l->first; i < l->end; i++) add_row(l, &l->suite->cells.at[i]);
    put_title(l, markdown, sink);
    if (markdown) mr_table_markdown(l->ctx, &l->table, sink);
    else mr_table_text(l->ctx, &l->table, "", sink);
    put_reasons(l, sink);
    mr_sink_print(sink, "\n");
}

void mr_report_cells(mr_ctx *ctx, const mr_suite *suite, bool markdown, mr_sink *sink)
{
    for (uint32_t i = 0; i < suite->cells.n;) {
        layout l = {.ctx = ctx, .suite = suite, .first = i, .end = i};
        const mr_suite_cell *first = &suite->cells.at[i];
        while (l.end < suite->cells.n && suite->cells.at[l.end].trace == first->trace
               && suite->cells.at[l.end].device == first->device)
            l.end++;
        put_table(&l, markdown, sink);
        i = l.end;
    }
}
