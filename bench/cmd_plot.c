/* plot -- figures: memory over time, address space over time, peaks of specs. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "results.h"

#define PANELS_MOST 16

/* ---- what is shown ---------------------------------------------------------------------- */

/* Without specs: what was recorded, and the other side of the option to try first. */
static void default_specs(mr_ctx *ctx, const mr_trace *trace, mr_words *out)
{
    const char *recorded = mr_scene_recorded_spec(ctx, trace);
    const bool expandable = strstr(recorded, "expandable_segments") != NULL;
    MR_PUSH(ctx, out, recorded);
    MR_PUSH(ctx, out,
            mr_scene_pytorch_spec(ctx, trace, expandable ? NULL : "expandable_segments=True"));
}

static mr_status add_panel(mr_ctx *ctx, const char *text, mr_figure *figure)
{
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_scene_spec(ctx, text, spec));
    const mr_question question = mr_scene_question(figure->scene, spec, figure->cuda_device);
    MR_TRY(mr_scene_evaluate(ctx, &question, answer));
    MR_PUSH(ctx, &figure->panels, (mr_panel){.spec = spec->text, .answer = answer});
    return MR_OK;
}

static bool roles_known(const mr_trace *trace)
{
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].role != MR_ROLE_unknown) return true;
    return false;
}

static mr_colouring choose_colouring(const mr_args *args, const mr_trace *trace)
{
    if (!args->colour) return roles_known(trace) ? MR_BY_ROLE : MR_BY_SIZE;
    if (strcmp(args->colour, "role") == 0) return MR_BY_ROLE;
    if (strcmp(args->colour, "stack") == 0) return MR_BY_STACK;
    return strcmp(args->colour, "stream") == 0 ? MR_BY_STREAM : MR_BY_SIZE;
}

/* Ops have durations of their own after a rewrite too; so where they are known time is the axis
 * on which specs can be compared.  The times of an allocator's history are full of pauses. */
static mr_status choose_axis(mr_ctx *ctx, const mr_args *args, mr_figure *figure)
{
    bool known = true;
    figure->numbered = true;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        known &= mr_clock_knows_time(figure, figure->panels.at[p].answer);
        figure->numbered &= mr_clock_knows_numbers(figure, figure->panels.at[p].answer);
    }
    const bool asked = args->axis && strcmp(args->axis, "time") == 0;
    if (asked && !known)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "--x time: '%s' has no times for what is to be shown; leave it out",
                       figure->scene->trace.name);
    figure->by_time = asked || (!args->axis && known && figure->scene->trace.ops.n);
    return MR_OK;
}

static mr_status make_figure(mr_ctx *ctx, const mr_args *args, const mr_words *specs,
                             mr_figure *figure)
{
    for (uint32_t i = 0; i < specs->n; i++) MR_TRY(add_panel(ctx, specs->at[i], figure));
    figure->colouring = choose_colouring(args, &figure->scene->trace);
    mr_hues_prepare(ctx, figure);
    MR_TRY(choose_axis(ctx, args, figure));
    figure->x_end = mr_clock_end(figure);
    return MR_OK;
}

/* ---- files ------------------------------------------------------------------------------ */

typedef struct kind {
    const char *name;
    void (*write)(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink);
} kind;

static const kind kinds[] = {
    {"timeline", mr_plot_timeline},
    {"address-space", mr_plot_space},
    {"peaks", mr_plot_peaks},
};

mr_status mr_folder_make(mr_ctx *ctx, const char *path)
{
    char *part = mr_strdup(ctx, path);
    for (char *c = part + 1;; c++) {
        if (*c && *c != '/') continue;
        const char kept = *c;
        *c = '\0';
        struct stat found;
        const bool there = stat(part, &found) == 0;
        if (there && !S_ISDIR(found.st_mode))
            return mr_fail(ctx, MR_EIO, "'%s' is a file, expected a folder for the figures",
                           part);
        if (!there && mkdir(part, 0777) != 0 && errno != EEXIST)
            return mr_fail(ctx, MR_EIO, "the folder '%s' could not be made: %s", part,
                           strerror(errno));
        *c = kept;
        if (!kept) return MR_OK;
    }
}

static const char *file_name(mr_ctx *ctx, const mr_args *args, const mr_figure *figure,
                             const char *name, const char *end)
{
    if (figure->scene->cuda_device_count < 2)
        return mr_printf(ctx, "%s/%s.%s", args->output, name, end);
    return mr_printf(ctx, "%s/%s-device%" PRIu32 ".%s", args->output, name, figure->cuda_device,
                     end);
}

/* The sentence is never seen: the signal that waits ends the program before. */
static mr_status go_on(mr_ctx *ctx)
{
    return mr_signal_waits() ? mr_fail(ctx, MR_EIO, "interrupted") : MR_OK;
}

