/* dtr_grid -- runs operator traces under budgets with the heuristics of the DTR paper.
 *
 *     dtr_grid [-d ignore|eager|banish] [-h HEURISTIC,...] [-r RATIO,...] [-t TRIES]
 *              [-a 1] TRACE...
 *
 * A row for each run, with the columns of simrd's results: budgets are parts of the peak
 * without a budget, recomputing is limited to the time of the step, and a series ends at its
 * first "out of memory" (-a 1: it goes on).  Seconds are of processor time.
 *
 * With -t there are two more series: "best", the best of all heuristics and of so many
 * variations, and "bound", what no plan can beat: the time that must be computed again, and as
 * the peak the bytes that the step needs at least.  bench/results/dtr.csv has been made with
 * -t 300 for U-Net, ResNet-32 and Transformer, and -t 30 for TreeLSTM.
 */
#include "dtr.h"
#include "format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

typedef struct grid {
    const dtr_name *names[MOST];
    double ratios[MOST];
    size_t names_n, ratios_n;
    dtr_dealloc dealloc;
    long tries; /* -1: none */
    bool goes_on;
} grid;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void stop(const char *what, const char *text)
{
    fprintf(stderr, "dtr_grid: %s%s\n", what, text);
    exit(2);
}

/* Up to the first dot: the name of the log. */
static const char *short_name(mr_ctx *ctx, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return mr_strndup(ctx, base, strcspn(base, "."));
}

static dtr_options options_of(const dtr_program *program, const grid *g, double ratio)
{
    return (dtr_options){.budget = (uint64_t)(ratio * (double)dtr_live_peak(program)),
                         .limit = dtr_compute_ns(program),
                         .dealloc = g->dealloc,
                         .seed = 1};
}

static void print_row(const char *log, const char *plan, double ratio, uint64_t budget,
                      const dtr_report *r, double seconds)
{
    static const char *const results[] = {"pass", "oom", "thrash"};
    printf("%s,%s,%g,%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.4f\n",
           log, plan, ratio, budget, results[r->result], r->clock, r->remat, r->peak,
           r->evaluations, seconds);
}

static dtr_result run(const dtr_program *program, const grid *g, const dtr_name *name,
                      double ratio, const char *log)
{
    dtr_options options = options_of(program, g, ratio);
    options.heuristic = name->heuristic;
    mr_ctx ctx = {0};
    dtr_report report;
    const double start = now();
    dtr_run_program(&ctx, program, &options, false, &report);
    print_row(log, name->simrd, ratio, options.budget, &report, now() - start);
    mr_ctx_clear(&ctx);
    return report.result;
}

static void run_best(const dtr_program *program, const grid *g, double ratio, const char *log)
{
    const dtr_options options = options_of(program, g, ratio);
    mr_ctx ctx = {0};
    dtr_report report;
    const double start = now();
    dtr_search(&ctx, program, &options, (uint32_t)g->tries, &report);
    print_row(log, "best", ratio, options.budget, &report, now() - start);
    mr_ctx_clear(&ctx);
}

static void print_bound(const dtr_program *program, const grid *g, double ratio,
                        const char *log)
{
    const dtr_options options = options_of(program, g, ratio);
    mr_ctx ctx = {0};
    dtr_bound bound;
    const double start = now();
    dtr_find_bound(&ctx, program, options.budget, &bound);
    const dtr_report report = {.result = bound.bytes > options.budget ? DTR_OOM : DTR_PASS,
                               .clock = 1 + dtr_compute_ns(program) + bound.remat,
                               .remat = bound.remat,
                               .peak = bound.bytes};
    print_row(log, "bound", ratio, options.budget, &report, now() - start);
    mr_ctx_clear(&ctx);
}

static void run_all(const grid *g, const char *path)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    dtr_program program;
    if (mr_recording_read(&ctx, path, NULL, &trace) || mr_trace_check(&ctx, &trace)
        || dtr_program_make(&ctx, &trace, DTR_COPIES, &program))
        stop("", ctx.failure.text);
    for (size_t n = 0; n < g->names_n; n++)
        for (size_t r = 0; r < g->ratios_n; r++)
            if (run(&program, g, g->names[n], g->ratios[r], short_name(&ctx, path)) == DTR_OOM
                && !g->goes_on)
                break;
    for (size_t r = 0; g->tries >= 0 && r < g->ratios_n; r++)
        run_best(&program, g, g->ratios[r], short_name(&ctx, path));
    for (size_t r = 0; g->tries >= 0 && r < g->ratios_n; r++)
        print_bound(&program, g, g->ratios[r], short_name(&ctx, path));
    mr_ctx_clear(&ctx);
}

static void set_names(grid *g, char *text)
{
    g->names_n = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        const dtr_name *name = dtr_find_name(word);
        if (!name || g->names_n == MOST) stop("no heuristic: ", word);
        g->names[g->names_n++] = name;
    }
}

static void set_ratios(grid *g, char *text)
{
    g->ratios_n = 0;
    for (char *word = strtok(text, ","); word && g->ratios_n < MOST; word = strtok(NULL, ","))
        g->ratios[g->ratios_n++] = strtod(word, NULL);
}

static void set_dealloc(grid *g, const char *text)
{
    static const char *const words[] = {"ignore", "eager", "banish"};
    for (size_t i = 0; i < MR_COUNT(words); i++)
        if (!strcmp(words[i], text)) {
            g->dealloc = (dtr_dealloc)i;
            return;
        }
    stop("no way to deallocate: ", text);
}

int main(int argc, char **argv)
{
    char names[] = "dtr,dtr-eq,local,msps,lru,size,random";
    char ratios[] = "1.0,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1";
    grid g = {.dealloc = DTR_EAGER, .tries = -1};
    set_names(&g, names);
    set_ratios(&g, ratios);
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-' && argv[i][1]; i += 2) {
        if (argv[i][1] == 'd') set_dealloc(&g, argv[i + 1]);
        else if (argv[i][1] == 'h') set_names(&g, argv[i + 1]);
        else if (argv[i][1] == 'r') set_ratios(&g, argv[i + 1]);
        else if (argv[i][1] == 't') g.tries = strtol(argv[i + 1], NULL, 10);
        else if (argv[i][1] == 'a') g.goes_on = argv[i + 1][0] == '1';
        else stop("no option: ", argv[i]);
    }
    if (i == argc) stop("expected a trace", "");
    puts("log,heuristic,ratio,budget_bytes,result,clock_ns,remat_ns,peak_bytes,"
         "heuristic_evaluations,seconds");
    for (; i < argc; i++) run_all(&g, argv[i]);
    return 0;
}
