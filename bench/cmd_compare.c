/* compare -- the table of peaks, costs and verdicts, one row per spec. */
#include <inttypes.h>
#include <string.h>

#include "compare.h"
#include "measured.h"

/* Tried when the command line names no spec: what was recorded, what is often advised, and the
 * two ends of what is possible. */
static const char *const advised[] = {"expandable_segments=True", "max_split_size_mb=128",
                                      "roundup_power2_divisions=8"};

static void default_specs(mr_ctx *ctx, const mr_trace *trace, mr_words *out)
{
    MR_PUSH(ctx, out, mr_scene_recorded_spec(ctx, trace));
    MR_PUSH(ctx, out, mr_scene_pytorch_spec(ctx, trace, NULL));
    for (size_t i = 0; i < MR_COUNT(advised); i++)
        MR_PUSH(ctx, out, mr_scene_pytorch_spec(ctx, trace, advised[i]));
    MR_PUSH(ctx, out, "native");
}

static mr_status choose_specs(mr_ctx *ctx, const mr_args *args, const mr_trace *trace,
                              mr_specs *out)
{
    mr_words words;
    MR_TRY(mr_scene_specs(ctx, args, 1, &words));
    const bool none = args->words.n < 2;
    if (none) {
        mr_words chosen = {0};
        default_specs(ctx, trace, &chosen);
        for (uint32_t i = 0; i < words.n; i++) MR_PUSH(ctx, &chosen, words.at[i]);
        words = chosen;
    }
    for (uint32_t i = 0; i < words.n; i++) MR_TRY(mr_specs_add(ctx, words.at[i], out));
    return mr_specs_add(ctx, "bound", out); /* there is always a row that nobody beats */
}

static mr_status write_comparison(mr_ctx *ctx, const mr_args *args, const mr_comparison *c)
{
    mr_sink *sink;
    const bool people = strcmp(args->format, "table") == 0 || strcmp(args->format, "md") == 0;
    MR_TRY(mr_sink_open(ctx, args->output ? args->output : "-", &sink));
    if (people) mr_sink_for_people(sink);
    mr_report_comparison(ctx, c, args->format, sink);
    return mr_sink_commit(sink);
}

/* A cell that failed does not take the others with it; its sentence comes after the table. */
static void report_failures(mr_ctx *ctx, const mr_comparison *c, int *answer)
{
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++) {
        const mr_cell *cell = &c->cells[i];
        mr_failure failure = cell->failure.status ? cell->failure : cell->not_measured;
        if (failure.status == MR_OK) continue;
        const char *where = c->scene->cuda_device_count == 1
                                ? ""
                                : mr_printf(ctx, " on device %" PRIu32, cell->cuda_device);
        const char *text =
            mr_printf(ctx, "%s%s: %s", cell->spec->text, where, failure.text);
        snprintf(failure.text, sizeof failure.text, "%s", text);
        fflush(stdout);
        mr_report_failure(stderr, &failure);
        *answer = mr_status_exit(failure.status);
    }
}

/* For scripts that must not go on when a step has grown: the row that nobody beats is ours. */
static void hold_to(mr_ctx *ctx, const mr_comparison *c, uint64_t most, int *answer)
{
    mr_failure failure = {.status = MR_EINVARIANT};
    for (uint32_t i = 0; most && i < c->specs * c->scene->cuda_device_count; i++) {
        const mr_cell *cell = &c->cells[i];
        const bool fits = mr_cell_passed(cell) && cell->metrics.peak_reserved <= most;
        if (fits || cell->failure.status || strcmp(cell->spec->text, "bound") == 0) continue;
        const char *found = mr_show_bytes(ctx, cell->metrics.peak_reserved);
        found = mr_cell_passed(cell) ? mr_printf(ctx, "%s are reserved, more than", found)
                                     : "out of memory, not within";
        snprintf(failure.text, sizeof failure.text, "%s: %s --max-peak %s", cell->spec->text,
                 found, mr_show_bytes(ctx, most));
        fflush(stdout);
        mr_report_failure(stderr, &failure);
        *answer = 1;
    }
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    mr_scene scene;
    mr_specs chosen = {0};
    MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_scene_read(ctx, args, &scene));
    mr_scene_repeat(args, &scene);
    MR_TRY(choose_specs(ctx, args, &scene.trace, &chosen));
    mr_comparison c = {.scene = &scene, .specs = chosen.n, .fit = args->fit};
    MR_TRY(mr_measure_options(ctx, args, &c));
    MR_TRY(mr_measure_probe(ctx, &c));
    if (args->limit && !args->capacity) scene.capacity = args->limit;
    c.cells = MR_NEW_N(ctx, mr_cell, c.specs * scene.cuda_device_count);
    for (uint32_t i = 0; i < c.specs * scene.cuda_device_count; i++) {
        c.cells[i].spec = &chosen.at[i % c.specs];
        c.cells[i].cuda_device = scene.cuda_devices[i / c.specs];
    }
    mr_compare(ctx, &c, (uint32_t)args->jobs);
    if (c.on_device) mr_measure(&c);
    MR_TRY(write_comparison(ctx, args, &c));
    hold_to(ctx, &c, args->max_peak, answer);
    report_failures(ctx, &c, answer);
    return MR_OK;
}

static void help(mr_ctx *ctx)
{
    (void)ctx;
    mr_print_metrics_help();
}

static const mr_option options[] = {
    MR_OPTIONS_REPLAY,
    MR_OPTION_ALLOC_CONF,
    MR_OPTION_TF32,
    MR_OPTION("fit", 0, SWITCH, fit, 0, 0, NULL,
              "find the smallest memory on which each spec passes, to 1 MiB"),
    MR_OPTION("max-peak", 0, MEMORY, max_peak, 1, UINT64_MAX, "SIZE",
              "exit with 1 when a spec reserves more than this, or runs out of memory"),
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|json|md", "how to print (table)"),
    MR_OPTION_OUTPUT,
    MR_OPTION_ON,
    MR_OPTIONS_MEASURE,
    MR_OPTION_JOBS,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_compare = {
    .name = "compare",
    .usage = "FILE [SPEC...]",
    .summary =
        "compares what each spec would take: peaks, fragmentation, device calls, fits or not",
    .more =
        "The first row is the reference; the last, bound, is the largest sum of live bytes, "
        "which\n"
        "nobody beats.  Without SPEC: the allocator as recorded, PyTorch's defaults, options\n"
        "that are often advised, and one device allocation per tensor.",
    .options = options,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run,
    .help = help,
};
