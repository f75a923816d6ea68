/* raw.h -- a memory snapshot as it was written, in compact records; nothing is concluded yet.
 *
 * Dicts are told apart by their keys, wherever they stand: one with `action` is an event, one
 * with `filename` a frame, one with `blocks` a segment, and so on.  Each becomes one record,
 * and lists of records become runs of numbers, so that it makes no difference in which order
 * keys come and how often the file refers back to the same dict or list.
 */
#ifndef MR_RAW_H
#define MR_RAW_H

#include "pickle.h"
#include "trace.h"

/* Keys of all kinds of dicts, then words that occur as values.  Those from SNAP_KEY_1 to
 * SNAP_KEY_32768 belong to roundup_power2_divisions. */
#define MR_RAW_KEYS(X)                                                                         \
    X(segments) X(device_traces) X(allocator_settings) X(external_annotations)              \
    X(action) X(addr) X(size) X(stream) X(time_us) X(frames) X(device_free)                 \
    X(compile_context) X(user_metadata)                                                     \
    X(name) X(filename) X(line)                                                             \
    X(device) X(address) X(total_size) X(segment_type) X(segment_pool_id) X(is_expandable)  \
    X(blocks) X(state) X(requested_size) X(history) X(real_size) X(stage)                   \
    X(PYTORCH_CUDA_ALLOC_CONF) X(max_split_size) X(garbage_collection_threshold)            \
    X(expandable_segments) X(release_lock_on_cudamalloc)                                    \
    X(graph_capture_record_stream_reuse) X(large_segment_size)                              \
    X(max_non_split_rounding_size) X(per_process_memory_fraction)                           \
    X(throw_on_cudamalloc_oom) X(roundup_power2_divisions)

#define MR_RAW_WORDS(X)                                                             \
    X(alloc) X(free_requested) X(free_completed) X(segment_alloc) X(segment_free) \
    X(segment_map) X(segment_unmap) X(snapshot) X(oom)                           \
    X(active_allocated) X(active_pending_free) X(active_awaiting_free) X(inactive) \
    X(small) X(large) X(START) X(END)

#define MR_RAW_DIVISIONS 16

enum {
#define X(word) MR_RAW_##word,
    MR_RAW_KEYS(X)
    MR_RAW_division,
    MR_RAW_keys = MR_RAW_division + MR_RAW_DIVISIONS,
    MR_RAW_before_words = MR_RAW_keys - 1,
    MR_RAW_WORDS(X)
#undef X
    MR_RAW_all
};

/* A key with a value that does not fit, or is not there; told only if the record is used. */
typedef struct mr_raw_fault {
    uint64_t offset; /* of the dict */
    uint32_t key;
    mr_value value; /* MR_V_UNSET: the key is missing */
} mr_raw_fault;

#define MR_RAW_NO_TIME UINT64_MAX
#define MR_RAW_LISTS_MAX 65536 /* devices */

typedef struct mr_raw_event {
    uint64_t size, time;
    uint32_t slot;   /* index into raw->addresses; for `oom`, of what was free on the device */
    uint32_t stack;  /* index into trace->stacks */
    uint32_t stream; /* index into raw->streams */
    uint32_t action; /* MR_RAW_alloc and so on; MR_RAW_all: see mr_raw_event_fault */
} mr_raw_event;

typedef struct mr_raw_block {
    uint64_t address; /* UINT64_MAX: not given, follows the block before */
    uint64_t bytes, requested;
    uint32_t stack, state;
    uint32_t fault; /* MR_NONE: none */
} mr_raw_block;

typedef struct mr_raw_segment {
    uint64_t address, bytes, offset;
    uint32_t stream, device, pool;
    uint32_t fault;
    mr_value blocks;
    bool large, expandable;
} mr_raw_segment;

typedef struct mr_raw_annotation {
    uint64_t time, offset;
    uint32_t name, device, fault;
    bool end;
} mr_raw_annotation;

