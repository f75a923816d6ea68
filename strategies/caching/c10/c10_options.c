/* c10_options -- PYTORCH_CUDA_ALLOC_CONF, read as each release reads it.
 *
 * Until 2.8 the options are read in one walk.  From 2.9 on there are three: the segment size, on
 * which limits of others depend; what any device could have; what is CUDA's own.  The first
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

typedef struct parser {
    c10_words words;
    c10_version version;
    c10_options *options;
} parser;

static uint64_t mebibytes(uint64_t n)
{
    const uint64_t most = UINT64_MAX / MR_MIB;
    return (n < most ? n : most) * MR_MIB;
}

static bool power_of_2(uint64_t n)
{
    return n && !(n & (n - 1));
}

/* ---- values -------------------------------------------------------------------------------- */

static mr_status read_max_split_size(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "Error, expecting max_split_size_mb value", &word));
    MR_TRY(c10_word_number(&p->words, word, &n));
    const uint64_t least = p->options->large_segment_size / MR_MIB;
    if (p->words.quirks.limits_inclusive ? n < least : n <= least)
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "CachingAllocator option max_split_size_mb too small, must be %s %llu; "
                       "found %s", p->words.quirks.limits_inclusive ? ">=" : ">",
                       (unsigned long long)least, word);
    p->options->max_split_size = mebibytes(n);
    return MR_OK;
}

static mr_status read_max_non_split_rounding(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "Error, expecting max_non_split_rounding_mb value", &word));
    MR_TRY(c10_word_number(&p->words, word, &n));
    const uint64_t least = p->options->large_segment_size / MR_MIB;
    if (p->words.quirks.limits_inclusive ? n < least : n <= least)
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "CachingAllocator option max_non_split_rounding_mb too small, must be "
                       "%s %llu; found %s", p->words.quirks.limits_inclusive ? ">=" : ">",
                       (unsigned long long)least, word);
    p->options->max_non_split_rounding = mebibytes(n);
    return MR_OK;
}

static mr_status read_large_segment_size(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "", &word));
    MR_TRY(c10_word_number(&p->words, word, &n));
    if (n <= C10_OWN_SEGMENT / MR_MIB) /* but a negative one wraps, and passes */
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "CachingAllocator option large_segment_size_mb must be > 10 MB; found %s",
                       word);
    p->options->large_segment_size = n * MR_MIB;
    return MR_OK;
}

static mr_status read_threshold(parser *p)
{
    const char *word;
    double part;
    MR_TRY(c10_word_value(&p->words, "Error, expecting garbage_collection_threshold value", &word));
    MR_TRY(c10_word_real(&p->words, word, &part));
    if (!(part > 0 && part < 1))
        return mr_fail(p->words.ctx, MR_EINPUT, "garbage_collect_threshold %s; found %s",
                       p->words.quirks.limits_inclusive ? "is invalid, set it in (0.0, 1.0)"
                       : part >= 1 ? "too big, set it 0.0~1.0" : "too small, set it 0.0~1.0",
                       word);
    p->options->garbage_collection_threshold = part;
    return MR_OK;
}

static mr_status read_fraction(parser *p)
{
    const char *word;
    double part;
    MR_TRY(c10_word_value(&p->words, "", &word));
    MR_TRY(c10_word_real(&p->words, word, &part));
    if (!(part >= 0 && part <= 1))
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "per_process_memory_fraction is invalid, set it in [0.0, 1.0]; found %s",
                       word);
    p->options->per_process_memory_fraction = part;
    return MR_OK;
}

static mr_status read_bool(parser *p, bool *out)
{
    const char *key = p->words.words.at[p->words.i], *word;
    MR_TRY(c10_word_value(&p->words, mr_printf(p->words.ctx, "Expected a single True/False argument for %s", key),
                 &word));
    *out = !strcmp(word, "True");
    if (*out || !strcmp(word, "False")) return MR_OK;
    if (p->words.quirks.marks_unchecked)
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "Expected 'True' or 'False' at index %u in ConfigTokenizer but got '%s'",
                       p->words.i, word);
    return mr_fail(p->words.ctx, MR_EINPUT,
                   "Expected a single True/False argument for %s; found '%s'", key, word);
}

