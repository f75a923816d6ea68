/* trace_event.h -- fields of an event in the format of Chrome's traces, which profilers write.
 *
 *     {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 7, "ts": 5.25, "dur": 3.5, ...}
 */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H

#include "base.h"
#include "table.h"

#include <jansson.h>

const char *trace_event_text(const json_t *event, const char *key); /* "" where there is none */

/* Microseconds, whole or with a fraction, in nanoseconds.  False when it is no time. */
bool trace_event_ns(const json_t *event, const char *key, uint64_t *ns);

/* "tid" is a number, or a text with one; threads are numbered as they are met. */
uint32_t trace_event_thread(mr_ctx *ctx, const json_t *event, mr_numbers *threads);

#endif
