/* compare.h -- the cells of a comparison: one per spec and device of the recording. */
#ifndef MR_COMPARE_H
#define MR_COMPARE_H

#include "commands.h"
#include "report.h"

typedef struct mr_cell {
    const mr_spec *spec;
    uint32_t cuda_device;
    mr_failure failure; /* its status is MR_OK when the cell could be computed */
    mr_metrics metrics;
    uint64_t fit; /* smallest capacity on which it passes; 0: not looked for, or none found */
    bool was_measured; /* on a device, beside the prediction */
    mr_metrics measured;
    mr_failure not_measured; /* why not, where that was tried */
} mr_cell;

typedef struct mr_comparison {
    const mr_scene *scene;
    mr_cell *cells; /* device by device, in each the specs in order */
    uint32_t specs;
    bool fit;       /* smallest capacities were looked for */
    bool on_device; /* the placements are carried out as well, */
    mr_manner manner; /* in this manner, */
    const uint32_t *gpus; /* each device of the scene on one of these */
} mr_comparison;

/* Computes the cells on `jobs` threads.  The result does not depend on their number. */
void mr_compare(mr_ctx *ctx, mr_comparison *comparison, uint32_t jobs);
/* All specs on one device of the recording; `fit`: with the smallest capacities. */
mr_comparison mr_compare_specs(mr_ctx *ctx, const mr_scene *scene, uint32_t cuda_device,
                               const mr_specs *specs, bool fit, uint32_t jobs);

/* ---- on a device ------------------------------------------------------------------------- */

/* --on and what belongs to it. */
mr_status mr_measure_options(mr_ctx *ctx, const mr_args *args, mr_comparison *out);
mr_status mr_measure_probe(mr_ctx *ctx, const mr_comparison *comparison); /* are the GPUs there? */
void mr_measure(mr_comparison *comparison);

/* A table of its own. */
void mr_report_measured(mr_ctx *ctx, const mr_comparison *comparison, bool markdown,
                        mr_sink *sink);

/* ---- how good predictions are ------------------------------------------------------------ */

/* Published steps on a device that no figure of it was chosen by, and how far off the model's
 * throughput of them is, in percent: half of them no more than the median, the worst with its
 * sign. */
typedef struct mr_checked {
    uint32_t n;
    double median, worst;
} mr_checked;

mr_checked mr_times_checked(mr_ctx *ctx, const char *device);

/* ---- what is printed --------------------------------------------------------------------- */

typedef MR_VEC(const mr_metric *) mr_shown_metrics;

/* Came to its end with all that it asked for. */
bool mr_cell_passed(const mr_cell *cell);
/* Is a metric known of a cell?  A part of a recording has no throughput. */
bool mr_cell_tells(const mr_comparison *comparison, const mr_cell *cell,
                   const mr_metric *metric);

/* Whose recording, how often, on what: a line, and an empty one. */
void mr_report_title(mr_ctx *ctx, const mr_scene *scene, uint32_t cuda_device, mr_sink *sink);

/* `format` is table, md, csv or json. */
void mr_report_comparison(mr_ctx *ctx, const mr_comparison *comparison, const char *format,
                          mr_sink *sink);
/* How far off the times of its rows may be, and whose costs they are. */
void mr_report_times(mr_ctx *ctx, const mr_comparison *comparison, mr_sink *sink);
void mr_report_notes(mr_ctx *ctx, const mr_comparison *comparison,
                     const mr_shown_metrics *shown, mr_sink *sink);
void mr_report_comparison_csv(const mr_comparison *comparison, mr_sink *sink);
void mr_report_comparison_json(const mr_comparison *comparison, mr_sink *sink);

/* What each column means, for the help of compare. */
void mr_print_metrics_help(void);

#endif
