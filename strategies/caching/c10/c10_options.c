/* c10_options -- PYTORCH_CUDA_ALLOC_CONF, read as each release reads it.
 *
 * The text is cut into words at , : [ and ], which are words themselves.  Until 2.8 every
 * separator is checked; from 2.9 on it is only skipped, whatever it is, and options that any
 * device could have are read before those of CUDA.  The first clause of every refusal is the
 * release's own wording.
 */
#include "c10_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    mr_ctx *ctx;
    c10_quirks quirks;
    c10_options *options;
    MR_VEC(const char *) words;
    uint32_t i; /* word at hand */
} parser;

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

/* ---- words --------------------------------------------------------------------------------- */

static void cut_words(parser *p, const char *text)
{
    char *word = mr_alloc(p->ctx, strlen(text) + 1);
    size_t n = 0;
    for (const char *c = text;; c++) {
        const bool mark = *c && strchr(",:[]", *c);
        if ((mark || !*c) && n) {
            MR_PUSH(p->ctx, &p->words, mr_strndup(p->ctx, word, n));
            n = 0;
        }
        if (mark) MR_PUSH(p->ctx, &p->words, mr_strndup(p->ctx, c, 1));
        else if (!isspace((unsigned char)*c)) word[n++] = *c;
        if (!*c) return;
    }
}

static bool is(const parser *p, uint32_t i, const char *word)
{
    return i < p->words.n && !strcmp(p->words.at[i], word);
}

static mr_status too_short(parser *p)
{
    return mr_fail(p->ctx, MR_EINPUT, "assertion; the options end where a value is expected");
}

static mr_status skip_mark(parser *p, const char *mark)
{
    p->i++;
    if (p->quirks.marks_unchecked) return p->i < p->words.n ? MR_OK : too_short(p);
    if (is(p, p->i, mark)) return MR_OK;
    return mr_fail(p->ctx, MR_EINPUT,
                   "Error parsing CachingAllocator settings, expected %s; found %s", mark,
                   p->i < p->words.n ? p->words.at[p->i] : "the end");
}

/* The value behind "key:"; `without` is what releases before 2.9 say when there is none. */
static mr_status value(parser *p, const char *without, const char **out)
{
    const char *key = p->words.at[p->i];
    MR_TRY(skip_mark(p, ":"));
    if (++p->i >= p->words.n) {
        if (p->quirks.marks_unchecked) return too_short(p);
        return mr_fail(p->ctx, MR_EINPUT, "%s; %s has none", without, key);
    }
    *out = p->words.at[p->i];
    return MR_OK;
}

/* As std::stoi or std::stoull: leading digits count, what follows is ignored, and negative
 * numbers wrap. */
static mr_status number(parser *p, const char *word, uint64_t *out)
{
    char *end;
    errno = 0;
    if (p->quirks.wide_numbers) {
        *out = strtoull(word, &end, 10);
        if (end != word && !errno) return MR_OK;
        return mr_fail(p->ctx, MR_EINPUT, "stoull; '%s' is no number", word);
    }
    const long long n = strtoll(word, &end, 10);
    if (end == word || errno || n < INT32_MIN || n > INT32_MAX)
        return mr_fail(p->ctx, MR_EINPUT, "stoi; '%s' is no number of 32 bits", word);
    *out = (uint64_t)n;
    return MR_OK;
}

static mr_status real(parser *p, const char *word, double *out)
{
    char *end;
    *out = strtod(word, &end);
    if (end != word) return MR_OK;
    return mr_fail(p->ctx, MR_EINPUT, "stod; '%s' is no number", word);
}

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
    MR_TRY(value(p, "Error, expecting max_split_size_mb value", &word));
    MR_TRY(number(p, word, &n));
    const uint64_t least = p->options->large_segment_size / MR_MIB;
    if (p->quirks.limits_inclusive ? n < least : n <= least)
        return mr_fail(p->ctx, MR_EINPUT,
                       "CachingAllocator option max_split_size_mb too small, must be %s %llu; "
                       "found %s", p->quirks.limits_inclusive ? ">=" : ">",
                       (unsigned long long)least, word);
    p->options->max_split_size = mebibytes(n);
    return MR_OK;
}

static mr_status read_max_non_split_rounding(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(value(p, "Error, expecting max_non_split_rounding_mb value", &word));
    MR_TRY(number(p, word, &n));
    const uint64_t least = p->options->large_segment_size / MR_MIB;
    if (p->quirks.limits_inclusive ? n < least : n <= least)
        return mr_fail(p->ctx, MR_EINPUT,
                       "CachingAllocator option max_non_split_rounding_mb too small, must be "
                       "%s %llu; found %s", p->quirks.limits_inclusive ? ">=" : ">",
                       (unsigned long long)least, word);
    p->options->max_non_split_rounding = mebibytes(n);
    return MR_OK;
}

