/* convert -- writes a recording in our own format, or as a table of lifetimes. */
#include <inttypes.h>
#include <string.h>

#include "commands.h"
#include "sink.h"
#include "trace_csv.h"

/* Does the name, without .gz or .zst, end like this? */
static bool is_named(const char *path, const char *end)
{
    size_t n = strlen(path);
    const size_t m = strlen(end);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0) n -= 3;
    else if (n > 4 && strcmp(path + n - 4, ".zst") == 0) n -= 4;
    return n > m && strncmp(path + n - m, end, m) == 0;
}

/* ---- lifetimes --------------------------------------------------------------------------- */

/* Event at which each storage begins and the one before which it has ended. */
static void find_lives(const mr_schedule *schedule, uint32_t *lower, uint32_t *upper)
{
    const mr_trace *trace = schedule->trace;
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        const mr_storage *storage = &trace->storages.at[s];
        const bool here = storage->before && storage->device == schedule->device;
        lower[s] = here ? 0 : MR_NONE;
        upper[s] = schedule->events.n;
    }
    for (uint32_t i = 0; i < schedule->events.n; i++) {
        const mr_event e = schedule->events.at[i];
        if (e.kind > MR_DONE) continue;
        const mr_storage *storage = &trace->storages.at[e.id];
        if (e.kind == MR_ALLOC && !storage->refused) lower[e.id] = i;
        if (e.kind == MR_DONE || (e.kind == MR_FREE && !storage->deferred)) upper[e.id] = i;
    }
}

static mr_status write_lifetimes(mr_ctx *ctx, const mr_scene *scene, mr_sink *sink)
{
    if (scene->cuda_device_count > 1)
        return mr_fail(ctx, MR_EUSAGE,
                       "a table of lifetimes is of one device, '%s' has %" PRIu32
                       ": choose with --cuda-device",
                       scene->trace.name, scene->cuda_device_count);
    mr_trace trace = scene->trace;
    mr_schedule schedule;
    MR_TRY(mr_schedule_make(ctx, &trace, scene->cuda_devices[0], &schedule));
    mr_schedule_workspaces(ctx, &trace, &schedule);
    const uint32_t n = trace.storages.n;
    uint32_t *lower = MR_NEW_N(ctx, uint32_t, n), *upper = MR_NEW_N(ctx, uint32_t, n);
    find_lives(&schedule, lower, upper);
    mr_sink_print(sink, "id,lower,upper,size\n");
    for (uint32_t s = 0; s < n; s++)
        if (lower[s] != MR_NONE)
            mr_sink_print(sink, "%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 "\n", s,
                          lower[s], upper[s], trace.storages.at[s].bytes);
    return MR_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

/* How many samples, or steps, a part of a recording takes in is not known. */
static mr_status write(mr_ctx *ctx, const mr_args *args, const mr_scene *scene, mr_sink *sink)
{
    if (is_named(args->output, ".lifetimes.csv")) return write_lifetimes(ctx, scene, sink);
    if (args->cuda_device != MR_NONE)
        return mr_fail(ctx, MR_EUSAGE,
                       "--cuda-device is for tables of lifetimes, -o OUT.lifetimes.csv: our own"
                       " format holds all devices");
    mr_trace trace = scene->trace;
    if (scene->is_part) trace.about[MR_ABOUT_batch] = trace.about[MR_ABOUT_steps] = NULL;
    return mr_trace_csv_write(ctx, &trace, sink);
}

static const mr_heads ours = {
    {"memreuse,", "id,lower,upper,size"}, 2, "a recording that was converted"};

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_scene scene;
    mr_sink *sink;
    if (!args->output)
        return mr_fail(ctx, MR_EUSAGE, "convert needs a file to write: -o OUT.csv");
    if (!is_named(args->output, ".csv") && strcmp(args->output, "-") != 0)
        return mr_fail(ctx, MR_EUSAGE,
                       "cannot write '%s', expected a name that ends with .csv, "
                       ".csv.gz, .csv.zst or .lifetimes.csv",
                       args->output);
    MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_output_replaces(ctx, args->output, &ours));
    MR_TRY(mr_scene_read(ctx, args, &scene));
    MR_TRY(mr_sink_open(ctx, args->output, &sink));
    const mr_status status = write(ctx, args, &scene, sink);
    if (status == MR_OK) return mr_sink_commit(sink);
    mr_sink_abandon(sink);
    return status;
}

static const mr_option options[] = {
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "OUT",
              "file to write: .csv, compressed with .csv.gz or .csv.zst"),
    MR_OPTION_CUT,
    MR_OPTION("cuda-device", 0, NUMBER, cuda_device, 0, 65535, "N",
              "tables of lifetimes: whose, where the recording has several devices"),
    MR_OPTION("times", 0, TEXT, times, 0, 0, "PROFILE",
              "execution traces: a profiler trace of the same steps, which knows how long ops"
              " took"),
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_convert = {
    .name = "convert",
    .usage = "FILE -o OUT",
    .summary = "writes a recording in memreuse's own format",
    .more = "OUT ending in .lifetimes.csv (or compressed) becomes a table of lifetimes "
            "instead: id,\n"
            "lower, upper, size; times are numbers of events and `upper` is exclusive.",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
