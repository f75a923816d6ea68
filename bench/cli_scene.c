/* scene -- what a command line asks to be replayed: recording, part of it, device, specs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "format.h"
#include "report.h"
#include "strategies.h"

/* ---- cutting ----------------------------------------------------------------------------- */

static bool parse_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    char *end;
    if (*text < '0' || *text > '9') return false;
    const double value = strtod(text, &end);
    for (size_t i = 0; i < MR_COUNT(units); i++) {
        if (strcmp(end, units[i].name) != 0 || value * units[i].ns > 1e18) continue;
        *ns = (uint64_t)(value * units[i].ns);
        return true;
    }
    return false;
}

static uint32_t first_not_before(const mr_trace *trace, uint64_t ns)
{
    uint32_t i = 0;
    while (i < trace->times.n && trace->times.at[i] < ns) i++;
    return i;
}

static mr_status find_event(mr_ctx *ctx, const mr_trace *trace, const char *option,
                            const char *text, uint32_t *out)
{
    uint64_t ns;
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    if (parse_time(text, &ns)) {
        if (!trace->times.n)
            return mr_fail(
                ctx, MR_EUNSUPPORTED,
                "--%s is a time, but '%s' recorded none: give the number of an event", option,
                trace->name);
        *out = first_not_before(trace, ns);
        return MR_OK;
    }
    if (*end || *text < '0' || *text > '9')
        return mr_fail(ctx, MR_EUSAGE,
                       "--%s is '%s', expected an event such as 1200 or a time "
                       "such as 1.5s",
                       option, text);
    if (n > trace->events.n)
        return mr_fail(ctx, MR_EUSAGE, "--%s is %s, but '%s' has only %s", option, text,
                       trace->name, mr_show_count(ctx, trace->events.n, "event", "events"));
    *out = (uint32_t)n;
    return MR_OK;
}

static mr_status cut(mr_ctx *ctx, const mr_args *args, mr_trace *trace)
{
    uint32_t first = 0, end = trace->events.n;
    if (!args->from && !args->to) return MR_OK;
    if (args->from) MR_TRY(find_event(ctx, trace, "from", args->from, &first));
    if (args->to) MR_TRY(find_event(ctx, trace, "to", args->to, &end));
    if (first >= end)
        return mr_fail(ctx, MR_EUSAGE, "nothing lies between --from %s and --to %s",
                       args->from ? args->from : "0", args->to ? args->to : "the end");
    const mr_trace whole = *trace;
    return mr_trace_cut(ctx, &whole, first, end, trace);
}

/* ---- devices ----------------------------------------------------------------------------- */

bool mr_scene_is_idle(const mr_trace *trace, uint32_t cuda_device)
{
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        const mr_storage *storage = &trace->storages.at[s];
        if (storage->device == cuda_device && !(storage->before && storage->after))
            return false;
    }
    return true;
}

/* Those on which something happens; all where nothing does. */
static void leave_out_idle(mr_ctx *ctx, mr_scene *scene)
{
    uint32_t *busy = MR_NEW_N(ctx, uint32_t, scene->cuda_device_count), n = 0;
    for (uint32_t i = 0; i < scene->cuda_device_count; i++)
        if (!mr_scene_is_idle(&scene->trace, scene->cuda_devices[i]))
            busy[n++] = scene->cuda_devices[i];
    if (!n) return;
    scene->cuda_devices = busy;
    scene->cuda_device_count = n;
}

static mr_status choose_cuda_devices(mr_ctx *ctx, const mr_args *args, mr_scene *scene)
{
    scene->cuda_devices = mr_trace_devices(ctx, &scene->trace, &scene->cuda_device_count);
    if (args->cuda_device == MR_NONE) return leave_out_idle(ctx, scene), MR_OK;
    for (uint32_t i = 0; i < scene->cuda_device_count; i++) {
        if (scene->cuda_devices[i] != args->cuda_device) continue;
        scene->cuda_devices += i;
        scene->cuda_device_count = 1;
        return MR_OK;
    }
    return mr_fail(ctx, MR_EUSAGE, "'%s' has nothing on device %" PRIu64, scene->trace.name,
                   args->cuda_device);
}

mr_tf32 mr_tf32_named(const char *word)
{
    if (strcmp(word, "all") == 0) return MR_TF32_ALL;
    return strcmp(word, "off") == 0 ? MR_TF32_OFF : MR_TF32_CONV;
}

