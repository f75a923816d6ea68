/* agree.h -- how far a predicted placement agrees with what the recorded allocator did. */
#ifndef MR_AGREE_H
#define MR_AGREE_H

#include "evaluate.h"

/* A command, free of the numbering of segments that either side has. */
typedef struct mr_deed {
    mr_cmd_kind kind;
    uint32_t id, command;
    uint64_t address, bytes; /* of an allocation not recorded: 0 */
} mr_deed;

typedef MR_VEC(mr_deed) mr_deeds;

/* Where recording and prediction part. */
typedef struct mr_parting {
    uint32_t agreed; /* deeds before it */
    uint32_t event;  /* of the trace, by which the recording got there */
    bool parted;
    const mr_deed *recorded, *predicted; /* NULL: there is nothing more */
} mr_parting;

void mr_agree(mr_ctx *ctx, const mr_history *history, const mr_placement *placement,
              mr_parting *out);

/* How many deeds of some kinds the history has. */
uint32_t mr_count_deeds(const mr_history *history, mr_cmd_kind first, mr_cmd_kind last);

/* Memory that the recorded GPU had, 0 when nothing tells. */
uint64_t mr_recorded_memory(mr_ctx *ctx, const mr_history *history);

/* Three things are not in a recording, and show directly before a request:
 *
 *   - a deferred free completed because the allocator looked for it before it searched, or
 *     because it waited for the device when the search had failed;
 *   - memory was given back because the program asked for it (empty_cache), or because the
 *     allocator wanted to serve the request;
 *   - the request was for a private pool whose segments are gone at the end (a CUDA graph).
 *
 * A reader settles for one reading; mr_reread tries the others at one request, one
 * after the other. */
typedef struct mr_reading {
    uint32_t put_off;     /* deferred frees before the request that complete while it waits */
    bool flush, no_flush; /* the program did, or did not, give memory back before the request */
    bool pool;            /* the request was for another pool than the reader says */
} mr_reading;

/* The k-th other reading at event `event`; false when there are no more. */
bool mr_reread(mr_ctx *ctx, const mr_trace *trace, uint32_t event, uint32_t k, mr_trace *out,
               mr_reading *reading);

#endif
