/* Our own format, whatever the bytes: an error, or a trace that is the same when written and
 * read. */
#include "trace_csv.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What was accepted can be written, and what is written can be read. */
static void write_and_read(mr_ctx *ctx, const mr_trace *trace)
{
    const char *path = mr_printf(ctx, "fuzz_csv_%ld.csv", (long)getpid());
    mr_sink *sink;
    mr_source *source;
    mr_trace again;
    if (mr_sink_open(ctx, path, &sink)) return;
    if (mr_trace_csv_write(ctx, trace, sink)) { /* it may refer forward, nothing else */
        mr_sink_abandon(sink);
        return;
    }
    if (mr_sink_commit(sink) || mr_source_open(ctx, path, &source)) abort();
    if (mr_trace_csv_read(ctx, source, &again) || mr_trace_check(ctx, &again)) abort();
    mr_source_close(source);
    unlink(path);
    if (again.events.n != trace->events.n || again.storages.n != trace->storages.n
        || again.tensors.n != trace->tensors.n || again.ops.n != trace->ops.n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    mr_ctx ctx = {0};
    mr_source *source;
    mr_trace trace;
    if (!mr_source_memory(&ctx, "fuzz", data, n, &source)) {
        const mr_status status = mr_trace_csv_read(&ctx, source, &trace);
        mr_source_close(source);
        if (!status && !mr_trace_check(&ctx, &trace)) write_and_read(&ctx, &trace);
    }
    mr_ctx_clear(&ctx);
    return 0;
}
