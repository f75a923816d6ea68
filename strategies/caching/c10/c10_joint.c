/* c10_joint -- what the allocator asks of CUDA, and what is asked of the allocator. */
#include "c10_joint.h"

#include <string.h>

/* ---- segments ---------------------------------------------------------------------------- */

/* Index of the first held segment behind the address. */
static uint32_t behind(const c10_joint *j, uint64_t address)
{
    uint32_t low = 0, high = j->helds.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (j->helds.at[middle].address <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

void c10_joint_hold(c10_joint *j, c10_held h)
{
    const uint32_t at = behind(j, h.address);
    MR_PUSH(j->placer->ctx, &j->helds, h);
    memmove(j->helds.at + at + 1, j->helds.at + at, (j->helds.n - 1 - at) * sizeof h);
    j->helds.at[at] = h;
}

static void hold_new(c10_joint *j, c10_held h)
{
    c10_joint_hold(j, h);
    MR_PUSH(j->placer->ctx, &j->by_order, h);
}

static uint32_t let_go(c10_joint *j, uint64_t address)
{
    const uint32_t at = behind(j, address) - 1;
    const uint32_t segment = j->helds.at[at].segment;
    j->helds.n--;
    memmove(j->helds.at + at, j->helds.at + at + 1, (j->helds.n - at) * sizeof(c10_held));
    return segment;
}

static c10_held segment_at(c10_joint *j, uint64_t address)
{
    return j->helds.at[behind(j, address) - 1];
}

/* ---- what the allocator asks of CUDA ----------------------------------------------------- */

static bool device_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    c10_joint *j = self;
    const mr_segment want = {
        .bytes = bytes, .stream = stream, .pool = j->pool, .large = bytes > 2 * MR_MIB};
    uint32_t segment;
    if (!mr_reserve(j->placer, &want, &segment)) return false;
    *address = j->placer->out->segments.at[segment].address;
    hold_new(j, (c10_held){*address, segment});
    return true;
}

static void device_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)bytes;
    c10_joint *j = self;
    mr_release(j->placer, let_go(j, address));
}

static uint64_t device_reserve(void *self, uint64_t bytes, uint64_t page, uint32_t stream)
{
    c10_joint *j = self;
    const mr_segment want = {.bytes = bytes,
                             .stream = stream,
                             .pool = j->pool,
                             .large = page > 2 * MR_MIB,
                             .expandable = true};
    uint32_t segment;
    mr_reserve(j->placer, &want, &segment);
    const uint64_t address = j->placer->out->segments.at[segment].address;
    hold_new(j, (c10_held){address, segment});
    return address;
}

static bool device_map(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    c10_joint *j = self;
    const c10_held h = segment_at(j, address);
    j->placer->out->segments.at[h.segment].page = page;
    return mr_map(j->placer, h.segment, address - h.address, bytes);
}

static void device_unmap(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    c10_joint *j = self;
    const c10_held h = segment_at(j, address);
    mr_unmap(j->placer, h.segment, address - h.address, bytes);
}

static uint64_t device_available(void *self)
{
    const c10_joint *j = self;
    return mr_available(j->placer);
}

static uint64_t device_record(void *self, uint32_t stream)
{
    c10_joint *j = self;
    return stream < j->streams ? 0 : ++j->waits.at[stream - j->streams].submitted;
}

static bool device_done(void *self, uint32_t stream, uint64_t ticket)
{
    const c10_joint *j = self;
    return stream < j->streams || j->waits.at[stream - j->streams].completed >= ticket;
}

static void finish(c10_joint *j, uint32_t w)
{
    c10_wait *over = &j->waits.at[w];
    over->completed = over->submitted;
    if (over->busy) MR_PUSH(j->placer->ctx, &j->idle, w);
    over->busy = false;
}

static void device_synchronize(void *self, uint32_t stream, uint64_t ticket)
{
    (void)ticket;
    c10_joint *j = self;
    if (stream < j->streams) return;
    finish(j, stream - j->streams);
    mr_settled(j->placer);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* The request is made while the pool is being recorded, which adds a holder each time. */
static bool alloc_in_pool(c10_joint *j, const mr_request *request, c10_lease *lease)
{
    const uint64_t pool = j->trace->pools.at[request->pool];
    c10_pool_begin(j->allocator, pool, MR_NONE);
    const bool served = c10_malloc(j->allocator, request->bytes, request->stream, lease);
    c10_pool_end(j->allocator, pool);
    if (j->holds[request->pool]) c10_pool_release(j->allocator, pool);
    j->holds[request->pool] = true;
    return served;
}

static bool joint_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    (void)placer;
    c10_joint *j = self;
    c10_lease lease;
    j->pool = request->pool;
    c10_joint_let_go(j);
    j->requests++;
    const bool served =
        request->pool ? alloc_in_pool(j, request, &lease)
                      : c10_malloc(j->allocator, request->bytes, request->stream, &lease);
    if (!served) return false;
    if (lease.block == MR_NONE) {
        *out = (mr_block){.segment = MR_NONE, .handle = MR_NONE};
        return true;
    }
    const c10_held *h = &j->by_order.at[lease.order - 1];
    *out = (mr_block){h->segment, lease.block, lease.address - h->address, lease.size};
    return true;
}

