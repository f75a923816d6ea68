/* c10_options -- PYTORCH_CUDA_ALLOC_CONF, read as each release reads it.
 *
 * Until 2.8 the options are read in one walk.  From 2.9 on there are three: the segment size,
 * on which limits of others depend; what any device could have; what is CUDA's own.  The first
 * clause of every refusal is the release's own wording.
 */
#include "c10_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

c10_quirks c10_quirks_of(c10_version version)
{
    c10_quirks quirks;
#define X(name, since, text) quirks.name = version.major > 2 || version.minor >= (since);
    C10_QUIRKS(X)
#undef X
    return quirks;
}

void c10_options_init(c10_options *options, c10_version version)
{
    (void)version;
    *options = (c10_options){
        .max_split_size = C10_UNLIMITED,
        .max_non_split_rounding = C10_LARGE_SEGMENT,
        .large_segment_size = C10_LARGE_SEGMENT,
        .per_process_memory_fraction = 1,
    };
}

/* ---- keys ------------------------------------------------------------------------------- */

typedef enum walk { SIZES = 1, GENERAL = 2, OF_CUDA = 4 } walk;

/* Since which minor release of 2.x, in which walk and how it is read. */
static const struct key {
    const char *name;
    unsigned since;
    walk in;
    mr_status (*read)(c10_words *w);
} keys[] = {
    {"max_split_size_mb", 0, GENERAL, c10_read_max_split_size},
    {"garbage_collection_threshold", 0, GENERAL, c10_read_threshold},
    {"roundup_power2_divisions", 0, GENERAL, c10_read_divisions},
    {"backend", 0, OF_CUDA, c10_read_backend},
    {"expandable_segments", 1, GENERAL, c10_read_expandable},
    {"release_lock_on_cudamalloc", 1, OF_CUDA, c10_read_ignored_bool},
    {"pinned_use_cuda_host_register", 1, OF_CUDA, c10_read_ignored_bool},
    {"pinned_num_register_threads", 1, OF_CUDA, c10_read_threads},
    {"max_non_split_rounding_mb", 6, GENERAL, c10_read_max_non_split_rounding},
    {"pinned_use_background_threads", 6, GENERAL, c10_read_ignored_bool},
    {"graph_capture_record_stream_reuse", 9, OF_CUDA, c10_read_reuse},
    {"pinned_reserve_segment_size_mb", 9, OF_CUDA, c10_read_pinned_reserve},
    {"per_process_memory_fraction", 10, OF_CUDA, c10_read_fraction},
    {"large_segment_size_mb", 11, SIZES, c10_read_large_segment_size},
    {"throw_on_cudamalloc_oom", 12, OF_CUDA, c10_read_throw},
    {"pinned_max_cached_size_mb", 12, OF_CUDA, c10_read_ignored_number},
    {"pinned_max_round_threshold_mb", 12, OF_CUDA, c10_read_ignored_number},
    {"expandable_segments_reserve", 14, OF_CUDA, c10_read_reserve},
    {"expandable_segments_reserve_by_class", 14, OF_CUDA, c10_read_reserve_classes},
};

static const struct key *key_named(c10_version version, const char *name)
{
    for (size_t i = 0; i < MR_COUNT(keys); i++)
        if (!strcmp(keys[i].name, name))
            return version.major > 2 || version.minor >= keys[i].since ? &keys[i] : NULL;
    return NULL;
}

/* Those that a release has, without what is about host memory alone. */
static const char *known_keys(const c10_words *w)
{
    const char *text = "";
    for (size_t i = 0; i < MR_COUNT(keys); i++)
        if (strncmp(keys[i].name, "pinned_", strlen("pinned_")) != 0
            && key_named(w->version, keys[i].name))
            text = mr_printf(w->ctx, "%s%s%s", text, *text ? ", " : "", keys[i].name);
    return text;
}

static mr_status unknown(c10_words *w, unsigned walks)
{
    const char *name = w->words.at[w->i];
    if (w->quirks.marks_unchecked)
        return mr_fail(w->ctx, MR_EINPUT,
                       "Unrecognized key '%s' in %s allocator config; this release knows %s",
                       name, walks & GENERAL ? "Accelerator" : "CUDA", known_keys(w));
    return mr_fail(w->ctx, MR_EINPUT,
                   "Unrecognized CachingAllocator option: %s; this release knows %s", name,
                   known_keys(w));
}

/* Until the program runs, nobody has yet said which keys CUDA has. */
static bool refuses_unknown(const c10_words *w, unsigned walks)
{
    return walks & OF_CUDA || w->options->running;
}

static mr_status read_keys(c10_words *w, unsigned walks)
{
    for (w->i = 0; w->i < w->words.n; w->i++) {
        const struct key *key = key_named(w->version, w->words.at[w->i]);
        if (!key && refuses_unknown(w, walks)) return unknown(w, walks);
        if (key && (key->in & walks)) MR_TRY(key->read(w));
        else MR_TRY(c10_word_skip_value(w));
        if (w->i + 1 < w->words.n) MR_TRY(c10_word_skip(w, ","));
    }
    return MR_OK;
}

static mr_status read_sizes(c10_words *w)
{
    for (w->i = 0; w->i < w->words.n; w->i++) {
        const struct key *key = key_named(w->version, w->words.at[w->i]);
        if (key && key->in == SIZES) MR_TRY(key->read(w));
    }
    return MR_OK;
}

static void reset(c10_words *w)
{
    c10_options *o = w->options;
    o->max_split_size = C10_UNLIMITED;
    o->garbage_collection_threshold = 0;
    c10_set_divisions(w, 0, C10_INTERVALS, 0);
    if (w->quirks.rounding_resets) o->max_non_split_rounding = o->large_segment_size;
}

mr_status c10_options_parse(mr_ctx *ctx, c10_version version, const char *text,
                            c10_options *options)
{
    c10_words w = {
        .ctx = ctx, .quirks = c10_quirks_of(version), .version = version, .options = options};
    c10_words_cut(&w, text);
    if (!w.quirks.marks_unchecked) {
        reset(&w);
        return read_keys(&w, SIZES | GENERAL | OF_CUDA);
    }
    MR_TRY(read_sizes(&w));
    reset(&w);
    MR_TRY(read_keys(&w, GENERAL));
    return read_keys(&w, OF_CUDA);
}