static mr_status read_expandable(parser *p)
{
    bool on;
    MR_TRY(read_bool(p, &on));
    p->options->expandable_segments = on;
    return MR_OK;
}

static mr_status read_throw(parser *p)
{
    bool on;
    MR_TRY(read_bool(p, &on));
    p->options->throw_on_cudamalloc_oom = on;
    return MR_OK;
}

static mr_status read_reuse(parser *p)
{
    bool on;
    MR_TRY(read_bool(p, &on));
    p->options->graph_capture_record_stream_reuse = on;
    return MR_OK;
}

static mr_status read_backend(parser *p)
{
    const char *word;
    MR_TRY(c10_word_value(&p->words, "Error parsing backend value", &word));
    if (!strcmp(word, "native")) return MR_OK;
    if (!strcmp(word, "cudaMallocAsync"))
        return mr_fail(p->words.ctx, MR_EINPUT, "assertion; the backend cannot be changed from native");
    return mr_fail(p->words.ctx, MR_EINPUT, "Unknown allocator backend, options are native and "
                   "cudaMallocAsync; found %s", word);
}

/* Host memory only: read and forgotten. */
static mr_status read_ignored_bool(parser *p)
{
    bool on;
    return read_bool(p, &on);
}

static mr_status read_ignored_number(parser *p)
{
    const char *key = p->words.words.at[p->words.i], *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, mr_printf(p->words.ctx, "Error, expecting %s value", key), &word));
    return c10_word_number(&p->words, word, &n);
}

static mr_status read_threads(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "Error, expecting pinned_num_register_threads value", &word));
    MR_TRY(c10_word_number(&p->words, word, &n));
    const char *got = p->words.quirks.marks_unchecked ? ", got" : "; found";
    if (!power_of_2(n))
        return mr_fail(p->words.ctx, MR_EINPUT, "Number of register threads has to be power of 2%s %s",
                       got, word);
    if (n > 128)
        return mr_fail(p->words.ctx, MR_EINPUT, "Number of register threads should be less than or "
                       "equal to 128%s %s", got, word);
    return MR_OK;
}

/* ---- divisions ------------------------------------------------------------------------------ */

enum { INTERVALS = MR_COUNT(((c10_options *)0)->roundup_power2_divisions) };

static mr_status division_refused(parser *p, const char *more, const char *word)
{
    return mr_fail(p->words.ctx, MR_EINPUT, "For roundups, the %s has to be power of 2%s; found %s",
                   p->words.quirks.divisions_spelled ? "divisions" : "divisons", more, word);
}

typedef struct division_list {
    bool first;
    uint32_t last; /* interval named last */
} division_list;

static void set_divisions(parser *p, uint32_t from, uint32_t to, uint64_t n)
{
    for (uint32_t i = from; i < to; i++) p->options->roundup_power2_divisions[i] = n;
}

/* One "interval:divisions" of a list; `at` is the interval. */
static mr_status set_interval(parser *p, const char *at, uint64_t n, division_list *list)
{
    if (!strcmp(at, ">")) {
        set_divisions(p, list->last + (p->words.quirks.rest_after_last ? 1 : 0), INTERVALS, n);
        return MR_OK;
    }
    char *end;
    errno = 0;
    const unsigned long long interval = strtoull(at, &end, 10);
    if (end == at || errno)
        return mr_fail(p->words.ctx, MR_EINPUT, "%s; '%s' is no number",
                       p->words.quirks.wide_numbers ? "stoull" : "stoul", at);
    if (!power_of_2(interval))
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "For roundups, the intervals have to be power of 2; found %s", at);
    uint32_t i = 0;
    while (i < INTERVALS - 1 && interval >> (i + 1)) i++;
    if (list->first) set_divisions(p, 0, i, n);
    list->first = false;
    list->last = i;
    set_divisions(p, i, i + 1, n);
    return MR_OK;
}

