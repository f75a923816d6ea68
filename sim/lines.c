/* lines -- found in the window without copying. */
#include "lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mr_status mr_lines_fail(const mr_lines *lines, uint64_t line, uint64_t column,
                        const char *format, ...)
{
    char text[sizeof lines->ctx->failure.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *where = mr_printf(lines->ctx, "%s:%" PRIu64 ":%" PRIu64,
                                  mr_source_name(lines->source), line, column);
    return mr_fail_at(lines->ctx, MR_EINPUT, where, "%s", text);
}

/* Makes the window longer until it holds a line end; NULL when the line is the last. */
static const char *line_end(mr_lines *lines, size_t *have)
{
    for (size_t want = 1;; want = 2 * *have < MR_LINE_LONGEST ? 2 * *have : MR_LINE_LONGEST) {
        lines->at = (const char *)mr_source_peek(lines->source, want, have);
        const size_t seen = *have < MR_LINE_LONGEST ? *have : MR_LINE_LONGEST;
        const char *end = seen ? memchr(lines->at, '\n', seen) : NULL;
        if (end || *have < want || *have >= MR_LINE_LONGEST) return end;
    }
}

mr_status mr_lines_next(mr_lines *lines)
{
    mr_source_take(lines->source, lines->n);
    lines->n = 0;
    lines->number++;
    size_t have;
    const char *end = line_end(lines, &have);
    if (!end) MR_TRY(mr_source_status(lines->source));
    if (!end && have >= MR_LINE_LONGEST)
        return mr_lines_fail(lines, lines->number, 1,
                             "the line is longer than 1 MiB, expected shorter ones");
    const size_t n = end ? (size_t)(end - lines->at) + 1 : have;
    const char *nul = n ? memchr(lines->at, '\0', n) : NULL;
    if (nul)
        return mr_lines_fail(lines, lines->number, (uint64_t)(nul - lines->at) + 1,
                             "a NUL byte, expected text");
    lines->n = n;
    return MR_OK;
}
