/* peaks -- the four peaks of every spec, for plots/peaks.gp. */
#include <inttypes.h>

#include "plot.h"

static void add_limit(mr_ctx *ctx, const mr_scene *scene, mr_head *head)
{
    if (scene->capacity == UINT64_MAX) return;
    const uint64_t limit = scene->capacity + scene->device.context;
    mr_head_add(head, "limit\t%" PRIu64 "\t%s: %s", limit,
                scene->device_assumed ? "capacity and context" : scene->device.name,
                mr_show_bytes(ctx, limit));
}

void mr_plot_peaks(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink)
{
    mr_head head = mr_head_begin(ctx, figure, "Peak memory");
    uint64_t high = 1;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_metrics *m = &figure->panels.at[p].answer->metrics;
        if (m->peak_device > high) high = m->peak_device;
    }
    mr_head_add(&head, "y\t%" PRIu64, high);
    add_limit(ctx, figure->scene, &head);
    mr_head_add(
        &head, "caption\t%s",
        figure->scene->device_assumed
            ? mr_printf(ctx, "Context as on %s; --device names another.",
                        figure->scene->device.name)
            : "Bars of a spec that runs out of memory show what it reached until then.");
    if (figure->scene->iterations > 1)
        mr_head_add(&head, "caption\tPeaks are the largest of all iterations.");
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,requested,allocated,reserved,device,oom,spec\n");
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_answer *answer = figure->panels.at[p].answer;
        const mr_metrics *m = &answer->metrics;
        mr_sink_print(sink, "%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d,",
                      p + 1, m->peak_requested, m->peak_allocated, m->peak_reserved,
                      m->peak_device, answer->placement.oom_at != MR_NONE);
        mr_write_csv_field(sink, figure->panels.at[p].spec);
        mr_sink_print(sink, "\n");
    }
}
