/* pytorch -- the caching allocator of PyTorch, exactly (the model itself is in c10/).
 *
 * This file is the joint between the two: the placer answers what the allocator asks of CUDA, the
 * options become the text of PYTORCH_CUDA_ALLOC_CONF and are read as PyTorch reads it, and a
 * recording's beginning becomes the allocator's.
 *
 * A trace says when a deferred free took effect, not which stream it waited for.  So each such
 * block waits for a stream of its own, numbered from the end of the trace's, which does nothing else.
 */
#include "c10.h"
#include "strategy.h"

#include <stdlib.h>
#include <string.h>

/* ---- parameters -------------------------------------------------------------------------------- */

typedef struct settings {
    const char *version;
    const char *conf;
    bool expandable_segments;
    uint64_t max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb;
    double garbage_collection_threshold;
    const char *roundup_power2_divisions;
    double per_process_memory_fraction, set_per_process_memory_fraction;
    bool throw_on_cudamalloc_oom, graph_capture_record_stream_reuse;
    const char *expandable_segments_reserve, *expandable_segments_reserve_by_class;
} settings;

static const mr_param params_table[] = {
    MR_PARAM_BOOL(settings, expandable_segments, "False",
                  "segments that grow by mapping pages (2.1)"),
    MR_PARAM_INT(settings, max_split_size_mb, "0", 0, 1e9,
                 "larger blocks are not split; 0 for no limit"),
    MR_PARAM_REAL(settings, garbage_collection_threshold, "0", 0, 1,
                  "part of the memory fraction from which old blocks are freed"),
    MR_PARAM_TEXT(settings, roundup_power2_divisions, "",
                  "4, or [256:1,512:2,>:8]: steps between powers of two"),
    MR_PARAM_INT(settings, max_non_split_rounding_mb, "0", 0, 1e9,
                 "how much larger an oversize block may be; 0 for PyTorch's 20 (2.6)"),
    MR_PARAM_INT(settings, large_segment_size_mb, "0", 0, 1e9,
                 "asked from the device for 1 to 10 MiB; 0 for PyTorch's 20 (2.11)"),
    MR_PARAM_REAL(settings, per_process_memory_fraction, "1", 0, 1,
                  "the option of that name (2.10)"),
    MR_PARAM_REAL(settings, set_per_process_memory_fraction, "0", 0, 1,
                  "torch.cuda.set_per_process_memory_fraction; 0 when not called"),
    MR_PARAM_BOOL(settings, throw_on_cudamalloc_oom, "False",
                  "refuse at the fraction before asking the device (2.12)"),
    MR_PARAM_BOOL(settings, graph_capture_record_stream_reuse, "False",
                  "frees may complete during a capture (2.9)"),
    MR_PARAM_TEXT(settings, expandable_segments_reserve, "",
                  "addresses of a segment: part of the device, or nG (2.14)"),
    MR_PARAM_TEXT(settings, expandable_segments_reserve_by_class, "",
                  "[name:value,...]: the same by class of segment (2.14)"),
    MR_PARAM_TEXT(settings, conf, "",
                  "[text of PYTORCH_CUDA_ALLOC_CONF], read before the options above"),
    MR_PARAM_TEXT(settings, version, "2.15", "release of PyTorch, 2.0 to 2.15"),
    {0},
};

static const mr_param *find_param(const char *name)
{
    const mr_param *param = params_table;
    while (strcmp(param->name, name) != 0) param++;
    return param;
}

/* Appends "name:value" when the value is not the default. */
static const char *option(mr_ctx *ctx, const char *text, const settings *s, const char *name)
{
    const mr_param *param = find_param(name);
    const char *value = mr_param_print(ctx, param, s);
    if (!strcmp(value, param->fallback)) return text;
    return mr_printf(ctx, "%s%s%s:%s", text, *text ? "," : "", name, value);
}

