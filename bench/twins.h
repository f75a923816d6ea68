/* twins.h -- how far predicted peaks are from PyTorch's: bench/results/twins.csv, built in.
 *
 * A twin is a recording with a technique switched on; the prediction comes from the plain
 * recording of the same step.
 */
#ifndef MR_TWINS_H
#define MR_TWINS_H

#include "commands.h"
#include "sink.h"

typedef struct mr_twins {
    const char *technique; /* names of the rewrites, in the order of letters; "" for none */
    uint32_t n;            /* twins with the same rewrites, whatever their parameters */
    double worst;          /* error of the peak, in percent, without its sign */
} mr_twins;

typedef MR_VEC(mr_twins) mr_twins_list;

/* Those of each spec, every technique once; specs without a rewrite are left out. */
mr_status mr_twins_add(mr_ctx *ctx, const mr_spec *spec, mr_twins_list *list);

/* "checkpoint: checked on 20 twins, peak within 0.02 %" (or exact), "checkpoint: unchecked" */
const char *mr_twins_text(mr_ctx *ctx, const mr_twins *twins);
/* "checkpoint: peak within 0.02 %": for texts that are kept, while twins become more. */
const char *mr_twins_brief(mr_ctx *ctx, const mr_twins *twins);

/* Those that were checked and those that were not, in two paragraphs.  Markdown is kept, and
 * says where to count. */
void mr_report_twins(mr_ctx *ctx, const mr_twins_list *list, bool markdown, mr_sink *sink);

#endif
