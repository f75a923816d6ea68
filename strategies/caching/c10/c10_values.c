/* c10_values -- the values of single options, and what a release refuses among them. */
#include "c10_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mebibytes(uint64_t n)
{
    const uint64_t most = UINT64_MAX / MR_MIB;
    return (n < most ? n : most) * MR_MIB;
}

static bool power_of_2(uint64_t n)
{
    return n && !(n & (n - 1));
}

/* ---- values ----------------------------------------------------------------------------- */

/* A limit that must not lie below the size of a large segment. */
static mr_status read_limit(c10_words *w, uint64_t *out)
{
    const char *key = w->words.at[w->i], *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, mr_printf(w->ctx, "Error, expecting %s value", key), &word));
    MR_TRY(c10_word_number(w, word, &n));
    const uint64_t least = w->options->large_segment_size / MR_MIB;
    if (w->quirks.limits_inclusive ? n < least : n <= least)
        return mr_fail(w->ctx, MR_EINPUT,
                       "CachingAllocator option %s too small, must be %s %llu; found %s", key,
                       w->quirks.limits_inclusive ? ">=" : ">", (unsigned long long)least,
                       word);
    *out = mebibytes(n);
    return MR_OK;
}

mr_status c10_read_max_split_size(c10_words *w)
{
    return read_limit(w, &w->options->max_split_size);
}

mr_status c10_read_max_non_split_rounding(c10_words *w)
{
    return read_limit(w, &w->options->max_non_split_rounding);
}

mr_status c10_read_large_segment_size(c10_words *w)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, "", &word));
    MR_TRY(c10_word_number(w, word, &n));
    if (n <= C10_OWN_SEGMENT / MR_MIB) /* but a negative one wraps, and passes */
        return mr_fail(
            w->ctx, MR_EINPUT,
            "CachingAllocator option large_segment_size_mb must be > 10 MB; found %s", word);
    w->options->large_segment_size = n * MR_MIB;
    return MR_OK;
}

mr_status c10_read_threshold(c10_words *w)
{
    const char *word;
    double part;
    MR_TRY(c10_word_value(w, "Error, expecting garbage_collection_threshold value", &word));
    MR_TRY(c10_word_real(w, word, &part));
    if (!(part > 0 && part < 1))
        return mr_fail(w->ctx, MR_EINPUT, "garbage_collect_threshold %s; found %s",
                       w->quirks.limits_inclusive ? "is invalid, set it in (0.0, 1.0)"
                       : part >= 1                ? "too big, set it 0.0~1.0"
                                                  : "too small, set it 0.0~1.0",
                       word);
    w->options->garbage_collection_threshold = part;
    return MR_OK;
}

mr_status c10_read_fraction(c10_words *w)
{
    const char *word;
    double part;
    MR_TRY(c10_word_value(w, "", &word));
    MR_TRY(c10_word_real(w, word, &part));
    if (!(part >= 0 && part <= 1))
        return mr_fail(w->ctx, MR_EINPUT,
                       "per_process_memory_fraction is invalid, set it in [0.0, 1.0]; found %s",
                       word);
    w->options->per_process_memory_fraction = part;
    return MR_OK;
}

static mr_status read_bool(c10_words *w, bool *out)
{
    const char *key = w->words.at[w->i], *word;
    MR_TRY(c10_word_value(
        w, mr_printf(w->ctx, "Expected a single True/False argument for %s", key), &word));
    *out = !strcmp(word, "True");
    if (*out || !strcmp(word, "False")) return MR_OK;
    if (w->quirks.marks_unchecked)
        return mr_fail(w->ctx, MR_EINPUT,
                       "Expected 'True' or 'False' at index %u in ConfigTokenizer but got '%s'",
                       w->i, word);
    return mr_fail(w->ctx, MR_EINPUT,
                   "Expected a single True/False argument for %s; found '%s'", key, word);
}

mr_status c10_read_expandable(c10_words *w)
{
    bool on;
    MR_TRY(read_bool(w, &on));
    w->options->expandable_segments = on;
    return MR_OK;
}

mr_status c10_read_throw(c10_words *w)
{
    bool on;
    MR_TRY(read_bool(w, &on));
    w->options->throw_on_cudamalloc_oom = on;
    return MR_OK;
}

mr_status c10_read_reuse(c10_words *w)
{
    bool on;
    MR_TRY(read_bool(w, &on));
    w->options->graph_capture_record_stream_reuse = on;
    return MR_OK;
}

mr_status c10_read_backend(c10_words *w)
{
    const char *word;
    MR_TRY(c10_word_value(w, "Error parsing backend value", &word));
    if (!strcmp(word, "native")) return MR_OK;
    if (!strcmp(word, "cudaMallocAsync"))
        return mr_fail(w->ctx, MR_EINPUT,
                       "assertion; the backend cannot be changed from native");
    return mr_fail(w->ctx, MR_EINPUT,
                   "Unknown allocator backend, options are native and "
                   "cudaMallocAsync; found %s",
                   word);
}

/* Host memory only: read and forgotten. */
mr_status c10_read_ignored_bool(c10_words *w)
{
    bool on;
    return read_bool(w, &on);
}

