/* plot_results -- the tables that the figures of a sweep are drawn from. */
#include <inttypes.h>
#include <string.h>

#include "results.h"

#define PANELS_MOST 24 /* set-ups in a figure of panels */

static uint32_t panels_of(const mr_results *results)
{
    return results->setups.n < PANELS_MOST ? results->setups.n : PANELS_MOST;
}

static double part_of(uint64_t value, uint64_t whole)
{
    return whole ? 100 * (double)value / (double)whole : 0;
}

static const mr_result *first_of(const mr_results *results, uint32_t setup)
{
    const uint32_t first = results->setups.at[setup].first;
    return first == MR_NONE ? NULL : mr_result_at(results, setup, first);
}

static const char *most(mr_ctx *ctx, const char *text, size_t n)
{
    if (strlen(text) <= n) return text;
    return mr_printf(ctx, "%.*s...", (int)n, text);
}

/* Title, what the cells are of, and that numbers are parts of the first spec. */
static mr_head begin(mr_ctx *ctx, const mr_results *results, const char *title)
{
    mr_head head = {.ctx = ctx};
    mr_head_add(&head, "title\t%s", title);
    mr_head_add(&head, "subtitle\t%s: %s, %s%s%s", most(ctx, results->name, 60),
                mr_show_count(ctx, results->setups.n, "set-up", "set-ups"),
                mr_show_count(ctx, results->specs.n, "spec", "specs"),
                results->placement ? ", placed by " : "",
                results->placement ? most(ctx, results->placement, 40) : "");
    mr_head_add(&head, "caption\t100 %% is the first spec that fits: %s.",
                most(ctx, results->labels.at[0], 80));
    return head;
}

static void add_panels(mr_ctx *ctx, const mr_results *results, mr_head *head)
{
    for (uint32_t i = 0; i < panels_of(results); i++) {
        const mr_result *first = first_of(results, i);
        mr_head_add(head, "panel\t%" PRIu32 "\t%s\t%s", i + 1,
                    most(ctx, results->setups.at[i].name, 40),
                    first ? mr_printf(ctx, "%s, %s", mr_show_bytes(ctx, first->peak),
                                      first->ns ? mr_show_ns(ctx, first->ns) : "no time")
                          : "nothing fits");
    }
    if (results->setups.n > PANELS_MOST)
        mr_head_add(head, "caption\tThe first %d of %" PRIu32 " set-ups are shown.",
                    PANELS_MOST, results->setups.n);
}

/* ---- trade-off --------------------------------------------------------------------------- */

#define NARROWEST 20.0 /* percent of time across a panel */
#define APART 7.0      /* percent of memory between two labels that do not touch */

/* Specs of a front from the highest peak to the lowest, labelled where there is room. */
static bool *labelled(mr_ctx *ctx, const mr_results *results, uint32_t setup)
{
    bool *out = MR_NEW_N(ctx, bool, results->specs.n);
    const mr_result *first = first_of(results, setup);
    double last = 1e9;
    for (;;) {
        uint32_t next = MR_NONE;
        double high = -1;
        for (uint32_t s = 0; first && s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, setup, s);
            const double peak = part_of(cell->peak, first->peak);
            if (!cell->front || peak > last - APART || peak <= high) continue;
            next = s;
            high = peak;
        }
        if (next == MR_NONE) return out;
        out[next] = true;
        last = high;
    }
}

/* From where to where a panel goes: two rows that are never seen, also of a panel without
 * points. */
static void put_frame(const mr_results *results, uint32_t setup, mr_sink *sink)
{
    const mr_result *first = first_of(results, setup);
    double low = 100, high = 100;
    for (uint32_t s = 0; first && s < results->specs.n; s++) {
        const mr_result *cell = mr_result_at(results, setup, s);
        const double time = part_of(cell->ns, first->ns);
        if (!cell->fits || !cell->ns) continue;
        low = time < low ? time : low;
        high = time > high ? time : high;
    }
    if (high < low + NARROWEST) high = low + NARROWEST;
    mr_sink_print(sink, "%" PRIu32 ",%.3f,-1,0,.\n%" PRIu32 ",%.3f,-1,1,.\n", setup + 1, low,
                  setup + 1, high);
}

static void put_points(mr_ctx *ctx, const mr_results *results, uint32_t setup, mr_sink *sink)
{
    const mr_result *first = first_of(results, setup);
    put_frame(results, setup, sink);
    const bool *labels = labelled(ctx, results, setup);
    for (uint32_t s = 0; first && first->ns && s < results->specs.n; s++) {
        const mr_result *cell = mr_result_at(results, setup, s);
        if (!cell->fits || !cell->ns) continue;
        mr_sink_print(sink, "%" PRIu32 ",%.3f,%.3f,%d,", setup + 1,
                      part_of(cell->ns, first->ns), part_of(cell->peak, first->peak),
                      cell->front + (s == results->setups.at[setup].first ? 2 : 0));
        mr_write_csv_field(sink, labels[s] ? most(ctx, results->labels.at[s], 40) : "-");
        mr_sink_print(sink, "\n");
    }
}

