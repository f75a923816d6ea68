/* comparison -- the table of compare, also as Markdown, with columns from metrics.def. */
#include <inttypes.h>
#include <string.h>

#include "compare.h"

static const mr_cell *cell_at(const mr_comparison *c, uint32_t device, uint32_t spec)
{
    return &c->cells[device * c->specs + spec];
}

bool mr_cell_passed(const mr_cell *cell)
{
    return cell->failure.status == MR_OK && !cell->metrics.refusals;
}

bool mr_cell_tells(const mr_comparison *c, const mr_cell *cell, const mr_metric *metric)
{
    if (c->scene->is_part && metric->offset == offsetof(mr_metrics, throughput)) return false;
    return mr_is_told(&cell->failure, &cell->metrics, metric);
}

/* ---- table ------------------------------------------------------------------------------- */

/* A column of zeros says nothing; growth says something as soon as there was time to grow. */
static bool is_shown(const mr_comparison *c, uint32_t device, const mr_metric *metric)
{
    if (metric->offset == offsetof(mr_metrics, growth)) return c->scene->iterations > 1;
    for (uint32_t i = 0; i < c->specs; i++)
        if (mr_metric_value(&cell_at(c, device, i)->metrics, metric)) return true;
    return false;
}

static const char *heading(mr_ctx *ctx, const char *name)
{
    char *text = mr_strdup(ctx, name);
    char *gap = strchr(text, '_');
    if (gap) *gap = '\n';
    return text;
}

static const char *against(mr_ctx *ctx, const mr_cell *first, const mr_cell *cell)
{
    const uint64_t base = first->metrics.peak_reserved;
    if (!base || first->failure.status || cell->failure.status) return "-";
    const double change = (double)cell->metrics.peak_reserved / (double)base - 1;
    return mr_printf(ctx, "%+.1f%%", change > -0.0005 && change < 0.0005 ? 0 : 100 * change);
}

typedef struct layout {
    mr_table table;
    mr_words headings;
    bool limited; /* a column says whether it fits */
    bool folded;  /* long specs take several lines */
    mr_shown_metrics metrics;
} layout;

static void add_row(mr_ctx *ctx, const mr_comparison *c, layout *l, const mr_cell *first,
                    const mr_cell *cell)
{
    MR_PUSH(ctx, &l->table.cells,
            l->folded ? mr_show_spec(ctx, cell->spec->given) : cell->spec->given);
    if (l->limited)
        MR_PUSH(ctx, &l->table.cells, mr_show_result(&cell->failure, &cell->metrics));
    for (uint32_t i = 0; i < l->metrics.n; i++) {
        const mr_metric *m = l->metrics.at[i];
        const uint64_t value = mr_metric_value(&cell->metrics, m);
        MR_PUSH(ctx, &l->table.cells,
                mr_cell_tells(c, cell, m) ? mr_show_value(ctx, m->unit, value) : "-");
    }
    if (c->fit) MR_PUSH(ctx, &l->table.cells, cell->fit ? mr_show_bytes(ctx, cell->fit) : "-");
    MR_PUSH(ctx, &l->table.cells, against(ctx, first, cell));
}

static bool any_failed(const mr_comparison *c, uint32_t device)
{
    for (uint32_t i = 0; i < c->specs; i++)
        if (cell_at(c, device, i)->failure.status) return true;
    return false;
}

static void lay_out(mr_ctx *ctx, const mr_comparison *c, uint32_t device, bool folded,
                    layout *l)
{
    *l = (layout){.folded = folded,
                  .limited = c->scene->capacity != UINT64_MAX || any_failed(c, device)};
    MR_PUSH(ctx, &l->headings, "spec");
    if (l->limited) MR_PUSH(ctx, &l->headings, "result");
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        if (!is_shown(c, device, &mr_metric_list[i])) continue;
        MR_PUSH(ctx, &l->metrics, &mr_metric_list[i]);
        MR_PUSH(ctx, &l->headings, heading(ctx, mr_metric_list[i].name));
    }
    if (c->fit) MR_PUSH(ctx, &l->headings, "fits\nin");
    MR_PUSH(ctx, &l->headings, "reserved\nvs first");
    l->table.columns = l->headings.n;
    l->table.headings = l->headings.at;
    for (uint32_t i = 0; i < c->specs; i++)
        add_row(ctx, c, l, cell_at(c, device, 0), cell_at(c, device, i));
}

void mr_report_title(mr_ctx *ctx, const mr_scene *s, uint32_t cuda_device, mr_sink *sink)
{
    mr_sink_print(sink, "%s", mr_show_name(ctx, s->trace.name));
    if (s->cuda_device_count > 1 || cuda_device)
        mr_sink_print(sink, ", device %" PRIu32, cuda_device);
    mr_sink_print(sink, "%s", mr_show_iterations(ctx, s->iterations));
    if (!s->device_assumed) mr_sink_print(sink, ", on %s", s->device.name);
    if (s->capacity != UINT64_MAX)
        mr_sink_print(sink, ", %s for the process", mr_show_bytes(ctx, s->capacity));
    else mr_sink_print(sink, ", memory unlimited");
    mr_sink_print(sink, "\n\n");
}

static void put_tables(mr_ctx *ctx, const mr_comparison *c, bool markdown, mr_sink *sink)
{
    layout l;
    for (uint32_t d = 0; d < c->scene->cuda_device_count; d++) {
        lay_out(ctx, c, d, !markdown, &l);
        if (d) mr_sink_print(sink, "\n");
        mr_report_title(ctx, c->scene, c->scene->cuda_devices[d], sink);
        if (markdown) mr_table_markdown(ctx, &l.table, sink);
        else mr_table_text(ctx, &l.table, "", sink);
    }
    if (c->on_device) mr_report_measured(ctx, c, markdown, sink);
    if (markdown || !c->scene->cuda_device_count) return;
    mr_sink_print(sink, "\n");
    mr_report_notes(ctx, c, &l.metrics, sink);
}

void mr_report_comparison(mr_ctx *ctx, const mr_comparison *comparison, const char *format,
                          mr_sink *sink)
{
    if (strcmp(format, "csv") == 0) mr_report_comparison_csv(comparison, sink);
    else if (strcmp(format, "json") == 0) mr_report_comparison_json(comparison, sink);
    else put_tables(ctx, comparison, strcmp(format, "md") == 0, sink);
}

void mr_print_metrics_help(void)
{
    printf("\ncolumns, whose name in CSV and JSON is the same\n");
    for (uint32_t i = 0; i < mr_metric_count; i++)
        printf("  %-15s %s\n", mr_metric_list[i].name, mr_metric_list[i].help);
    printf("  %-15s with --fit, smallest memory for the process on which it passes\n", "fit");
    printf("  %-15s fits, OOM, refused (by the strategy) or failed\n", "result");
    printf("  %-15s CSV and JSON: why it was refused, failed, or could not be measured\n",
           "reason");
}
