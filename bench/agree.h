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
uint32_t mr_count_deeds(mr_ctx *ctx, const mr_history *history, mr_cmd_kind first,
                        mr_cmd_kind last);

/* A recording does not say whether a deferred free completed because the allocator looked for it
 * before it searched, or because it waited for the device when the search had failed: both stand
 * before the request.  mr_doubts counts the frees for which this is open at an event; mr_put_off
 * moves the last n of them behind the request, which is the second reading, and mr_put_back undoes
 * that. */
uint32_t mr_doubts(const mr_trace *trace, uint32_t event);
void mr_put_off(mr_trace *trace, uint32_t event, uint32_t n);
void mr_put_back(mr_trace *trace, uint32_t event, uint32_t n);

#endif
