/* c10.h -- PyTorch's native caching allocator (c10::cuda::CUDACachingAllocator), of one device.
 *
 * A faithful model: the same request sequence gives the same addresses, the same calls to the
 * device and the same statistics as the real allocator of the release named by `version`.
 * The rules are those of PyTorch's CUDACachingAllocator.cpp, releases 2.0 to 2.15; where they
 * differ, tests/oracle/README.md says which differs how, and c10_quirks names each difference
 * once.
 *
 *     pool (small | large, default or private)
 *       └─ stream ─► free set, ordered by (size, address)
 *     segment ─► block ⇄ block ⇄ block       the blocks of a segment tile it
 *
 * All sizes are bytes, all addresses the device's.  Nothing here is thread-safe, nothing is
 * global: an allocator is one c10_allocator, its memory comes from the context.
 */
#ifndef C10_H
#define C10_H

#include "base.h"

#define C10_UNLIMITED UINT64_MAX
#define C10_STREAMS_MAX 65536
#define C10_BLOCK_LIMIT ((uint64_t)2 << 40) /* bytes; no request of this size is served */

/* ---- what it asks of CUDA --------------------------------------------------------------- */

/* Events of a trace, by the names of torch.cuda.memory._snapshot()["device_traces"]. */
typedef enum c10_action {
    C10_ALLOC,          /* address and requested size of a block */
    C10_FREE_REQUESTED, /* likewise */
    C10_FREE_COMPLETED, /* likewise */
    C10_SEGMENT_ALLOC,  /* cudaMalloc */
    C10_SEGMENT_FREE,   /* cudaFree */
    C10_SEGMENT_MAP,    /* pages of an expandable segment mapped */
    C10_SEGMENT_UNMAP,
    C10_SNAPSHOT,
    C10_OOM, /* address is the device's free memory, size the rounded request */
    C10_ANNOTATE,
} c10_action;

typedef struct c10_device {
    void *self;
    uint64_t total; /* bytes of the device: what memory fractions and reservations refer to */

    /* cudaMalloc: false when the device is out of memory. */
    bool (*malloc)(void *self, uint64_t bytes, uint32_t stream, uint64_t *address);
    /* cudaFree; waits for the device. */
    void (*free)(void *self, uint64_t address, uint64_t bytes);

    /* Virtual memory of expandable segments.  A page is one physical allocation. */
    uint64_t (*reserve)(void *self, uint64_t bytes, uint64_t page, uint32_t stream);
    void (*unreserve)(void *self, uint64_t address, uint64_t bytes);
    bool (*map)(void *self, uint64_t address, uint64_t bytes, uint64_t page);
    void (*unmap)(void *self, uint64_t address, uint64_t bytes, uint64_t page);

    uint64_t (*available)(void *self); /* free memory as cudaMemGetInfo has it */

    /* CUDA events: record returns a ticket of the stream, done says whether the device got
     * there, synchronize waits until it did (ticket UINT64_MAX: for all of the stream). */
    uint64_t (*record)(void *self, uint32_t stream);
    bool (*done)(void *self, uint32_t stream, uint64_t ticket);
    void (*synchronize)(void *self, uint32_t stream, uint64_t ticket);

    /* The allocator's own trace, in its order; NULL when nobody listens. */
    void (*trace)(void *self, c10_action action, uint64_t address, uint64_t size,
                  uint32_t stream);
} c10_device;

/* ---- options ---------------------------------------------------------------------------- */

/* Releases that behave differently; a release between two behaves like the older. */
typedef struct c10_version {
    unsigned major, minor;
} c10_version;

#define C10_NEWEST ((c10_version){2, 15})

/* How many addresses an expandable segment reserves; 0 for PyTorch's 9/8 of the device. */
typedef struct c10_reserve {
    double amount;
    bool gibibytes; /* else a fraction of the device */
} c10_reserve;

typedef struct c10_reserve_class {
    const char *name;
    c10_reserve reserve;
} c10_reserve_class;