static mr_status read_interval(parser *p, division_list *list)
{
    const char *at = p->words.words.at[p->words.i], *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "Error parsing roundup_power2_divisions value", &word));
    MR_TRY(c10_word_number(&p->words, word, &n));
    if (n && !power_of_2(n)) return division_refused(p, " or 0 to disable roundup", word);
    MR_TRY(set_interval(p, at, n, list));
    if (c10_word_is(&p->words, p->words.i + 1, "]")) return MR_OK;
    if (p->words.quirks.end_closes_list && p->words.i + 1 == p->words.words.n) return MR_OK;
    return c10_word_skip(&p->words, ",");
}

static mr_status read_divisions(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(&p->words, "Error, expecting roundup_power2_divisions value", &word));
    if (strcmp(word, "[")) {
        MR_TRY(c10_word_number(&p->words, word, &n));
        if (!power_of_2(n)) return division_refused(p, "", word);
        set_divisions(p, 0, INTERVALS, n);
        return MR_OK;
    }
    division_list list = {true, 0};
    while (++p->words.i < p->words.words.n && !c10_word_is(&p->words, p->words.i, "]")) MR_TRY(read_interval(p, &list));
    if (p->words.i >= p->words.words.n && p->words.quirks.marks_unchecked) return c10_words_end_early(&p->words);
    return MR_OK;
}

/* ---- reservations --------------------------------------------------------------------------- */

/* A fraction of the device, or "nG"; what is neither is passed over with a warning. */
static bool reservation(const char *word, c10_reserve *out)
{
    char *end;
    const double n = strtod(word, &end);
    const bool gibibytes = *end == 'G';
    if (end == word || !(n > 0) || end[gibibytes]) return false;
    *out = (c10_reserve){n, gibibytes};
    return true;
}

static mr_status read_reserve(parser *p)
{
    const char *word;
    MR_TRY(c10_word_value(&p->words, "", &word));
    reservation(word, &p->options->expandable_segments_reserve);
    return MR_OK;
}

static void set_class(parser *p, const char *name, const char *amount)
{
    c10_reserve_class one = {name, {0, false}};
    if (reservation(amount, &one.reserve))
        MR_PUSH(p->words.ctx, &p->options->expandable_segments_reserve_by_class, one);
}