typedef struct mr_raw_history { /* of a block, in files of PyTorch 2.0 */
    uint64_t bytes;
    uint32_t stack;
} mr_raw_history;

typedef struct mr_raw_run { /* of records */
    uint32_t first, n;
} mr_raw_run;

typedef struct mr_raw_list { /* a complete list of records, or of lists of events */
    uint64_t odd, items, offset;
    uint32_t first, n; /* of raw->runs, or of raw->inner for a list of lists */
    uint16_t kind;
} mr_raw_list;

/* Values of its own: the payload is an index into the array of that name. */
enum {
    MR_RAW_V_FRAME = MR_V_OWN,
    MR_RAW_V_STACK, /* a list of frames: index into trace->stacks */
    MR_RAW_V_EVENT,
    MR_RAW_V_BLOCK,
    MR_RAW_V_SEGMENT,
    MR_RAW_V_ANNOTATION,
    MR_RAW_V_HISTORY,
    MR_RAW_V_LIST,     /* raw->lists: records of one kind, or lists of events */
    MR_RAW_V_SETTINGS, /* raw->kept */
};

typedef struct mr_raw_note { /* user_metadata changed at this event */
    uint32_t event, text;
} mr_raw_note;

typedef struct mr_raw_snapshot {
    mr_ctx *ctx;
    mr_trace *trace;
    mr_pickle pickle;
    const char *file;
    uint64_t keys_seen; /* bit k: an event, block or root dict had key k */

    MR_VEC(mr_raw_event) events;
    MR_VEC(mr_raw_note) notes;
    MR_VEC(mr_raw_block) blocks;
    MR_VEC(mr_raw_segment) segments;
    MR_VEC(mr_raw_annotation) annotations;
    MR_VEC(mr_raw_history) histories;
    MR_VEC(mr_raw_fault) faults;
    MR_VEC(mr_raw_list) lists;
    MR_VEC(mr_raw_run) runs;
    MR_VEC(mr_value) inner;
    MR_VEC(mr_field) kept;
    mr_numbers addresses, streams, pools;
    mr_table frame_table, stack_table;
} mr_raw_snapshot;

/* Reads the pickle; `root` is the outermost dict. */
mr_status mr_raw_read(mr_ctx *ctx, mr_source *source, mr_raw_snapshot *raw,
                      const mr_field **root, uint32_t *n);

/* The value of a key, MR_V_UNSET when it is not there. */
mr_value mr_raw_find(const mr_field *fields, uint32_t n, uint32_t key);

/* A failure with the place of the dict. */
mr_status mr_raw_fail(mr_raw_snapshot *raw, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is wrong with a record. */
mr_status mr_raw_fault_fail(mr_raw_snapshot *raw, const mr_raw_fault *fault, const char *what);
/* An event with a fault has no room for more than that. */
static inline mr_raw_fault mr_raw_event_fault(const mr_raw_event *event)
{
    return (mr_raw_fault){event->time, event->stack, event->size};
}

const char *mr_raw_word(uint32_t word);
const char *mr_raw_text(const mr_raw_snapshot *raw, uint32_t text);

/* The list behind `value`, which must be a list of `kind` (MR_RAW_V_EVENT, ...) or empty;
 * `what` names it for a message. */
mr_status mr_raw_list_of(mr_raw_snapshot *raw, mr_value value, unsigned kind, const char *what,
                         mr_raw_list *out);

/* Below keys of the outermost dict that nobody reads, nothing is kept. */
bool mr_raw_ignored(const mr_raw_snapshot *raw);
/* The builder's part for lists (raw_list.c). */
void mr_raw_items(void *self, mr_list *list, const mr_value *at, uint32_t n);
mr_value mr_raw_list_done(void *self, const mr_list *list);
bool mr_raw_again(void *self, mr_list *list, mr_value value);

#endif
