/* The reader of memory snapshots, whatever the bytes: an error, or a trace for the referee. */
#include "format.h"

extern const mr_format mr_format_snapshot;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    mr_ctx ctx = {0};
    mr_source *source;
    mr_trace trace;
    const mr_read_options options = {0};
    if (!mr_source_memory(&ctx, "fuzz", data, n, &source)) {
        mr_format_snapshot.detect(data, n);
        const mr_status status = mr_format_snapshot.read(&ctx, source, &options, &trace);
        mr_source_close(source);
        if (!status) mr_trace_check(&ctx, &trace);
    }
    mr_ctx_clear(&ctx);
    return 0;
}