static mr_status read_large_segment_size(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(value(p, "", &word));
    MR_TRY(number(p, word, &n));
    if (n <= C10_OWN_SEGMENT / MR_MIB)
        return mr_fail(p->ctx, MR_EINPUT,
                       "CachingAllocator option large_segment_size_mb must be > 10 MB; found %s",
                       word);
    p->options->large_segment_size = mebibytes(n);
    return MR_OK;
}

static mr_status read_threshold(parser *p)
{
    const char *word;
    double part;
    MR_TRY(value(p, "Error, expecting garbage_collection_threshold value", &word));
    MR_TRY(real(p, word, &part));
    if (!(part > 0 && part < 1))
        return mr_fail(p->ctx, MR_EINPUT, "garbage_collect_threshold %s; found %s",
                       p->quirks.limits_inclusive ? "is invalid, set it in (0.0, 1.0)"
                       : part >= 1 ? "too big, set it 0.0~1.0" : "too small, set it 0.0~1.0",
                       word);
    p->options->garbage_collection_threshold = part;
    return MR_OK;
}

static mr_status read_fraction(parser *p)
{
    const char *word;
    double part;
    MR_TRY(value(p, "", &word));
    MR_TRY(real(p, word, &part));
    if (!(part >= 0 && part <= 1))
        return mr_fail(p->ctx, MR_EINPUT,
                       "per_process_memory_fraction is invalid, set it in [0.0, 1.0]; found %s",
                       word);
    p->options->per_process_memory_fraction = part;
    return MR_OK;
}

