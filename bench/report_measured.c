/* measured -- what a device took, beside what was predicted for it. */
#include <inttypes.h>

#include "measured.h"

/* What a device can tell, of all that is predicted. */
static const struct {
    size_t offset;
    const char *name;
} shown[] = {{offsetof(mr_metrics, peak_device), "peak\ndevice"},
             {offsetof(mr_metrics, device_time), "device\ntime"},
             {offsetof(mr_metrics, time), "time"}};

static const mr_metric *metric_at(size_t offset)
{
    uint32_t i = 0;
    while (mr_metric_list[i].offset != offset) i++;
    return &mr_metric_list[i];
}

static const char *error_of(mr_ctx *ctx, uint64_t predicted, uint64_t measured)
{
    if (!measured) return "-";
    const double error = 100 * ((double)predicted / (double)measured - 1);
    return mr_printf(ctx, "%+.1f%%", error > -0.05 && error < 0.05 ? 0 : error);
}

static const char *spread(mr_ctx *ctx, const mr_metrics *measured)
{
    if (!measured->time) return "-";
    return mr_printf(ctx, "%.1f%%", 100 * (double)measured->spread / (double)measured->time);
}

static void add_row(mr_ctx *ctx, const mr_measured *row, mr_table *table)
{
    MR_PUSH(ctx, &table->cells, row->name);
    for (size_t i = 0; i < MR_COUNT(shown); i++) {
        const mr_metric *m = metric_at(shown[i].offset);
        const uint64_t predicted = mr_metric_value(row->predicted, m);
        const uint64_t measured = mr_metric_value(row->measured, m);
        MR_PUSH(ctx, &table->cells, mr_show_value(ctx, m->unit, predicted));
        MR_PUSH(ctx, &table->cells, mr_show_value(ctx, m->unit, measured));
        MR_PUSH(ctx, &table->cells, error_of(ctx, predicted, measured));
    }
    MR_PUSH(ctx, &table->cells, spread(ctx, row->measured));
}

/* What stood in for the ops, of all rows together. */
static void put_acts(const mr_measureds *rows, mr_sink *sink)
{
    static const char *const texts[] = {
#define X(name, text) text,
        MR_ACT_LIST(X)
#undef X
    };
    double acts[MR_ACT_N] = {0}, all = 0;
    const char *separator = "\nof the predicted time: ";
    for (uint32_t i = 0; i < rows->n; i++)
        for (uint32_t a = 0; a < MR_ACT_N; a++) {
            acts[a] += (double)rows->at[i].measured->acts[a];
            all += (double)rows->at[i].measured->acts[a];
        }
    for (uint32_t a = 0; a < MR_ACT_N; a++) {
        if (acts[a] <= 0) continue;
        mr_sink_print(sink, "%s%.1f%% %s", separator, 100 * acts[a] / all, texts[a]);
        separator = ", ";
    }
    if (all > 0) mr_sink_print(sink, "\n");
}

/* What may have spoilt the measurement. */
static void put_disturbances(mr_ctx *ctx, const mr_measureds *rows, mr_sink *sink)
{
    mr_disturbance all = {0};
    for (uint32_t i = 0; i < rows->n; i++) {
        const mr_disturbance *d = &rows->at[i].measured->disturbance;
        if (d->others > all.others) all.others = d->others;
        if (d->others_bytes > all.others_bytes) all.others_bytes = d->others_bytes;
        all.slowed |= d->slowed;
        all.divided |= d->divided;
    }
    if (all.others)
        mr_sink_print(sink, "warning: %s computed on this GPU as well, and held %s\n",
                      mr_show_count(ctx, all.others, "other process", "other processes"),
                      mr_show_bytes(ctx, all.others_bytes));
#define X(bit, text)                                                                            \
    if (all.slowed & (bit)) mr_sink_print(sink, "warning: the GPU was slowed down by " text "\n");
    MR_SLOWED_LIST(X)
#undef X
    if (all.divided)
        mr_sink_print(sink, "warning: the GPU is divided (MIG), others may use its bandwidth\n");
}

const char *mr_show_manner(mr_ctx *ctx, const mr_manner *manner)
{
    static const char *const ops[] = {
        [MR_COMPUTE_NONE] = "no op run",
        [MR_COMPUTE_TOUCH] = "each op's tensors touched",
        [MR_COMPUTE_FULL] = "each op carried out or its time let pass"};
    return mr_printf(ctx, "CUDA device %" PRIu32 ", %s%s", manner->gpu, ops[manner->compute],
                     manner->verify ? " and every byte verified" : "");
}

void mr_report_measureds(mr_ctx *ctx, const mr_measureds *rows, bool markdown, mr_sink *sink)
{
    MR_VEC(const char *) headings = {0};
    mr_table table = {0};
    MR_PUSH(ctx, &headings, "spec");
    for (size_t i = 0; i < MR_COUNT(shown); i++) {
        MR_PUSH(ctx, &headings, mr_printf(ctx, "%s\npredicted", shown[i].name));
        MR_PUSH(ctx, &headings, "\nmeasured");
        MR_PUSH(ctx, &headings, "\nerror");
    }
    MR_PUSH(ctx, &headings, "\nspread");
    table.columns = headings.n;
    table.headings = headings.at;
    for (uint32_t i = 0; i < rows->n; i++) add_row(ctx, &rows->at[i], &table);
    if (markdown) mr_table_markdown(ctx, &table, sink);
    else mr_table_text(ctx, &table, "", sink);
    put_acts(rows, sink);
    put_disturbances(ctx, rows, sink);
}

void mr_report_measured_names(mr_sink *sink)
{
    for (size_t i = 0; i < MR_COUNT(shown); i++)
        mr_sink_print(sink, ",measured_%s", metric_at(shown[i].offset)->name);
    mr_sink_print(sink, ",measured_spread");
}

void mr_report_measured_values(const mr_metrics *measured, mr_sink *sink)
{
    for (size_t i = 0; i < MR_COUNT(shown); i++) {
        const mr_metric *m = metric_at(shown[i].offset);
        if (measured) mr_sink_print(sink, ",%" PRIu64, mr_metric_value(measured, m));
        else mr_sink_print(sink, ",");
    }
    if (measured) mr_sink_print(sink, ",%" PRIu64, measured->spread);
    else mr_sink_print(sink, ",");
}

void mr_report_measured_json(const mr_metrics *measured, mr_sink *sink)
{
    for (size_t i = 0; i < MR_COUNT(shown); i++) {
        const mr_metric *m = metric_at(shown[i].offset);
        mr_sink_print(sink, ", \"measured_%s\": ", m->name);
        if (measured) mr_sink_print(sink, "%" PRIu64, mr_metric_value(measured, m));
        else mr_sink_print(sink, "null");
    }
    if (measured)
        mr_sink_print(sink, ", \"measured_spread\": %" PRIu64, measured->spread);
    else mr_sink_print(sink, ", \"measured_spread\": null");
}
