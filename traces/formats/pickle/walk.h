/* walk.h -- the walk forward through a snapshot, shared by its parts.
 *
 *     walk.c       event by event, all devices
 *     ends.c       the pieces of memory before the first event and after the last
 *     annotate.c   marks from annotations
 */
#ifndef MR_WALK_H
#define MR_WALK_H

#include "rebuild.h"

#define MR_NS_PER_US 1000
#define MR_TIME_MAX (UINT64_MAX / MR_NS_PER_US)

typedef struct mr_walk {
    mr_raw_snapshot *raw;
    mr_ctx *ctx;
    mr_trace *trace;
    const mr_raw_annotation **annotations; /* by time */
    uint32_t n_annotations, next_annotation;
    bool timed;
    uint64_t zero, now; /* microseconds */
} mr_walk;

void mr_walk_add(mr_walk *w, mr_event_kind kind, uint32_t id);
void mr_walk_mark(mr_walk *w, mr_mark_kind kind, const char *name);
/* A command for the storage that lives, or lived, at the slot. */
void mr_walk_command(mr_walk *w, mr_device_events *device, mr_cmd_kind kind, uint32_t storage,
                     uint32_t slot);

/* Keeps what has a place in the trace, in order. */
mr_status mr_walk_annotations(mr_walk *w, const mr_raw_annotation *annotations, uint32_t n);
void mr_annotate_until(mr_walk *w, uint64_t time);

void mr_begin_device(mr_walk *w, mr_device_events *device);
mr_status mr_end_device(mr_walk *w, mr_device_events *device);

#endif
