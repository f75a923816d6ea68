/* snapshot -- CUDA memory snapshots of PyTorch, as torch.cuda.memory._dump_snapshot() writes
 * them.
 *
 *     pickle/pickle.h    opcodes to values, in one pass
 *     pickle/raw.h       dicts to records
 *     pickle/rebuild.h   records to a trace: what the program asked for, what the allocator did
 */
#include "format.h"
#include "rebuild.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 256

/* A pickle: of protocol 2 or newer it begins with PROTO, else with a dict or list. */
static bool detect(const unsigned char *head, size_t n)
{
    if (n < 2) return false;
    if (head[0] == 0x80) return head[1] <= 5 || n > 2;
    const bool begins = head[0] == '(' || head[0] == '}' || head[0] == ']';
    return begins && memchr("dl)}]pq.", head[1], 8);
}

typedef MR_VEC(mr_device_events) device_list;

/* The events of one device as one array; they are one already unless the file is odd. */
static void join_runs(mr_raw_snapshot *raw, const mr_raw_list *list, mr_device_events *device)
{
    if (!list->n) return;
    const mr_raw_run first = raw->runs.at[list->first];
    device->at = raw->events.at + first.first;
    device->first_event = first.first;
    device->n = first.n;
    if (list->n == 1) return;
    MR_VEC(mr_raw_event) joined = {0};
    for (uint32_t r = 0; r < list->n; r++) {
        const mr_raw_run run = raw->runs.at[list->first + r];
        for (uint32_t i = 0; i < run.n; i++)
            MR_PUSH(raw->ctx, &joined, raw->events.at[run.first + i]);
    }
    device->at = joined.at;
    device->n = joined.n;
    device->next_note = UINT32_MAX; /* whose numbers do not fit any more */
}

static mr_status add_device(mr_raw_snapshot *raw, uint32_t number, mr_value events,
                            device_list *devices)
{
    mr_raw_list list;
    const char *what = mr_printf(raw->ctx, "device_traces[%" PRIu32 "]", number);
    MR_TRY(mr_raw_list_of(raw, events, MR_RAW_V_EVENT, what, &list));
    mr_device_events device = {.raw = raw, .number = number, .history = {.device = number}};
    join_runs(raw, &list, &device);
    MR_PUSH(raw->ctx, devices, device);
    return MR_OK;
}

/* The segments as one array; likewise. */
static mr_status join_segments(mr_raw_snapshot *raw, mr_value segments,
                               const mr_raw_segment **out, uint32_t *n)
{
    mr_raw_list list;
    MR_VEC(mr_raw_segment) joined = {0};
    MR_TRY(mr_raw_list_of(raw, segments, MR_RAW_V_SEGMENT, "segments", &list));
    if (list.n == 1) {
        *out = raw->segments.at + raw->runs.at[list.first].first;
        *n = raw->runs.at[list.first].n;
        return MR_OK;
    }
    for (uint32_t r = 0; r < list.n; r++) {
        const mr_raw_run run = raw->runs.at[list.first + r];
        for (uint32_t i = 0; i < run.n; i++)
            MR_PUSH(raw->ctx, &joined, raw->segments.at[run.first + i]);
    }
    *out = joined.at;
    *n = joined.n;
    return MR_OK;
}

static mr_status collect_devices(mr_raw_snapshot *raw, mr_value traces, device_list *devices)
{
    mr_raw_list list;
    uint64_t events = 0;
    MR_TRY(mr_raw_list_of(raw, traces, MR_RAW_V_LIST, "device_traces", &list));
    if (list.n > DEVICES_MAX)
        return mr_raw_fail(raw, list.offset,
                           "device_traces has %" PRIu32 " devices, expected at"
                           " most %d",
                           list.n, DEVICES_MAX);
    for (uint32_t d = 0; d < list.n; d++) {
        MR_TRY(add_device(raw, d, raw->inner.at[list.first + d], devices));
        events += devices->at[d].n;
    }
    if (events) return MR_OK;
    return mr_fail_at(raw->ctx, MR_EINPUT, raw->file,
                      "the snapshot has no events because history"
                      " was not being recorded; call torch.cuda.memory._record_memory_history()"
                      " before the step and _dump_snapshot() after it");
}

/* A ring of max_entries that is exactly full has probably lost what came first. */
static bool looks_full(uint32_t n)
{
    if (n < 1000) return false;
    if (!(n & (n - 1))) return true;
    while (n % 10 == 0) n /= 10;
    return n == 1 || n == 2 || n == 5;
}

