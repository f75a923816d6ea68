/* c10_internal.h -- what the files of the allocator's model share.
 *
 *     c10_options   PYTORCH_CUDA_ALLOC_CONF, and what releases differ in
 *     c10_values    values of options;  c10_words  cuts the text of all
 *     c10_bins      the free blocks of a stream in a pool, by size
 *     c10_tree      ordered sets of blocks: of a full bin, and of holes
 *     c10_blocks    the array of blocks, joining and splitting them
 *     c10_malloc    one request: rounding, search, the ladder of last resorts
 *     c10_expand    expandable segments: mapping and unmapping pages
 *     c10_free      free, foreign streams, events
 *     c10_release   giving memory back to the device, garbage collection
 *     c10_pools     the default pools and private ones
 *     c10_stats     statistics
 *     c10_snapshot  showing the state
 *     c10_adopt     starting from one that was shown
 *
 * Blocks, sets, pools and expandable segments are addressed by index; arrays grow, so a pointer
 * into one is good only until the next call that may add to it.
 */
#ifndef C10_INTERNAL_H
#define C10_INTERNAL_H

#include "c10.h"

enum {
    C10_MIN_BLOCK = 512,           /* granularity of sizes, and the smallest */
    C10_SMALL_MAX = 1 << 20,       /* the largest rounded size that is small */
    C10_SMALL_SEGMENT = 2 << 20,   /* asked from the device for a small request */
    C10_OWN_SEGMENT = 10 << 20,    /* from here on a segment is made to measure ... */
    C10_SEGMENT_ROUNDING = 2 << 20, /* ... in multiples of this */
    C10_LARGE_SEGMENT = 20 << 20, /* default large_segment_size and max_non_split_rounding */
};

/* What releases differ in: name, first minor release of 2.x that does it, what it does. */
#define C10_QUIRKS(X)                                                                        \
    X(one_division_rounds, 1, "one division means multiples of 512, not bytes as they come")  \
    X(expandable_private, 5, "private pools may be expandable, too")                          \
    X(expandable_spared, 5, "only cudaMalloc segments are collected, or released for a size")  \
    X(pools_made, 5, "a private pool can be made by itself, as a MemPool")                    \
    X(divisions_spelled, 8, "refusals write 'divisions', not 'divisons'")                     \
    X(fraction_worded, 8, "a wrong memory fraction is refused in words")                      \
    X(captures_may_empty, 8, "empty_cache during a capture visits unheld private pools")       \
    X(one_pool_empties, 8, "empty_cache can be had for one private pool")                     \
    X(pools_for_oom, 8, "use_on_oom")                                                         \
    X(pools_before_release, 9, "use_on_oom comes before the cache is released, not last")      \
    X(pools_unsplit, 9, "no_split")                                                           \
    X(marks_unchecked, 9, "separators in the options are skipped, whatever they are")         \
    X(wide_numbers, 9, "numbers in the options have 64 bits, not 32")                         \
    X(limits_inclusive, 9, "the least value of an option is allowed itself")                  \
    X(rest_after_last, 9, "'>' in a list of divisions starts after the last named interval")   \
    X(rounding_resets, 9, "options reset max_non_split_rounding to large_segment_size")       \
    X(last_pool_wins, 9, "of several recording pools the last takes the request")             \
    X(whole_device_unlimited, 9, "a memory fraction of 1 sets no limit")                      \
    X(annotates, 15, "blocks can be annotated")                                               \
    X(captures_marked, 15, "recording a pool is no capture by itself")                        \
    X(end_completes, 15, "with stream reuse, the end of a recording completes its frees")     \
    X(reserves_by_class, 15, "reservations can have a size of their own by class of stream")   \
    X(no_split_dies, 15, "no_split ends with the pool, not with the process")                 \
    X(oldest_segment_wins, 15, "among equal sizes, and only then the lowest address")

typedef struct c10_quirks {
#define X(name, since, text) bool name;
    C10_QUIRKS(X)
#undef X
} c10_quirks;

c10_quirks c10_quirks_of(c10_version version);

/* ---- blocks ----------------------------------------------------------------------------- */

