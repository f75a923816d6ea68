/* list -- what is built in: strategies with their parameters, formats of recordings, devices.
 */
#include <inttypes.h>
#include <string.h>

#include "commands.h"
#include "format.h"
#include "report.h"
#include "strategies.h"

static const char *kind_of(const mr_strategy *s)
{
    return s->rewrite ? "rewrite" : s->clairvoyant ? "planner" : "placement";
}

static int widest_name(void)
{
    size_t width = 0;
    for (size_t i = 0; mr_strategies[i]; i++)
        if (strlen(mr_strategies[i]->name) > width) width = strlen(mr_strategies[i]->name);
    for (size_t i = 0; mr_formats[i]; i++)
        if (strlen(mr_formats[i]->name) > width) width = strlen(mr_formats[i]->name);
    return (int)width;
}

static void list_strategies(mr_sink *sink)
{
    mr_sink_print(sink,
                  "strategies: rewrites change what a step does, placements where its memory lies; "
                  "a planner\nis a placement that knows the whole step before it begins, as no "
                  "allocator does\n");
    for (size_t i = 0; mr_strategies[i]; i++) {
        const char *family = mr_strategy_families[i];
        const bool new = i == 0 || strcmp(family, mr_strategy_families[i - 1]) != 0;
        if (new) mr_sink_print(sink, "  %s\n", family);
        mr_sink_print(sink, "    %-*s  %-9s  %s\n", widest_name(), mr_strategies[i]->name,
                      kind_of(mr_strategies[i]), mr_strategies[i]->summary);
    }
}

static void list_formats(mr_sink *sink)
{
    mr_sink_print(sink, "formats of recordings, told by content\n");
    for (size_t i = 0; mr_formats[i]; i++)
        mr_sink_print(sink, "    %-*s  %s\n", widest_name(), mr_formats[i]->name,
                      mr_formats[i]->summary);
}

static mr_status list_devices(mr_ctx *ctx, mr_sink *sink)
{
    static const char *const headings[] = {"device", "memory", "context", "description"};
    static const bool left[] = {true, false, false, true};
    const mr_device *devices;
    uint32_t n;
    MR_TRY(mr_devices(ctx, &devices, &n));
    mr_table table = {MR_COUNT(headings), headings, left, {0}};
    for (uint32_t i = 0; i < n; i++) {
        MR_PUSH(ctx, &table.cells, devices[i].name);
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, devices[i].memory));
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, devices[i].context));
        MR_PUSH(ctx, &table.cells, devices[i].description);
    }
    mr_table_text(ctx, &table, "", sink);
    return MR_OK;
}

static mr_status list_everything(mr_ctx *ctx, mr_sink *sink)
{
    const mr_device *devices;
    uint32_t n;
    MR_TRY(mr_devices(ctx, &devices, &n));
    list_strategies(sink);
    mr_sink_print(sink, "\n");
    list_formats(sink);
    mr_sink_print(sink,
                  "\ndevices: memreuse list devices shows %" PRIu32 " with their memory\n", n);
    mr_sink_print(sink, "\nmemreuse list NAME says more about one of them.\n");
    return MR_OK;
}

/* ---- one of them ------------------------------------------------------------------------- */

static void show_param(mr_ctx *ctx, const mr_param *p, int width, mr_sink *sink)
{
    const char *legal = p->choices ? mr_printf(ctx, " (%s)", p->choices) : "";
    const bool has_fallback = p->fallback && *p->fallback;
    const char *fallback = has_fallback ? mr_printf(ctx, " (default %s)", p->fallback) : "";
    const char *text = mr_printf(ctx, "%s%s%s", p->help, legal, fallback);
    mr_sink_print(sink, "  %-*s  %s\n", width, p->name,
                  mr_fold(ctx, text, (uint32_t)width + 4));
}

static void show_needs(unsigned needs, mr_sink *sink)
{
    static const struct {
        unsigned bit;
        const char *text;
    } words[] = {
        {MR_HAS_DATAFLOW, "dataflow"},    {MR_HAS_PHASES, "phases"},
        {MR_HAS_TIMES, "measured times"}, {MR_HAS_SAVED, "saved tensors"},
        {MR_HAS_DROPS, "drops"},          {MR_HAS_HISTORY, "the allocator's own history"}};
    const char *between = "  needs a recording with ";
    for (size_t i = 0; i < MR_COUNT(words); i++) {
        if (!(needs & words[i].bit)) continue;
        mr_sink_print(sink, "%s%s", between, words[i].text);
        between = ", ";
    }
    if (needs) mr_sink_print(sink, "\n");
}

