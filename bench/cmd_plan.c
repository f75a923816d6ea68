/* plan -- how small the memory of a step could be, by our search and by the rules of others. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd_plan.h"
#include "report.h"

#define OURS "search"

typedef struct attempt {
    const char *name;
    plan_layout layout;
    double seconds, processor_seconds;
    bool measured; /* ours or a rule; not what the file gives */
} attempt;

typedef struct attempts {
    mr_ctx *ctx;
    const mr_args *args;
    const mr_plan_task *task;
    plan_turns turns;
    plan_answer ours; /* no offsets when the search was not asked for */
    MR_VEC(attempt) all;
} attempts;

/* ---- trying ------------------------------------------------------------------------------ */

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void plan(attempts *t, const plan_rule *rule, plan_layout *out)
{
    const plan_effort effort = {.seconds = (double)t->args->seconds,
                                .threads = (uint32_t)t->args->jobs,
                                .capacity = t->args->capacity,
                                .minimize = t->args->minimize};
    plan_answer answer;
    plan_turns_solve(t->ctx, &t->turns, rule, &effort, &answer);
    if (!rule) t->ours = answer;
    *out = answer.layout;
}

static mr_status try(attempts *t, const char *name, const plan_rule *rule)
{
    attempt a = {.name = name, .measured = true};
    const double begun = seconds_of(CLOCK_MONOTONIC);
    const double begun_processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    plan(t, rule, &a.layout);
    a.seconds = seconds_of(CLOCK_MONOTONIC) - begun;
    a.processor_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun_processor;
    MR_PUSH(t->ctx, &t->all, a);
    return plan_check(t->ctx, &t->task->problem, &a.layout);
}

static bool is_asked_for(const mr_args *args, const char *name)
{
    for (uint32_t w = 1; w < args->words.n; w++)
        if (strcmp(args->words.at[w], name) == 0) return true;
    return args->words.n < 2;
}

static mr_status check_names(mr_ctx *ctx, const mr_args *args)
{
    mr_words names = {0};
    MR_PUSH(ctx, &names, OURS);
    for (const plan_rule *r = plan_rules; r->name; r++) MR_PUSH(ctx, &names, r->name);
    for (uint32_t w = 1; w < args->words.n; w++) {
        uint32_t i = 0;
        while (i < names.n && strcmp(names.at[i], args->words.at[w]) != 0) i++;
        if (i < names.n) continue;
        const char *near = mr_nearest(args->words.at[w], names.at, names.n);
        return mr_fail(ctx, MR_EUSAGE, "unknown rule '%s' (%s%s%s)", args->words.at[w],
                       near ? "did you mean '" : "see memreuse plan --help", near ? near : "",
                       near ? "'?" : "");
    }
    return MR_OK;
}

static mr_status try_if_asked(attempts *t, const char *name, const plan_rule *rule)
{
    if (!is_asked_for(t->args, name) || !plan_turns_knows(&t->turns, rule)) return MR_OK;
    mr_watch *watch = mr_watch_new(t->ctx, 1);
    mr_watch_attach(watch, t->ctx, 0, name);
    const mr_status status = try(t, name, rule);
    mr_watch_done(watch, 0);
    mr_watch_finish(watch);
    return status;
}

static mr_status try_all(attempts *t)
{
    if (t->task->given.offset) {
        MR_TRY(plan_check(t->ctx, &t->task->problem, &t->task->given));
        MR_PUSH(t->ctx, &t->all, (attempt){.name = "as given", .layout = t->task->given});
    }
    MR_TRY(try_if_asked(t, OURS, NULL));
    for (const plan_rule *r = plan_rules; r->name; r++) MR_TRY(try_if_asked(t, r->name, r));
    if (t->all.n) return MR_OK;
    return mr_fail(t->ctx, MR_EUNSUPPORTED, "none of these rules can plan this problem");
}

static const attempt *best_of(const attempts *t)
{
    const attempt *best = &t->all.at[0];
    for (uint32_t i = 1; i < t->all.n; i++)
        if (t->all.at[i].layout.height < best->layout.height) best = &t->all.at[i];
    return best;
}

/* ---- telling ----------------------------------------------------------------------------- */

static double percent_over(uint64_t height, uint64_t bound)
{
    return 100.0 * (double)(height - bound) / (double)bound;
}

static uint64_t bound_of(const attempts *t)
{
    return t->ours.layout.offset ? t->ours.bound : t->task->problem.load;
}

static const char *shown_time(mr_ctx *ctx, const attempt *a, double seconds)
{
    return a->measured ? mr_show_ns(ctx, (uint64_t)(seconds * 1e9)) : "";
}

static void write_table(const attempts *t, mr_sink *sink)
{
    static const char *const headings[] = {"rule",      "height", "bytes",
                                           "over load", "time",   "processor\ntime"};
    mr_ctx *ctx = t->ctx;
    mr_table table = {.columns = MR_COUNT(headings), .headings = headings};
    for (uint32_t i = 0; i < t->all.n; i++) {
        const attempt *a = &t->all.at[i];
        const uint64_t height = a->layout.height;
        MR_PUSH(ctx, &table.cells, a->name);
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, height));
        MR_PUSH(ctx, &table.cells, mr_printf(ctx, "%" PRIu64, height));
        MR_PUSH(ctx, &table.cells,
                mr_printf(ctx, "%.3f %%", percent_over(height, t->task->problem.load)));
        MR_PUSH(ctx, &table.cells, shown_time(ctx, a, a->seconds));
        MR_PUSH(ctx, &table.cells, shown_time(ctx, a, a->processor_seconds));
    }
    if (strcmp(t->args->format, "md") == 0) mr_table_markdown(ctx, &table, sink);
    else mr_table_text(ctx, &table, "", sink);
}