static mr_status choose_device(mr_ctx *ctx, const mr_args *args, mr_scene *scene)
{
    scene->device_assumed = !args->device;
    MR_TRY(
        mr_device_find(ctx, args->device ? args->device : MR_ASSUMED_DEVICE, &scene->device));
    scene->device.use_tf32 = mr_tf32_named(args->tf32);
    scene->capacity = args->capacity ? args->capacity
                      : args->device ? mr_device_capacity(&scene->device)
                                     : UINT64_MAX;
    /* Memory fractions refer to all of the device; of one nobody named, the capacity is all. */
    if (args->capacity && !args->device) scene->device.memory = args->capacity;
    return MR_OK;
}

static mr_status read_recording(mr_ctx *ctx, const mr_args *args, mr_trace *out)
{
    const mr_read_options options = {.ends_inclusive =
                                         args->ends && strcmp(args->ends, "inclusive") == 0,
                                     .ends = args->ends != NULL,
                                     .times = args->times,
                                     .format = args->reader};
    mr_watch *watch = mr_watch_new(ctx, 1);
    mr_watch_attach(watch, ctx, 0, args->words.at[0]);
    const mr_status status = mr_recording_read(ctx, args->words.at[0], &options, out);
    mr_watch_done(watch, 0);
    mr_watch_finish(watch);
    return status;
}

mr_status mr_scene_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer)
{
    mr_watch *watch = mr_watch_new(ctx, 1);
    mr_watch_attach(watch, ctx, 0, question->spec->text);
    const mr_status status = mr_evaluate(ctx, question, answer);
    mr_watch_done(watch, 0);
    mr_watch_finish(watch);
    return status;
}

static mr_status check_start(mr_ctx *ctx, const mr_args *args, const mr_trace *trace)
{
    if (!args->as_recorded || trace->histories.n) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   args->from ? "--as-recorded: what the allocator held is known of the "
                                "beginning of '%s', not of --from %s"
                              : "--as-recorded: '%s' does not say what the allocator held%s",
                   trace->name, args->from ? args->from : "");
}

static mr_batches batches_of(const mr_args *args)
{
    const char *word = args->next_batch ? args->next_batch : "early";
    return !strcmp(word, "late")   ? MR_BATCHES_LATE
           : !strcmp(word, "same") ? MR_BATCHES_SAME
                                   : MR_BATCHES_EARLY;
}

mr_status mr_scene_read(mr_ctx *ctx, const mr_args *args, mr_scene *out)
{
    *out = (mr_scene){.iterations = args->iterations ? (uint32_t)args->iterations : 1,
                      .batches = batches_of(args),
                      .is_part = args->from || args->to,
                      .as_recorded = args->as_recorded};
    MR_TRY(choose_device(ctx, args, out));
    MR_TRY(read_recording(ctx, args, &out->trace));
    MR_TRY(cut(ctx, args, &out->trace));
    MR_TRY(check_start(ctx, args, &out->trace));
    return choose_cuda_devices(ctx, args, out);
}

/* ---- iterations -------------------------------------------------------------------------- */

/* The first steps fill the cache; those of training are as the third. */
enum { WARM = 3 };

uint32_t mr_usual_iterations(const mr_trace *trace)
{
    return trace->ops.n ? WARM : 1;
}

void mr_scene_repeat(const mr_args *args, mr_scene *scene)
{
    if (!args->iterations) scene->iterations = mr_usual_iterations(&scene->trace);
}

const char *mr_show_iterations(mr_ctx *ctx, uint32_t iterations)
{
    return iterations > 1 ? mr_printf(ctx, ", %" PRIu32 " iterations", iterations) : "";
}

/* ---- specs ------------------------------------------------------------------------------- */

mr_status mr_scene_spec(mr_ctx *ctx, const char *text, mr_spec *out)
{
    return mr_spec_parse(ctx, mr_strategies, text, out);
}

/* A second recording where a spec is expected. */
static mr_status check_word(mr_ctx *ctx, const char *text)
{
    struct stat about;
    mr_spec spec;
    if (mr_scene_spec(ctx, text, &spec) == MR_OK) return MR_OK;
    if (stat(text, &about) < 0 || !S_ISREG(about.st_mode))
        return MR_OK; /* said by who reads it */
    return mr_fail(
        ctx, MR_EUSAGE,
        "'%s' is a file, expected a spec behind the first: one recording is read at a "
        "time, a suite names several (memreuse sweep)",
        text);
}

mr_status mr_scene_spec_asked(mr_ctx *ctx, const char *text, mr_spec *out)
{
    MR_TRY(check_word(ctx, text));
    return mr_scene_spec(ctx, text, out);
}

mr_status mr_specs_add(mr_ctx *ctx, const char *text, mr_specs *list)
{
    mr_spec spec;
    MR_TRY(mr_scene_spec(ctx, text, &spec));
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].text, spec.text) == 0) return MR_OK;
    MR_PUSH(ctx, list, spec);
    return MR_OK;
}