static void show_strategy(mr_ctx *ctx, const mr_strategy *s, mr_sink *sink)
{
    mr_sink_print(sink, "%s  %s  %s\n", s->name, kind_of(s), s->summary);
    if (s->how) mr_sink_print(sink, "  in PyTorch: %s\n", mr_fold(ctx, s->how, 14));
    if (s->source) mr_sink_print(sink, "  after %s\n", s->source);
    show_needs(s->needs, sink);
    int width = 0;
    for (const mr_param *p = s->params; p && p->name; p++)
        if ((int)strlen(p->name) > width) width = (int)strlen(p->name);
    if (width)
        mr_sink_print(sink, "\nparameters, as in %s:%s=%s\n", s->name, s->params->name,
                      s->params->fallback ? s->params->fallback : "...");
    for (const mr_param *p = s->params; p && p->name; p++) show_param(ctx, p, width, sink);
}

static void show_device(mr_ctx *ctx, const mr_device *d, mr_sink *sink)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
#define X(field) {#field, offsetof(mr_device, field)},
        MR_DEVICE_FIELDS(X)
#undef X
    };
    mr_sink_print(sink, "%s  %s\n", d->name, d->description);
    mr_sink_print(sink, "  %-18s  %s\n", "for a process",
                  mr_show_bytes(ctx, mr_device_capacity(d)));
    for (size_t i = 0; i < MR_COUNT(fields); i++) {
        const uint64_t value =
            *(const uint64_t *)(const void *)((const char *)d + fields[i].offset);
        if (value) mr_sink_print(sink, "  %-18s  %" PRIu64 "\n", fields[i].name, value);
        else mr_sink_print(sink, "  %-18s  unknown\n", fields[i].name);
    }
    mr_sink_print(sink, "  %-18s  %s (see bench/devices.md)\n", "sources", d->source);
}

static mr_status list_strategies_alone(mr_ctx *ctx, mr_sink *sink)
{
    (void)ctx;
    list_strategies(sink);
    return MR_OK;
}

static mr_status list_formats_alone(mr_ctx *ctx, mr_sink *sink)
{
    (void)ctx;
    list_formats(sink);
    return MR_OK;
}

static const struct {
    const char *name;
    mr_status (*put)(mr_ctx *ctx, mr_sink *sink);
} tables[] = {{"strategies", list_strategies_alone},
              {"formats", list_formats_alone},
              {"devices", list_devices}};

static mr_status show_one(mr_ctx *ctx, const char *name, mr_sink *sink)
{
    mr_words names = {0};
    for (size_t i = 0; mr_strategies[i]; i++) {
        if (strcmp(mr_strategies[i]->name, name) == 0)
            return show_strategy(ctx, mr_strategies[i], sink), MR_OK;
        MR_PUSH(ctx, &names, mr_strategies[i]->name);
    }
    for (size_t i = 0; mr_formats[i]; i++) {
        if (strcmp(mr_formats[i]->name, name) == 0)
            return mr_sink_print(sink, "%s  format  %s\n", name, mr_formats[i]->summary), MR_OK;
        MR_PUSH(ctx, &names, mr_formats[i]->name);
    }
    mr_device device;
    if (mr_device_find(ctx, name, &device) == MR_OK)
        return show_device(ctx, &device, sink), MR_OK;
    for (size_t i = 0; i < MR_COUNT(tables); i++) MR_PUSH(ctx, &names, tables[i].name);
    const char *near = mr_nearest(name, names.at, names.n);
    if (!near && strstr(ctx->failure.text, "did you mean")) return MR_EUSAGE;
    if (!near) near = "";
    return mr_fail(ctx, MR_EUSAGE, "nothing is called '%s' (%s%s%s)", name,
                   *near ? "did you mean '" : "see memreuse list", near, *near ? "'?" : "");
}

static mr_status show(mr_ctx *ctx, const char *name, mr_sink *sink)
{
    for (size_t i = 0; i < MR_COUNT(tables); i++)
        if (strcmp(tables[i].name, name) == 0) return tables[i].put(ctx, sink);
    return show_one(ctx, name, sink);
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_sink *sink;
    MR_TRY(mr_report_open(ctx, "-", &sink));
    const char *name = args->words.n ? args->words.at[0] : NULL;
    MR_TRY(name ? show(ctx, name, sink) : list_everything(ctx, sink));
    return mr_sink_commit(sink);
}

const mr_command mr_command_list = {
    .name = "list",
    .usage = "[NAME]",
    .summary = "shows what is built in: strategies, formats of recordings, devices",
    .more =
        "NAME is a strategy, a format or a device, or one of the words strategies, formats\n"
        "and devices.",
    .words_max = 1,
    .run = run,
};
