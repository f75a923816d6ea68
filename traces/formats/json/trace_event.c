/* trace_event -- see the header. */
#include "trace_event.h"

#include <math.h>
#include <stdlib.h>

#define MICROSECONDS_MAX 4e15 /* far beyond today, and still exact in nanoseconds */

const char *trace_event_text(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

bool trace_event_ns(const json_t *event, const char *key, uint64_t *ns)
{
    const json_t *value = json_object_get(event, key);
    const double real = json_number_value(value);
    *ns = 0;
    if (!json_is_number(value) || !(real >= 0) || real >= MICROSECONDS_MAX) return false;
    *ns = json_is_integer(value) ? (uint64_t)json_integer_value(value) * 1000
                                 : (uint64_t)llround(real * 1000);
    return true;
}

uint32_t trace_event_thread(mr_ctx *ctx, const json_t *event, mr_numbers *threads)
{
    const json_t *tid = json_object_get(event, "tid");
    const char *text = json_string_value(tid);
    return mr_numbers_index(ctx, threads,
                            text ? strtoull(text, NULL, 10)
                                 : (uint64_t)json_integer_value(tid));
}
