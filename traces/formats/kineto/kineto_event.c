/* kineto_event -- fields of an event of a profiler trace, in all layouts since 2021. */
#include "kineto_trace.h"
#include "trace_event.h"

#include <inttypes.h>
#include <string.h>

static mr_status get_time(const kineto_trace *k, const char *key, uint64_t *ns)
{
    if (trace_event_ns(k->items.item, key, ns)) return MR_OK;
    return json_items_fail(&k->items, "the event '%.60s' has no time '%s', expected microseconds",
                           trace_event_text(k->items.item, "name"), key);
}

/* A whole number; absent ones are left as they are. */
static mr_status get_number(const kineto_trace *k, const char *key, int64_t low, int64_t high,
                            bool *given, int64_t *out)
{
    const json_t *value = json_object_get(json_object_get(k->items.item, "args"), key);
    *given = value != NULL;
    if (!value) return MR_OK;
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= low && *out <= high) return MR_OK;
    return json_items_fail(
        &k->items, "'%s' of a memory event is %s, expected a whole number from %" PRId64
                   " to %" PRId64,
        key,
        json_is_integer(value) ? mr_printf(k->ctx, "%" PRId64, *out) : "something else", low,
        high);
}

static mr_status read_memory(kineto_trace *k, bool refused)
{
    kineto_memory m = {.thread = trace_event_thread(k->ctx, k->items.item, &k->threads), .stack = MR_NONE, .refused = refused};
    const int64_t limit = (int64_t)1 << 62;
    int64_t type = 0, device = 0, total = 0, held = 0;
    bool given, counted;
    MR_TRY(get_time(k, "ts", &m.ns));
    MR_TRY(get_number(k, "Device Type", 0, 127, &given, &type));
    MR_TRY(get_number(k, "Device Id", -1, MR_PINNED - 1, &given, &device));
    MR_TRY(get_number(k, "Bytes", -limit, limit, &given, &m.bytes));
    if (!given) return json_items_fail(&k->items, "a memory event has no 'Bytes', expected it");
    MR_TRY(get_number(k, "Addr", INT64_MIN, INT64_MAX, &m.placed, (int64_t *)&m.address));
    MR_TRY(get_number(k, "Total Allocated", 0, limit, &m.counted, &total));
    MR_TRY(get_number(k, "Total Reserved", 0, limit, &counted, &held));
    m.host = !type;
    m.device = device > 0 && type ? (uint32_t)device : 0;
    m.total = (uint64_t)total;
    m.held = (uint64_t)held;
    m.counted &= !m.host && !refused; /* the host's begin with the profile and know no rest */
    if (m.bytes) MR_PUSH(k->ctx, &k->memory, m);
    return MR_OK;
}

static uint32_t name_of(kineto_trace *k, const char *text)
{
    return mr_names_add(k->ctx, &k->names, text, strlen(text));
}

static mr_status read_span(kineto_trace *k, kineto_kind kind)
{
    const json_t *args = json_object_get(k->items.item, "args");
    const json_t *forward = json_object_get(args, "Fwd thread id");
    const char *calls = trace_event_text(args, "Call stack");
    kineto_span span = {.kind = (uint8_t)kind,
                        .thread = trace_event_thread(k->ctx, k->items.item, &k->threads),
                        .name = name_of(k, trace_event_text(k->items.item, "name")),
                        .calls = *calls ? name_of(k, calls) : MR_NONE,
                        .backward = json_integer_value(forward) > 0};
    uint64_t took = 0;
    MR_TRY(get_time(k, "ts", &span.from));
    if (json_object_get(k->items.item, "dur")) MR_TRY(get_time(k, "dur", &took));
    span.to = span.from + took;
    MR_PUSH(k->ctx, &k->spans, span);
    return MR_OK;
}

mr_status kineto_event(kineto_trace *k)
{
    static const struct {
        const char *category;
        kineto_kind kind;
    } kinds[] = {
        {"cpu_op", KINETO_OP},
        {"Operator", KINETO_OP}, /* 2021 */
        {"python_function", KINETO_PYTHON},
        {"user_annotation", KINETO_ANNOTATION},
    };
    if (!json_is_object(k->items.item))
        return json_items_fail(&k->items, "an event is no object, expected one");
    const char *phase = trace_event_text(k->items.item, "ph"), *name = trace_event_text(k->items.item, "name");
    if (*phase == 'i' && !strcmp(name, "[memory]")) return read_memory(k, false);
    if (*phase == 'i' && mr_begins(name, "[OutOfMemory]")) return read_memory(k, true);
    if (*phase != 'X') return MR_OK;
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (!strcmp(trace_event_text(k->items.item, "cat"), kinds[i].category))
            return read_span(k, kinds[i].kind);
    return MR_OK;
}