static const char *conf_text(mr_ctx *ctx, const settings *s)
{
    static const char *const names[] = {
        "expandable_segments",         "max_split_size_mb",
        "garbage_collection_threshold", "roundup_power2_divisions",
        "max_non_split_rounding_mb",   "large_segment_size_mb",
        "per_process_memory_fraction", "throw_on_cudamalloc_oom",
        "graph_capture_record_stream_reuse", "expandable_segments_reserve",
        "expandable_segments_reserve_by_class",
    };
    size_t n = strlen(s->conf);
    const char *conf = s->conf;
    if (n >= 2 && conf[0] == '[' && conf[n - 1] == ']') conf++, n -= 2;
    const char *text = mr_strndup(ctx, conf, n);
    for (size_t i = 0; i < MR_COUNT(names); i++) text = option(ctx, text, s, names[i]);
    return text;
}

static mr_status read_version(mr_ctx *ctx, const char *text, c10_version *out)
{
    char *end;
    const unsigned long major = strtoul(text, &end, 10);
    const unsigned long minor = major == 2 && *end == '.' ? strtoul(end + 1, &end, 10) : 99;
    if (*end && *end != '.') return mr_fail(ctx, MR_EUSAGE, "'%s' is no version number", text);
    if (minor > C10_NEWEST.minor)
        return mr_fail(ctx, MR_EUSAGE, "version is '%s', known are 2.0 to %u.%u", text,
                       C10_NEWEST.major, C10_NEWEST.minor);
    *out = (c10_version){(unsigned)major, (unsigned)minor};
    return MR_OK;
}

static mr_status read_settings(mr_ctx *ctx, const settings *s, c10_version *version,
                               c10_options *options)
{
    MR_TRY(read_version(ctx, s->version, version));
    c10_options_init(options, *version);
    if (c10_options_parse(ctx, *version, conf_text(ctx, s), options))
        return ctx->failure.status = MR_EUSAGE; /* a spec's mistake, no file's */
    return MR_OK;
}

static mr_status validate(mr_ctx *ctx, const void *params)
{
    c10_version version;
    c10_options options;
    return read_settings(ctx, params, &version, &options);
}

/* ---- state -------------------------------------------------------------------------------------- */

typedef struct wait_stream { /* a stream that one deferred block waits for */
    uint64_t submitted, completed;
    bool busy;
} wait_stream;

typedef struct held { /* a segment that the device has given out */
    uint64_t address, bytes;
    uint32_t segment;
} held;

typedef struct joint {
    mr_placer *placer;
    c10_allocator *allocator;
    const mr_trace *trace;
    uint32_t streams;        /* of the trace; waits are numbered from here */
    MR_VEC(held) helds;      /* ascending */
    MR_VEC(held) of_block;   /* by block: where it was last */
    MR_VEC(wait_stream) waits;
    MR_VEC(uint32_t) idle;   /* waits that nobody uses, some of them twice */
    MR_VEC(uint32_t) wait_of; /* by block */
} joint;

