/* stalloc -- what recurs gets planned places in one pool, the rest goes to an allocator behind.
 *
 * The trace is the run that is profiled.  Requests that come in every iteration, in one order
 * and of one size, are static: their places in one pool, taken at once, are planned by their
 * lives in all iterations.  Every other request goes to PyTorch's caching allocator.  With a
 * single iteration all requests are static.  In the pool streams are not kept apart.
 *
 * Its authors mark requests of some layers (experts) as dynamic and look at three iterations;
 * here the trace itself tells which requests vary.  Their "split-and-fuse", and dynamic
 * requests in idle parts of the pool ("static-reuse"), are left out: what is here is
 * --static-algo group with --dynamic-algo dynamic-only.
 */
#include "c10_joint.h"
#include "stalloc.h"
#include "strategy.h"

typedef struct settings {
    bool expandable_segments;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_BOOL(settings, expandable_segments, "False",
                  "of the allocator behind: virtual memory, as its authors also offer"),
    {0},
};

typedef struct pool {
    const stalloc_plan *plan;
    uint32_t next;    /* request */
    uint32_t segment; /* MR_NONE until the first static request */
    bool refused;
    mr_online rest; /* the allocator behind */
} pool;

static bool take_pool(pool *p, mr_placer *placer)
{
    const mr_segment want = {.bytes = p->plan->height};
    if (p->segment == MR_NONE && !p->refused)
        p->refused = !mr_reserve(placer, &want, &p->segment);
    return !p->refused;
}

static bool pool_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    pool *p = self;
    const uint32_t number = p->plan->requests.at[p->next++].item;
    if (number == MR_NONE) return p->rest.alloc(p->rest.self, placer, request, out);
    const stalloc_item *item = &p->plan->items.at[number];
    if (!take_pool(p, placer)) return false;
    *out = (mr_block){p->segment, number, item->offset, item->bytes};
    return true;
}

static bool is_static(const pool *p, const mr_block *block)
{
    return p->segment != MR_NONE && block->segment == p->segment;
}

static void pool_free(void *self, mr_placer *placer, const mr_block *block)
{
    const pool *p = self;
    if (!is_static(p, block)) p->rest.free(p->rest.self, placer, block);
}

static void pool_defer(void *self, mr_placer *placer, const mr_block *block)
{
    const pool *p = self;
    if (!is_static(p, block)) p->rest.defer(p->rest.self, placer, block);
}

static void pool_done(void *self, mr_placer *placer, const mr_block *block)
{
    const pool *p = self;
    if (!is_static(p, block)) p->rest.done(p->rest.self, placer, block);
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
    pool p = {.plan = &plan, .segment = MR_NONE, .rest = c10_joint_policy(&behind)};
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
    .source = "STAlloc (github.com/infinigence/STAlloc, 2025), group and dynamic-only",
    .params = params_table,
    .params_size = sizeof(settings),
    .clairvoyant = true,
    .fixed_inputs = true,
    .place = place,
};
