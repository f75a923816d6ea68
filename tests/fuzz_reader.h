/* fuzz_reader.h -- a reader of recordings and any bytes: an error, or a trace for the referee. */
#ifndef FUZZ_READER_H
#define FUZZ_READER_H

#include "format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline int fuzz_reader(const mr_format *format, const uint8_t *data, size_t n)
{
    mr_ctx ctx = {0};
    mr_source *source;
    mr_trace trace;
    const mr_read_options options = {.ends_inclusive = n % 2};
    if (!mr_source_memory(&ctx, "fuzz", data, n, &source)) {
        format->detect(data, n);
        const mr_status status = format->read(&ctx, source, &options, &trace);
        mr_source_close(source);
        if (!status) mr_trace_check(&ctx, &trace);
    }
    mr_ctx_clear(&ctx);
    return 0;
}

#endif
