/* sink.h -- a file written aside and renamed when it is whole, so that nothing is
 * ever half written.
 *
 * Compressed according to its name: .gz, .zst, or not at all.  "-" is standard output. */
#ifndef MR_SINK_H
#define MR_SINK_H

#include "base.h"

typedef struct mr_sink mr_sink;

mr_status mr_sink_open(mr_ctx *ctx, const char *path, mr_sink **out);
/* From here on for people: what a file holds cannot move their terminal's cursor. */
void mr_sink_for_people(mr_sink *sink);
void mr_sink_write(mr_sink *sink, const void *data, size_t n); /* errors wait until commit */
void mr_sink_print(mr_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
mr_status mr_sink_commit(mr_sink *sink); /* flushes, renames, closes */
void mr_sink_abandon(mr_sink *sink);     /* removes what was written aside, closes */

#endif
