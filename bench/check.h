/* check.h -- one device of a recording, held against what is predicted of it. */
#ifndef MR_CHECK_H
#define MR_CHECK_H

#include "agree.h"
#include "commands.h"
#include "report.h"

typedef struct mr_check {
    mr_ctx *ctx;
    const mr_trace *trace;
    const mr_spec *spec;
    const mr_history *history;
    const mr_placement *placement;
    mr_sink *sink; /* NULL: nothing is said */
    /* How often the recording was read in another way (agree.h). */
    uint32_t put_off, flushes, no_flushes, pools;
    /* Times that memory was given back, by whom it is taken to have been: by the program, or by
     * the allocator without a request that it could not serve. */
    uint32_t asked, collected;
    bool flushes_open; /* the capacity leaves it open who gave memory back */
} mr_check;

/* Are the blocks that are left the same?  Says which is not. */
bool mr_blocks_agree(const mr_check *check);

/* What is said; nothing when there is no sink. */
void mr_report_capacity(const mr_check *check, const mr_args *args);
void mr_report_parting(const mr_check *check, const mr_parting *parting);
void mr_report_exact(const mr_check *check);
void mr_report_out_of_range(const mr_check *check);

#endif
