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

/* A device that stays open from one replay to the next, for its context takes long to make. */
typedef struct mr_kept {
    mr_ctx ctx;
    void *self; /* NULL: it would not open, which replays will tell */
} mr_kept;

void mr_keep(mr_kept *kept, const mr_device *device, uint32_t gpu);
void mr_let_go(mr_kept *kept);

/* Carries one prediction out.  `measured` is false for a bound, which nobody can carry out. */
mr_status mr_carry_out(mr_ctx *ctx, const mr_question *question, const mr_manner *manner,
                       bool *measured, mr_metrics *out);

/* One of several predictions that are carried out at the same time, each on a GPU of its own. */
typedef struct mr_member {
    mr_ctx ctx;
    mr_question question;
    mr_manner manner;
    bool measured;
    mr_metrics metrics;
    mr_status status;           /* and the sentence in ctx */
    struct mr_company *company; /* of whom all begin at once, and stop when one fails */
    bool met, stopped;
} mr_member;

void mr_carry_out_together(mr_member *members, uint32_t n);

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
