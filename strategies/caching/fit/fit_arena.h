/* fit_arena -- one range of addresses that grows at its end: first and best fit. */
#ifndef FIT_ARENA_H
#define FIT_ARENA_H

#include "chunks.h"

typedef struct fit_settings {
    uint64_t alignment;
} fit_settings;

#define FIT_PARAMS                                                                          \
    MR_PARAM_SIZE(fit_settings, alignment, "512", 1, 1e15, "sizes are rounded up to a multiple")

mr_status fit_place(mr_ctx *ctx, bool first, const fit_settings *settings,
                    const mr_schedule *in, mr_placer *out);

#endif
