/* c10_malloc -- one request, from rounding to the last resort.
 *
 *     search the free set ─► collect garbage ─► new segment ─► pools for emergencies
 *       ─► release what is oversize, new segment ─► release everything, new segment ─► give up
 *
 * The free set is searched only once: what a release brings back to it does not serve the
 * request that caused it.
 */
#include "c10_internal.h"

typedef struct request {
    uint64_t bytes, size; /* as asked for, rounded */
    uint64_t segment;     /* what the device would be asked for */
    uint32_t set, pool, stream;
    bool large;
    bool expandable; /* expandable segments are switched on */
} request;

/* A block for a request. */
typedef struct found {
    uint32_t block; /* MR_NONE for none */
    bool fresh;     /* in no free set */
    bool plain;     /* split like a cudaMalloc segment, whatever the option says */
} found;

c10_allocator *c10_new(mr_ctx *ctx, const c10_device *device, c10_version version,
                       const c10_options *options)
{
    c10_allocator *a = MR_NEW(ctx, c10_allocator);
    a->ctx = ctx;
    a->device = *device;
    a->quirks = c10_quirks_of(version);
    a->unused_block = a->unused_node = a->unused_few = a->unused_use = MR_NONE;
    MR_PUSH(ctx, &a->pools, (c10_pool){.holders = 1});
    c10_options defaults;
    c10_options_init(&defaults, version);
    if (!options) options = &defaults;
    c10_configure(a, options);
    a->shown.max_split_size = options->max_split_size;
    if (options->per_process_memory_fraction < 1)
        c10_set_memory_fraction(a, options->per_process_memory_fraction);
    return a;
}

void c10_configure(c10_allocator *a, const c10_options *options)
{
    a->options = *options;
    a->options.running = true;
    a->rounds = false;
    for (size_t i = 0; i < MR_COUNT(options->roundup_power2_divisions); i++)
        a->rounds |= options->roundup_power2_divisions[i] > 0;
}

const c10_options *c10_configured(const c10_allocator *a)
{
    return &a->options;
}

mr_status c10_set_memory_fraction(c10_allocator *a, double fraction)
{
    if (!(fraction >= 0 && fraction <= 1))
        return a->quirks.fraction_worded
                   ? mr_fail(a->ctx, MR_EINPUT, "invalid fraction:%g; expected 0 to 1",
                             fraction)
                   : c10_break(a, "assertion", "a memory fraction lies between 0 and 1");
    a->limited = fraction < 1 || !a->quirks.whole_device_unlimited;
    a->limit = (uint64_t)(fraction * (double)a->device.total);
    return MR_OK;
}

uint64_t c10_memory_limit(const c10_allocator *a)
{
    return a->limited ? a->limit : 0;
}

mr_status c10_sound(const c10_allocator *a)
{
    return a->broken ? MR_EINPUT : MR_OK;
}

static uint64_t up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint64_t floor_power2(uint64_t n)
{
    uint64_t power = n;
    while (power & (power - 1)) power &= power - 1;
    return power;
}

/* Divisions are configured per power of two; below 2 MiB all share the first entry. */
static uint64_t divisions_for(const c10_options *options, uint64_t bytes)
{
    const size_t last = MR_COUNT(options->roundup_power2_divisions) - 1;
    size_t interval = 0;
    while (interval < last && bytes >> (interval + 21)) interval++;
    return options->roundup_power2_divisions[interval];
}

uint64_t c10_round(const c10_allocator *a, uint64_t bytes)
{
    if (bytes < C10_MIN_BLOCK) return C10_MIN_BLOCK;
    if (a->rounds) {
        const uint64_t n = divisions_for(&a->options, bytes);
        if (n == 1 && !a->quirks.one_division_rounds && bytes > C10_MIN_BLOCK) return bytes;
        if (n > 1 && bytes > C10_MIN_BLOCK * n) {
            const uint64_t power = floor_power2(bytes), step = power / floor_power2(n);
            if (power == bytes) return bytes;
            return step ? up(bytes, step) : 2 * power;
        }
    }
    return (bytes + C10_MIN_BLOCK - 1) & ~(uint64_t)(C10_MIN_BLOCK - 1);
}

static uint64_t segment_size(const c10_allocator *a, uint64_t size)
{
    if (size <= C10_SMALL_MAX) return C10_SMALL_SEGMENT;
    if (size < C10_OWN_SEGMENT) return a->options.large_segment_size;
    return up(size, C10_SEGMENT_ROUNDING);
}

static request request_for(c10_allocator *a, uint64_t bytes, uint32_t stream)
{
    request r = {.bytes = bytes, .size = c10_round(a, bytes), .stream = stream};
    r.large = r.size > C10_SMALL_MAX;
    r.segment = segment_size(a, r.size);
    r.pool = a->diversions.n ? c10_pool_for(a, stream) : 0;
    r.set = c10_set_of(a, r.pool, r.large, stream);
    r.expandable = a->options.expandable_segments;
    return r;
}

