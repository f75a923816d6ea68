/* history.h -- the referee of histories: do the start and the commands lead to the end? */
#ifndef MR_HISTORY_H
#define MR_HISTORY_H

#include "trace.h"

/* Walks from the pieces at the start through all commands and compares with the pieces at the
 * end.  Pieces must tile what is held, live blocks must not overlap even where only the size
 * that was asked for is known, and at the end the same storages must live in the same places.
 * MR_EINPUT with the number of the command, what was found and expected. */
mr_status mr_history_check(mr_ctx *ctx, const mr_trace *trace, const mr_history *history);

#endif
