/* stalloc -- what recurs gets planned places in one pool, the rest goes to an allocator behind.
 *
 * The trace is the run that is profiled.  Requests that come in every iteration, in one order
 * and of one size, are static: their places in one pool, taken at once, are planned by their
 * lives in all iterations.  Any other request is dynamic: it lies in a part of the pool that is
 * idle as long as it stays ("static-reuse"), or else goes to PyTorch's caching allocator
 * ("dynamic-only": always).  With a single iteration all requests are static.  In the pool
 * streams are not kept apart.
 *
 * Its authors mark requests of some layers (experts) as dynamic, look at three iterations, and
 * note which parts are idle while a layer runs; here the trace itself tells which requests vary,
 * and how long each stays.  Their "split-and-fuse" is left out, and "fuse", which their
 * allocator takes no notice of: what is here is --static-algo group.
 */
#include "c10_joint.h"
#include "stalloc.h"
#include "strategy.h"

typedef struct settings {
    bool expandable_segments;
    uint64_t dynamic_algo;
} settings;

enum { STATIC_REUSE, DYNAMIC_ONLY };

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, dynamic_algo, "static-reuse|dynamic-only", "static-reuse",
                    "requests that vary go into idle parts of the pool, or never do"),
    MR_PARAM_BOOL(settings, expandable_segments, "False",
                  "of the allocator behind: virtual memory, as its authors also offer"),
    {0},
};

typedef struct pool {
    const stalloc_plan *plan;
    uint32_t next;    /* request */
    uint32_t segment; /* MR_NONE until the first static request */
    bool refused, reuses;
    stalloc_guests guests;
    mr_online rest; /* the allocator behind */
} pool;

static bool take_pool(pool *p, mr_placer *placer)
{
    const mr_segment want = {.bytes = p->plan->height};
    if (p->segment == MR_NONE && !p->refused)
        p->refused = !mr_reserve(placer, &want, &p->segment);
    return !p->refused;
}

#define GUEST MR_NONE /* handle of a dynamic request in the pool; else the item */

static bool invite(pool *p, mr_placer *placer, uint32_t number, mr_block *out)
{
    uint64_t offset;
    if (!p->reuses || !stalloc_guests_find(&p->guests, number, &offset)) return false;
    if (!take_pool(p, placer)) return false;
    *out = (mr_block){p->segment, GUEST, offset, p->plan->requests.at[number].bytes};
    stalloc_guests_add(&p->guests, offset, out->bytes);
    return true;
}

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    pool *p = self;
    const uint32_t number = p->next++, planned = p->plan->requests.at[number].item;
    if (planned == MR_NONE)
        return invite(p, placer, number, out)
               || p->rest.alloc(p->rest.self, placer, request, out);
    const stalloc_item *item = &p->plan->items.at[planned];
    if (!take_pool(p, placer)) return false;
    *out = (mr_block){p->segment, planned, item->offset, item->bytes};
    p->guests.used[planned] = true;
    return true;
}

static bool is_here(const pool *p, const mr_block *block)
{
    return p->segment != MR_NONE && block->segment == p->segment;
}

static void leave(pool *p, const mr_block *block)
{
    if (block->handle == GUEST) stalloc_guests_remove(&p->guests, block->offset);
    else p->guests.used[block->handle] = false;
}

static void pool_free(void *self, mr_placer *placer, const mr_block *block)
{
    pool *p = self;
    if (is_here(p, block)) leave(p, block);
    else p->rest.free(p->rest.self, placer, block);
}

static void pool_defer(void *self, mr_placer *placer, const mr_block *block)
{
    const pool *p = self;
    if (!is_here(p, block)) p->rest.defer(p->rest.self, placer, block);
}

static void pool_done(void *self, mr_placer *placer, const mr_block *block)
{
    pool *p = self;
    if (is_here(p, block)) leave(p, block);
    else p->rest.done(p->rest.self, placer, block);
}

static void pool_flush(void *self, mr_placer *placer)
{
    const pool *p = self;
    p->rest.flush(p->rest.self, placer);
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    stalloc_plan plan;
    MR_TRY(stalloc_trace(ctx, in, &plan));
    stalloc_find(ctx, &plan);
    stalloc_pack(ctx, &plan);
    c10_joint behind;
    c10_options options;
    c10_options_init(&options, C10_NEWEST);
    options.expandable_segments = s->expandable_segments;
    c10_joint_open(&behind, out, in, C10_NEWEST, &options);
    pool p = {.plan = &plan,
              .segment = MR_NONE,
              .reuses = s->dynamic_algo == STATIC_REUSE,
              .guests = stalloc_guests_make(ctx, &plan),
              .rest = c10_joint_policy(&behind)};
    const mr_online policy = {.self = &p,
                              .alloc = pool_alloc,
                              .free = pool_free,
                              .defer = pool_defer,
                              .done = pool_done,
                              .flush = pool_flush};
    MR_TRY(mr_place_online(out, in, &policy));
    out->out->retries = c10_statistics(behind.allocator)->num_alloc_retries;
    return c10_sound(behind.allocator);
}

const mr_strategy mr_strategy_stalloc = {
    .name = "stalloc",
    .summary = "STAlloc: planned places for requests that recur, PyTorch's allocator behind",
    .source = "STAlloc (github.com/infinigence/STAlloc, 2025), static-algo group",
    .params = params_table,
    .params_size = sizeof(settings),
    .clairvoyant = true,
    .fixed_inputs = true,
    .place = place,
};
