/* head -- the texts at the beginning of a figure's table. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "plot.h"

void mr_head_add(mr_head *head, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    MR_PUSH(head->ctx, &head->lines, mr_strdup(head->ctx, text));
}

void mr_head_write(const mr_head *head, mr_sink *sink)
{
    mr_sink_print(sink, "# head\t%" PRIu32 "\n", head->lines.n + 1);
    for (uint32_t i = 0; i < head->lines.n; i++)
        mr_sink_print(sink, "# %s\n", head->lines.at[i]);
}

/* Tabs separate the fields of a head. */
const char *mr_head_text(mr_ctx *ctx, const char *text, size_t most)
{
    const size_t n = strlen(text);
    char *copy = mr_strndup(ctx, text, n > most ? most : n);
    for (char *c = copy; *c; c++)
        if (*c == '\t') *c = ' ';
    return n > most ? mr_printf(ctx, "%s...", copy) : copy;
}

/* What was trained, as far as the recording says. */
static const char *describe_model(mr_ctx *ctx, const mr_trace *trace)
{
    static const struct {
        mr_about field;
        const char *before;
    } fields[] = {{MR_ABOUT_model, ""},
                  {MR_ABOUT_batch, "batch "},
                  {MR_ABOUT_sequence, "sequence "},
                  {MR_ABOUT_image, "image "},
                  {MR_ABOUT_precision, ""},
                  {MR_ABOUT_optimizer, ""}};
    const char *text = "";
    for (size_t i = 0; i < MR_COUNT(fields); i++) {
        const char *said = trace->about[fields[i].field];
        if (said && *said)
            text = mr_printf(ctx, "%s%s%s%s", text, *text ? ", " : "", fields[i].before,
                             mr_head_text(ctx, said, 40));
    }
    return text;
}

static const char *describe_scene(mr_ctx *ctx, const mr_figure *figure)
{
    const mr_scene *scene = figure->scene;
    const char *text = mr_head_text(ctx, scene->trace.name, 60);
    const char *model = describe_model(ctx, &scene->trace);
    if (*model) text = mr_printf(ctx, "%s: %s", text, model);
    if (scene->cuda_device_count > 1)
        text = mr_printf(ctx, "%s, device %" PRIu32, text, figure->cuda_device);
    if (scene->iterations > 1)
        text = mr_printf(ctx, "%s%s one after another", text,
                         mr_show_iterations(ctx, scene->iterations));
    if (!scene->device_assumed)
        text = mr_printf(ctx, "%s, predicted for %s", text, scene->device.name);
    return text;
}

static const char *describe_iteration(mr_ctx *ctx, const mr_schedule *schedule, uint32_t event)
{
    if (schedule->ends.n < 2) return "";
    return mr_printf(ctx, ", in iteration %" PRIu32, mr_clock_iteration(schedule, event) + 1);
}

static const char *describe_panel(mr_ctx *ctx, const mr_figure *figure, const mr_answer *answer)
{
    const mr_schedule *schedule = &answer->schedule;
    const uint32_t oom = answer->placement.oom_at;
    if (oom != MR_NONE && figure->numbered)
        return mr_printf(ctx, "out of memory at event %" PRIu32 " of %" PRIu32,
                         mr_recorded_event(schedule, oom), answer->trace.events.n);
    if (oom != MR_NONE)
        return mr_printf(ctx, "out of memory at event %" PRIu32 " of %" PRIu32 "%s", oom,
                         schedule->events.n, describe_iteration(ctx, schedule, oom));
    return mr_printf(ctx, "peak: %s allocated, %s reserved",
                     mr_show_bytes(ctx, answer->metrics.peak_allocated),
                     mr_show_bytes(ctx, answer->metrics.peak_reserved));
}

#define SPEC_MOST 64 /* characters of a spec that fit above a panel */

mr_head mr_head_begin(mr_ctx *ctx, const mr_figure *figure, const char *title)
{
    mr_head head = {.ctx = ctx};
    mr_head_add(&head, "title\t%s", title);
    mr_head_add(&head, "subtitle\t%s", describe_scene(ctx, figure));
    mr_head_add(&head, "x\t0\t%.12g\t%s", figure->x_end,
                figure->by_time    ? "time"
                : figure->numbered ? "events of the recording"
                                   : "events");

    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_panel *panel = &figure->panels.at[p];
        mr_head_add(&head, "panel\t%" PRIu32 "\t%s\t%s", p + 1,
                    mr_head_text(ctx, panel->spec, SPEC_MOST),
                    describe_panel(ctx, figure, panel->answer));
    }
    return head;
}
