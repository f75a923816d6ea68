/* measured.h -- what a device of this machine did, beside what was predicted for it. */
#ifndef MR_MEASURED_H
#define MR_MEASURED_H

#include "commands.h"
#include "report.h"

/* What --compute, --verify and --limit say. */
mr_manner mr_manner_of(const mr_args *args);
/* GPUs of this machine, one for each of so many devices of a recording.  MR_EUSAGE when --gpu
 * names neither one for all nor one for each. */
mr_status mr_gpus_of(mr_ctx *ctx, const mr_args *args, uint32_t devices, const uint32_t **out);
/* Is there a device that would do it?  Before anything is computed for it. */
mr_status mr_probe(mr_ctx *ctx, const mr_device *device, const mr_manner *manner);

/* Carries one prediction out.  `measured` is false for a bound, which nobody can carry out. */
mr_status mr_carry_out(mr_ctx *ctx, const mr_question *question, const mr_manner *manner,
                       bool *measured, mr_metrics *out);

/* ---- how it is shown --------------------------------------------------------------------- */

typedef struct mr_measured {
    const char *name; /* of the row */
    const mr_metrics *predicted, *measured;
} mr_measured;
typedef MR_VEC(mr_measured) mr_measureds;

/* "CUDA device 0, each op's tensors touched and every byte verified" */
const char *mr_show_manner(mr_ctx *ctx, const mr_manner *manner);

/* A table with its errors, and what stood in for the ops. */
void mr_report_measureds(mr_ctx *ctx, const mr_measureds *rows, bool markdown, mr_sink *sink);

/* Columns of CSV, members of JSON; NULL: not measured. */
void mr_report_measured_names(mr_sink *sink);
void mr_report_measured_values(const mr_metrics *measured, mr_sink *sink);
void mr_report_measured_json(const mr_metrics *measured, mr_sink *sink);

#endif