void mr_plot_tradeoff(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    mr_head head = begin(ctx, results, "Memory against time");
    double tall = 100;
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s), *first = first_of(results, i);
            if (!first || !cell->fits || !cell->ns) continue;
            const double y = part_of(cell->peak, first->peak);
            tall = y > tall ? y : tall;
        }
    mr_head_add(&head, "y\t%.4g", tall);
    add_panels(ctx, results, &head);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,time,peak,kind,label\n");
    for (uint32_t i = 0; i < panels_of(results); i++) put_points(ctx, results, i, sink);
}

/* ---- bars -------------------------------------------------------------------------------- */

#define BARS_MOST 12 /* specs in a panel */

static uint32_t fronts_with(const mr_results *results, uint32_t spec)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < results->setups.n; i++) n += mr_result_at(results, i, spec)->front;
    return n;
}

/* All, or the first and those that are on a front most often. */
static bool *chosen_specs(mr_ctx *ctx, const mr_results *results)
{
    bool *out = MR_NEW_N(ctx, bool, results->specs.n);
    out[0] = true;
    for (uint32_t n = 1; n < BARS_MOST && n < results->specs.n; n++) {
        uint32_t best = MR_NONE;
        for (uint32_t s = 0; s < results->specs.n; s++)
            if (!out[s]
                && (best == MR_NONE || fronts_with(results, s) > fronts_with(results, best)))
                best = s;
        out[best] = true;
    }
    return out;
}

static void put_bar(const mr_results *results, uint32_t setup, uint32_t spec, uint32_t row,
                    mr_sink *sink)
{
    const mr_result *cell = mr_result_at(results, setup, spec);
    const mr_result *first = first_of(results, setup);
    const bool known = first && cell->fits;
    mr_sink_print(sink, "%" PRIu32 ",%" PRIu32 ",%.3f,%.3f,%s,", setup + 1, row,
                  known ? part_of(cell->peak, first->peak) : 0,
                  known ? part_of(cell->ns, first->ns) : 0,
                  cell->fits    ? ""
                  : cell->oom   ? "out of memory"
                  : cell->there ? "refused"
                                : "not computed");
    mr_write_csv_field(sink, results->labels.at[spec]);
    mr_sink_print(sink, "\n");
}

void mr_plot_bars(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    mr_head head = begin(ctx, results, "Memory and time of each spec");
    const bool *chosen = chosen_specs(ctx, results);
    double high = 100;
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s), *first = first_of(results, i);
            if (!first || !cell->fits || !chosen[s]) continue;
            const double peak = part_of(cell->peak, first->peak);
            const double time = part_of(cell->ns, first->ns);
            high = peak > high ? peak : high;
            high = time > high ? time : high;
        }
    mr_head_add(&head, "x\t0\t%.4g\tof the first spec, %%", high);
    if (results->specs.n > BARS_MOST)
        mr_head_add(&head,
                    "caption\tOf %" PRIu32 " specs, those are shown that are best in most "
                    "set-ups.",
                    results->specs.n);
    add_panels(ctx, results, &head);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,row,memory,time,note,label\n");
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0, row = 1; s < results->specs.n; s++)
            if (chosen[s]) put_bar(results, i, s, row++, sink);
}

/* ---- maps -------------------------------------------------------------------------------- */

#define LABELS_MOST 40 /* more specs are told by dots */
#define TECHNIQUES_MOST 16

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
            mr_sink_print(sink, "dot,%" PRIu32 ",%" PRIu32 ",0,\n",
                          number_of(ctx, techniques, words.at[i]) + 1, s + 1);
    }
}

static void put_label(const char *what, uint32_t x, uint32_t y, const char *text, mr_sink *sink)
{
    mr_sink_print(sink, "%s,%" PRIu32 ",%" PRIu32 ",0,", what, x, y);
    mr_write_csv_field(sink, text);
    mr_sink_print(sink, "\n");
}

static void put_cells(mr_ctx *ctx, const mr_results *results, bool of_time, mr_sink *sink)
{
    for (uint32_t i = 0; i < results->setups.n; i++) {
        const mr_result *first = first_of(results, i);
        put_label("setup", i + 1, 0, most(ctx, results->setups.at[i].name, 30), sink);
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s);
            const double part = !first    ? 0
                                : of_time ? part_of(cell->ns, first->ns)
                                          : part_of(cell->peak, first->peak);
            const char *what = cell->fits && part > 0 ? "cell" : cell->oom ? "oom" : "none";
            mr_sink_print(sink, "%s,%" PRIu32 ",%" PRIu32 ",%.2f,\n", what, i + 1, s + 1, part);
        }
    }
}

static void put_map(mr_ctx *ctx, const mr_results *results, bool of_time, const char *title,
                    mr_sink *sink)
{
    mr_head head = begin(ctx, results, title);
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
    mr_head_write(&head, sink);
    mr_sink_print(sink, "what,x,y,part,text\n");
    put_cells(ctx, results, of_time, sink);
    for (uint32_t i = 0; dots && i < techniques.n; i++)
        put_label("technique", i + 1, 0, most(ctx, techniques.at[i], 30), sink);
    if (dots) put_dots(ctx, results, &techniques, sink);
    for (uint32_t s = 0; !dots && s < results->specs.n; s++)
        put_label("spec", 0, s + 1, most(ctx, results->labels.at[s], 48), sink);
}

void mr_plot_combinations(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    put_map(ctx, results, false, "Memory of every combination", sink);
}

void mr_plot_slowdown(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    put_map(ctx, results, true, "Time of every combination", sink);
}
