/* plot_results -- figures of a sweep: trade-offs, bars, maps of combinations. */
#include "results.h"

typedef struct kind {
    const char *file, *script;
    void (*write)(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
} kind;

static const kind kinds[] = {
    {"trade-off", "trade-off", mr_plot_tradeoff},
    {"bars", "bars", mr_plot_bars},
    {"combinations", "map", mr_plot_combinations},
    {"slowdown", "map", mr_plot_slowdown},
};

static mr_status write_figure(mr_ctx *ctx, const mr_results *results, const kind *k,
                              const char *output, mr_pen *pen)
{
    static const char *const ends[] = {"svg", "png"};
    const char *data = mr_printf(ctx, "%s/%s.csv", output, k->file);
    mr_sink *sink;
    MR_TRY(mr_sink_open(ctx, data, &sink));
    k->write(ctx, results, sink);
    MR_TRY(mr_sink_commit(sink));
    printf("%s\n", data);
    for (size_t e = 0; e < MR_COUNT(ends); e++) {
        const char *out = mr_printf(ctx, "%s/%s.%s", output, k->file, ends[e]);
        if (mr_signal_waits()) return mr_fail(ctx, MR_EIO, "interrupted");
        MR_TRY(mr_pen_draw(pen, k->script, data, out));
        printf("%s\n", out);
    }
    return MR_OK;
}

mr_status mr_plot_results(mr_ctx *ctx, const char *path, const char *output)
{
    mr_results results;
    mr_pen *pen = NULL;
    MR_TRY(mr_results_read(ctx, path, &results));
    mr_signals_hold();
    mr_status status = mr_pen_new(ctx, &pen);
    for (size_t i = 0; status == MR_OK && i < MR_COUNT(kinds); i++)
        status = write_figure(ctx, &results, &kinds[i], output, pen);
    if (pen) mr_pen_drop(pen);
    mr_signals_let();
    return status;
}