/* Two neighbours merge when both are free or both are holes. */
typedef enum c10_block_state {
    C10_BLOCK_FREE,
    C10_BLOCK_HOLE,    /* reserved addresses without memory, in an expandable segment */
    C10_BLOCK_PENDING, /* freed, but foreign streams may still use it */
    C10_BLOCK_LIVE,
    C10_BLOCK_UNUSED, /* the record itself waits to be used again */
} c10_block_state;

typedef struct c10_block { /* 64 bytes: one cache line */
    uint64_t address, size;
    uint64_t requested;  /* of its last user */
    uint64_t born;       /* searches of its pool when it became free */
    uint32_t prev, next; /* in its segment, MR_NONE at the ends; next unused record */
    uint32_t set;        /* stream and pool it belongs to */
    uint32_t expandable; /* expandable segment it lies in, MR_NONE */
    uint32_t uses;       /* foreign streams, MR_NONE for none; not sent as events yet */
    uint32_t place;      /* in the set that holds it */
    uint32_t order;      /* age of its segment, where that decides between equal sizes */
    uint16_t events;     /* still open, one for each foreign stream */
    uint8_t state;       /* c10_block_state */
} c10_block;

typedef struct c10_use { /* a foreign stream of a block */
    uint32_t stream, next;
    bool captured; /* recorded while a private pool was being recorded */
} c10_use;

/* ---- ordered sets ----------------------------------------------------------------------- */

typedef struct c10_key {
    uint64_t size; /* with the age of the segment below it, where that decides between equals */
    uint64_t address;
    uint32_t id;
} c10_key;

static inline bool c10_key_below(const c10_key *one, const c10_key *other)
{
    return (one->size < other->size)
           | ((one->size == other->size) & (one->address < other->address));
}

typedef struct c10_node c10_node;
typedef struct c10_tree {
    uint32_t root; /* node, MR_NONE when empty */
} c10_tree;

enum { C10_BINS = 256 };

typedef struct c10_few c10_few;
typedef struct c10_bins {
    struct c10_bin *bins;          /* C10_BINS */
    uint32_t words[C10_BINS / 32]; /* a bit for every bin that is not empty */
    uint32_t some;                 /* a bit for every word that is not zero */
} c10_bins;

/* Free blocks and holes of one stream in one pool. */
typedef struct c10_set {
    uint32_t pool, stream;
    bool large;
    c10_bins free;
    c10_tree holes; /* by address */
} c10_set;

/* ---- pools ------------------------------------------------------------------------------ */

typedef struct c10_half { /* the small or the large half of a pool */
    uint64_t searches;          /* clock of the garbage collection */
    MR_VEC(uint32_t) of_stream; /* stream -> set, MR_NONE */
    MR_VEC(uint32_t) sets;      /* ascending by stream */
} c10_half;

typedef struct c10_pool {
    uint64_t id; /* 0 for the default */
    uint64_t holders, device_allocs;
    bool no_split;
    bool gone; /* released and empty: its id may come again, as another pool */
    c10_half half[2]; /* small, large */
} c10_pool;

typedef struct c10_diversion { /* a pool being recorded */
    uint32_t pool, stream;     /* stream MR_NONE for all */
} c10_diversion;

typedef struct c10_mark { /* flags of a pool that is or was */
    uint64_t id;
    c10_pool_flags flags;
} c10_mark;

/* ---- the rest --------------------------------------------------------------------------- */

typedef struct c10_expandable {
    uint64_t base, size, page;
} c10_expandable;

typedef struct c10_event {
    uint64_t ticket;
    uint32_t block;
} c10_event;

typedef struct c10_queue { /* events of a stream, oldest first from `head` */
    MR_VEC(c10_event) events;
    uint32_t head;
    bool waiting; /* its stream is in `waiting` */
} c10_queue;

/* A statistic, kept so that a change costs little: the sum over both pools and what was freed
 * follow from the rest, only the peak of the sum has to be watched. */
typedef struct c10_tally {
    uint64_t current[2], allocated[2]; /* small, large */
    uint64_t before[2];                /* current when `allocated` started from zero */
    uint64_t peak[C10_KINDS];
} c10_tally;

struct c10_allocator {
    mr_ctx *ctx;
    c10_device device;
    c10_quirks quirks;
    c10_options options;
    bool rounds;    /* some division is configured */
    bool limited;
    uint64_t limit; /* bytes of the memory fraction */
    uint64_t total; /* bytes held from the device */
    uint32_t order; /* of the newest segment */
    bool capturing; /* between c10_capture_begin and _end */
    bool rejected;  /* throw_on_cudamalloc_oom ended the request at hand */
    bool broken;    /* an assertion of the real one failed */

