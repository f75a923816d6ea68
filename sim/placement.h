/* placement.h -- addresses decided: a list of commands, made by a strategy through a placer.
 *
 * A strategy asks the placer for segments and says which block a storage gets; the
 * placer writes the commands down.  Out of device memory is an outcome (refused,
 * oom_at), not an error.
 */
#ifndef MR_PLACEMENT_H
#define MR_PLACEMENT_H

#include "device.h"
#include "ranges.h"
#include "schedule.h"

/* A number that an allocator reports of itself, by the name its users know. */
typedef struct mr_stat {
    const char *name;
    uint64_t current, peak, allocated, freed;
} mr_stat;

typedef struct mr_placement {
    const mr_schedule *schedule;
    MR_VEC(mr_segment) segments; /* every segment ever held; commands refer to them */
    mr_cmds cmds;                /* BINDs of storages live at the start come first */
    uint32_t start;              /* number of commands before the first event */
    MR_VEC(uint32_t) seams;      /* number of commands at the end of each iteration */
    uint32_t oom_at;             /* index of the first event not served, MR_NONE */
    uint32_t refusals;           /* requests not served; each storage is then skipped */
    uint64_t retries;            /* times cached memory was given back to serve a request */
    uint64_t limit;              /* the allocator's own, of what it takes; 0 for none */
    MR_VEC(mr_stat) stats;       /* the allocator's own, at the end */
    bool ideal;                  /* a bound, no allocator: asking the device costs nothing */
    /* The allocator is the driver's own.  A device is then asked for each storage, and the
     * segments say only what its pool is thought to hold. */
    enum { MR_NOT_POOLED, MR_POOLED, MR_POOLED_APART /* no stream waits for another's memory */ }
        pooled;
} mr_placement;

typedef struct mr_placer {
    mr_ctx *ctx;
    uint64_t capacity;    /* bytes to be had; UINT64_MAX for no limit */
    uint64_t total;       /* bytes of the device as a program sees them (memory fractions) */
    uint64_t granularity; /* physical size of a segment is a multiple of it; at least 1 */
    /* Where new segments lie: the addresses that a recording saw, as long as the same
     * segments are asked for in the same order, then ascending ones that nobody has.  NULL:
     * only the latter. */
    const mr_history *addresses;
    bool first_refusal_ends; /* stop at the first request that is not served */
    mr_placement *out;
    /* the placer's own */
    uint64_t used, used_peak, next_address;
    uint32_t next_recorded, next_range; /* commands of `addresses` */
    bool *given;                        /* by segment of `addresses`, expandable ones */
    mr_ranges taken; /* addresses of segments, while those of a recording are followed */
    void *driver;
    void (*settle)(void *driver);
} mr_placer;

/* ---- for strategies ---------------------------------------------------------------------- */

/* False when the device is full; a strategy may release something and try again.
 * An expandable segment is an address range without memory. */
bool mr_reserve(mr_placer *placer, const mr_segment *want, uint32_t *segment);
void mr_release(mr_placer *placer, uint32_t segment);
bool mr_map(mr_placer *placer, uint32_t segment, uint64_t offset, uint64_t bytes);
void mr_unmap(mr_placer *placer, uint32_t segment, uint64_t offset, uint64_t bytes);
/* The pages behind a stretch are used through another one from now on, in another segment
 * perhaps.  `standing`: they were mapped there before, and the driver is not asked. */
void mr_switch(mr_placer *placer, const mr_block *from, const mr_block *to, bool standing);
/* The allocator has waited for the whole device: all deferred frees have taken effect. */
void mr_settled(mr_placer *placer);
/* Bytes that the device still has. */
uint64_t mr_available(const mr_placer *placer);

typedef struct mr_request {
    uint64_t bytes;
    uint32_t stream, pool;
} mr_request;

/* An allocator that decides one request at a time and cannot see the next.
 * `alloc` returns false when it cannot serve the request.  Optional: `defer` (freed while
 * another stream may still use it) with `done` (now no longer); without them such a block is
 * freed at its done.  `near` fetches (MR_FETCH) what the allocator will need to free the block
 * soon: what it keeps of the block itself, and some events later (`closer`) what that leads to;
 * nothing but speed depends on it.  `flush` is empty_cache().  `adopt` takes over what a recording began with: it sets the handles in `blocks`, one per piece
 * (MR_EUNSUPPORTED when it cannot); without it, and in traces that do not say, storages live
 * before the first event are allocated in order. */
typedef struct mr_online {
    void *self;
    bool (*alloc)(void *self, mr_placer *placer, const mr_request *request, mr_block *out);
    void (*free)(void *self, mr_placer *placer, const mr_block *block);
    void (*defer)(void *self, mr_placer *placer, const mr_block *block);
    void (*done)(void *self, mr_placer *placer, const mr_block *block);
    void (*near)(void *self, const mr_block *block, bool closer);
    void (*flush)(void *self, mr_placer *placer);
    mr_status (*adopt)(void *self, mr_placer *placer, const mr_history *history,
                       uint32_t *handles);
} mr_online;

mr_status mr_place_online(mr_placer *placer, const mr_schedule *schedule,
                          const mr_online *policy);

/* ---- for everybody ----------------------------------------------------------------------- */

/* The referee, written apart from all strategies: every event is there in order, no two bound
 * storages overlap, every binding lies inside memory that is held (for an expandable segment:
 * mapped), nothing is released under a binding, at least the bytes asked for are given, and the
 * device is never asked for more than it has.  O(log live) per command. */
mr_status mr_placement_check(mr_ctx *ctx, const mr_placement *placement, uint64_t capacity,
                             uint64_t granularity);

#endif
