/* read_text.h -- a recording that stands in a text, read by one of the readers and checked. */
#ifndef READ_TEXT_H
#define READ_TEXT_H

#include "format.h"

#include <string.h>

static mr_status read_text_as(mr_ctx *ctx, const mr_format *format, const char *text,
                              mr_trace *out)
{
    mr_source *source;
    const mr_read_options options = {0};
    MR_TRY(mr_source_memory(ctx, "x", text, strlen(text), &source));
    const mr_status status = format->read(ctx, source, &options, out);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, out);
}

#endif
