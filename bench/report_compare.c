/* comparison -- the table, CSV, JSON and Markdown of compare, with columns from metrics.def. */
#include <inttypes.h>
#include <string.h>

#include "compare.h"
#include "twins.h"

static const mr_cell *cell_at(const mr_comparison *c, uint32_t device, uint32_t spec)
{
    return &c->cells[device * c->specs + spec];
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

static const char *verdict(const mr_cell *cell)
{
    if (cell->failure.status) return "failed";
    return cell->metrics.refusals ? "OOM" : "fits";
}

typedef struct layout {
    mr_table table;
    mr_words headings;
    bool limited; /* a column says whether it fits */
    bool folded;  /* long specs take several lines */
    MR_VEC(const mr_metric *) metrics;
} layout;

/* A long spec goes on below, cut behind a comma, a plus or the slash. */
static const char *folded_spec(mr_ctx *ctx, const char *text)
{
    enum { WIDTH = 40 };
    const char *out = "";
    size_t used = 0;
    while (*text) {
        size_t n = strcspn(text, ",+/");
        if (text[n]) n++;
        if (used && used + n > WIDTH) {
            out = mr_printf(ctx, "%s\n  ", out);
            used = 2;
        }
        out = mr_printf(ctx, "%s%.*s", out, (int)n, text);
        used += n;
        text += n;
    }
    return out;
}

static void add_row(mr_ctx *ctx, const mr_comparison *c, layout *l, const mr_cell *first,
                    const mr_cell *cell)
{
    MR_PUSH(ctx, &l->table.cells,
            l->folded ? folded_spec(ctx, cell->spec->text) : cell->spec->text);
    if (l->limited) MR_PUSH(ctx, &l->table.cells, verdict(cell));
    for (uint32_t i = 0; i < l->metrics.n; i++) {
        const mr_metric *m = l->metrics.at[i];
        const uint64_t value = mr_metric_value(&cell->metrics, m);
        MR_PUSH(ctx, &l->table.cells,
                mr_is_told(&cell->failure, &cell->metrics, m)
                    ? mr_show_value(ctx, m->unit, value)
                    : "-");
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

static void put_title(mr_ctx *ctx, const mr_comparison *c, uint32_t device, mr_sink *sink)
{
    const mr_scene *s = c->scene;
    mr_sink_print(sink, "%s", mr_show_name(ctx, s->trace.name));
    if (s->cuda_device_count > 1 || s->cuda_devices[device])
        mr_sink_print(sink, ", device %" PRIu32, s->cuda_devices[device]);
    mr_sink_print(sink, "%s", mr_show_iterations(ctx, s->iterations));
    if (!s->device_assumed) mr_sink_print(sink, ", on %s", s->device.name);
    if (s->capacity != UINT64_MAX)
        mr_sink_print(sink, ", %s for the process", mr_show_bytes(ctx, s->capacity));
    else mr_sink_print(sink, ", memory unlimited");
    mr_sink_print(sink, "\n\n");
}

static bool is_modelled(const mr_trace *trace)
{
    return trace->ops.n && !(trace->has & MR_HAS_TIMES);
}

/* A prediction says how good it is. */
static void put_error(mr_ctx *ctx, const mr_scene *scene, mr_sink *sink)
{
    const mr_checked checked = mr_times_checked(ctx, scene->device.name);
    if (!scene->trace.ops.n) return;
    mr_sink_print(sink, "Times are ");
    if (!is_modelled(&scene->trace))
        mr_sink_print(sink, "made of what the recording measured.\n");
    else if (!checked.n) mr_sink_print(sink, "modelled, unchecked on this device.\n");
    else
        mr_sink_print(sink,
                      "modelled; of %s published for this device the throughput is %+.0f "
                      "to %+.0f %% off.\n",
                      mr_show_count(ctx, checked.n, "step", "steps"), checked.low,
                      checked.high);
}

/* Likewise of peaks, as far as the program can tell its own error. */
static void put_twins(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    mr_twins_list list = {0};
    for (uint32_t i = 0; i < c->specs; i++)
        if (mr_twins_add(ctx, c->cells[i].spec, &list) != MR_OK) return;
    for (uint32_t i = 0; i < list.n; i++)
        mr_sink_print(sink, "%s.\n", mr_twins_text(ctx, &list.at[i]));
}

static void put_definitions(mr_ctx *ctx, const mr_comparison *c, const layout *l, mr_sink *sink)
{
    for (uint32_t i = 0; i < l->metrics.n; i++)
        mr_sink_print(sink, "%-15s %s\n", l->metrics.at[i]->name, l->metrics.at[i]->help);
    if (c->fit)
        mr_sink_print(sink, "%-15s smallest memory for the process on which it passes\n",
                      "fits in");
    put_twins(ctx, c, sink);
    put_error(ctx, c->scene, sink);
    if (c->scene->device_assumed)
        mr_sink_print(sink,
                      "The context and the cost of device calls%s are those of %s; --device "
                      "chooses another.\n",
                      is_modelled(&c->scene->trace) ? " and ops" : "", c->scene->device.name);
}

static void put_tables(mr_ctx *ctx, const mr_comparison *c, bool markdown, mr_sink *sink)
{
    layout l;
    for (uint32_t d = 0; d < c->scene->cuda_device_count; d++) {
        lay_out(ctx, c, d, !markdown, &l);
        if (d) mr_sink_print(sink, "\n");
        put_title(ctx, c, d, sink);
        if (markdown) mr_table_markdown(ctx, &l.table, sink);
        else mr_table_text(ctx, &l.table, "", sink);
    }
    if (c->backend) mr_report_measured(ctx, c, markdown, sink);
    if (markdown || !c->scene->cuda_device_count) return;
    mr_sink_print(sink, "\n");
    put_definitions(ctx, c, &l, sink);
}

/* ---- CSV and JSON ------------------------------------------------------------------------ */

static void put_value(const mr_metrics *metrics, const mr_metric *metric, mr_sink *sink)
{
    const uint64_t value = mr_metric_value(metrics, metric);
    if (metric->unit == MR_PER_S)
        mr_sink_print(sink, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
    else mr_sink_print(sink, "%" PRIu64, value);
}

static void put_csv_row(const mr_comparison *c, const mr_cell *cell, mr_sink *sink)
{
    const mr_scene *s = c->scene;
    mr_write_csv_field(sink, s->trace.name);
    mr_sink_print(sink, ",");
    mr_write_csv_field(sink, cell->spec->text);
    mr_sink_print(sink, ",%s,%" PRIu32 ",", s->device.name, cell->cuda_device);
    if (s->capacity != UINT64_MAX) mr_sink_print(sink, "%" PRIu64, s->capacity);
    mr_sink_print(sink, ",%" PRIu32 ",%s", s->iterations, MR_VERSION);
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        mr_sink_print(sink, ",");
        if (mr_is_told(&cell->failure, &cell->metrics, &mr_metric_list[i]))
            put_value(&cell->metrics, &mr_metric_list[i], sink);
    }
    mr_sink_print(sink, ",");
    if (cell->fit) mr_sink_print(sink, "%" PRIu64, cell->fit);
    if (c->backend) mr_report_measured_values(cell, sink);
    mr_sink_print(sink, "\n");
}

static void put_csv(const mr_comparison *c, mr_sink *sink)
{
    mr_sink_print(sink, "trace,spec,device,cuda_device,capacity,iterations,version");
    for (uint32_t i = 0; i < mr_metric_count; i++)
        mr_sink_print(sink, ",%s", mr_metric_list[i].name);
    mr_sink_print(sink, ",fit");
    if (c->backend) mr_report_measured_names(sink);
    mr_sink_print(sink, "\n");
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++)
        put_csv_row(c, &c->cells[i], sink);
}

static void put_json_number(const char *name, bool known, uint64_t value, mr_sink *sink)
{
    if (known) mr_sink_print(sink, ", \"%s\": %" PRIu64, name, value);
    else mr_sink_print(sink, ", \"%s\": null", name);
}

static void put_json_row(const mr_comparison *c, const mr_cell *cell, mr_sink *sink)
{
    const mr_scene *s = c->scene;
    mr_sink_print(sink, "  {\"trace\": ");
    mr_write_json_string(sink, s->trace.name);
    mr_sink_print(sink, ", \"spec\": ");
    mr_write_json_string(sink, cell->spec->text);
    mr_sink_print(sink, ", \"device\": ");
    mr_write_json_string(sink, s->device.name);
    put_json_number("cuda_device", true, cell->cuda_device, sink);
    put_json_number("capacity", s->capacity != UINT64_MAX, s->capacity, sink);
    put_json_number("iterations", true, s->iterations, sink);
    mr_sink_print(sink, ", \"version\": \"%s\"", MR_VERSION);
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        mr_sink_print(sink, ", \"%s\": ", mr_metric_list[i].name);
        const bool told = mr_is_told(&cell->failure, &cell->metrics, &mr_metric_list[i]);
        if (told) put_value(&cell->metrics, &mr_metric_list[i], sink);
        else mr_sink_print(sink, "null");
    }
    put_json_number("fit", cell->fit, cell->fit, sink);
    if (c->backend) mr_report_measured_json(cell, sink);
    mr_sink_print(sink, "}");
}

static void put_json(const mr_comparison *c, mr_sink *sink)
{
    mr_sink_print(sink, "[\n");
    const uint32_t n = c->specs * c->scene->cuda_device_count;
    for (uint32_t i = 0; i < n; i++) {
        put_json_row(c, &c->cells[i], sink);
        mr_sink_print(sink, i + 1 < n ? ",\n" : "\n");
    }
    mr_sink_print(sink, "]\n");
}

void mr_report_comparison(mr_ctx *ctx, const mr_comparison *comparison, const char *format,
                          mr_sink *sink)
{
    if (strcmp(format, "csv") == 0) put_csv(comparison, sink);
    else if (strcmp(format, "json") == 0) put_json(comparison, sink);
    else put_tables(ctx, comparison, strcmp(format, "md") == 0, sink);
}

void mr_print_metrics_help(void)
{
    printf("\ncolumns, whose name in CSV and JSON is the same\n");
    for (uint32_t i = 0; i < mr_metric_count; i++)
        printf("  %-15s %s\n", mr_metric_list[i].name, mr_metric_list[i].help);
    printf("  %-15s with --fit, smallest memory for the process on which it passes\n", "fit");
}
