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
    MR_VEC(const char *) words;
    uint32_t i; /* word at hand */
} c10_words;

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

#endif