/* Options by PyTorch's own names. */
typedef struct c10_options {
    uint64_t max_split_size;         /* bytes, C10_UNLIMITED for none */
    uint64_t max_non_split_rounding; /* bytes */
    uint64_t large_segment_size;     /* bytes */
    double garbage_collection_threshold;
    uint64_t roundup_power2_divisions[16];
    bool expandable_segments;
    double per_process_memory_fraction; /* 1 for no limit; a limit only at the start */
    bool throw_on_cudamalloc_oom;
    bool graph_capture_record_stream_reuse;
    c10_reserve expandable_segments_reserve;
    /* Of several with one name the last holds. */
    MR_VEC(c10_reserve_class) expandable_segments_reserve_by_class;
    bool running; /* an allocator has them already: c10_options_parse refuses in other words */
} c10_options;

/* Defaults of a release. */
void c10_options_init(c10_options *options, c10_version version);

/* Reads the text of PYTORCH_CUDA_ALLOC_CONF ("max_split_size_mb:128,...") as that release does;
 * options that the text does not name keep or lose their value as they do there.  What that
 * release would refuse is MR_EINPUT with the sentence that says why. */
mr_status c10_options_parse(mr_ctx *ctx, c10_version version, const char *text,
                            c10_options *options);

/* ---- statistics ------------------------------------------------------------------------- */

typedef struct c10_stat {
    uint64_t current, peak, allocated, freed;
} c10_stat;

enum { C10_ALL, C10_SMALL_POOL, C10_LARGE_POOL, C10_KINDS };

/* name as in torch.cuda.memory_stats(), in the order of its printout */
#define C10_STATS(X)      \
    X(allocation)         \
    X(segment)            \
    X(active)             \
    X(inactive_split)     \
    X(allocated_bytes)    \
    X(reserved_bytes)     \
    X(active_bytes)       \
    X(inactive_split_bytes) \
    X(requested_bytes)

#define C10_COUNTERS(X)   \
    X(num_alloc_retries)  \
    X(num_ooms)           \
    X(num_sync_all_streams) \
    X(num_device_alloc)   \
    X(num_device_free)    \
    X(num_oom_rejections)

typedef struct c10_stats {
#define X(name) c10_stat name[C10_KINDS];
    C10_STATS(X)
#undef X
    c10_stat oversize_allocations, oversize_segments;
    uint64_t max_split_size; /* at the start; C10_UNLIMITED */
#define X(name) uint64_t name;
    C10_COUNTERS(X)
#undef X
} c10_stats;

/* ---- the allocator ---------------------------------------------------------------------- */

typedef struct c10_allocator c10_allocator;

/* What the real allocator refuses to do is MR_EINPUT, and what its release cannot do yet
 * MR_EUNSUPPORTED; the sentence is in the context. */

/* `ctx` and what `device` points to must outlive it.  `options` are those at the start of the
 * program, NULL for the defaults. */
c10_allocator *c10_new(mr_ctx *ctx, const c10_device *device, c10_version version,
                       const c10_options *options);

void c10_configure(c10_allocator *a, const c10_options *options); /* at any time */
const c10_options *c10_configured(const c10_allocator *a);
mr_status c10_set_memory_fraction(c10_allocator *a, double fraction); /* 0 to 1 */

/* A block handed out; `block` stands for it in later calls. */
typedef struct c10_lease {
    uint64_t address, size; /* size really taken, at least what was asked for */
    uint32_t block;
    uint32_t order; /* of its segment, c10_segment.order: how manieth the device gave */
} c10_lease;

/* Stream keys: the free sets and hence the order of releases are sorted by stream number, so
 * number streams in the order of their handles; 0 is the default stream.  A request of zero
 * bytes takes nothing: address 0, block MR_NONE, which c10_free ignores. */
/* False when out of memory. */
bool c10_malloc(c10_allocator *a, uint64_t bytes, uint32_t stream, c10_lease *out);
/* Whether the real allocator would still be running: MR_EINPUT once a request has led it into
 * an assertion of its own. */
