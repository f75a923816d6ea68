/* plot_results -- figures of tables of results: of a sweep trade-offs, bars and maps of
 * combinations; of a grid of budgets the overhead against the budget. */
#include "results.h"

/* ---- what is asked for ------------------------------------------------------------------- */

/* Results are computed already: what a recording would be replayed with is no question here. */
static mr_status refuse_options(mr_ctx *ctx, const mr_args *args)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {{"--capacity", args->capacity},
                   {"--iterations", args->iterations},
                   {"--next-batch", args->next_batch},
                   {"--as-recorded", args->as_recorded},
                   {"--from", args->from},
                   {"--to", args->to},
                   {"--x", args->axis},
                   {"--colour", args->colour},
                   {"--format-of", args->reader},
                   {"--cuda-device", args->cuda_device != MR_NONE}};
    const char *path = args->words.at[0];
    for (size_t i = 0; i < MR_COUNT(options); i++)
        if (options[i].given)
            return mr_fail(ctx, MR_EUSAGE,
                           "%s is for recordings, but '%s' holds results: leave it out",
                           options[i].name, path);
    if (args->words.n == 1) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "'%s' holds results, all of which are shown: expected no spec, found '%s'",
                   path, args->words.at[1]);
}

/* ---- files ------------------------------------------------------------------------------- */

static mr_status draw(mr_ctx *ctx, const char *file, const char *script, const char *output,
                      mr_pen *pen)
{
    static const char *const ends[] = {"svg", "png"};
    for (size_t e = 0; e < MR_COUNT(ends); e++) {
        const char *out = mr_printf(ctx, "%s/%s.%s", output, file, ends[e]);
        if (mr_signal_waits()) return mr_fail(ctx, MR_EIO, "interrupted");
        MR_TRY(mr_pen_draw(pen, script, mr_printf(ctx, "%s/%s.csv", output, file), out));
        printf("%s\n", out);
    }
    return MR_OK;
}

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
    const char *data = mr_printf(ctx, "%s/%s.csv", output, k->file);
    mr_sink *sink;
    MR_TRY(mr_sink_open(ctx, data, &sink));
    k->write(ctx, results, sink);
    MR_TRY(mr_sink_commit(sink));
    printf("%s\n", data);
    return draw(ctx, k->file, k->script, output, pen);
}

static mr_status write_figures(mr_ctx *ctx, const mr_args *args, mr_pen *pen)
{
    mr_results results;
    MR_TRY(mr_results_read(ctx, args->words.at[0], args->device, &results));
    MR_TRY(mr_folder_make(ctx, args->output));
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        MR_TRY(write_figure(ctx, &results, &kinds[i], args->output, pen));
    return MR_OK;
}

static mr_status write_overhead(mr_ctx *ctx, const mr_args *args, mr_pen *pen)
{
    const char *data = mr_printf(ctx, "%s/overhead.csv", args->output);
    mr_budgets budgets;
    mr_sink *sink;
    if (args->device)
        return mr_fail(ctx, MR_EUSAGE, "'%s' names no devices: leave out --device",
                       args->words.at[0]);
    MR_TRY(mr_budgets_read(ctx, args->words.at[0], &budgets));
    MR_TRY(mr_folder_make(ctx, args->output));
    MR_TRY(mr_sink_open(ctx, data, &sink));
    mr_plot_overhead(ctx, &budgets, sink);
    MR_TRY(mr_sink_commit(sink));
    printf("%s\n", data);
    return draw(ctx, "overhead", "overhead", args->output, pen);
}

mr_status mr_plot_results(mr_ctx *ctx, const mr_args *args)
{
    mr_pen *pen = NULL;
    MR_TRY(refuse_options(ctx, args));
    mr_signals_hold();
    mr_status status = mr_pen_new(ctx, &pen);
    if (status == MR_OK)
        status = mr_budgets_told(ctx, args->words.at[0]) ? write_overhead(ctx, args, pen)
                                                         : write_figures(ctx, args, pen);
    if (pen) mr_pen_drop(pen);
    mr_signals_let();
    return status;
}
