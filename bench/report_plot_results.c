/* plot_results -- the tables that the figures of a sweep are drawn from. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "results.h"

#define PANELS_MOST 24 /* set-ups in a figure of panels */

static uint32_t panels_of(const mr_results *results)
{
    return results->setups.n < PANELS_MOST ? results->setups.n : PANELS_MOST;
}

double mr_percent_of(uint64_t value, uint64_t whole)
{
    return whole ? 100 * (double)value / (double)whole : 0;
}

const mr_result *mr_first_of(const mr_results *results, uint32_t setup)
{
    const uint32_t first = results->setups.at[setup].first;
    return first == MR_NONE ? NULL : mr_result_at(results, setup, first);
}

const char *mr_cut(mr_ctx *ctx, const char *text, size_t most)
{
    if (strlen(text) <= most) return text;
    return mr_printf(ctx, "%.*s...", (int)most, text);
}

/* What is 100 %. */
static const char *describe_first(mr_ctx *ctx, const mr_results *results)
{
    uint32_t first = MR_NONE;
    bool same = true;
    for (uint32_t i = 0; i < results->setups.n; i++) {
        const uint32_t other = results->setups.at[i].first;
        if (other == MR_NONE) continue;
        if (first == MR_NONE) first = other;
        same &= first == other;
    }
    if (first == MR_NONE) return "nothing fits.";
    const char *label = results->labels.at[first];
    if (!same) return "the step as recorded where that fits, else the first spec that does.";
    if (strcmp(label, "as recorded") == 0) return "the step as recorded.";
    return mr_printf(ctx, "%s.", mr_cut(ctx, label, 80));
}

mr_head mr_results_head(mr_ctx *ctx, const mr_results *results, const char *title)
{
    const bool one = results->setups.n == 1;
    const char *device = results->setups.at[0].device;
    for (uint32_t i = 1; i < results->setups.n && device; i++)
        if (strcmp(results->setups.at[i].device, device) != 0) device = NULL;
    mr_head head = {.ctx = ctx};
    mr_head_add(&head, "title\t%s", title);
    mr_head_add(&head, "subtitle\t%s: %s, %s%s%s%s%s", mr_head_text(ctx, results->name, 60),
                one ? results->setups.at[0].trace
                    : mr_show_count(ctx, results->setups.n, "set-up", "set-ups"),
                mr_show_count(ctx, results->specs.n, "spec", "specs"), device ? ", " : "",
                device ? device : "", results->placement ? ", placed by " : "",
                results->placement ? mr_cut(ctx, results->placement, 40) : "");
    mr_head_add(&head, "caption\t100 %% is %s", describe_first(ctx, results));
    return head;
}

#define LINE_MOST 44 /* letters of a name beside a row */

/* Where a name is parted: behind the last plus sign or comma that fits. */
static size_t fold_at(const char *name)
{
    size_t at = LINE_MOST;
    while (at > LINE_MOST / 3 && name[at - 1] != '+' && name[at - 1] != ',') at--;
    return at > LINE_MOST / 3 ? at : LINE_MOST;
}

void mr_head_add_name(mr_head *head, uint32_t row, const char *name)
{
    const size_t n = strlen(name), at = n > LINE_MOST ? fold_at(name) : n;
    const char *rest = name + at;
    if (n - at > LINE_MOST)
        rest = mr_printf(head->ctx, "...%s", name + n - (LINE_MOST - 3)); /* ends tell more */
    mr_head_add(head, "name\t%" PRIu32 "\t%.*s\t%s", row, (int)at, name, *rest ? rest : "-");
}