/* A block at the end of the mapped part counts with the hole behind it, where it can grow. */
static uint64_t grown(const c10_allocator *a, uint32_t b)
{
    const c10_block *block = &a->blocks[b];
    if (block->next == MR_NONE || a->blocks[block->next].state != C10_BLOCK_HOLE)
        return block->size;
    return block->size + a->blocks[block->next].size;
}

static bool in_expandable(const c10_allocator *a, uint32_t b)
{
    return a->blocks[b].expandable != MR_NONE;
}

/* From the first sufficient block on, to one that is the better choice when grown. */
static uint32_t least_grown(const c10_allocator *a, const c10_bins *free, uint32_t b)
{
    while (in_expandable(a, b)) {
        const uint32_t next = c10_bins_after(a, free, b);
        if (next == MR_NONE || grown(a, next) >= grown(a, b)) break;
        b = next;
    }
    return b;
}

static uint32_t not_expandable(const c10_allocator *a, const c10_bins *free, uint32_t b)
{
    while (b != MR_NONE && in_expandable(a, b)) b = c10_bins_after(a, free, b);
    return b;
}

/* Best fit; an oversize block is no match, and then no other is tried. */
static uint32_t search(c10_allocator *a, const request *r)
{
    if (c10_collects(a)) a->pools.at[r->pool].half[r->large].searches++;
    const c10_bins *free = &a->sets.at[r->set].free;
    uint32_t b = c10_bins_at_least(a, free, r->size);
    if (b != MR_NONE && in_expandable(a, b))
        b = r->expandable ? least_grown(a, free, b) : not_expandable(a, free, b);
    if (b == MR_NONE) return MR_NONE;
    const uint64_t size = a->blocks[b].size, oversize = a->options.max_split_size;
    if (r->size < oversize) return size >= oversize ? MR_NONE : b;
    return size >= r->size + a->options.max_non_split_rounding ? MR_NONE : b;
}

static uint32_t pool_of(const c10_allocator *a, uint32_t b)
{
    return a->sets.at[a->blocks[b].set].pool;
}

static bool splits(const c10_allocator *a, const request *r, found f)
{
    const uint64_t rest = a->blocks[f.block].size - r->size;
    if (a->pools.at[pool_of(a, f.block)].no_split) return false;
    if (!r->large || (r->expandable && !f.plain)) return rest >= C10_MIN_BLOCK;
    return r->size < a->options.max_split_size && rest > C10_SMALL_MAX;
}

/* Cuts the low end off a block; the rest stays, or becomes, free. */
static uint32_t cut(c10_allocator *a, const request *r, found f)
{
    const uint32_t rest = f.block, set = a->blocks[rest].set;
    const uint32_t b = c10_block_piece(a, rest, a->blocks[rest].address, r->size);
    c10_block *block = &a->blocks[rest];
    const bool whole = !c10_block_split(block);
    const uint64_t size = block->size - r->size, address = block->address + r->size;
    c10_bins *free = &a->sets.at[set].free;
    c10_block_link(a, b, block->prev, rest);
    if (f.fresh) {
        block->size = size;
        block->address = address;
        block->state = C10_BLOCK_FREE;
        c10_bins_insert(a, free, rest);
    } else {
        c10_bins_move(a, free, rest, size, address);
    }
    if (block->expandable == MR_NONE) {
        if (whole) c10_raise(&a->inactive_split, r->large, 1);
        if (whole) c10_raise(&a->inactive_split_bytes, r->large, size);
        else c10_lower(&a->inactive_split_bytes, r->large, r->size);
    }
    return b;
}

static void take_whole(c10_allocator *a, const request *r, found f)
{
    const c10_block *block = &a->blocks[f.block];
    if (!f.fresh) c10_bins_remove(a, &a->sets.at[block->set].free, f.block);
    if (block->expandable != MR_NONE || !c10_block_split(block)) return;
    c10_lower(&a->inactive_split, r->large, 1);
    c10_lower(&a->inactive_split_bytes, r->large, block->size);
}

static void hand_out(c10_allocator *a, const request *r, found f, c10_lease *out)
{
    uint32_t b = f.block;
    if (splits(a, r, f)) b = cut(a, r, f);
    else take_whole(a, r, f);
    c10_block *block = &a->blocks[b];
    block->state = C10_BLOCK_LIVE;
    block->requested = r->bytes;
    c10_log(a, C10_ALLOC, block->address, r->bytes, r->stream);
    c10_raise(&a->allocation, r->large, 1);
    c10_raise(&a->allocated_bytes, r->large, block->size);
    c10_raise(&a->active, r->large, 1);
    c10_raise(&a->active_bytes, r->large, block->size);
    c10_raise(&a->requested_bytes, r->large, r->bytes);
    if (block->size >= a->options.max_split_size) c10_raise(&a->oversize_allocations, 0, 1);
    *out = (c10_lease){block->address, block->size, b, block->order};
}