/* Index of the first held segment behind the address. */
static uint32_t behind(const joint *j, uint64_t address)
{
    uint32_t low = 0, high = j->helds.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (j->helds.at[middle].address <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* What blocks remember of their segment may be wrong from now on. */
static void forget(joint *j)
{
    if (j->of_block.n) memset(j->of_block.at, 0, j->of_block.n * sizeof *j->of_block.at);
}

/* Recorded reservations can be shorter than this device's would be: one ends where the next begins. */
static void trim(joint *j, uint32_t at)
{
    held *h = &j->helds.at[at];
    if (at + 1 == j->helds.n || j->helds.at[at + 1].address - h->address >= h->bytes) return;
    h->bytes = j->helds.at[at + 1].address - h->address;
    forget(j);
}

static void hold(joint *j, held h)
{
    const uint32_t at = behind(j, h.address);
    MR_PUSH(j->placer->ctx, &j->helds, h);
    memmove(j->helds.at + at + 1, j->helds.at + at, (j->helds.n - 1 - at) * sizeof h);
    j->helds.at[at] = h;
    trim(j, at);
    if (at) trim(j, at - 1);
}

static uint32_t let_go(joint *j, uint64_t address)
{
    const uint32_t at = behind(j, address) - 1;
    const uint32_t segment = j->helds.at[at].segment;
    j->helds.n--;
    memmove(j->helds.at + at, j->helds.at + at + 1, (j->helds.n - at) * sizeof(held));
    forget(j);
    return segment;
}

static held segment_at(joint *j, uint64_t address)
{
    return j->helds.at[behind(j, address) - 1];
}

static held segment_of(joint *j, const c10_lease *lease)
{
    while (j->of_block.n <= lease->block) MR_PUSH(j->placer->ctx, &j->of_block, (held){0});
    held *h = &j->of_block.at[lease->block];
    if (lease->address - h->address >= h->bytes) *h = segment_at(j, lease->address);
    return *h;
}

/* ---- what the allocator asks of CUDA -------------------------------------------------------------- */

static bool device_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    joint *j = self;
    const mr_segment want = {.bytes = bytes, .stream = stream, .large = bytes > 2 * MR_MIB};
    uint32_t segment;
    if (!mr_reserve(j->placer, &want, &segment)) return false;
    *address = j->placer->out->segments.at[segment].address;
    hold(j, (held){*address, bytes, segment});
    return true;
}

static void device_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)bytes;
    joint *j = self;
    mr_release(j->placer, let_go(j, address));
}

static uint64_t device_reserve(void *self, uint64_t bytes, uint32_t stream)
{
    joint *j = self;
    const mr_segment want = {.bytes = bytes, .stream = stream, .expandable = true};
    uint32_t segment;
    mr_reserve(j->placer, &want, &segment);
    const uint64_t address = j->placer->out->segments.at[segment].address;
    hold(j, (held){address, bytes, segment});
    return address;
}

static bool device_map(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    joint *j = self;
    const held h = segment_at(j, address);
    mr_segment *segment = &j->placer->out->segments.at[h.segment];
    segment->page = page;
    segment->large = page > 2 * MR_MIB;
    return mr_map(j->placer, h.segment, address - h.address, bytes);
}

static void device_unmap(void *self, uint64_t address, uint64_t bytes, uint64_t page)
{
    (void)page;
    joint *j = self;
    const held h = segment_at(j, address);
    mr_unmap(j->placer, h.segment, address - h.address, bytes);
}

static uint64_t device_available(void *self)
{
    const joint *j = self;
    return mr_available(j->placer);
}

static uint64_t device_record(void *self, uint32_t stream)
{
    joint *j = self;
    return stream < j->streams ? 0 : ++j->waits.at[stream - j->streams].submitted;
}

static bool device_done(void *self, uint32_t stream, uint64_t ticket)
{
    const joint *j = self;
    return stream < j->streams || j->waits.at[stream - j->streams].completed >= ticket;
}

static void finish(joint *j, uint32_t w)
{
    wait_stream *over = &j->waits.at[w];
    over->completed = over->submitted;
    if (over->busy) MR_PUSH(j->placer->ctx, &j->idle, w);
    over->busy = false;
}

static void device_synchronize(void *self, uint32_t stream, uint64_t ticket)
{
    (void)ticket;
    joint *j = self;
    if (stream < j->streams) return;
    finish(j, stream - j->streams);
    mr_settled(j->placer);
}

/* ---- requests -------------------------------------------------------------------------------------- */

static bool joint_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    (void)placer;
    joint *j = self;
    c10_lease lease;
    const uint64_t pool = j->trace->pools.at[request->pool];
    if (request->pool) c10_pool_begin(j->allocator, pool, MR_NONE);
    const bool served = c10_malloc(j->allocator, request->bytes, request->stream, &lease);
    if (request->pool) c10_pool_end(j->allocator, pool);
    if (!served) return false;
    if (lease.block == MR_NONE) {
        *out = (mr_block){.segment = MR_NONE, .handle = MR_NONE};
        return true;
    }
    const held h = segment_of(j, &lease);
    *out = (mr_block){h.segment, lease.block, lease.address - h.address, lease.size};
    return true;
}

