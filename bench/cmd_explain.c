/* explain -- why a spec runs out of memory, or what its peak is made of, and what would help.
 *
 * What would help is tried, not guessed: every option and every strategy listed has been run on
 * the same recording and the same capacity.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "explain.h"
#include "how.h"
#include "strategies.h"

/* ---- what is tried ----------------------------------------------------------------------- */

/* Options of the allocator that people reach for. */
static const char *const options_of_pytorch[] = {
    "expandable_segments=True", "max_split_size_mb=64", "max_split_size_mb=256",
    "roundup_power2_divisions=4", "roundup_power2_divisions=16"};

/* What cannot be written is no candidate. */
static void try_spec(mr_ctx *ctx, const char *text, mr_specs *out)
{
    const mr_failure before = ctx->failure;
    if (mr_specs_add(ctx, text, out) != MR_OK) ctx->failure = before;
}

/* "inplace+checkpoint:sqrt/" of the spec, "" when it has no rewrites. */
static const char *rewrites_of(mr_ctx *ctx, const mr_spec *spec)
{
    if (!spec->rewrites.n) return "";
    int depth = 0;
    size_t n = 0;
    for (; spec->text[n] && (depth > 0 || spec->text[n] != '/'); n++)
        depth += (spec->text[n] == '[') - (spec->text[n] == ']');
    return mr_strndup(ctx, spec->text, n + 1);
}

static void choose_candidates(mr_ctx *ctx, const mr_trace *trace, const mr_spec *spec,
                              mr_specs *out)
{
    const char *rewrites = rewrites_of(ctx, spec);
    const char *place = spec->text + strlen(rewrites);
    MR_PUSH(ctx, out, *spec);
    if (strcmp(spec->place.strategy->name, "pytorch") == 0)
        for (size_t i = 0; i < MR_COUNT(options_of_pytorch); i++)
            try_spec(ctx,
                     mr_printf(ctx, "%s%s", rewrites,
                               mr_spec_with(ctx, place, options_of_pytorch[i])),
                     out);
    for (size_t i = 0; mr_strategies[i]; i++) {
        const char *name = mr_strategies[i]->name;
        if (strcmp(name, "pytorch") == 0) name = mr_scene_pytorch_spec(ctx, trace, NULL);
        if (mr_strategies[i]->place) try_spec(ctx, mr_printf(ctx, "%s%s", rewrites, name), out);
    }
    for (size_t i = 0; mr_strategies[i]; i++)
        if (mr_strategies[i]->rewrite && !mr_strategies[i]->other_result
            && !(mr_strategies[i]->needs & ~trace->has))
            try_spec(ctx,
                     mr_printf(ctx, "%s%s%s", mr_strategies[i]->name, *rewrites ? "+" : "/",
                               spec->text),
                     out);
}

/* ---- what came of it --------------------------------------------------------------------- */

static int by_need(const void *a, const void *b)
{
    const mr_cell *x = a, *y = b;
    const uint64_t need_x = x->fit ? x->fit : UINT64_MAX, need_y = y->fit ? y->fit : UINT64_MAX;
    if (need_x != need_y) return need_x < need_y ? -1 : 1;
    return strcmp(x->spec->text, y->spec->text);
}

static const char *name_tried(mr_ctx *ctx, const mr_spec *asked, const mr_spec *spec)
{
    if (strcmp(spec->text, asked->text) == 0)
        return mr_printf(ctx, "%s   (asked for)", spec->text);
    if (strcmp(spec->text, "bound") == 0) return "bound   (the least that any placement needs)";
    return spec->text;
}

static uint32_t count_fitting(const mr_comparison *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->specs; i++)
        n += c->cells[i].failure.status == MR_OK && !c->cells[i].metrics.refusals;
    return n;
}

/* The least demanding first; what cannot work on this recording is left out. */
static void put_tried(mr_ctx *ctx, const mr_moment *m, const mr_spec *asked,
                      const mr_comparison *c, mr_sink *sink)
{
    static const char *const headings[] = {"tried", "needs", "hands out", "reserves", "result"};
    static const bool left[] = {true, false, false, false, true};
    mr_table table = {m->oom ? 5 : 4, headings, left, {0}};
    qsort(c->cells, c->specs, sizeof *c->cells, by_need);
    for (uint32_t i = 0; i < c->specs; i++) {
        const mr_cell *cell = &c->cells[i];
        const bool fits = cell->metrics.refusals == 0;
        if (cell->failure.status != MR_OK) continue;
        MR_PUSH(ctx, &table.cells, name_tried(ctx, asked, cell->spec));
        MR_PUSH(ctx, &table.cells, cell->fit ? mr_show_bytes(ctx, cell->fit) : "-");
        MR_PUSH(ctx, &table.cells,
                fits ? mr_show_bytes(ctx, cell->metrics.peak_allocated) : "-");
        MR_PUSH(ctx, &table.cells,
                fits ? mr_show_bytes(ctx, cell->metrics.peak_reserved) : "-");
        if (m->oom) MR_PUSH(ctx, &table.cells, fits ? "fits" : "out of memory");
    }
    if (!m->oom) mr_sink_print(sink, "What others take (each was run)\n");
    else if (count_fitting(c)) mr_sink_print(sink, "What lets it pass (each was run)\n");
    else mr_sink_print(sink, "Nothing that was tried lets it pass\n");
    mr_table_text(ctx, &table, "  ", sink);
    mr_sink_print(sink,
                  "\n  needs: the least memory on which it passes.  reserves: what it takes of "
                  "the memory there is,\n  which may be more, as some take it in advance.\n");
}

