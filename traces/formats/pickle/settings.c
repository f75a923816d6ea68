/* settings -- how the allocator was set, and which version of PyTorch wrote the file. */
#include "rebuild.h"

#include <inttypes.h>
#include <string.h>

typedef struct conf {
    mr_raw_snapshot *raw;
    const char *text; /* what the program set last, then what was added */
} conf;

/* Adds "key:value" unless the program's own text names the key. */
static void add(conf *c, const char *key, const char *value)
{
    if (strstr(c->text, key)) return;
    c->text = mr_printf(c->raw->ctx, "%s%s%s:%s", c->text, *c->text ? "," : "", key, value);
}

static void add_true(conf *c, const char *key, mr_value value)
{
    if (mr_v_kind(value) == MR_V_TRUE) add(c, key, "True");
}

static void add_mib(conf *c, const char *key, uint64_t bytes)
{
    add(c, key, mr_printf(c->raw->ctx, "%" PRIu64, bytes / MR_MIB));
}

/* A whole number above 0, else `otherwise`: -1 stands for no limit. */
static uint64_t positive(const mr_raw_snapshot *raw, mr_value value, uint64_t otherwise)
{
    bool negative;
    uint64_t size;
    if (!mr_v_number(&raw->pickle, value, &negative, &size) || negative || !size)
        return otherwise;
    return size;
}

/* One number when all are equal, else a list of all, so that nothing depends on how a version
 * fills in those that are left out. */
static void add_divisions(conf *c, const mr_allocator_options *options)
{
    mr_ctx *ctx = c->raw->ctx;
    const char *list = "", *number = "0";
    bool equal = true;
    for (uint32_t i = 0; i < MR_RAW_DIVISIONS; i++) {
        number = mr_printf(ctx, "%" PRIu64, options->divisions[i]);
        list = mr_printf(ctx, "%s%s%s:%s", list, i ? "," : "[",
                         mr_raw_word(MR_RAW_division + i), number);
        equal = equal && options->divisions[i] == options->divisions[0];
    }
    if (equal && options->divisions[0] < 2) return;
    add(c, "roundup_power2_divisions", equal ? number : mr_printf(ctx, "%s]", list));
}

static void read_divisions(mr_raw_snapshot *raw, mr_value value, mr_allocator_options *options)
{
    if (mr_v_kind(value) != MR_RAW_V_SETTINGS) return;
    const mr_field *fields = raw->kept.at + (mr_v_index(value) >> 8);
    const uint32_t n = (uint32_t)(mr_v_index(value) & 0xff);
    for (uint32_t i = 0; i < MR_RAW_DIVISIONS; i++)
        options->divisions[i] = positive(raw, mr_raw_find(fields, n, MR_RAW_division + i), 0);
}

static void tell_settings(conf *c, const mr_field *fields, uint32_t n,
                          const mr_allocator_options *options)
{
    if (options->max_split != UINT64_MAX) add_mib(c, "max_split_size_mb", options->max_split);
    if (options->collects > 0)
        add(c, "garbage_collection_threshold", mr_printf(c->raw->ctx, "%g", options->collects));
    add_true(c, "expandable_segments", mr_raw_find(fields, n, MR_RAW_expandable_segments));
    add_divisions(c, options);
    if (options->large_segment != 20 * MR_MIB)
        add_mib(c, "large_segment_size_mb", options->large_segment);
    const uint64_t rounding = 20 * MR_MIB;
    const mr_value most = mr_raw_find(fields, n, MR_RAW_max_non_split_rounding_size);
    if (positive(c->raw, most, rounding) != rounding)
        add_mib(c, "max_non_split_rounding_mb", positive(c->raw, most, rounding));
    static const uint32_t switches[] = {
        MR_RAW_release_lock_on_cudamalloc,
        MR_RAW_graph_capture_record_stream_reuse,
        MR_RAW_throw_on_cudamalloc_oom,
    };
    for (size_t i = 0; i < MR_COUNT(switches); i++)
        add_true(c, mr_raw_word(switches[i]), mr_raw_find(fields, n, switches[i]));
    const mr_value fraction = mr_raw_find(fields, n, MR_RAW_per_process_memory_fraction);
    if (mr_v_kind(fraction) == MR_V_FLOAT && mr_v_float(fraction) < 1)
        add(c, "per_process_memory_fraction",
            mr_printf(c->raw->ctx, "%g", mr_v_float(fraction)));
}

mr_status mr_read_settings(mr_raw_snapshot *raw, mr_value settings,
                           mr_allocator_options *options)
{
    *options = (mr_allocator_options){.max_split = UINT64_MAX, .large_segment = 20 * MR_MIB};
    const bool dict = settings == mr_v(MR_V_OTHER, MR_OTHER_DICT);
    if (settings == MR_V_UNSET || dict) return MR_OK; /* none that are known */
    if (mr_v_kind(settings) != MR_RAW_V_SETTINGS)
        return mr_raw_fail(raw, 0, "allocator_settings is %s, expected a dict",
                           mr_v_show(&raw->pickle, settings));
    const mr_field *fields = raw->kept.at + (mr_v_index(settings) >> 8);
    const uint32_t n = (uint32_t)(mr_v_index(settings) & 0xff);
    const mr_value text = mr_raw_find(fields, n, MR_RAW_PYTORCH_CUDA_ALLOC_CONF);
    const mr_value collects = mr_raw_find(fields, n, MR_RAW_garbage_collection_threshold);
    options->max_split =
        positive(raw, mr_raw_find(fields, n, MR_RAW_max_split_size), UINT64_MAX);
    options->large_segment =
        positive(raw, mr_raw_find(fields, n, MR_RAW_large_segment_size), 20 * MR_MIB);
    if (mr_v_kind(collects) == MR_V_FLOAT) options->collects = mr_v_float(collects);
    options->expandable =
        mr_v_kind(mr_raw_find(fields, n, MR_RAW_expandable_segments)) == MR_V_TRUE;
    read_divisions(raw, mr_raw_find(fields, n, MR_RAW_roundup_power2_divisions), options);
    conf c = {raw,
              mr_v_kind(text) == MR_V_TEXT ? mr_raw_text(raw, (uint32_t)mr_v_index(text)) : ""};
    tell_settings(&c, fields, n, options);
    raw->trace->about[MR_ABOUT_allocator] = c.text; /* empty: the defaults, and that is known */
    return MR_OK;
}

/* No version is stored, but each brought a key. */
void mr_tell_version(mr_raw_snapshot *raw)
{
#define SEEN(key) (raw->keys_seen >> MR_RAW_##key & 1)
    raw->trace->about[MR_ABOUT_framework] = "pytorch";
    raw->trace->about[MR_ABOUT_framework_version] = SEEN(user_metadata)     ? "2.9 or newer"
                                                    : SEEN(compile_context) ? "2.7 to 2.8"
                                                    : SEEN(external_annotations) ? "2.5 to 2.6"
                                                    : SEEN(allocator_settings)   ? "2.4"
                                                    : SEEN(time_us)              ? "2.2 to 2.3"
                                                    : SEEN(history)              ? "2.0"
                                                                                 : "2.1";
#undef SEEN
}
