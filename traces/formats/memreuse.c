/* memreuse -- our own format, which the machine itself reads (sim/trace_csv.h). */
#include "format.h"
#include "trace_csv.h"

static mr_status read_own(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                          mr_trace *out)
{
    (void)options;
    return mr_trace_csv_read(ctx, source, out);
}

const mr_format mr_format_memreuse = {
    .name = "memreuse",
    .summary = "our own trace format, one CSV file (traces/README.md)",
    .detect = mr_trace_csv_detect,
    .read = read_own,
};
