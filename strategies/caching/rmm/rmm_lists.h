/* rmm_lists -- RMM's pool: free lists of streams, which share before it grows. */
#ifndef RMM_LISTS_H
#define RMM_LISTS_H

#include "chunks.h"

enum { RMM_UNIT = 256 }; /* all sizes are multiples of it */

typedef struct rmm_lists {
    chunks chunks;
    MR_VEC(chunks_bins *) lists; /* by stream */
    uint64_t held;
    uint64_t initial, maximum;  /* maximum 0: none */
    bool begun, broken;         /* broken: there was no memory for the initial size */
} rmm_lists;

/* Of the device, in percent, as a multiple of RMM_UNIT. */
uint64_t rmm_percent(const mr_placer *placer, uint64_t percent);

rmm_lists rmm_lists_make(mr_ctx *ctx, uint64_t initial, uint64_t maximum);
/* `bytes` is a multiple of RMM_UNIT.  MR_NONE when there is no room and it cannot grow. */
uint32_t rmm_lists_alloc(rmm_lists *pool, mr_placer *placer, uint64_t bytes, uint32_t stream);
void rmm_lists_free(rmm_lists *pool, uint32_t id); /* to the list of the chunk's stream */

#endif