mr_status c10_read_ignored_number(c10_words *w)
{
    const char *key = w->words.at[w->i], *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, mr_printf(w->ctx, "Error, expecting %s value", key), &word));
    return c10_word_number(w, word, &n);
}

mr_status c10_read_pinned_reserve(c10_words *w)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, "", &word));
    MR_TRY(c10_word_number(w, word, &n));
    if (!n)
        return mr_fail(w->ctx, MR_EINPUT,
                       "Pinned reserve segment size has to be greater than 0; found %s", word);
    return MR_OK;
}

mr_status c10_read_threads(c10_words *w)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, "Error, expecting pinned_num_register_threads value", &word));
    MR_TRY(c10_word_number(w, word, &n));
    const char *got = w->quirks.marks_unchecked ? ", got" : "; found";
    if (!power_of_2(n))
        return mr_fail(w->ctx, MR_EINPUT,
                       "Number of register threads has to be power of 2%s %s", got, word);
    if (n > 128)
        return mr_fail(w->ctx, MR_EINPUT,
                       "Number of register threads should be less than or "
                       "equal to 128%s %s",
                       got, word);
    return MR_OK;
}

/* ---- divisions -------------------------------------------------------------------------- */

static mr_status division_refused(c10_words *w, const char *more, const char *word)
{
    return mr_fail(w->ctx, MR_EINPUT, "For roundups, the %s has to be power of 2%s; found %s",
                   w->quirks.divisions_spelled ? "divisions" : "divisons", more, word);
}

typedef struct division_list {
    bool first;
    uint32_t last; /* interval named last */
} division_list;

void c10_set_divisions(c10_words *w, uint32_t from, uint32_t to, uint64_t n)
{
    for (uint32_t i = from; i < to; i++) w->options->roundup_power2_divisions[i] = n;
}

/* One "interval:divisions" of a list; `at` is the interval. */
static mr_status set_interval(c10_words *w, const char *at, uint64_t n, division_list *list)
{
    if (!strcmp(at, ">")) {
        c10_set_divisions(w, list->last + (w->quirks.rest_after_last ? 1 : 0), C10_INTERVALS,
                          n);
        return MR_OK;
    }
    char *end;
    errno = 0;
    const unsigned long long interval = strtoull(at, &end, 10);
    if (end == at || errno)
        return mr_fail(w->ctx, MR_EINPUT, "%s; '%s' is no number",
                       w->quirks.wide_numbers ? "stoull" : "stoul", at);
    if (!power_of_2(interval))
        return mr_fail(w->ctx, MR_EINPUT,
                       "For roundups, the intervals have to be power of 2; found %s", at);
    uint32_t i = 0;
    while (i < C10_INTERVALS - 1 && interval >> (i + 1)) i++;
    if (list->first) c10_set_divisions(w, 0, i, n);
    list->first = false;
    list->last = i;
    c10_set_divisions(w, i, i + 1, n);
    return MR_OK;
}

static mr_status read_interval(c10_words *w, division_list *list)
{
    const char *at = w->words.at[w->i], *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, "Error parsing roundup_power2_divisions value", &word));
    MR_TRY(c10_word_number(w, word, &n));
    if (n && !power_of_2(n)) return division_refused(w, " or 0 to disable roundup", word);
    MR_TRY(set_interval(w, at, n, list));
    if (c10_word_is(w, w->i + 1, "]")) return MR_OK;
    return c10_word_skip(w, ",");
}

mr_status c10_read_divisions(c10_words *w)
{
    const char *word;
    uint64_t n;
    MR_TRY(c10_word_value(w, "Error, expecting roundup_power2_divisions value", &word));
    if (strcmp(word, "[")) {
        MR_TRY(c10_word_number(w, word, &n));
        if (!power_of_2(n)) return division_refused(w, "", word);
        c10_set_divisions(w, 0, C10_INTERVALS, n);
        return MR_OK;
    }
    division_list list = {true, 0};
    while (++w->i < w->words.n && !c10_word_is(w, w->i, "]")) MR_TRY(read_interval(w, &list));
    if (w->i >= w->words.n && w->quirks.marks_unchecked) return c10_words_end_early(w);
    return MR_OK;
}

/* ---- reservations ----------------------------------------------------------------------- */

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

mr_status c10_read_reserve(c10_words *w)
{
    const char *word;
    MR_TRY(c10_word_value(w, "", &word));
    reservation(word, &w->options->expandable_segments_reserve);
    return MR_OK;
}

static void set_class(c10_words *w, const char *name, const char *amount)
{
    c10_reserve_class one = {name, {0, false}};
    if (reservation(amount, &one.reserve))
        MR_PUSH(w->ctx, &w->options->expandable_segments_reserve_by_class, one);
}

mr_status c10_read_reserve_classes(c10_words *w)
{
    const uint32_t first = w->i + 3; /* behind key, colon and bracket */
    if (!c10_word_is(w, first - 1, "[")) return c10_words_end_early(w);
    MR_TRY(c10_word_skip_value(w));
    w->options->expandable_segments_reserve_by_class.n = 0;
    w->options->expandable_segments_reserve_by_class.cap = 0; /* the old array may be shared */
    for (uint32_t i = first; i + 2 < w->i; i += 4)
        set_class(w, w->words.at[i], w->words.at[i + 2]);
    return MR_OK;
}