static mr_status read_reserve_classes(parser *p)
{
    const uint32_t first = p->words.i + 3; /* behind key, colon and bracket */
    if (!c10_word_is(&p->words, first - 1, "[")) return c10_words_end_early(&p->words);
    MR_TRY(c10_word_skip_value(&p->words));
    p->options->expandable_segments_reserve_by_class.n = 0;
    p->options->expandable_segments_reserve_by_class.cap = 0; /* the old array may be shared */
    for (uint32_t i = first; i + 2 < p->words.i; i += 4)
        set_class(p, p->words.words.at[i], p->words.words.at[i + 2]);
    return MR_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

typedef enum walk { SIZES = 1, GENERAL = 2, OF_CUDA = 4 } walk;

/* Since which minor release of 2.x, in which walk and how it is read. */
static const struct key {
    const char *name;
    unsigned since;
    walk in;
    mr_status (*read)(parser *p);
} keys[] = {
    {"max_split_size_mb", 0, GENERAL, read_max_split_size},
    {"garbage_collection_threshold", 0, GENERAL, read_threshold},
    {"roundup_power2_divisions", 0, GENERAL, read_divisions},
    {"backend", 0, OF_CUDA, read_backend},
    {"expandable_segments", 1, GENERAL, read_expandable},
    {"release_lock_on_cudamalloc", 1, OF_CUDA, read_ignored_bool},
    {"pinned_use_cuda_host_register", 1, OF_CUDA, read_ignored_bool},
    {"pinned_num_register_threads", 1, OF_CUDA, read_threads},
    {"max_non_split_rounding_mb", 6, GENERAL, read_max_non_split_rounding},
    {"pinned_use_background_threads", 6, GENERAL, read_ignored_bool},
    {"graph_capture_record_stream_reuse", 9, OF_CUDA, read_reuse},
    {"pinned_reserve_segment_size_mb", 9, OF_CUDA, read_ignored_number},
    {"per_process_memory_fraction", 10, OF_CUDA, read_fraction},
    {"large_segment_size_mb", 11, SIZES, read_large_segment_size},
    {"throw_on_cudamalloc_oom", 12, OF_CUDA, read_throw},
    {"pinned_max_cached_size_mb", 12, OF_CUDA, read_ignored_number},
    {"pinned_max_round_threshold_mb", 12, OF_CUDA, read_ignored_number},
    {"expandable_segments_reserve", 14, OF_CUDA, read_reserve},
    {"expandable_segments_reserve_by_class", 14, OF_CUDA, read_reserve_classes},
};

static const struct key *key_named(c10_version version, const char *name)
{
    for (size_t i = 0; i < MR_COUNT(keys); i++)
        if (!strcmp(keys[i].name, name))
            return version.major > 2 || version.minor >= keys[i].since ? &keys[i] : NULL;
    return NULL;
}

static mr_status unknown(parser *p, unsigned walks)
{
    const char *name = p->words.words.at[p->words.i];
    if (p->words.quirks.marks_unchecked)
        return mr_fail(p->words.ctx, MR_EINPUT,
                       "Unrecognized key '%s' in %s allocator config; this release has no such "
                       "option", name, walks & GENERAL ? "Accelerator" : "CUDA");
    return mr_fail(p->words.ctx, MR_EINPUT,
                   "Unrecognized CachingAllocator option: %s; this release has no such option",
                   name);
}

/* Until the program runs, nobody has yet said which keys CUDA has. */
static bool refuses_unknown(const parser *p, unsigned walks)
{
    return walks & OF_CUDA || p->options->running;
}

static mr_status read_keys(parser *p, unsigned walks)
{
    c10_words *w = &p->words;
    for (w->i = 0; w->i < w->words.n; w->i++) {
        const struct key *key = key_named(p->version, w->words.at[w->i]);
        if (!key && refuses_unknown(p, walks)) return unknown(p, walks);
        if (key && (key->in & walks)) MR_TRY(key->read(p));
        else MR_TRY(c10_word_skip_value(w));
        if (w->i + 1 < w->words.n) MR_TRY(c10_word_skip(w, ","));
    }
    return MR_OK;
}

static mr_status read_sizes(parser *p)
{
    c10_words *w = &p->words;
    for (w->i = 0; w->i < w->words.n; w->i++) {
        const struct key *key = key_named(p->version, w->words.at[w->i]);
        if (key && key->in == SIZES) MR_TRY(key->read(p));
    }
    return MR_OK;
}

static void reset(parser *p)
{
    c10_options *o = p->options;
    o->max_split_size = C10_UNLIMITED;
    o->garbage_collection_threshold = 0;
    set_divisions(p, 0, INTERVALS, 0);
    if (p->words.quirks.rounding_resets) o->max_non_split_rounding = o->large_segment_size;
}

mr_status c10_options_parse(mr_ctx *ctx, c10_version version, const char *text,
                            c10_options *options)
{
    parser p = {{.ctx = ctx, .quirks = c10_quirks_of(version)}, version, options};
    c10_words_cut(&p.words, text);
    if (!p.words.quirks.marks_unchecked) {
        reset(&p);
        return read_keys(&p, SIZES | GENERAL | OF_CUDA);
    }
    MR_TRY(read_sizes(&p));
    reset(&p);
    MR_TRY(read_keys(&p, GENERAL));
    return read_keys(&p, OF_CUDA);
}