static void joint_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    c10_joint *j = self;
    c10_free(j->allocator, block->handle);
}

uint32_t c10_joint_wait(c10_joint *j)
{
    mr_ctx *ctx = j->placer->ctx;
    if (j->idle.n) return j->idle.at[--j->idle.n];
    MR_PUSH(ctx, &j->waits, (c10_wait){0});
    return j->waits.n - 1;
}

void c10_joint_await(c10_joint *j, uint32_t block, uint32_t wait)
{
    j->waits.at[wait].busy = true;
    while (j->wait_of.n <= block) MR_PUSH(j->placer->ctx, &j->wait_of, MR_NONE);
    j->wait_of.at[block] = wait;
}

static void joint_defer(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    c10_joint *j = self;
    if (block->handle == MR_NONE) return;
    const uint32_t w = c10_joint_wait(j);
    c10_joint_await(j, block->handle, w);
    c10_record_stream(j->allocator, block->handle, j->streams + w);
    c10_free(j->allocator, block->handle);
}

static void joint_near(void *self, const mr_block *block, bool closer)
{
    const c10_joint *j = self;
    c10_near(j->allocator, block->handle, closer);
}

/* The allocator itself notices at its next request. */
static void joint_done(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    c10_joint *j = self;
    if (block->handle != MR_NONE) finish(j, j->wait_of.at[block->handle]);
}

static void joint_flush(void *self, mr_placer *placer)
{
    (void)placer;
    c10_joint *j = self;
    c10_joint_let_go(j);
    c10_empty_cache(j->allocator);
}

/* ---- placing ----------------------------------------------------------------------------- */

static void report(mr_ctx *ctx, c10_allocator *allocator, mr_placement *out)
{
    static const char *const kinds[] = {"all", "small_pool", "large_pool"};
    const c10_stats *stats = c10_statistics(allocator);
    out->retries = stats->num_alloc_retries;
    out->limit = c10_memory_limit(allocator);
#define X(array)                                                                     \
    for (int k = 0; k < C10_KINDS; k++) {                                            \
        const c10_stat *stat = &stats->array[k];                                     \
        MR_PUSH(ctx, &out->stats,                                                    \
                (mr_stat){mr_printf(ctx, #array ".%s", kinds[k]), stat->current,     \
                          stat->peak, stat->allocated, stat->freed});                \
    }
    C10_STATS(X)
#undef X
#define X(counter) \
    MR_PUSH(ctx, &out->stats, (mr_stat){.name = #counter, .current = stats->counter});
    C10_COUNTERS(X)
#undef X
}

static c10_device device_of(c10_joint *j)
{
    return (c10_device){
        .self = j,
        .total = j->placer->total,
        .malloc = device_malloc,
        .free = device_free,
        .reserve = device_reserve,
        .unreserve = device_free,
        .map = device_map,
        .unmap = device_unmap,
        .available = device_available,
        .record = device_record,
        .done = device_done,
        .synchronize = device_synchronize,
    };
}

void c10_joint_open(c10_joint *j, mr_placer *placer, const mr_schedule *schedule,
                    c10_version version, const c10_options *options)
{
    *j = (c10_joint){.placer = placer,
                     .trace = schedule->trace,
                     .streams = schedule->trace->streams.n};
    const c10_device device = device_of(j);
    j->allocator = c10_new(placer->ctx, &device, version, options);
    c10_joint_expect_farewells(j, placer->addresses);
}

mr_online c10_joint_policy(c10_joint *j)
{
    return (mr_online){
        .self = j,
        .alloc = joint_alloc,
        .free = joint_free,
        .defer = joint_defer,
        .done = joint_done,
        .near = joint_near,
        .flush = joint_flush,
        .adopt = c10_joint_adopt,
    };
}

mr_status c10_joint_place(mr_placer *placer, const mr_schedule *schedule, c10_version version,
                          const c10_options *options, double fraction)
{
    c10_joint j;
    c10_joint_open(&j, placer, schedule, version, options);
    if (fraction > 0) MR_TRY(c10_set_memory_fraction(j.allocator, fraction));
    const mr_online policy = c10_joint_policy(&j);
    MR_TRY(mr_place_online(placer, schedule, &policy));
    MR_TRY(c10_sound(j.allocator));
    report(placer->ctx, j.allocator, placer->out);
    return MR_OK;
}
