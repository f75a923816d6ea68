/* lines.h -- the lines of a text file, in the window of its source, with their numbers. */
#ifndef MR_LINES_H
#define MR_LINES_H

#include "source.h"

#define MR_LINE_LONGEST ((size_t)1 << 20) /* bytes of a line */

typedef struct mr_lines {
    mr_ctx *ctx;
    mr_source *source;
    const char *at;  /* the line with its end; valid until the next one */
    size_t n;        /* bytes of it, 0 at the end of the file */
    uint64_t number; /* counted from 1 */
} mr_lines;

/* The next line.  Longer ones than MR_LINE_LONGEST and NUL bytes are MR_EINPUT. */
mr_status mr_lines_next(mr_lines *lines);

/* MR_EINPUT at file:line:column, columns counted from 1 */
mr_status mr_lines_fail(const mr_lines *lines, uint64_t line, uint64_t column,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