/* ---- when nothing free serves ----------------------------------------------------------- */

static bool malloc_segment(c10_allocator *a, const request *r, found *out)
{
    uint64_t address;
    if (!a->device.malloc(a->device.self, r->segment, r->stream, &address)) return false;
    a->total += r->segment;
    a->pools.at[r->pool].device_allocs++;
    a->num_device_alloc++;
    c10_raise(&a->segment, r->large, 1);
    c10_raise(&a->reserved_bytes, r->large, r->segment);
    if (r->segment >= a->options.max_split_size) c10_raise(&a->oversize_segments, 0, 1);
    c10_log(a, C10_SEGMENT_ALLOC, address, r->segment, r->stream);
    *out = (found){.block = c10_block_new(a, r->set, address, r->segment), .fresh = true};
    a->blocks[out->block].order = ++a->order;
    return true;
}

static bool rejects(c10_allocator *a, const request *r)
{
    const c10_options *o = &a->options;
    if (!o->throw_on_cudamalloc_oom) return false;
    const double limit = o->per_process_memory_fraction * (double)a->device.total;
    if (a->total + r->segment <= (uint64_t)limit) return false;
    a->num_oom_rejections++;
    a->rejected = true;
    return true;
}

/* New memory from the device, at least as much as the request. */
static bool grow(c10_allocator *a, const request *r, found *out)
{
    if (r->segment >= C10_BLOCK_LIMIT) return false;
    if (a->limited && a->total + r->segment > a->limit) return false;
    if (rejects(a, r)) return false;
    if (!r->expandable || (r->pool && !a->quirks.expandable_private))
        return malloc_segment(a, r, out);
    *out = (found){.block = c10_expand(a, r->set, r->size)};
    if (out->block == MR_NONE) return false;
    a->pools.at[r->pool].device_allocs++;
    return true;
}

/* A free block of one pool, looked for as if that pool were being recorded for a moment. */
static bool borrow_from(c10_allocator *a, request r, uint64_t id, found *out)
{
    if (c10_pool_begin(a, id, MR_NONE) != MR_OK) return false;
    r.pool = c10_pool_for(a, r.stream);
    r.set = c10_set_of(a, r.pool, r.large, r.stream);
    const bool plain = a->quirks.pools_before_release;
    r.expandable &= !plain;
    *out = (found){.block = search(a, &r), .plain = plain};
    c10_pool_end(a, id);
    c10_pool_release(a, id);
    return out->block != MR_NONE;
}

/* Pools made with use_on_oom lend to requests that no other pool takes. */
static bool borrow(c10_allocator *a, const request *r, found *out)
{
    if (r->pool || a->rejected) return false;
    for (uint32_t i = 0; i < a->marks.n && !a->broken; i++)
        if (a->marks.at[i].flags.use_on_oom && borrow_from(a, *r, a->marks.at[i].id, out))
            return true;
    return false;
}

static bool release_and_grow(c10_allocator *a, const request *r, found *out)
{
    if (c10_release_available(a, r->set, r->size) && grow(a, r, out)) return true;
    if (a->broken || c10_captures(a)) return false;
    c10_release_cached(a);
    a->num_alloc_retries++;
    return grow(a, r, out);
}

static bool grow_somehow(c10_allocator *a, const request *r, found *out)
{
    a->rejected = false;
    if (c10_collects(a)) c10_collect(a);
    if (a->broken) return false;
    if (grow(a, r, out)) return true;
    if (a->rejected) return false;
    const bool early = a->quirks.pools_before_release;
    if (early && borrow(a, r, out)) return true;
    if (!a->broken && release_and_grow(a, r, out)) return true;
    if (!early && borrow(a, r, out)) return true;
    if (a->rejected || a->broken) return false;
    c10_log(a, C10_OOM, a->device.available(a->device.self), r->size, r->stream);
    a->num_ooms++;
    return false;
}

bool c10_malloc(c10_allocator *a, uint64_t bytes, uint32_t stream, c10_lease *out)
{
    *out = (c10_lease){.block = MR_NONE};
    if (!bytes) return true;
    if (a->broken) return false;
    if (!c10_captures(a)) c10_poll(a);
    const request r = request_for(a, bytes, stream);
    found f = {.block = search(a, &r)};
    if (f.block == MR_NONE && !grow_somehow(a, &r, &f)) return false;
    hand_out(a, &r, f, out);
    return true;
}