static void joint_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    joint *j = self;
    c10_free(j->allocator, block->handle);
}

static uint32_t idle_wait(joint *j)
{
    mr_ctx *ctx = j->placer->ctx;
    if (j->idle.n) return j->idle.at[--j->idle.n];
    MR_PUSH(ctx, &j->waits, (wait_stream){0});
    return j->waits.n - 1;
}

static uint32_t new_wait(joint *j, uint32_t block)
{
    const uint32_t w = idle_wait(j);
    j->waits.at[w].busy = true;
    while (j->wait_of.n <= block) MR_PUSH(j->placer->ctx, &j->wait_of, MR_NONE);
    j->wait_of.at[block] = w;
    return w;
}

static void joint_defer(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    joint *j = self;
    if (block->handle == MR_NONE) return;
    const uint32_t w = new_wait(j, block->handle);
    c10_record_stream(j->allocator, block->handle, j->streams + w);
    c10_free(j->allocator, block->handle);
}

/* The allocator itself notices at its next request. */
static void joint_done(void *self, mr_placer *placer, const mr_block *block)
{
    (void)placer;
    joint *j = self;
    if (block->handle != MR_NONE) finish(j, j->wait_of.at[block->handle]);
}

static void joint_flush(void *self, mr_placer *placer)
{
    (void)placer;
    joint *j = self;
    c10_empty_cache(j->allocator);
}

/* ---- starting in the middle of a run ------------------------------------------------------------------ */

/* How long a recorded reservation is: not recorded, but no other segment begins inside it. */
static uint64_t reservation(const joint *j, const mr_history *history, const mr_segment *s)
{
    const uint64_t page = s->large ? c10_configured(j->allocator)->large_segment_size
                                   : 2 * MR_MIB;
    uint64_t bytes = (j->placer->total / 8 * 9 / page + 1) * page;
    if (s->bytes) return s->bytes;
    for (uint32_t i = 0; i < history->held; i++) {
        const uint64_t other = history->segments.at[i].address;
        if (other > s->address && other - s->address < bytes) bytes = other - s->address;
    }
    return bytes;
}

static c10_segment segment_like(const joint *j, const mr_history *history, const mr_segment *s)
{
    return (c10_segment){
        .address = s->address,
        .stream = s->stream,
        .large = s->large,
        .expandable = s->expandable,
        .pool = j->trace->pools.at[s->pool],
        .reserved_at = s->expandable ? s->address : 0,
        .reserved = s->expandable ? reservation(j, history, s) : 0,
    };
}

static c10_piece piece_like(joint *j, const mr_history *history, const mr_piece *piece)
{
    const mr_segment *s = &history->segments.at[piece->segment];
    return (c10_piece){
        .address = s->address + piece->offset,
        .size = piece->bytes,
        .requested = piece->storage == MR_NONE ? 0 : j->trace->storages.at[piece->storage].bytes,
        .state = piece->storage == MR_NONE ? C10_INACTIVE
                 : piece->pending          ? C10_PENDING_FREE
                                           : C10_ALLOCATED,
        .waits_for = piece->pending ? j->streams + idle_wait(j) : 0,
    };
}

/* One c10_segment per contiguous stretch: pieces come by segment and ascending. */
static void gather(joint *j, const mr_history *history, c10_segments *out)
{
    mr_ctx *ctx = j->placer->ctx;
    uint64_t end = 0;
    uint32_t last = MR_NONE;
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        c10_segment s = segment_like(j, history, &history->segments.at[piece->segment]);
        const c10_piece p = piece_like(j, history, piece);
        if (piece->segment != last || p.address != end) {
            s.address = p.address;
            MR_PUSH(ctx, out, s);
        }
        c10_segment *to = &out->at[out->n - 1];
        to->total += p.size;
        MR_PUSH(ctx, &to->pieces, p);
        last = piece->segment;
        end = p.address + p.size;
    }
}