static mr_status read_bool(parser *p, bool *out)
{
    const char *key = p->words.at[p->i], *word;
    MR_TRY(value(p, mr_printf(p->ctx, "Expected a single True/False argument for %s", key),
                 &word));
    *out = !strcmp(word, "True");
    if (*out || !strcmp(word, "False")) return MR_OK;
    if (p->quirks.marks_unchecked)
        return mr_fail(p->ctx, MR_EINPUT,
                       "Expected 'True' or 'False' at index %u in ConfigTokenizer but got '%s'",
                       p->i, word);
    return mr_fail(p->ctx, MR_EINPUT,
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
    MR_TRY(value(p, "Error parsing backend value", &word));
    if (!strcmp(word, "native")) return MR_OK;
    if (!strcmp(word, "cudaMallocAsync"))
        return mr_fail(p->ctx, MR_EINPUT, "assertion; the backend cannot be changed from native");
    return mr_fail(p->ctx, MR_EINPUT, "Unknown allocator backend, options are native and "
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
    const char *key = p->words.at[p->i], *word;
    uint64_t n;
    MR_TRY(value(p, mr_printf(p->ctx, "Error, expecting %s value", key), &word));
    return number(p, word, &n);
}

static mr_status read_threads(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(value(p, "Error, expecting pinned_num_register_threads value", &word));
    MR_TRY(number(p, word, &n));
    const char *got = p->quirks.marks_unchecked ? ", got" : "; found";
    if (!power_of_2(n))
        return mr_fail(p->ctx, MR_EINPUT, "Number of register threads has to be power of 2%s %s",
                       got, word);
    if (n > 128)
        return mr_fail(p->ctx, MR_EINPUT, "Number of register threads should be less than or "
                       "equal to 128%s %s", got, word);
    return MR_OK;
}

/* ---- divisions ------------------------------------------------------------------------------ */

enum { INTERVALS = MR_COUNT(((c10_options *)0)->roundup_power2_divisions) };

static mr_status division_refused(parser *p, const char *more, const char *word)
{
    return mr_fail(p->ctx, MR_EINPUT, "For roundups, the %s has to be power of 2%s; found %s",
                   p->quirks.divisions_spelled ? "divisions" : "divisons", more, word);
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
        set_divisions(p, list->last + (p->quirks.rest_after_last ? 1 : 0), INTERVALS, n);
        return MR_OK;
    }
    char *end;
    errno = 0;
    const unsigned long long interval = strtoull(at, &end, 10);
    if (end == at || errno)
        return mr_fail(p->ctx, MR_EINPUT, "%s; '%s' is no number",
                       p->quirks.wide_numbers ? "stoull" : "stoul", at);
    if (!power_of_2(interval))
        return mr_fail(p->ctx, MR_EINPUT,
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
    const char *at = p->words.at[p->i], *word;
    uint64_t n;
    MR_TRY(value(p, "Error parsing roundup_power2_divisions value", &word));
    MR_TRY(number(p, word, &n));
    if (n && !power_of_2(n)) return division_refused(p, " or 0 to disable roundup", word);
    MR_TRY(set_interval(p, at, n, list));
    if (is(p, p->i + 1, "]")) return MR_OK;
    if (p->quirks.end_closes_list && p->i + 1 == p->words.n) return MR_OK;
    return skip_mark(p, ",");
}

static mr_status read_divisions(parser *p)
{
    const char *word;
    uint64_t n;
    MR_TRY(value(p, "Error, expecting roundup_power2_divisions value", &word));
    if (strcmp(word, "[")) {
        MR_TRY(number(p, word, &n));
        if (!power_of_2(n)) return division_refused(p, "", word);
        set_divisions(p, 0, INTERVALS, n);
        return MR_OK;
    }
    division_list list = {true, 0};
    while (++p->i < p->words.n && !is(p, p->i, "]")) MR_TRY(read_interval(p, &list));
    if (p->i >= p->words.n && p->quirks.marks_unchecked) return too_short(p);
    return MR_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Since which minor release of 2.x, whether any device could have it, how it is read. */
static const struct key {
    const char *name;
    unsigned since;
    bool general;
    mr_status (*read)(parser *p);
} keys[] = {
    {"max_split_size_mb", 0, true, read_max_split_size},
    {"garbage_collection_threshold", 0, true, read_threshold},
    {"roundup_power2_divisions", 0, true, read_divisions},
    {"backend", 0, false, read_backend},
    {"expandable_segments", 1, true, read_expandable},
    {"release_lock_on_cudamalloc", 1, false, read_ignored_bool},
    {"pinned_use_cuda_host_register", 1, false, read_ignored_bool},
    {"pinned_num_register_threads", 1, false, read_threads},
    {"max_non_split_rounding_mb", 6, true, read_max_non_split_rounding},
    {"pinned_use_background_threads", 6, true, read_ignored_bool},
    {"graph_capture_record_stream_reuse", 9, false, read_reuse},
    {"pinned_reserve_segment_size_mb", 9, false, read_ignored_number},
    {"per_process_memory_fraction", 10, false, read_fraction},
    {"large_segment_size_mb", 11, true, read_large_segment_size},
    {"throw_on_cudamalloc_oom", 12, false, read_throw},
    {"pinned_max_cached_size_mb", 12, false, read_ignored_number},
    {"pinned_max_round_threshold_mb", 12, false, read_ignored_number},
};

static const struct key *key_named(c10_version version, const char *name)
{
    for (size_t i = 0; i < MR_COUNT(keys); i++)
        if (!strcmp(keys[i].name, name))
            return version.major > 2 || version.minor >= keys[i].since ? &keys[i] : NULL;
    return NULL;
}

static mr_status unknown(parser *p, const char *name)
{
    if (p->quirks.marks_unchecked)
        return mr_fail(p->ctx, MR_EINPUT,
                       "Unrecognized key '%s' in Accelerator allocator config; this release has "
                       "no such option", name);
    return mr_fail(p->ctx, MR_EINPUT,
                   "Unrecognized CachingAllocator option: %s; this release has no such option",
                   name);
}

/* To the comma before the next key. */
static void skip_key(parser *p)
{
    while (p->i + 1 < p->words.n && !is(p, p->i + 1, ",")) p->i++;
}

/* One walk over the text, for general options or those of CUDA or both. */
static mr_status read_keys(parser *p, c10_version version, bool general, bool special)
{
    for (p->i = 0; p->i < p->words.n; p->i++) {
        const struct key *key = key_named(version, p->words.at[p->i]);
        if (!key) return unknown(p, p->words.at[p->i]);
        if (key->general ? general : special) MR_TRY(key->read(p));
        else skip_key(p);
        if (p->i + 1 < p->words.n) MR_TRY(skip_mark(p, ","));
    }
    return MR_OK;
}

mr_status c10_options_parse(mr_ctx *ctx, c10_version version, const char *text,
                            c10_options *options)
{
    parser p = {.ctx = ctx, .quirks = c10_quirks_of(version), .options = options};
    cut_words(&p, text);
    options->max_split_size = C10_UNLIMITED;
    options->garbage_collection_threshold = 0;
    set_divisions(&p, 0, INTERVALS, 0);
    if (!p.quirks.marks_unchecked) return read_keys(&p, version, true, true);
    MR_TRY(read_keys(&p, version, true, false));
    return read_keys(&p, version, false, true);
}