/* What is known of the least height. */
static void write_certificate(const attempts *t, mr_sink *sink)
{
    const plan_problem *problem = &t->task->problem;
    const uint64_t height = best_of(t)->layout.height, bound = bound_of(t);
    const char *by = t->ours.layout.offset ? t->ours.bound_by : "load";
    mr_sink_print(sink, "\nload %" PRIu64 " bytes (", problem->load);
    mr_sink_print(sink, "on blocks of 512: %" PRIu64 ", of powers of two: %" PRIu64 ")\n",
                  plan_load(t->ctx, problem, 512), plan_load(t->ctx, problem, 0));
    if (height == bound && strcmp(by, "search") == 0)
        mr_sink_print(sink, "optimal: proven by search\n");
    else if (height == bound) mr_sink_print(sink, "optimal: equals %s\n", by);
    else
        mr_sink_print(sink, "gap <= %.3f %%: no layout is below %" PRIu64 " (%s)\n",
                      percent_over(height, bound), bound, by);
    if (t->ours.layout.offset && !t->ours.in_time)
        mr_sink_print(sink, "the search was cut off after %" PRIu64 " s\n", t->args->seconds);
}

static void write_verdict(const attempts *t, mr_sink *sink, int *answer)
{
    const uint64_t height = best_of(t)->layout.height, capacity = t->args->capacity;
    if (!capacity) return;
    const bool fits = height <= capacity, never = bound_of(t) > capacity;
    mr_sink_print(sink, "%" PRIu64 " bytes: %s\n", capacity,
                  fits    ? "fits"
                  : never ? "no layout fits, proven"
                          : "no layout found that fits");
    *answer = fits ? 0 : 1;
}

static void write_csv(const attempts *t, mr_sink *sink)
{
    mr_sink_print(sink, "rule,buffers,load,bound,height,seconds,processor_seconds\n");
    for (uint32_t i = 0; i < t->all.n; i++) {
        const attempt *a = &t->all.at[i];
        mr_sink_print(sink, "%s,%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f\n",
                      a->name, t->task->problem.buffers.n, t->task->problem.load, bound_of(t),
                      a->layout.height, a->seconds, a->processor_seconds);
    }
}

static mr_status tell(const attempts *t, int *answer)
{
    mr_sink *sink;
    MR_TRY(mr_report_open(t->ctx, "-", &sink));
    if (strcmp(t->args->format, "csv") == 0) {
        write_csv(t, sink);
        *answer = t->args->capacity && best_of(t)->layout.height > t->args->capacity;
    } else {
        write_table(t, sink);
        write_certificate(t, sink);
        write_verdict(t, sink, answer);
    }
    return mr_sink_commit(sink);
}

/* ---- the command ------------------------------------------------------------------------- */

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    mr_plan_task task;
    MR_TRY(check_names(ctx, args));
    MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_plan_read(ctx, args, &task));
    attempts t = {.ctx = ctx, .args = args, .task = &task};
    MR_TRY(plan_turns_make(ctx, &task.problem, &t.turns));
    MR_TRY(try_all(&t));
    if (args->output)
        MR_TRY(mr_plan_write(ctx, args->output, &task.problem, &best_of(&t)->layout));
    return tell(&t, answer);
}

static void help(mr_ctx *ctx)
{
    mr_table table = {.columns = 2,
                      .headings = (const char *const[]){"rule", ""},
                      .left = (const bool[]){true, true}};
    mr_sink *sink;
    MR_PUSH(ctx, &table.cells, OURS);
    MR_PUSH(ctx, &table.cells, "ours: dives, squeezing, exhaustive search");
    for (const plan_rule *r = plan_rules; r->name; r++) {
        MR_PUSH(ctx, &table.cells, r->name);
        MR_PUSH(ctx, &table.cells,
                r->source ? mr_printf(ctx, "%s\n%s", r->summary, r->source) : r->summary);
    }
    printf("\n");
    fflush(stdout);
    if (mr_sink_open(ctx, "-", &sink) != MR_OK) return;
    mr_table_text(ctx, &table, "  ", sink);
    mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION("seconds", 's', NUMBER, seconds, 1, 1000000, "N",
              "search so long unless it is proven before (default: a fixed amount of work,"
              " so that the answer is the same everywhere)"),
    MR_OPTION("minimize", 0, SWITCH, minimize, 0, 0, NULL,
              "search until the height is proven to be the least"),
    MR_OPTION("capacity", 'c', SIZE, capacity, 1, UINT64_MAX, "SIZE",
              "search until a layout fits or is proven not to exist; exit 1 if none does"),
    MR_OPTION("align", 0, SIZE, align, 1, MR_GIB, "SIZE",
              "offsets are multiples of it where the table does not say (default 1)"),
    MR_OPTION("fixed", 0, SWITCH, fixed, 0, 0, NULL, "keep the offsets that the table gives"),
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "OUT",
              "write the lowest layout: the table with an offset for each buffer"),
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|md", "how to print (table)"),
    MR_OPTION(
        "iterations", 'n', NUMBER, iterations, 1, 1000000, "N",
        "plan the recording N times in a row; iterations that are alike are planned once"),
    MR_OPTION_CUT,
    MR_OPTION_CUDA_DEVICE,
    MR_OPTION_JOBS,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_plan = {
    .name = "plan",
    .usage = "FILE [RULE...]",
    .summary = "lays a whole step out at once: how small its memory could be",
    .more =
        "FILE is a table of lifetimes (id, lower, upper, size, and perhaps alignment, gaps,\n"
        "offset) or a recording.  Without RULE all of them are tried.  The load, the largest\n"
        "sum of bytes in use at once, is what no layout beats.  Streams are not kept apart.",
    .options = options,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run,
    .help = help,
};