    c10_block *blocks;
    uint32_t blocks_n, blocks_cap, unused_block;
    c10_node *nodes;
    uint32_t nodes_n, nodes_cap, unused_node;
    MR_VEC(c10_few) fews;
    uint32_t unused_few;

    MR_VEC(c10_set) sets;
    MR_VEC(c10_pool) pools; /* [0] is the default */
    MR_VEC(uint32_t) freeable;
    MR_VEC(c10_mark) marks;
    MR_VEC(c10_diversion) diversions;
    MR_VEC(c10_expandable) expandables;
    MR_VEC(const char *) classes; /* of reservations, by stream; NULL for none */

    MR_VEC(c10_use) uses;
    uint32_t unused_use;
    MR_VEC(uint32_t) deferred; /* pending blocks whose events wait for the end of a capture */
    MR_VEC(c10_queue) queues;  /* by stream */
    MR_VEC(uint32_t) waiting;  /* streams with open events, in the order of their first */

#define X(name) c10_tally name;
    C10_STATS(X)
#undef X
    c10_tally oversize_allocations, oversize_segments; /* [0] only */
#define X(name) uint64_t name;
    C10_COUNTERS(X)
#undef X
    MR_VEC(uint32_t) scratch; /* blocks about to be given back */
    c10_stats shown;          /* what c10_statistics returned last */
};

static inline void c10_log(const c10_allocator *a, c10_action action, uint64_t address,
                           uint64_t size, uint32_t stream)
{
    if (a->device.trace) a->device.trace(a->device.self, action, address, size, stream);
}

/* c10_stats */
static inline void c10_raise(c10_tally *tally, bool large, uint64_t n)
{
    const uint64_t current = tally->current[large] += n;
    const uint64_t all = current + tally->current[!large];
    tally->allocated[large] += n;
    /* Signed: a count of oversize segments falls below zero when the option changes. */
    if ((int64_t)current > (int64_t)tally->peak[C10_SMALL_POOL + large])
        tally->peak[C10_SMALL_POOL + large] = current;
    if ((int64_t)all > (int64_t)tally->peak[C10_ALL]) tally->peak[C10_ALL] = all;
}

static inline void c10_lower(c10_tally *tally, bool large, uint64_t n)
{
    tally->current[large] -= n;
}

/* c10_tree: blocks by key; what is found is a block or MR_NONE */
void c10_tree_insert(c10_allocator *a, c10_tree *tree, c10_key key);
void c10_tree_remove(c10_allocator *a, c10_tree *tree, c10_key key);
uint32_t c10_tree_at_least(const c10_allocator *a, const c10_tree *tree, c10_key key);
uint32_t c10_tree_below(const c10_allocator *a, const c10_tree *tree, c10_key key);

/* c10_bins: blocks by size, then age of the segment, then address */
void c10_bins_init(c10_allocator *a, c10_bins *bins);
void c10_bins_insert(c10_allocator *a, c10_bins *bins, uint32_t b);
void c10_bins_remove(c10_allocator *a, c10_bins *bins, uint32_t b);
/* Gives a block of the set another size and address. */
void c10_bins_move(c10_allocator *a, c10_bins *bins, uint32_t b, uint64_t size,
                   uint64_t address);
uint32_t c10_bins_first(const c10_allocator *a, const c10_bins *bins);
uint32_t c10_bins_after(const c10_allocator *a, const c10_bins *bins, uint32_t b);
uint32_t c10_bins_before(const c10_allocator *a, const c10_bins *bins, uint32_t b);
uint32_t c10_bins_at_least(const c10_allocator *a, const c10_bins *bins, uint64_t size);
uint32_t c10_bins_below(const c10_allocator *a, const c10_bins *bins, uint64_t size);

/* Sizes are multiples of 512 where ages count, so that 33 bits hold them. */
static inline uint64_t c10_key_size(const c10_allocator *a, uint64_t size, uint32_t order)
{
    return a->quirks.oldest_segment_wins ? size / C10_MIN_BLOCK << 31 | order : size;
}

