/* list -- one list as a table, Markdown, CSV or JSON. */
#include <inttypes.h>
#include <string.h>

#include "info.h"

/* ---- cells ------------------------------------------------------------------------------- */

const char *mr_show_work(mr_ctx *ctx, uint64_t flops)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P", " E"};
    double value = (double)flops;
    size_t unit = 0;
    if (flops < 1000) return mr_printf(ctx, "%" PRIu64, flops);
    while (value >= 999.995 && unit + 1 < MR_COUNT(units)) {
        value /= 1000;
        unit++;
    }
    return mr_printf(ctx, "%.2f%s", value, units[unit]);
}

void mr_list_add_text(mr_ctx *ctx, mr_list *list, const char *shown, const char *plain)
{
    MR_PUSH(ctx, &list->cells, (mr_list_cell){shown, plain});
}

static const char *show_share(mr_ctx *ctx, uint64_t part, uint64_t whole)
{
    return mr_printf(ctx, "%.1f%%", whole ? 100 * (double)part / (double)whole : 0);
}

void mr_list_add(mr_ctx *ctx, mr_list *list, uint64_t number)
{
    const char *plain = mr_printf(ctx, "%" PRIu64, number), *shown = plain;
    switch (list->columns[list->cells.n % list->n].kind) {
    case MR_LIST_TEXT:
    case MR_LIST_COUNT: break;
    case MR_LIST_BYTES: shown = number ? mr_show_bytes(ctx, number) : "-"; break;
    case MR_LIST_SHARE: shown = show_share(ctx, number, list->whole); break;
    case MR_LIST_WORK: shown = number ? mr_show_work(ctx, number) : "-"; break;
    case MR_LIST_NS: shown = number ? mr_show_ns(ctx, number) : "-"; break;
    }
    mr_list_add_text(ctx, list, shown, plain);
}

/* ---- for people -------------------------------------------------------------------------- */

/* A column in which nothing stands says nothing. */
static bool is_empty(const mr_list *list, uint32_t column)
{
    for (uint32_t i = column; i < list->cells.n; i += list->n)
        if (strcmp(list->cells.at[i].shown, "-") != 0 && *list->cells.at[i].shown) return false;
    return list->cells.n > 0;
}

static void put_table(mr_ctx *ctx, const mr_list *list, bool markdown, mr_sink *sink)
{
    MR_VEC(const char *) headings = {0};
    MR_VEC(bool) left = {0};
    MR_VEC(uint32_t) shown = {0};
    for (uint32_t i = 0; i < list->n; i++) {
        if (!list->columns[i].heading || (i && is_empty(list, i))) continue;
        MR_PUSH(ctx, &shown, i);
        const bool titled = list->title && !headings.n;
        MR_PUSH(ctx, &headings, titled ? list->title : list->columns[i].heading);
        MR_PUSH(ctx, &left, list->columns[i].kind == MR_LIST_TEXT);
    }
    mr_table table = {shown.n, headings.at, left.at, {0}};
    for (uint32_t row = 0; row < list->cells.n; row += list->n)
        for (uint32_t i = 0; i < shown.n; i++)
            MR_PUSH(ctx, &table.cells, list->cells.at[row + shown.at[i]].shown);
    if (markdown) mr_table_markdown(ctx, &table, sink);
    else mr_table_text(ctx, &table, "  ", sink);
    if (list->left_out && !markdown)
        mr_sink_print(sink, "  and %" PRIu32 " more\n", list->left_out);
}

/* ---- for programs ------------------------------------------------------------------------ */

static void put_csv_row(const mr_list *list, const mr_list_cell *row,
                        const mr_list_origin *origin, mr_sink *sink)
{
    mr_write_csv_field(sink, origin->trace);
    mr_sink_print(sink, ",%" PRIu32 ",%" PRIu32, origin->cuda_device, origin->event);
    for (uint32_t i = 0; i < list->n; i++) {
        if (!list->columns[i].key) continue;
        mr_sink_print(sink, ",");
        if (row[i].plain) mr_write_csv_field(sink, row[i].plain);
    }
    mr_sink_print(sink, "\n");
}

static void put_csv(const mr_list *list, const mr_list_origin *origin, mr_sink *sink)
{
    if (origin->first) {
        mr_sink_print(sink, "trace,cuda_device,event");
        for (uint32_t i = 0; i < list->n; i++)
            if (list->columns[i].key) mr_sink_print(sink, ",%s", list->columns[i].key);
        mr_sink_print(sink, "\n");
    }
    for (uint32_t row = 0; row < list->cells.n; row += list->n)
        put_csv_row(list, list->cells.at + row, origin, sink);
}

static void put_json_row(const mr_list *list, const mr_list_cell *row,
                         const mr_list_origin *origin, mr_sink *sink)
{
    mr_sink_print(sink, "  {\"trace\": ");
    mr_write_json_string(sink, origin->trace);
    mr_sink_print(sink, ", \"cuda_device\": %" PRIu32 ", \"event\": %" PRIu32,
                  origin->cuda_device, origin->event);
    for (uint32_t i = 0; i < list->n; i++) {
        if (!list->columns[i].key) continue;
        mr_sink_print(sink, ", \"%s\": ", list->columns[i].key);
        if (!row[i].plain) mr_sink_print(sink, "null");
        else if (list->columns[i].kind == MR_LIST_TEXT)
            mr_write_json_string(sink, row[i].plain);
        else mr_sink_print(sink, "%s", row[i].plain);
    }
    mr_sink_print(sink, "}");
}

static void put_json(const mr_list *list, const mr_list_origin *origin, mr_sink *sink)
{
    if (origin->first) mr_sink_print(sink, "[");
    for (uint32_t row = 0; row < list->cells.n; row += list->n) {
        mr_sink_print(sink, row || !origin->first ? ",\n" : "\n");
        put_json_row(list, list->cells.at + row, origin, sink);
    }
    if (origin->last) mr_sink_print(sink, "\n]\n");
}

void mr_list_write(mr_ctx *ctx, const mr_list *list, const char *format,
                   const mr_list_origin *origin, mr_sink *sink)
{
    if (strcmp(format, "csv") == 0) put_csv(list, origin, sink);
    else if (strcmp(format, "json") == 0) put_json(list, origin, sink);
    else put_table(ctx, list, strcmp(format, "md") == 0, sink);
}