static void look_for_wrap(mr_raw_snapshot *raw, mr_device_events *device)
{
    if (!looks_full(device->n) || !device->history.held) return;
    device->history.wrapped = true;
    MR_PUSH(
        raw->ctx, &raw->trace->notes,
        mr_printf(raw->ctx,
                  "device %" PRIu32 " has exactly %" PRIu32 " events, which looks"
                  " like a full max_entries: earlier ones were lost, so peaks are lower bounds",
                  device->number, device->n));
}

static int ascending(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the streams; returns where each went. */
static const uint32_t *sort_streams(mr_raw_snapshot *raw)
{
    const uint32_t n = raw->streams.all.n;
    uint32_t *index = MR_NEW_N(raw->ctx, uint32_t, n);
    mr_trace *trace = raw->trace;
    trace->streams.n = 0;
    for (uint32_t i = 0; i < n; i++) MR_PUSH(raw->ctx, &trace->streams, raw->streams.all.at[i]);
    qsort(trace->streams.at, n, sizeof *trace->streams.at, ascending);
    for (uint32_t i = 0; i < n; i++)
        index[i] = (uint32_t)((uint64_t *)bsearch(&raw->streams.all.at[i], trace->streams.at, n,
                                                  sizeof(uint64_t), ascending)
                              - trace->streams.at);
    return index;
}

static mr_status annotations_of(mr_raw_snapshot *raw, mr_value value,
                                const mr_raw_annotation **out, uint32_t *n)
{
    mr_raw_list list;
    *n = 0;
    if (value == MR_V_UNSET) return MR_OK;
    MR_TRY(mr_raw_list_of(raw, value, MR_RAW_V_ANNOTATION, "external_annotations", &list));
    MR_VEC(mr_raw_annotation) joined = {0};
    for (uint32_t r = 0; r < list.n; r++) {
        const mr_raw_run run = raw->runs.at[list.first + r];
        for (uint32_t i = 0; i < run.n; i++)
            MR_PUSH(raw->ctx, &joined, raw->annotations.at[run.first + i]);
    }
    *out = joined.at;
    *n = joined.n;
    return MR_OK;
}

static mr_status rebuild(mr_raw_snapshot *raw, const mr_field *root, uint32_t n)
{
    mr_allocator_options options;
    const mr_raw_segment *segments;
    const mr_raw_annotation *annotations = NULL;
    uint32_t n_segments, n_annotations;
    device_list devices = {0};
    MR_TRY(mr_read_settings(raw, mr_raw_find(root, n, MR_RAW_allocator_settings), &options));
    MR_TRY(join_segments(raw, mr_raw_find(root, n, MR_RAW_segments), &segments, &n_segments));
    MR_TRY(collect_devices(raw, mr_raw_find(root, n, MR_RAW_device_traces), &devices));
    MR_TRY(annotations_of(raw, mr_raw_find(root, n, MR_RAW_external_annotations), &annotations,
                          &n_annotations));
    const uint32_t *streams = sort_streams(raw);
    for (uint32_t i = 1; i < raw->pools.all.n; i++)
        MR_PUSH(raw->ctx, &raw->trace->pools, raw->pools.all.at[i]);
    uint32_t kept = 0;
    for (uint32_t d = 0; d < devices.n; d++) {
        mr_device_events *device = &devices.at[d];
        device->options = &options;
        device->stream_index = streams;
        MR_TRY(mr_read_finals(device, segments, n_segments));
        if (device->n || device->finals.n) devices.at[kept++] = *device;
    }
    for (uint32_t d = 0; d < kept; d++) {
        MR_TRY(mr_rebuild_start(&devices.at[d]));
        mr_judge_capacity(&devices.at[d]);
        look_for_wrap(raw, &devices.at[d]);
    }
    return mr_walk_devices(raw, devices.at, kept, annotations, n_annotations);
}

static mr_status read_snapshot(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                               mr_trace *out)
{
    (void)options;
    mr_raw_snapshot raw = {.trace = out};
    const mr_field *root;
    uint32_t n;
    mr_trace_init(ctx, out, mr_source_name(source));
    out->has = MR_HAS_HISTORY;
    MR_TRY(mr_raw_read(ctx, source, &raw, &root, &n));
    for (uint32_t key = MR_RAW_segments; key <= MR_RAW_device_traces; key++)
        if (mr_raw_find(root, n, key) == MR_V_UNSET)
            return mr_raw_fail(&raw, 0,
                               "the pickle has no '%s', expected the dict that"
                               " torch.cuda.memory._dump_snapshot() writes",
                               mr_raw_word(key));
    mr_tell_version(&raw);
    return rebuild(&raw, root, n);
}

const mr_format mr_format_snapshot = {
    .name = "snapshot",
    .summary = "memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot)",
    .detect = detect,
    .read = read_snapshot,
};
