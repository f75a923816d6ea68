/* kineto -- profiler traces of PyTorch, as torch.profiler's export_chrome_trace() writes them.
 *
 *     {"schemaVersion": 1, "deviceProperties": [...], "traceEvents": [
 *       {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "tid": 7, "ts": 5.2, "dur": 3.1},
 *       {"ph": "i", "name": "[memory]", "tid": 7, "ts": 5.9, "args": {"Device Type": 1,
 *        "Device Id": 0, "Addr": 139926520725504, "Bytes": 5242880,
 *        "Total Allocated": 5435638784, "Total Reserved": 12782141440}}, ...]}
 *
 * Allocations and frees of the caching allocator, with the ops and Python functions that they
 * happened in.  Profiles of a run on the CPU are read as if its memory were a device's.
 */
#include "kineto_trace.h"

#include <string.h>

static mr_status read_events(kineto_trace *k)
{
    for (;;) {
        MR_TRY(json_items_next(&k->items));
        if (!k->items.item) return MR_OK;
        MR_TRY(kineto_event(k));
        if (k->items.number % 65536 == 0)
            mr_progress(k->ctx, "reading", mr_source_part(k->items.source));
    }
}

static void tell_about(kineto_trace *k)
{
    const json_t *devices = json_object_get(k->items.about, "deviceProperties");
    const char *name =
        json_string_value(json_object_get(json_array_get(devices, 0), "name"));
    if (name) k->trace->about[MR_ABOUT_device] = mr_strdup(k->ctx, name);
    k->trace->about[MR_ABOUT_framework] = "pytorch";
    k->trace->about[MR_ABOUT_recorder] = "torch.profiler";
}

static mr_status read_trace(kineto_trace *k)
{
    MR_TRY(read_events(k));
    if (!k->memory.n)
        return mr_fail_at(k->ctx, MR_EINPUT, mr_source_name(k->items.source),
                          "the profile has no memory events, expected it to be made with"
                          " torch.profiler.profile(profile_memory=True)");
    tell_about(k);
    return kineto_lives(k);
}

static mr_status read_kineto(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                             mr_trace *out)
{
    (void)options;
    mr_trace_init(ctx, out, mr_source_name(source));
    kineto_trace *k = MR_NEW(ctx, kineto_trace);
    k->ctx = ctx;
    k->trace = out;
    k->items = (json_items){.ctx = ctx, .source = source, .key = "traceEvents"};
    const mr_status status = read_trace(k);
    json_items_close(&k->items);
    return status;
}

static bool detect(const unsigned char *head, size_t n)
{
    size_t i = 0;
    while (i < n && memchr(" \t\r\n", head[i], 4)) i++;
    if (i == n || (head[i] != '{' && head[i] != '[')) return false;
    return mr_head_holds(head, n, "\"traceEvents\"") || mr_head_holds(head, n, "\"schemaVersion\"")
           || mr_head_holds(head, n, "\"deviceProperties\"") || mr_head_holds(head, n, "\"ph\"");
}

const mr_format mr_format_kineto = {
    .name = "kineto",
    .summary = "profiler trace of PyTorch (export_chrome_trace with profile_memory=True)",
    .detect = detect,
    .read = read_kineto,
};