static mr_status write_data(mr_ctx *ctx, const mr_args *args, const mr_figure *figure)
{
    for (size_t i = 0; i < MR_COUNT(kinds); i++) {
        mr_sink *sink;
        MR_TRY(go_on(ctx));
        const char *path = file_name(ctx, args, figure, kinds[i].name, "csv");
        MR_TRY(mr_sink_open(ctx, path, &sink));
        kinds[i].write(ctx, figure, sink);
        MR_TRY(mr_sink_commit(sink));
        printf("%s\n", path);
    }
    return MR_OK;
}

static mr_status draw(mr_ctx *ctx, const mr_args *args, const mr_figure *figure, mr_pen *pen)
{
    static const char *const ends[] = {"svg", "png"};
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        for (size_t e = 0; e < MR_COUNT(ends); e++) {
            MR_TRY(go_on(ctx));
            const char *out = file_name(ctx, args, figure, kinds[i].name, ends[e]);
            MR_TRY(mr_pen_draw(pen, kinds[i].name,
                               file_name(ctx, args, figure, kinds[i].name, "csv"), out));
            printf("%s\n", out);
        }
    return MR_OK;
}

static mr_status write_files(mr_ctx *ctx, const mr_args *args, const mr_figure *figure)
{
    mr_pen *pen = NULL;
    MR_TRY(write_data(ctx, args, figure));
    mr_status drawn = mr_pen_new(ctx, &pen);
    if (drawn == MR_OK) drawn = draw(ctx, args, figure, pen);
    if (pen) mr_pen_drop(pen);
    return drawn;
}

/* One device of the recording, with a context that goes when it is drawn. */
static mr_status plot_device(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                             const mr_words *specs, uint32_t i)
{
    mr_figure figure = {.scene = scene, .cuda_device = scene->cuda_devices[i]};
    MR_TRY(make_figure(ctx, args, specs, &figure));
    MR_TRY(mr_folder_make(ctx, args->output)); /* of a spec that is refused nothing is left */
    mr_signals_hold();
    const mr_status status = write_files(ctx, args, &figure);
    mr_signals_let();
    return status;
}

/* The data of a figure stand beside it under its name: what is read may be such a file. */
static mr_status check_input(mr_ctx *ctx, const char *input, const char *folder)
{
    static const char *const figures[] = {"timeline", "address-space", "peaks",   "trade-off",
                                          "bars",     "map",           "overhead"};
    for (size_t i = 0; i < MR_COUNT(figures); i++)
        MR_TRY(mr_output_check(ctx, input, mr_printf(ctx, "%s/%s.csv", folder, figures[i])));
    return MR_OK;
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_scene scene;
    mr_words specs;
    if (!args->output || !*args->output)
        return mr_fail(ctx, MR_EUSAGE, "plot needs a folder for its figures: -o DIR");
    const char *path = args->words.at[0];
    MR_TRY(check_input(ctx, path, args->output));
    if (mr_results_told(ctx, path) || mr_budgets_told(ctx, path))
        return mr_plot_results(ctx, args);
    MR_TRY(mr_scene_read(ctx, args, &scene));
    mr_scene_repeat(args, &scene);
    MR_TRY(mr_scene_specs(ctx, args, 1, &specs));
    if (!specs.n) default_specs(ctx, &scene.trace, &specs);
    if (specs.n > PANELS_MOST)
        return mr_fail(ctx, MR_EUSAGE, "plot shows up to %d specs at once, found %" PRIu32,
                       PANELS_MOST, specs.n);
    for (uint32_t i = 0; i < scene.cuda_device_count; i++) {
        mr_ctx own = {.seed = ctx->seed};
        const mr_status status = plot_device(&own, args, &scene, &specs, i);
        if (status != MR_OK) ctx->failure = own.failure;
        mr_ctx_clear(&own);
        MR_TRY(status);
    }
    return MR_OK;
}

static const mr_option options[] = {
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "DIR",
              "folder for the figures, made if missing"),
    MR_OPTION("x", 'x', CHOICE, axis, 0, 0, "events|time",
              "what runs to the right (default: time where ops were measured)"),
    MR_OPTION("colour", 0, CHOICE, colour, 0, 0, "size|role|stack|stream",
              "what the colour of a block says: stack is who asked for it (default: its role "
              "where known, else its size)"),
    MR_OPTIONS_REPLAY,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_plot = {
    .name = "plot",
    .usage = "FILE [SPEC...] -o DIR",
    .summary =
        "draws memory over time, the address space over time, and the peaks of each spec",
    .more =
        "Every figure comes as SVG and PNG with the data it shows as CSV beside it; gnuplot\n"
        "draws.  Without SPEC: the allocator as recorded and the same with expandable "
        "segments.\n"
        "FILE may be the cells that a sweep wrote, of all devices or that of --device: then\n"
        "memory against time, bars, and maps of all combinations.  Or the table of budgets "
        "that\n"
        "dtr_grid prints: then the overhead against the budget, with the bound.",
    .options = options,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run,
};
