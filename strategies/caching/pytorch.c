/* pytorch -- the caching allocator of PyTorch, exactly (the model itself is in c10/).
 *
 * This file is its options: by PyTorch's own names, put together as the text of
 * PYTORCH_CUDA_ALLOC_CONF and read as that release of PyTorch reads it.
 */
#include "c10_joint.h"
#include "strategy.h"

#include <stdlib.h>
#include <string.h>

/* ---- parameters -------------------------------------------------------------------------- */

typedef struct settings {
    const char *version;
    const char *conf;
    bool expandable_segments;
    uint64_t max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb;
    double garbage_collection_threshold;
    const char *roundup_power2_divisions;
    double per_process_memory_fraction, set_per_process_memory_fraction;
    bool throw_on_cudamalloc_oom, graph_capture_record_stream_reuse;
    const char *expandable_segments_reserve, *expandable_segments_reserve_by_class;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_BOOL(settings, expandable_segments, "False",
                  "segments that grow by mapping pages (2.1)"),
    MR_PARAM_INT(settings, max_split_size_mb, "0", 0, 1e9,
                 "larger blocks are not split; 0 for no limit"),
    MR_PARAM_REAL(settings, garbage_collection_threshold, "0", 0, 1,
                  "part of the memory fraction from which old blocks are freed"),
    MR_PARAM_TEXT(settings, roundup_power2_divisions, "",
                  "4, or [256:1,512:2,>:8]: steps between powers of two"),
    MR_PARAM_INT(settings, max_non_split_rounding_mb, "0", 0, 1e9,
                 "how much larger an oversize block may be; 0 for PyTorch's 20 (2.6)"),
    MR_PARAM_INT(settings, large_segment_size_mb, "0", 0, 1e9,
                 "asked from the device for 1 to 10 MiB; 0 for PyTorch's 20 (2.11)"),
    MR_PARAM_REAL(settings, per_process_memory_fraction, "1", 0, 1,
                  "the option of that name (2.10)"),
    MR_PARAM_REAL(settings, set_per_process_memory_fraction, "0", 0, 1,
                  "torch.cuda.set_per_process_memory_fraction; 0 when not called"),
    MR_PARAM_BOOL(settings, throw_on_cudamalloc_oom, "False",
                  "refuse at the fraction before asking the device (2.12)"),
    MR_PARAM_BOOL(settings, graph_capture_record_stream_reuse, "False",
                  "frees may complete during a capture (2.9)"),
    MR_PARAM_TEXT(settings, expandable_segments_reserve, "",
                  "addresses of a segment: part of the device, or nG (2.14)"),
    MR_PARAM_TEXT(settings, expandable_segments_reserve_by_class, "",
                  "[name:value,...]: the same by class of segment (2.14)"),
    MR_PARAM_TEXT(settings, conf, "",
                  "[text of PYTORCH_CUDA_ALLOC_CONF], read before the options above"),
    MR_PARAM_TEXT(settings, version, "2.15", "release of PyTorch, 2.0 to 2.15"),
    {0},
};

static const mr_param *find_param(const char *name)
{
    const mr_param *param = params_table;
    while (strcmp(param->name, name) != 0) param++;
    return param;
}

/* Appends "name:value" when the value is not the default. */
static const char *option(mr_ctx *ctx, const char *text, const settings *s, const char *name)
{
    const mr_param *param = find_param(name);
    const char *value = mr_param_print(ctx, param, s);
    if (!strcmp(value, param->fallback)) return text;
    return mr_printf(ctx, "%s%s%s:%s", text, *text ? "," : "", name, value);
}

static const char *conf_text(mr_ctx *ctx, const settings *s)
{
    static const char *const names[] = {
        "expandable_segments",         "max_split_size_mb",
        "garbage_collection_threshold", "roundup_power2_divisions",
        "max_non_split_rounding_mb",   "large_segment_size_mb",
        "per_process_memory_fraction", "throw_on_cudamalloc_oom",
        "graph_capture_record_stream_reuse", "expandable_segments_reserve",
        "expandable_segments_reserve_by_class",
    };
    size_t n = strlen(s->conf);
    const char *conf = s->conf;
    if (n >= 2 && conf[0] == '[' && conf[n - 1] == ']') conf++, n -= 2;
    const char *text = mr_strndup(ctx, conf, n);
    for (size_t i = 0; i < MR_COUNT(names); i++) text = option(ctx, text, s, names[i]);
    return text;
}

static mr_status read_version(mr_ctx *ctx, const char *text, c10_version *out)
{
    char *end;
    const unsigned long major = strtoul(text, &end, 10);
    const unsigned long minor = major == 2 && *end == '.' ? strtoul(end + 1, &end, 10) : 99;
    if (*end && *end != '.') return mr_fail(ctx, MR_EUSAGE, "'%s' is no version number", text);
    if (minor > C10_NEWEST.minor)
        return mr_fail(ctx, MR_EUSAGE, "version is '%s', known are 2.0 to %u.%u", text,
                       C10_NEWEST.major, C10_NEWEST.minor);
    *out = (c10_version){(unsigned)major, (unsigned)minor};
    return MR_OK;
}

static mr_status read_settings(mr_ctx *ctx, const settings *s, c10_version *version,
                               c10_options *options)
{
    MR_TRY(read_version(ctx, s->version, version));
    c10_options_init(options, *version);
    if (c10_options_parse(ctx, *version, conf_text(ctx, s), options))
        return ctx->failure.status = MR_EUSAGE; /* a spec's mistake, no file's */
    return MR_OK;
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    c10_version version;
    c10_options options;
    return read_settings(ctx, params, &version, &options);
}

/* ---- placing ----------------------------------------------------------------------------- */

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    c10_version version;
    c10_options options;
    MR_TRY(read_settings(ctx, s, &version, &options));
    return c10_joint_place(out, in, version, &options, s->set_per_process_memory_fraction);
}

static const char *how_of(mr_ctx *ctx, const void *params)
{
    const settings *s = params;
    const char *conf = conf_text(ctx, s), *text = "";
    const char *quote = strpbrk(conf, "[]<> ") ? "'" : ""; /* so that a shell takes it */
    if (*conf)
        text = mr_printf(ctx, "PYTORCH_CUDA_ALLOC_CONF=%s%s%s in the environment", quote, conf,
                         quote);
    if (s->set_per_process_memory_fraction > 0)
        text = mr_printf(ctx, "%s%storch.cuda.set_per_process_memory_fraction(%g)", text,
                         *text ? "; " : "", s->set_per_process_memory_fraction);
    return *text ? text : NULL;
}

const mr_strategy mr_strategy_pytorch = {
    .name = "pytorch",
    .summary = "the caching allocator of PyTorch, event for event",
    .how_of = how_of,
    .source = "PyTorch, c10/cuda/CUDACachingAllocator.cpp, releases 2.0 to 2.15",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
