/* fit_arena -- one range of addresses that grows at its end: first and best fit. */
#ifndef FIT_ARENA_H
#define FIT_ARENA_H

#include "chunks.h"

mr_status fit_place(mr_ctx *ctx, bool first, uint64_t alignment, const mr_schedule *in,
                    mr_placer *out);

#endif
