/* plot_map -- the tables of maps: a number for each spec and set-up, as a colour. */
#include <inttypes.h>
#include <string.h>

#include "results.h"

#define LABELS_MOST 40 /* more specs are told by dots */
#define TECHNIQUES_MOST 16
#define NAMES_MOST 500 /* of rows without dots */

/* The rewrites of a spec, by their text: cut at plus signs outside of brackets. */
static void rewrites_of(mr_ctx *ctx, const mr_results *results, uint32_t spec, mr_words *out)
{
    const char *text = results->labels.at[spec];
    if (!results->placement || strcmp(text, "as recorded") == 0) return;
    int depth = 0;
    for (const char *c = text;; c++) {
        depth += (*c == '[') - (*c == ']');
        if (*c && (*c != '+' || depth > 0)) continue;
        MR_PUSH(ctx, out, mr_strndup(ctx, text, (size_t)(c - text)));
        if (!*c) return;
        text = c + 1;
    }
}

static uint32_t number_of(mr_ctx *ctx, mr_words *all, const char *word)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (strcmp(all->at[i], word) == 0) return i;
    MR_PUSH(ctx, all, word);
    return all->n - 1;
}

/* Which technique is in which spec, where there are too many specs for names. */
static void put_dots(mr_ctx *ctx, const mr_results *results, mr_words *techniques,
                     mr_sink *sink)
{
    for (uint32_t s = 0; s < results->specs.n; s++) {
        mr_words words = {0};
        rewrites_of(ctx, results, s, &words);
        for (uint32_t i = 0; i < words.n; i++)
            mr_sink_print(sink, "dot,%" PRIu32 ",%" PRIu32 ",0\n",
                          number_of(ctx, techniques, words.at[i]) + 1, s + 1);
    }
}

static void put_cells(const mr_results *results, bool of_time, mr_sink *sink)
{
    for (uint32_t i = 0; i < results->setups.n; i++) {
        const mr_result *first = mr_first_of(results, i);
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s);
            const double part = !first    ? 0
                                : of_time ? mr_percent_of(cell->ns, first->ns)
                                          : mr_percent_of(cell->peak, first->peak);
            const char *what = cell->fits    ? part > 0 ? "cell" : "absent"
                               : cell->oom   ? "oom"
                               : cell->there ? "refused"
                                             : "absent";
            mr_sink_print(sink, "%s,%" PRIu32 ",%" PRIu32 ",%.2f\n", what, i + 1, s + 1, part);
        }
    }
}

static void put_map(mr_ctx *ctx, const mr_results *results, bool of_time, const char *title,
                    mr_sink *sink)
{
    mr_head head = mr_results_head(ctx, results, title);
    mr_words techniques = {0};
    for (uint32_t s = 0; s < results->specs.n; s++) {
        mr_words words = {0};
        rewrites_of(ctx, results, s, &words);
        for (uint32_t i = 0; i < words.n; i++) number_of(ctx, &techniques, words.at[i]);
    }
    const bool dots =
        results->specs.n > LABELS_MOST && techniques.n && techniques.n <= TECHNIQUES_MOST;
    mr_head_add(&head, "x\t%" PRIu32 "\t%" PRIu32 "\t%s", dots ? techniques.n : 0,
                results->setups.n, of_time ? "time" : "memory");
    mr_head_add(&head, "y\t%" PRIu32, results->specs.n);
    for (uint32_t i = 0; i < results->setups.n; i++)
        mr_head_add(&head, "column\t%" PRIu32 "\t%s", i + 1,
                    mr_head_text(ctx, results->setups.at[i].name, 40));
    for (uint32_t i = 0; dots && i < techniques.n; i++)
        mr_head_add(&head, "technique\t%" PRIu32 "\t%s", i + 1,
                    mr_head_text(ctx, techniques.at[i], 30));
    for (uint32_t s = 0; !dots && s < results->specs.n && s < NAMES_MOST; s++)
        mr_head_add_name(&head, s + 1, results->labels.at[s]);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "what,x,y,part\n");
    put_cells(results, of_time, sink);
    if (dots) put_dots(ctx, results, &techniques, sink);
}

void mr_plot_combinations(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    put_map(ctx, results, false, "Memory of every combination", sink);
}

void mr_plot_slowdown(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    put_map(ctx, results, true, "Time of every combination", sink);
}