mr_status mr_scene_specs(mr_ctx *ctx, const mr_args *args, uint32_t first, mr_words *out)
{
    *out = (mr_words){0};
    for (uint32_t i = first; i < args->words.n; i++) {
        MR_TRY(check_word(ctx, args->words.at[i]));
        MR_PUSH(ctx, out, args->words.at[i]);
    }
    for (uint32_t i = 0; i < args->alloc_conf.n; i++) {
        const char *spec;
        MR_TRY(mr_conf_spec(ctx, args->alloc_conf.at[i], &spec));
        MR_PUSH(ctx, out, spec);
    }
    return MR_OK;
}

/* ---- releases of PyTorch ------------------------------------------------------------------
 */

/* "2.6" and what stands behind it; false for anything else. */
static bool parse_release(const char *text, unsigned *minor, const char **rest)
{
    char *end;
    if (strncmp(text, "2.", 2) != 0 || text[2] < '0' || text[2] > '9') return false;
    const unsigned long n = strtoul(text + 2, &end, 10);
    *minor = (unsigned)n;
    *rest = end;
    return n < 1000;
}

/* The newest that is modelled is what the strategy takes when nobody says. */
static unsigned newest_modelled(void)
{
    unsigned minor = 0;
    const char *rest;
    for (size_t i = 0; mr_strategies[i]; i++) {
        if (strcmp(mr_strategies[i]->name, "pytorch") != 0) continue;
        for (const mr_param *p = mr_strategies[i]->params; p && p->name; p++)
            if (strcmp(p->name, "version") == 0) parse_release(p->fallback, &minor, &rest);
    }
    return minor;
}

bool mr_scene_releases(const mr_trace *trace, unsigned *oldest, unsigned *newest)
{
    const char *framework = trace->about[MR_ABOUT_framework];
    const char *version = trace->about[MR_ABOUT_framework_version], *rest;
    const unsigned last = newest_modelled();
    if (!version || (framework && strcmp(framework, "pytorch") != 0)) return false;
    if (!parse_release(version, oldest, &rest)) return false;
    *newest = *oldest;
    if (strncmp(rest, " to ", 4) == 0 && !parse_release(rest + 4, newest, &rest)) return false;
    if (strcmp(rest, " or newer") == 0 || *newest > last) *newest = last;
    return *oldest <= *newest;
}

const char *mr_scene_release_note(mr_ctx *ctx, const mr_trace *trace, const mr_spec *spec)
{
    unsigned oldest, newest;
    if (strcmp(spec->place.strategy->name, "pytorch") != 0 || strstr(spec->text, "version="))
        return NULL;
    if (!mr_scene_releases(trace, &oldest, &newest) || newest == newest_modelled()) return NULL;
    return mr_printf(ctx, "The recording is of PyTorch %s; pytorch without version= is 2.%u.",
                     trace->about[MR_ABOUT_framework_version], newest_modelled());
}

const char *mr_scene_with_release(mr_ctx *ctx, const char *spec, unsigned minor)
{
    if (minor == newest_modelled()) return spec;
    return mr_spec_with(ctx, spec, mr_printf(ctx, "version=2.%u", minor));
}

static const char *with_newest(mr_ctx *ctx, const mr_trace *trace, const char *spec)
{
    unsigned oldest, newest;
    if (!mr_scene_releases(trace, &oldest, &newest)) return spec;
    return mr_scene_with_release(ctx, spec, newest);
}

const char *mr_scene_conf_spec(mr_ctx *ctx, const mr_trace *trace)
{
    const char *conf = trace->about[MR_ABOUT_allocator];
    return mr_conf_spec_recorded(ctx, conf ? conf : "");
}

const char *mr_scene_recorded_spec(mr_ctx *ctx, const mr_trace *trace)
{
    return with_newest(ctx, trace, mr_scene_conf_spec(ctx, trace));
}

const char *mr_scene_pytorch_spec(mr_ctx *ctx, const mr_trace *trace, const char *option)
{
    const char *spec = "pytorch";
    return with_newest(ctx, trace, option ? mr_spec_with(ctx, spec, option) : spec);
}

const mr_scene *mr_scene_alone(mr_ctx *ctx, const mr_scene *scene)
{
    mr_scene *one = MR_NEW(ctx, mr_scene);
    *one = *scene;
    one->cuda_device_count = 1;
    return one;
}

mr_question mr_scene_question(const mr_scene *scene, const mr_spec *spec, uint32_t cuda_device)
{
    return (mr_question){.trace = &scene->trace,
                         .spec = spec,
                         .device = &scene->device,
                         .capacity = scene->capacity,
                         .cuda_device = cuda_device,
                         .iterations = scene->iterations,
                         .batches = scene->batches,
                         .as_recorded = scene->as_recorded};
}
