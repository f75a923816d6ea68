/* rebuild.h -- from a raw snapshot to what happened: start, commands, end.
 *
 *     final.c    segments and blocks as the snapshot found them, checked
 *     start.c    walks the segments backwards from there; which blocks lived before, how large
 *     capacity.c what retries and failures say about the device; which releases were asked for
 *     reserve.c  segments while walking forward: which address range a mapping belongs to
 *     walk.c     walks forward through all events of all devices, into trace and commands
 */
#ifndef MR_REBUILD_H
#define MR_REBUILD_H

#include "stretches.h"
#include "raw.h"

#define MR_SMALL_MAX MR_MIB           /* requests up to this come from the small pool */
#define MR_SMALL_SEGMENT (2 * MR_MIB) /* for those; large ones are multiples of it */
#define MR_OWN_SEGMENT (10 * MR_MIB)  /* from here on a segment is made to measure */

typedef struct mr_final_block {
    uint64_t address, bytes, requested;
    uint32_t slot; /* MR_NONE: free */
    uint32_t stack;
    bool pending;
} mr_final_block;

typedef struct mr_final_segment {
    const mr_raw_segment *raw;
    uint32_t first, n; /* of device->blocks */
} mr_final_segment;

/* A block that lived before the first event. */
typedef struct mr_before_block {
    uint64_t address, bytes, requested;
    uint32_t slot, storage;
    uint32_t final;  /* block at the end, MR_NONE when it dies */
    uint32_t done;   /* event of its free_completed, MR_NONE when there is none */
    bool pending;    /* already freed, but not completed */
} mr_before_block;

/* An event that touches segments, or an oom. */
typedef struct mr_act {
    uint32_t event;
    uint32_t final; /* segment at the end that this one made, MR_NONE */
    bool flush;     /* first of a burst of releases that the program asked for */
} mr_act;

typedef struct mr_allocator_options {
    uint64_t max_split; /* bytes, UINT64_MAX for no limit */
    uint64_t large_segment;
    double collects; /* garbage_collection_threshold; 0 is off */
    uint64_t divisions[MR_RAW_DIVISIONS];
    bool expandable;
} mr_allocator_options;

/* A class of expandable memory has one address range at a time. */
typedef struct mr_address_class {
    uint32_t segment; /* of history->segments, MR_NONE while there is none */
    uint32_t stream, pool; /* raw */
    bool large;
    uint64_t mapped;
} mr_address_class;

typedef struct mr_device_events {
    mr_raw_snapshot *raw;
    const mr_allocator_options *options;
    const uint32_t *stream_index; /* raw stream -> trace->streams */
    uint32_t number;
    const mr_raw_event *at;
    uint32_t n;
    uint32_t first_event; /* where its events begin in raw->events */
    uint32_t next_note;   /* of raw->notes */

    MR_VEC(mr_final_segment) finals; /* by address */
    MR_VEC(mr_final_block) blocks;   /* by address */
    mr_stretches held;               /* before the first event; segment: of finals or MR_NONE */
    MR_VEC(mr_act) acts;
    MR_VEC(mr_before_block) before; /* by address */

    mr_history history;
    mr_numbers class_keys;
    MR_VEC(mr_address_class) classes;
    uint32_t pools_at_end; /* number of raw->pools; later ones were invented */
    MR_VEC(uint32_t) class_of; /* of a segment, MR_NONE for one from cudaMalloc */
    mr_stretches now;             /* what is held now; segment: of history.segments */
    uint32_t *storage;     /* of a slot, MR_NONE; MR_LEAVING is set when it was freed */
    uint32_t *segment;     /* of history.segments, where the slot was last */
    uint32_t i, next_act;
    uint64_t live;
} mr_device_events;

#define MR_LEAVING ((uint32_t)1 << 31)

/* "file: device 1, event 17: ..." */
mr_status mr_device_fail(const mr_device_events *device, uint32_t event, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* The size of a block for a request. */
uint64_t mr_rounded_request(const mr_allocator_options *options, uint64_t bytes);
/* What is asked from the device for a rounded request. */
uint64_t mr_segment_request(const mr_allocator_options *options, uint64_t rounded);

mr_status mr_read_finals(mr_device_events *device, const mr_raw_segment *segments, uint32_t n);
mr_status mr_rebuild_start(mr_device_events *device);
/* Segments of the start into the history, and one act into its commands; `now` follows. */
mr_status mr_hold_segments(mr_device_events *device);
mr_status mr_walk_act(mr_device_events *device, const mr_act *a);
void mr_judge_capacity(mr_device_events *device);

/* Makes the trace of all devices, in the order of their times. */
mr_status mr_walk_devices(mr_raw_snapshot *raw, mr_device_events *devices, uint32_t n,
                       const mr_raw_annotation *annotations, uint32_t n_annotations);

/* settings.c: what the snapshot says of the allocator and of the program. */
mr_status mr_read_settings(mr_raw_snapshot *raw, mr_value settings,
                           mr_allocator_options *options);
void mr_tell_version(mr_raw_snapshot *raw);

#endif
