/* c10_words.h -- the text of PYTORCH_CUDA_ALLOC_CONF as words, for c10_options.c.
 *
 * The text is cut at , : [ and ], which are words themselves.  Until 2.8 every separator is
 * checked; from 2.9 on it is only skipped, whatever it is.
 */
#ifndef C10_WORDS_H
#define C10_WORDS_H

#include "c10_internal.h"

typedef struct c10_words {
    mr_ctx *ctx;
    c10_quirks quirks;
    c10_version version;
    c10_options *options;
    MR_VEC(const char *) words;
    uint32_t i; /* word at hand */
} c10_words;

enum { C10_INTERVALS = MR_COUNT(((c10_options *)0)->roundup_power2_divisions) };

void c10_words_cut(c10_words *w, const char *text);
bool c10_word_is(const c10_words *w, uint32_t i, const char *word);
mr_status c10_words_end_early(c10_words *w);

/* On to the next word, which should be this separator. */
mr_status c10_word_skip(c10_words *w, const char *mark);
/* Past the value of the key at hand, which may be a list. */
mr_status c10_word_skip_value(c10_words *w);
/* The value behind "key:"; `without` is what releases before 2.9 say when there is none. */
mr_status c10_word_value(c10_words *w, const char *without, const char **out);

/* Leading digits count and what follows them is ignored; negative numbers wrap. */
mr_status c10_word_number(c10_words *w, const char *word, uint64_t *out);
mr_status c10_word_real(c10_words *w, const char *word, double *out);

/* c10_values: each reads the value of the key at hand */
mr_status c10_read_max_split_size(c10_words *w);
mr_status c10_read_max_non_split_rounding(c10_words *w);
mr_status c10_read_large_segment_size(c10_words *w);
mr_status c10_read_threshold(c10_words *w);
mr_status c10_read_fraction(c10_words *w);
mr_status c10_read_expandable(c10_words *w);
mr_status c10_read_throw(c10_words *w);
mr_status c10_read_reuse(c10_words *w);
mr_status c10_read_backend(c10_words *w);
mr_status c10_read_ignored_bool(c10_words *w);
mr_status c10_read_ignored_number(c10_words *w);
mr_status c10_read_pinned_reserve(c10_words *w);
mr_status c10_read_threads(c10_words *w);
mr_status c10_read_divisions(c10_words *w);
mr_status c10_read_reserve(c10_words *w);
mr_status c10_read_reserve_classes(c10_words *w);
void c10_set_divisions(c10_words *w, uint32_t from, uint32_t to, uint64_t n);

#endif