static int by_address(const void *a, const void *b)
{
    const held *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The block of every piece, found again by address: adopting sorts the segments. */
static void match(joint *j, const mr_history *history, const c10_segments *segments,
                  uint32_t *handles)
{
    mr_ctx *ctx = j->placer->ctx;
    MR_VEC(held) pieces = {0}; /* `segment` is the index of the piece */
    for (uint32_t i = 0; i < history->start.n; i++) {
        const mr_piece *piece = &history->start.at[i];
        const uint64_t base = history->segments.at[piece->segment].address;
        MR_PUSH(ctx, &pieces, (held){base + piece->offset, piece->bytes, i});
    }
    if (pieces.n) qsort(pieces.at, pieces.n, sizeof *pieces.at, by_address);
    uint32_t next = 0;
    for (uint32_t s = 0; s < segments->n; s++) {
        const c10_segment *segment = &segments->at[s];
        for (uint32_t i = 0; i < segment->pieces.n; i++, next++) {
            const c10_piece *p = &segment->pieces.at[i];
            handles[pieces.at[next].segment] = p->block;
            if (p->state != C10_PENDING_FREE) continue;
            const uint32_t w = p->waits_for - j->streams;
            j->waits.at[w].busy = true;
            while (j->wait_of.n <= p->block) MR_PUSH(ctx, &j->wait_of, MR_NONE);
            j->wait_of.at[p->block] = w;
        }
    }
}

static mr_status joint_adopt(void *self, mr_placer *placer, const mr_history *history,
                             uint32_t *handles)
{
    (void)placer;
    joint *j = self;
    c10_segments segments = {0};
    gather(j, history, &segments);
    for (uint32_t i = 0; i < history->held; i++) {
        const mr_segment *s = &history->segments.at[i];
        const c10_segment like = segment_like(j, history, s);
        hold(j, (held){s->address, s->expandable ? like.reserved : s->bytes, i});
    }
    MR_TRY(c10_adopt(j->allocator, &segments));
    match(j, history, &segments, handles);
    return MR_OK;
}

/* ---- placing -------------------------------------------------------------------------------------------- */

static void report(mr_ctx *ctx, c10_allocator *allocator, mr_placement *out)
{
    static const char *const kinds[] = {"all", "small_pool", "large_pool"};
    const c10_stats *stats = c10_statistics(allocator);
    out->retries = stats->num_alloc_retries;
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

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    c10_version version;
    c10_options options;
    MR_TRY(read_settings(ctx, s, &version, &options));
    joint j = {.placer = out, .trace = in->trace, .streams = in->trace->streams.n};
    const c10_device device = {
        .self = &j,
        .total = out->total,
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
    j.allocator = c10_new(ctx, &device, version, &options);
    if (s->set_per_process_memory_fraction > 0)
        MR_TRY(c10_set_memory_fraction(j.allocator, s->set_per_process_memory_fraction));
    const mr_online policy = {
        .self = &j,
        .alloc = joint_alloc,
        .free = joint_free,
        .defer = joint_defer,
        .done = joint_done,
        .flush = joint_flush,
        .adopt = joint_adopt,
    };
    MR_TRY(mr_place_online(out, in, &policy));
    MR_TRY(c10_sound(j.allocator));
    report(ctx, j.allocator, out->out);
    return MR_OK;
}

const mr_strategy mr_strategy_pytorch = {
    .name = "pytorch",
    .summary = "the caching allocator of PyTorch, event for event",
    .source = "PyTorch, c10/cuda/CUDACachingAllocator.cpp, releases 2.0 to 2.15",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .place = place,
};
