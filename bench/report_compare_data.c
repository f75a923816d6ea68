/* comparison -- the cells of compare as CSV and JSON, with columns from metrics.def. */
#include <inttypes.h>

#include "compare.h"
#include "measured.h"

static void put_value(const mr_metrics *metrics, const mr_metric *metric, mr_sink *sink)
{
    const uint64_t value = mr_metric_value(metrics, metric);
    if (metric->unit == MR_PER_S)
        mr_sink_print(sink, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
    else mr_sink_print(sink, "%" PRIu64, value);
}

/* Why there is no result, or no measurement beside it; "" when there is. */
static const char *reason(const mr_cell *cell)
{
    return cell->failure.status ? cell->failure.text : cell->not_measured.text;
}

static const mr_metrics *measured(const mr_cell *cell)
{
    return cell->was_measured ? &cell->measured : NULL;
}

static void put_csv_row(const mr_comparison *c, const mr_cell *cell, mr_sink *sink)
{
    const mr_scene *s = c->scene;
    mr_write_csv_field(sink, s->trace.name);
    mr_sink_print(sink, ",");
    mr_write_csv_field(sink, cell->spec->text);
    mr_sink_print(sink, ",%s,%" PRIu32 ",", s->device.name, cell->cuda_device);
    if (s->capacity != UINT64_MAX) mr_sink_print(sink, "%" PRIu64, s->capacity);
    mr_sink_print(sink, ",%" PRIu32 ",%s,%s", s->iterations, MR_VERSION,
                  mr_show_result(&cell->failure, &cell->metrics));
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        mr_sink_print(sink, ",");
        if (mr_cell_tells(c, cell, &mr_metric_list[i]))
            put_value(&cell->metrics, &mr_metric_list[i], sink);
    }
    mr_sink_print(sink, ",");
    if (cell->fit) mr_sink_print(sink, "%" PRIu64, cell->fit);
    if (c->on_device) mr_report_measured_values(measured(cell), sink);
    mr_sink_print(sink, ",");
    mr_write_csv_field(sink, reason(cell));
    mr_sink_print(sink, "\n");
}

void mr_report_comparison_csv(const mr_comparison *c, mr_sink *sink)
{
    mr_sink_print(sink, "trace,spec,device,cuda_device,capacity,iterations,version,result");
    for (uint32_t i = 0; i < mr_metric_count; i++)
        mr_sink_print(sink, ",%s", mr_metric_list[i].name);
    mr_sink_print(sink, ",fit");
    if (c->on_device) mr_report_measured_names(sink);
    mr_sink_print(sink, ",reason\n");
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
    mr_sink_print(sink, ", \"version\": \"%s\", \"result\": \"%s\"", MR_VERSION,
                  mr_show_result(&cell->failure, &cell->metrics));
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        mr_sink_print(sink, ", \"%s\": ", mr_metric_list[i].name);
        const bool told = mr_cell_tells(c, cell, &mr_metric_list[i]);
        if (told) put_value(&cell->metrics, &mr_metric_list[i], sink);
        else mr_sink_print(sink, "null");
    }
    put_json_number("fit", cell->fit, cell->fit, sink);
    if (c->on_device) mr_report_measured_json(measured(cell), sink);
    mr_sink_print(sink, ", \"reason\": ");
    if (*reason(cell)) mr_write_json_string(sink, reason(cell));
    else mr_sink_print(sink, "null");
    mr_sink_print(sink, "}");
}

void mr_report_comparison_json(const mr_comparison *c, mr_sink *sink)
{
    mr_sink_print(sink, "[\n");
    const uint32_t n = c->specs * c->scene->cuda_device_count;
    for (uint32_t i = 0; i < n; i++) {
        put_json_row(c, &c->cells[i], sink);
        mr_sink_print(sink, i + 1 < n ? ",\n" : "\n");
    }
    mr_sink_print(sink, "]\n");
}