static inline c10_key c10_key_of(const c10_allocator *a, uint32_t b)
{
    const c10_block *block = &a->blocks[b];
    return (c10_key){c10_key_size(a, block->size, block->order), block->address, b};
}

static inline c10_key c10_key_of_hole(const c10_allocator *a, uint32_t b)
{
    return (c10_key){0, a->blocks[b].address, b};
}

/* c10_blocks */
uint32_t c10_block_new(c10_allocator *a, uint32_t set, uint64_t address, uint64_t size);
/* A new record for a piece of the segment that `b` lies in. */
uint32_t c10_block_piece(c10_allocator *a, uint32_t b, uint64_t address, uint64_t size);
void c10_block_drop(c10_allocator *a, uint32_t b);
void c10_block_link(c10_allocator *a, uint32_t b, uint32_t prev, uint32_t next);
static inline bool c10_block_split(const c10_block *block)
{
    return block->prev != MR_NONE || block->next != MR_NONE;
}
/* What a block absorbed: how many neighbours, how many bytes. */
typedef struct c10_absorbed {
    uint64_t n, bytes;
} c10_absorbed;
/* Gives a block of the free set or the holes another size and address. */
void c10_block_resize(c10_allocator *a, uint32_t b, c10_block_state state, uint64_t size,
                      uint64_t address);
/* Puts a block that is in no set into the free set, or the holes, together with the neighbours
 * that are free, or holes, too.  *b becomes the record that stands for the whole. */
c10_absorbed c10_block_settle(c10_allocator *a, uint32_t *b, c10_block_state state);

/* c10_pools */
uint32_t c10_set_new(c10_allocator *a, uint32_t pool, bool large, uint32_t stream);
/* The set of a stream in half a pool, made when it is first asked for. */
static inline uint32_t c10_set_of(c10_allocator *a, uint32_t pool, bool large, uint32_t stream)
{
    const c10_half *half = &a->pools.at[pool].half[large];
    if (stream < half->of_stream.n && half->of_stream.at[stream] != MR_NONE)
        return half->of_stream.at[stream];
    return c10_set_new(a, pool, large, stream);
}

/* One more holder of a pool, which is made if needed; MR_NONE when it waits to be released. */
uint32_t c10_pool_hold(c10_allocator *a, uint64_t id);
void c10_pool_gone(c10_allocator *a, uint32_t pool);
uint32_t c10_pool_for(const c10_allocator *a, uint32_t stream);

static inline uint64_t c10_searches(const c10_allocator *a, uint32_t set)
{
    return a->pools.at[a->sets.at[set].pool].half[a->sets.at[set].large].searches;
}

/* c10_malloc */
uint64_t c10_round(const c10_allocator *a, uint64_t bytes);

/* c10_expand: a free block of at least `size` in expandable memory, MR_NONE for no memory */
uint32_t c10_expand(c10_allocator *a, uint32_t set, uint64_t size);
void c10_unmap(c10_allocator *a, uint32_t b);

/* c10_free */
void c10_poll(c10_allocator *a);
void c10_complete_deferred(c10_allocator *a, uint32_t pool); /* MR_NONE for all pools */
/* Waits for every open event of blocks of a pool, MR_NONE for all, and completes the frees. */
mr_status c10_wait_for_events(c10_allocator *a, uint32_t pool);

/* Records an event on a foreign stream of a freed block. */
void c10_event_append(c10_allocator *a, uint32_t stream, uint32_t block);

/* c10_release */
bool c10_release_available(c10_allocator *a, uint32_t set, uint64_t size);
mr_status c10_release_cached(c10_allocator *a);
void c10_collect(c10_allocator *a);

/* c10_snapshot: the order of segments, for qsort */
int c10_by_address(const void *one, const void *other);

static inline bool c10_collects(const c10_allocator *a)
{
    return a->limited && a->options.garbage_collection_threshold > 0;
}

/* While a graph is captured, frees are put off, events not polled, caches not released. */
static inline bool c10_captures(const c10_allocator *a)
{
    return a->quirks.captures_marked ? a->capturing : a->diversions.n > 0;
}

/* Records that the real allocator would have stopped here, with the first clause it prints. */
static inline mr_status c10_break(c10_allocator *a, const char *words, const char *why)
{
    a->broken = true;
    return mr_fail(a->ctx, MR_EINPUT, "%s; %s", words, why);
}

#endif
