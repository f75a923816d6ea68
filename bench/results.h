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
    uint32_t first; /* spec that the others are held against; MR_NONE: none that fits */
} mr_setup;

typedef struct mr_results {
    const char *name; /* of the file */
    MR_VEC(mr_setup) setups;
    mr_words specs;  /* as in the file */
    mr_words labels; /* without the placement, if it is that of all */
    mr_result *at;   /* by setup * specs.n + spec */
    const char *placement; /* of all specs; NULL: they differ */
} mr_results;

/* Does the file begin like cells of a sweep? */
bool mr_results_told(mr_ctx *ctx, const char *path);
mr_status mr_results_read(mr_ctx *ctx, const char *path, mr_results *out);
const mr_result *mr_result_at(const mr_results *results, uint32_t setup, uint32_t spec);

/* Draws them into the folder `output`. */
mr_status mr_plot_results(mr_ctx *ctx, const char *path, const char *output);

void mr_plot_tradeoff(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_bars(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_combinations(mr_ctx *ctx, const mr_results *results, mr_sink *sink);
void mr_plot_slowdown(mr_ctx *ctx, const mr_results *results, mr_sink *sink);

#endif