static void add_panels(mr_ctx *ctx, const mr_results *results, mr_head *head)
{
    for (uint32_t i = 0; i < panels_of(results); i++) {
        const mr_result *first = mr_first_of(results, i);
        mr_head_add(head, "panel\t%" PRIu32 "\t%s\t%s", i + 1,
                    mr_head_text(ctx, results->setups.at[i].name, 40),
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
#define KEYS_MOST 40   /* names below the figure */
#define CLOSE 0.05     /* part of a panel between two points that can be told apart */

/* Numbers of the specs that are on the front of some panel, in their order; 0 for others. */
static uint32_t *number_keys(mr_ctx *ctx, const mr_results *results, uint32_t *n)
{
    uint32_t *number = MR_NEW_N(ctx, uint32_t, results->specs.n);
    *n = 0;
    for (uint32_t s = 0; s < results->specs.n; s++) {
        bool front = false;
        for (uint32_t i = 0; i < panels_of(results); i++)
            front |= mr_result_at(results, i, s)->front;
        if (front && *n < KEYS_MOST) number[s] = ++*n;
    }
    return number;
}

static void add_keys(mr_ctx *ctx, const mr_results *results, const uint32_t *number,
                     mr_head *head)
{
    for (uint32_t s = 0; s < results->specs.n; s++)
        if (number[s])
            mr_head_add(head, "key\t%" PRIu32 "\t%s", number[s],
                        mr_head_text(ctx, results->labels.at[s], 100));
}

typedef struct frame { /* of times in percent, from where to where a panel goes */
    double low, high;
} frame;

static frame frame_of(const mr_results *results, uint32_t setup)
{
    const mr_result *first = mr_first_of(results, setup);
    frame f = {100, 100};
    for (uint32_t s = 0; first && s < results->specs.n; s++) {
        const mr_result *cell = mr_result_at(results, setup, s);
        const double time = mr_percent_of(cell->ns, first->ns);
        if (!cell->fits || !cell->ns) continue;
        f.low = time < f.low ? time : f.low;
        f.high = time > f.high ? time : f.high;
    }
    if (f.high < f.low + NARROWEST) f.high = f.low + NARROWEST;
    return f;
}

/* Numbers of points that lie on top of each other stand together, "6/7", at the first. */
static const char **marks_of(mr_ctx *ctx, const mr_results *results, uint32_t setup,
                             const uint32_t *number)
{
    const char **marks = MR_NEW_N(ctx, const char *, results->specs.n);
    const mr_result *first = mr_first_of(results, setup);
    const frame f = frame_of(results, setup);
    for (uint32_t s = 0; first && s < results->specs.n; s++) {
        const mr_result *cell = mr_result_at(results, setup, s);
        uint32_t at = 0;
        if (!cell->front || !number[s]) continue;
        for (; at < s; at++) {
            const mr_result *other = mr_result_at(results, setup, at);
            const double across =
                mr_percent_of(cell->ns, first->ns) - mr_percent_of(other->ns, first->ns);
            const double up = mr_percent_of(cell->peak, first->peak)
                              - mr_percent_of(other->peak, first->peak);
            if (marks[at] && fabs(across) < CLOSE * (f.high - f.low) && fabs(up) < 100 * CLOSE)
                break;
        }
        marks[at] = marks[at] ? mr_printf(ctx, "%s/%" PRIu32, marks[at], number[s])
                              : mr_printf(ctx, "%" PRIu32, number[s]);
    }
    return marks;
}

/* Two rows that are never seen say from where to where a panel goes, also of a panel without
 * points. */
static void put_frame(const mr_results *results, uint32_t setup, mr_sink *sink)
{
    const frame f = frame_of(results, setup);
    mr_sink_print(sink, "%" PRIu32 ",%.3f,-1,0,-\n%" PRIu32 ",%.3f,-1,1,-\n", setup + 1, f.low,
                  setup + 1, f.high);
}

static void put_points(mr_ctx *ctx, const mr_results *results, uint32_t setup,
                       const uint32_t *number, mr_sink *sink)
{
    const mr_result *first = mr_first_of(results, setup);
    const char **marks = marks_of(ctx, results, setup, number);
    put_frame(results, setup, sink);
    for (uint32_t s = 0; first && first->ns && s < results->specs.n; s++) {
        const mr_result *cell = mr_result_at(results, setup, s);
        if (!cell->fits || !cell->ns) continue;
        mr_sink_print(sink, "%" PRIu32 ",%.3f,%.3f,%d,%s\n", setup + 1,
                      mr_percent_of(cell->ns, first->ns),
                      mr_percent_of(cell->peak, first->peak),
                      cell->front + (s == results->setups.at[setup].first ? 2 : 0),
                      marks[s] ? marks[s] : "-");
    }
}

void mr_plot_tradeoff(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    mr_head head = mr_results_head(ctx, results, "Memory against time");
    double tall = 100;
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s),
                            *first = mr_first_of(results, i);
            if (!first || !cell->fits || !cell->ns) continue;
            const double y = mr_percent_of(cell->peak, first->peak);
            tall = y > tall ? y : tall;
        }
    mr_head_add(&head, "y\t%.4g", tall);
    add_panels(ctx, results, &head);
    uint32_t keys;
    const uint32_t *number = number_keys(ctx, results, &keys);
    add_keys(ctx, results, number, &head);
    if (keys == KEYS_MOST)
        mr_head_add(&head, "caption\tThe first %d specs of the fronts have numbers.",
                    KEYS_MOST);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,time,peak,kind,number\n");
    for (uint32_t i = 0; i < panels_of(results); i++) put_points(ctx, results, i, number, sink);
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
    const mr_result *first = mr_first_of(results, setup);
    const bool known = first && cell->fits;
    mr_sink_print(sink, "%" PRIu32 ",%" PRIu32 ",%.3f,%.3f,%s,", setup + 1, row,
                  known ? mr_percent_of(cell->peak, first->peak) : 0,
                  known ? mr_percent_of(cell->ns, first->ns) : 0,
                  cell->fits    ? ""
                  : cell->oom   ? "out of memory"
                  : cell->there ? "refused"
                                : "not computed");
    mr_write_csv_field(sink, results->labels.at[spec]);
    mr_sink_print(sink, "\n");
}

void mr_plot_bars(mr_ctx *ctx, const mr_results *results, mr_sink *sink)
{
    mr_head head = mr_results_head(ctx, results, "Memory and time of each spec");
    const bool *chosen = chosen_specs(ctx, results);
    double high = 100;
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0; s < results->specs.n; s++) {
            const mr_result *cell = mr_result_at(results, i, s),
                            *first = mr_first_of(results, i);
            if (!first || !cell->fits || !chosen[s]) continue;
            const double peak = mr_percent_of(cell->peak, first->peak);
            const double time = mr_percent_of(cell->ns, first->ns);
            high = peak > high ? peak : high;
            high = time > high ? time : high;
        }
    mr_head_add(&head, "x\t0\t%.4g\tpercent", high);
    if (results->specs.n > BARS_MOST)
        mr_head_add(&head,
                    "caption\tOf %" PRIu32 " specs, those are shown that are best in most "
                    "set-ups.",
                    results->specs.n);
    add_panels(ctx, results, &head);
    for (uint32_t s = 0, row = 1; s < results->specs.n; s++)
        if (chosen[s]) mr_head_add_name(&head, row++, results->labels.at[s]);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,row,memory,time,note,label\n");
    for (uint32_t i = 0; i < panels_of(results); i++)
        for (uint32_t s = 0, row = 1; s < results->specs.n; s++)
            if (chosen[s]) put_bar(results, i, s, row++, sink);
}
