/* trace_csv.h -- our own trace format, one CSV file (traces/README.md), read and written. */
#ifndef MR_TRACE_CSV_H
#define MR_TRACE_CSV_H

#include "sink.h"
#include "source.h"
#include "trace.h"

bool mr_trace_csv_detect(const unsigned char *head, size_t n); /* begins with "memreuse," */
mr_status mr_trace_csv_read(mr_ctx *ctx, mr_source *source, mr_trace *out);
mr_status mr_trace_csv_write(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink);

#endif