mr_status c10_sound(const c10_allocator *a);
void c10_free(c10_allocator *a, uint32_t block);
/* Fetches what c10_free will need: the block, then (`closer`) those beside it. */
void c10_near(const c10_allocator *a, uint32_t block, bool closer);
void c10_record_stream(c10_allocator *a, uint32_t block, uint32_t stream);
mr_status c10_empty_cache(c10_allocator *a);
mr_status c10_annotate(c10_allocator *a, uint32_t block);

/* The class of a stream's reservations, for expandable_segments_reserve_by_class. */
mr_status c10_set_reserve_class(c10_allocator *a, uint32_t stream, const char *name);

/* Private pools: CUDA graphs and torch.cuda.MemPool, by an id other than 0.  A pool is made by
 * its first holder; c10_pool_begin adds one, too.  `stream` MR_NONE diverts all streams. */
typedef struct c10_pool_flags {
    bool use_on_oom, no_split;
} c10_pool_flags;
mr_status c10_pool_create(c10_allocator *a, uint64_t id, c10_pool_flags flags); /* a MemPool */
mr_status c10_pool_begin(c10_allocator *a, uint64_t id, uint32_t stream);
mr_status c10_pool_end(c10_allocator *a, uint64_t id);
mr_status c10_pool_release(c10_allocator *a, uint64_t id); /* one holder less */
mr_status c10_pool_empty(c10_allocator *a, uint64_t id);   /* empty_cache of one pool */
/* Releases before 2.15 take the recording of a pool for the capture of a graph; from then on a
 * capture is what these two enclose. */
void c10_capture_begin(c10_allocator *a);
void c10_capture_end(c10_allocator *a);

/* Bytes of the memory fraction, 0 while none is set. */
uint64_t c10_memory_limit(const c10_allocator *a);

/* Good until the next call with this allocator. */
const c10_stats *c10_statistics(c10_allocator *a);
void c10_reset_peaks(c10_allocator *a);
void c10_reset_accumulated(c10_allocator *a);

/* ---- adopting and showing its state ----------------------------------------------------- */

typedef enum c10_state { C10_INACTIVE, C10_PENDING_FREE, C10_ALLOCATED } c10_state;

typedef struct c10_piece { /* one block, as a snapshot shows it */
    uint64_t address, size, requested;
    c10_state state;
    uint32_t waits_for; /* a foreign stream that a pending free waits for */
    uint32_t block; /* for c10_free and the like */
} c10_piece;

typedef struct c10_segment { /* one segment, or one mapped stretch of an expandable one */
    uint64_t address, total, allocated, active, requested;
    uint32_t stream;
    bool large, expandable;
    uint64_t reserved_at, reserved; /* addresses reserved for an expandable one; 0 otherwise */
    uint64_t page; /* of an expandable one; for c10_adopt 0 means what the options say */
    uint64_t pool;  /* id of the private pool, 0 for the default */
    uint32_t order; /* older segments have lower numbers; equal where nobody knows */
    MR_VEC(c10_piece) pieces; /* ascending, tiling the segment */
} c10_segment;

typedef MR_VEC(c10_segment) c10_segments;

/* All segments by ascending address.  Logs a C10_SNAPSHOT event as the real one does. */
void c10_snapshot(c10_allocator *a, mr_ctx *ctx, c10_segments *out);

/* Starts in the middle of a run: takes over segments that the device already holds (they are
 * not asked for again) before the first request, and sorts them.  Fills in `pieces[].block`.
 * Options are those configured before.  Mapped stretches of expandable segments must be given
 * with the reservation they lie in.  A pending free waits for an event that is recorded now.  A
 * private pool that does not exist gets one holder.  Statistics start from what is there,
 * with nothing allocated or freed yet.  What no snapshot shows is not there afterwards: streams
 * recorded for live blocks, ages for the garbage collection, reservations without a page.
 * MR_EINPUT when the pieces do not tile their segment, overlap, or could not have come about
 * (sizes that are no multiples of 512, two free neighbours). */
mr_status c10_adopt(c10_allocator *a, c10_segments *segments);

#endif
