/* results.h -- the cells that a sweep wrote, read back to be drawn. */
#ifndef MR_RESULTS_H
#define MR_RESULTS_H

#include "plot.h"

typedef struct mr_result {
    bool there;    /* there is such a cell */
    bool fits;     /* it was computed to its end */
    bool oom;      /* it ran out of memory; else, if it does not fit, it was refused */
    uint64_t peak; /* bytes reserved */
    uint64_t ns;   /* of a step; 0: not known */
    bool front;    /* no other cell of the set-up takes less memory and no more time */
} mr_result;

typedef struct mr_setup {
    const char *name;   /* of the trace, and of the device where there are several */
    const char *trace, *device;
    /* Spec that the others are held against: the step as it is where it fits, else the first
     * that fits; MR_NONE: none. */
    uint32_t first;
} mr_setup;

typedef struct mr_results {
    const char *name; /* of the file */
    MR_VEC(mr_setup) setups;
    mr_words specs;  /* as in the file */
    mr_words labels; /* without the placement, if it is that of all; none equal another */
    mr_result *at;   /* by setup * specs.n + spec */
    const char *placement; /* of all specs; NULL: they differ */
} mr_results;

/* Does the file begin like cells of a sweep? */
bool mr_results_told(mr_ctx *ctx, const char *path);
/* Cells of all devices, or of the one with this name. */
mr_status mr_results_read(mr_ctx *ctx, const char *path, const char *device, mr_results *out);
const mr_result *mr_result_at(const mr_results *results, uint32_t setup, uint32_t spec);

/* Draws them into the folder args->output. */
mr_status mr_plot_results(mr_ctx *ctx, const mr_args *args);

/* ---- overhead under budgets -------------------------------------------------------------- */

typedef struct mr_budget {
    uint32_t log, plan; /* numbers of names */
    double budget;      /* percent of the peak without one */
    double overhead;    /* percent of the time without one; below 0: it does not pass */
} mr_budget;

/* What bench/dtr_grid.c prints: one step under budgets, by heuristics and other plans. */
typedef struct mr_budgets {
    const char *name; /* of the file */
    mr_words logs, plans;
    MR_VEC(mr_budget) rows;
    MR_VEC(uint64_t) peak, floor; /* by log: bytes without a budget, bytes that no plan can
                                   * do without; 0: not known */
} mr_budgets;

bool mr_budgets_told(mr_ctx *ctx, const char *path);
mr_status mr_budgets_read(mr_ctx *ctx, const char *path, mr_budgets *out);
void mr_plot_overhead(mr_ctx *ctx, const mr_budgets *budgets, mr_sink *sink);

/* ---- parts of figures -------------------------------------------------------------------- */

/* NULL where nothing fits. */
const mr_result *mr_first_of(const mr_results *results, uint32_t setup);
double mr_percent_of(uint64_t value, uint64_t whole);
/* The beginning of a text of which a figure has no room for more. */
const char *mr_cut(mr_ctx *ctx, const char *text, size_t most);
/* Title, what the cells are of, and what is 100 %. */
mr_head mr_results_head(mr_ctx *ctx, const mr_results *results, const char *title);
/* The name of a row, in one or two lines: gnuplot ends fields of a table at commas, even
 * quoted ones, those of a head at tabs. */
void mr_head_add_name(mr_head *head, uint32_t row, const char *name);

void mr_plot_tradeoff(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_bars(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_combinations(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_slowdown(mr_ctx *ctx, const mr_results *results, mr_sink *sink);

#endif
