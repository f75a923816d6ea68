/* c10_words -- the words of PYTORCH_CUDA_ALLOC_CONF, and numbers among them. */
#include "c10_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void c10_words_cut(c10_words *w, const char *text)
{
    char *word = mr_alloc(w->ctx, strlen(text) + 1);
    size_t n = 0;
    for (const char *c = text;; c++) {
        const bool mark = *c && strchr(",:[]", *c);
        if ((mark || !*c) && n) {
            MR_PUSH(w->ctx, &w->words, mr_strndup(w->ctx, word, n));
            n = 0;
        }
        if (!*c) return;
        if (mark) MR_PUSH(w->ctx, &w->words, mr_strndup(w->ctx, c, 1));
        else if (!isspace((unsigned char)*c)) word[n++] = *c;
    }
}

bool c10_word_is(const c10_words *w, uint32_t i, const char *word)
{
    return i < w->words.n && !strcmp(w->words.at[i], word);
}

mr_status c10_words_end_early(c10_words *w)
{
    return mr_fail(w->ctx, MR_EINPUT,
                   "assertion; the options end behind '%s', expected key:value pairs with a "
                   "comma between two",
                   w->words.n ? w->words.at[w->words.n - 1] : "");
}

mr_status c10_word_skip(c10_words *w, const char *mark)
{
    w->i++;
    if (w->quirks.marks_unchecked) return w->i < w->words.n ? MR_OK : c10_words_end_early(w);
    if (c10_word_is(w, w->i, mark)) return MR_OK;
    return mr_fail(w->ctx, MR_EINPUT,
                   "Error parsing CachingAllocator settings, expected %s; found %s", mark,
                   w->i < w->words.n ? w->words.at[w->i] : "the end");
}

mr_status c10_word_skip_value(c10_words *w)
{
    const char *word = "";
    MR_TRY(c10_word_value(w, "", &word));
    if (strcmp(word, "[")) return MR_OK;
    while (w->i < w->words.n && !c10_word_is(w, w->i, "]")) w->i++;
    return w->i < w->words.n ? MR_OK : c10_words_end_early(w);
}

mr_status c10_word_value(c10_words *w, const char *without, const char **out)
{
    const char *key = w->words.at[w->i];
    MR_TRY(c10_word_skip(w, ":"));
    if (++w->i >= w->words.n) {
        if (w->quirks.marks_unchecked) return c10_words_end_early(w);
        return mr_fail(w->ctx, MR_EINPUT, "%s; %s has none", without, key);
    }
    *out = w->words.at[w->i];
    return MR_OK;
}

mr_status c10_word_number(c10_words *w, const char *word, uint64_t *out)
{
    char *end;
    errno = 0;
    if (w->quirks.wide_numbers) {
        *out = strtoull(word, &end, 10);
        if (end != word && !errno) return MR_OK;
        return mr_fail(w->ctx, MR_EINPUT, "stoull; '%s' is no number", word);
    }
    const long long n = strtoll(word, &end, 10);
    if (end == word || errno || n < INT32_MIN || n > INT32_MAX)
        return mr_fail(w->ctx, MR_EINPUT, "stoi; '%s' is no number of 32 bits", word);
    *out = (uint64_t)n;
    return MR_OK;
}

mr_status c10_word_real(c10_words *w, const char *word, double *out)
{
    char *end;
    *out = strtod(word, &end);
    if (end != word) return MR_OK;
    return mr_fail(w->ctx, MR_EINPUT, "stod; '%s' is no number", word);
}