/* Of the first that need less than what was asked for. */
static void put_hows(mr_ctx *ctx, const mr_spec *asked, const mr_comparison *c, mr_sink *sink)
{
    enum { MOST = 6 };
    mr_hows list = {0};
    for (uint32_t i = 0; i < c->specs && list.names.n < MOST; i++) {
        if (strcmp(c->cells[i].spec->text, asked->text) == 0) break;
        if (mr_cell_passed(&c->cells[i])) mr_hows_add(ctx, c->cells[i].spec, &list);
    }
    if (!list.names.n) return;
    mr_sink_print(sink, "\nTo have it in PyTorch, of those that need less\n");
    mr_hows_put(ctx, &list, sink);
}

/* ---- the command ------------------------------------------------------------------------- */

static void put_title(mr_ctx *ctx, const mr_moment *m, const mr_spec *spec, uint32_t device,
                      mr_sink *sink)
{
    mr_sink_print(sink,
                  "%s, device %" PRIu32 "%s, %s: ", mr_show_name(ctx, m->scene->trace.name),
                  device, mr_show_iterations(ctx, m->scene->iterations), spec->text);
    const mr_metrics *metrics = &m->answer->metrics;
    const char *reserved = mr_show_bytes(ctx, metrics->peak_reserved);
    if (m->oom)
        mr_sink_print(sink, "out of memory with %s", mr_show_bytes(ctx, m->scene->capacity));
    else if (m->scene->capacity != UINT64_MAX) mr_sink_print(sink, "fits; ");
    if (m->at_once)
        mr_sink_print(sink,
                      "%s reserved with the first request, of which at most %s are handed out",
                      reserved, mr_show_bytes(ctx, metrics->peak_allocated));
    else if (!m->oom) mr_sink_print(sink, "reserved memory peaks at %s", reserved);
    if (m->scene->iterations > 1 && !m->at_start && !m->at_once)
        mr_sink_print(sink, " in iteration %" PRIu32, m->iteration + 1);
    mr_sink_print(sink, "\n\n");
}

/* What rewrites chose, or left as it was, and why.  Many ops are refused for the same reason. */
static void put_remarks(const mr_trace *trace, mr_sink *sink)
{
    const uint32_t most = 20, n = trace->remarks.n < most ? trace->remarks.n : most;
    if (!n) return;
    mr_sink_print(sink, "What rewrites chose, or left as it was\n");
    for (uint32_t i = 0; i < n; i++) mr_sink_print(sink, "  - %s\n", trace->remarks.at[i]);
    if (n < trace->remarks.n)
        mr_sink_print(sink, "  and %" PRIu32 " more like these\n", trace->remarks.n - n);
    mr_sink_print(sink, "\n");
}

static mr_status explain(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                         const mr_spec *spec, uint32_t device, mr_sink *sink)
{
    const mr_question question = mr_scene_question(scene, spec, device);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    mr_moment moment;
    mr_specs candidates = {0};
    const char *release = mr_scene_release_note(ctx, &scene->trace, spec);
    MR_TRY(mr_scene_evaluate(ctx, &question, answer));
    mr_moment_find(ctx, scene, spec, answer, &moment);
    put_title(ctx, &moment, spec, device, sink);
    if (release) mr_sink_print(sink, "%s\n\n", release);
    mr_report_moment(ctx, &moment, args, sink);
    put_remarks(&answer->trace, sink);
    choose_candidates(ctx, &scene->trace, spec, &candidates);
    const mr_comparison tried =
        mr_compare_specs(ctx, scene, device, &candidates, true, (uint32_t)args->jobs);
    put_tried(ctx, &moment, spec, &tried, sink);
    put_hows(ctx, spec, &tried, sink);
    return MR_OK;
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_scene scene;
    mr_spec spec;
    mr_sink *sink;
    MR_TRY(mr_scene_read(ctx, args, &scene));
    mr_scene_repeat(args, &scene);
    const char *text =
        args->words.n > 1 ? args->words.at[1] : mr_scene_recorded_spec(ctx, &scene.trace);
    MR_TRY(mr_scene_spec_asked(ctx, text, &spec));
    MR_TRY(mr_report_open(ctx, "-", &sink));
    for (uint32_t i = 0; i < scene.cuda_device_count; i++) {
        if (i) mr_sink_print(sink, "\n");
        MR_TRY(explain(ctx, args, &scene, &spec, scene.cuda_devices[i], sink));
    }
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTIONS_REPLAY,
    MR_OPTION("top", 0, NUMBER, top, 1, 10000, "N",
              "how many frames and segments to show (10)"),
    MR_OPTION_JOBS,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_explain = {
    .name = "explain",
    .usage = "FILE [SPEC]",
    .summary =
        "says why a spec runs out of memory, or what its peak is made of, and what would help",
    .more = "With --device or --capacity it explains the first request that is not served; "
            "without,\n"
            "or when all are, the one that raised reserved memory to its peak, or, where the "
            "first of\n"
            "all did that, the one with which most of it is handed out.  What would help is "
            "tried on\n"
            "the same recording, not guessed.  SPEC is pytorch with the recorded settings "
            "unless given.",
    .options = options,
    .words_min = 1,
    .words_max = 2,
    .run = run,
};
