/* calibrate -- a device as numbers, measured by asking it for what a replay asks it for.
 *
 * Each number is the median of several tries.  What a call takes is thought to be a fixed part
 * and one that grows with the size, of which two sizes are enough.
 */
#include <stdlib.h>

#include "backend_cuda.h"

enum { TRIES = 15, LAUNCHES = 1000 };
enum { SMALL = 2, STEP = 32, LARGE = 256 }; /* MiB; a pool grows by steps */

typedef struct bench {
    mr_cuda *c;
    mr_ctx *ctx;
    mr_cuda_event *from, *to;
    mr_cuda_pointer a, b; /* buffers on the device, */
    void *host;           /* and on the host */
    uint64_t bytes;       /* of each */
    mr_cuda_function *copy;
} bench;

static mr_status check(const bench *b, mr_cuda_result result, const char *what)
{
    return mr_cuda_check(b->ctx, &b->c->driver, result, what);
}

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return values[n / 2];
}

static double since(uint64_t began)
{
    return (double)(mr_cuda_clock() - began);
}

static uint64_t whole(double x)
{
    return x > 0 ? (uint64_t)(x + 0.5) : 0;
}

/* ---- memory ------------------------------------------------------------------------------ */

static mr_status time_take(const bench *b, uint64_t bytes, double *take, double *give)
{
    double takes[TRIES], gives[TRIES];
    for (uint32_t i = 0; i < TRIES; i++) {
        mr_cuda_pointer at;
        uint64_t began = mr_cuda_clock();
        MR_TRY(check(b, b->c->driver.take(&at, bytes), "give memory"));
        takes[i] = since(began);
        began = mr_cuda_clock();
        MR_TRY(check(b, b->c->driver.give(at), "take memory back"));
        gives[i] = since(began);
    }
    *take = median(takes, TRIES);
    *give = median(gives, TRIES);
    return MR_OK;
}

static mr_status measure_calls(const bench *b, mr_device *out)
{
    double take[2], give[2];
    MR_TRY(time_take(b, SMALL * MR_MIB, &take[0], &give[0]));
    MR_TRY(time_take(b, LARGE * MR_MIB, &take[1], &give[1]));
    const double takes = (take[1] - take[0]) / (LARGE - SMALL);
    const double gives = (give[1] - give[0]) / (LARGE - SMALL);
    out->malloc_ns_per_mib = whole(takes);
    out->free_ns_per_mib = whole(gives);
    out->malloc_ns = whole(take[0] - SMALL * (takes > 0 ? takes : 0));
    out->free_ns = whole(give[0] - SMALL * (gives > 0 ? gives : 0));
    return MR_OK;
}

/* The same way as a replay: a page of its own for each step, so a page is a map. */
static mr_status measure_pages(const bench *b, mr_device *out)
{
    mr_cuda *c = b->c;
    double maps[TRIES], unmaps[TRIES];
    const mr_segment range = {
        .bytes = TRIES * c->granularity, .page = c->granularity, .expandable = true};
    MR_TRY(mr_cuda_reserve(c, b->ctx, &range, 0));
    for (uint32_t i = 0; i < TRIES; i++) {
        const mr_block page = {0, 0, i * c->granularity, c->granularity};
        uint64_t began = mr_cuda_clock();
        MR_TRY(mr_cuda_map(c, b->ctx, &range, &page));
        maps[i] = since(began);
        began = mr_cuda_clock();
        MR_TRY(mr_cuda_unmap(c, b->ctx, &range, &page));
        unmaps[i] = since(began);
    }
    out->map_ns_per_page = whole(median(maps, TRIES));
    out->unmap_ns_per_page = whole(median(unmaps, TRIES));
    return mr_cuda_release(c, b->ctx, &range, 0);
}

/* ---- pools ------------------------------------------------------------------------------- */

typedef struct pool_costs { /* ns of one call each */
    double take[TRIES], give[TRIES], trim[TRIES];
} pool_costs;

/* The pool keeps what it has, unless it is emptied after each try. */
static mr_status time_pool(const bench *b, uint64_t bytes, bool empties, pool_costs *out)
{
    const mr_cuda_driver *d = &b->c->driver;
    for (uint32_t i = 0; i < TRIES; i++) {
        mr_cuda_pointer at;
        mr_cuda_stream *stream = b->c->lane[0].stream;
        uint64_t began = mr_cuda_clock();
        MR_TRY(check(b, d->take_pooled(&at, bytes, b->c->pool, stream), "give memory"));
        out->take[i] = since(began);
        began = mr_cuda_clock();
        MR_TRY(check(b, d->give_pooled(at, stream), "take memory back"));
        out->give[i] = since(began);
        MR_TRY(check(b, d->wait(), "finish its work"));
        began = mr_cuda_clock();
        if (empties) MR_TRY(check(b, d->trim(b->c->pool, 0), "trim a pool of memory"));
        out->trim[i] = since(began);
    }
    return MR_OK;
}

/* A fixed part and one by the MiB, of what two sizes take; `other` is in both and not meant. */
static void tell_line(double small, double large, double other, uint64_t *fixed,
                      uint64_t *per_mib)
{
    const double slope = (large - small) / (LARGE - STEP);
    *per_mib = whole(slope);
    *fixed = whole(small - STEP * (slope > 0 ? slope : 0) - other);
}

static mr_status measure_pools(const bench *b, mr_device *out)
{
    const mr_placement pooled = {.pooled = MR_POOLED};
    pool_costs small, large, kept;
    int has = 0;
    MR_TRY(check(b, b->c->driver.attribute(&has, MR_CUDA_HAS_POOLS, b->c->gpu),
                 "describe itself"));
    if (!has) return MR_OK;
    MR_TRY(mr_cuda_pool_open(b->c, b->ctx, &pooled));
    MR_TRY(time_pool(b, STEP * MR_MIB, true, &small));
    MR_TRY(time_pool(b, LARGE * MR_MIB, true, &large));
    MR_TRY(time_pool(b, STEP * MR_MIB, false, &kept)); /* the first of these grows once more */
    const double take = median(kept.take, TRIES);
    out->pool_take_ns = whole(take);
    out->pool_give_ns = whole(median(kept.give, TRIES));
    tell_line(median(small.take, TRIES), median(large.take, TRIES), take, &out->pool_grow_ns,
              &out->pool_grow_ns_per_mib);
    tell_line(median(small.trim, TRIES), median(large.trim, TRIES), 0, &out->pool_trim_ns,
              &out->pool_trim_ns_per_mib);
    return mr_cuda_pool_close(b->c, b->ctx);
}

/* ---- the device's own clock -------------------------------------------------------------- */

typedef mr_cuda_result work(const bench *b, uint64_t bytes);

static mr_cuda_result run_copy(const bench *b, uint64_t bytes)
{
    uint64_t to = b->a, from = b->b, words = bytes / MR_WORD;
    void *arguments[] = {&to, &from, &words};
    const unsigned blocks = (unsigned)b->c->processors * 8;
    return b->c->driver.launch(b->copy, blocks, 1, 1, MR_THREADS, 1, 1, 0, b->c->lane[0].stream,
                               arguments, NULL);
}

static mr_cuda_result run_in(const bench *b, uint64_t bytes)
{
    return b->c->driver.copy_in(b->a, b->host, bytes, b->c->lane[0].stream);
}

static mr_cuda_result run_nothing(const bench *b, uint64_t launches)
{
    uint64_t cycles = 0;
    void *arguments[] = {&cycles};
    mr_cuda_result result = 0;
    for (uint64_t i = 0; i < launches && !result; i++)
        result = b->c->driver.launch(b->c->spin, 1, 1, 1, 1, 1, 1, 0, b->c->lane[0].stream,
                                     arguments, NULL);
    return result;
}

static mr_status time_on_device(const bench *b, work *run, uint64_t amount, double *ns)
{
    const mr_cuda_driver *d = &b->c->driver;
    double tries[TRIES];
    for (uint32_t i = 0; i < TRIES; i++) {
        float ms = 0;
        MR_TRY(check(b, d->record(b->from, b->c->lane[0].stream), "record an event"));
        MR_TRY(check(b, run(b, amount), "run a kernel"));
        MR_TRY(check(b, d->record(b->to, b->c->lane[0].stream), "record an event"));
        MR_TRY(check(b, d->wait(), "finish its work"));
        MR_TRY(check(b, d->elapsed(&ms, b->from, b->to), "tell the time"));
        tries[i] = (double)ms * 1e6;
    }
    *ns = median(tries, TRIES);
    return MR_OK;
}

static uint64_t per_second(uint64_t bytes, double ns)
{
    return ns > 0 ? whole((double)bytes * 1e9 / ns) : 0;
}

/* Every byte of a copy is read and written. */
static mr_status measure_speeds(const bench *b, mr_device *out)
{
    double large, small, kernels;
    MR_TRY(time_on_device(b, run_copy, b->bytes, &large));
    out->bandwidth = per_second(2 * b->bytes, large);
    MR_TRY(time_on_device(b, run_in, MR_KIB, &small));
    MR_TRY(time_on_device(b, run_in, b->bytes, &large));
    out->link = per_second(b->bytes, large - small);
    out->link_ns = whole(small);
    MR_TRY(time_on_device(b, run_nothing, LAUNCHES, &kernels));
    out->kernel_ns = whole(kernels / LAUNCHES);
    const uint64_t began = mr_cuda_clock();
    MR_TRY(check(b, run_nothing(b, LAUNCHES), "run a kernel"));
    out->launch_ns = whole(since(began) / LAUNCHES);
    out->eff_bandwidth = out->eff_link = 1000; /* what is measured is what is reached */
    return check(b, b->c->driver.wait(), "finish its work");
}

/* ---- matrix products --------------------------------------------------------------------- */

static const struct precision {
    int type, sums;
    size_t rate, reached; /* in mr_device; 0: nothing of its own */
} precisions[] = {
    {MR_CUBLAS_FLOAT32, MR_CUBLAS_IN_FP32, offsetof(mr_device, fp32),
     offsetof(mr_device, eff_matmul_fp32)},
    {MR_CUBLAS_FLOAT32, MR_CUBLAS_IN_TF32, offsetof(mr_device, tf32),
     offsetof(mr_device, eff_matmul_tf32)},
    {MR_CUBLAS_FLOAT16, MR_CUBLAS_IN_FP32, offsetof(mr_device, fp16),
     offsetof(mr_device, eff_matmul_half)},
    {MR_CUBLAS_BFLOAT16, MR_CUBLAS_IN_FP32, offsetof(mr_device, bf16), 0},
};

/* Large enough to reach what can be reached: two factors in one buffer, the result in another.
 */
enum { ROWS = 4096 };

static mr_cublas_result multiply(const bench *b, const struct precision *p)
{
    static const float one = 1, zero = 0;
    const uint64_t matrix = (uint64_t)ROWS * ROWS * (p->type == MR_CUBLAS_FLOAT32 ? 4 : 2);
    return b->c->cublas.product(b->c->lane[0].cublas, 0, 0, ROWS, ROWS, ROWS, &one,
                                (const void *)b->a, p->type, ROWS, 0,
                                (const void *)(b->a + matrix), p->type, ROWS, 0, &zero,
                                (void *)b->b, p->type, ROWS, 0, 1, p->sums, MR_CUBLAS_ANY);
}

static mr_cuda_result run_product(const bench *b, uint64_t which)
{
    return multiply(b, &precisions[which]);
}

static uint64_t *field(mr_device *d, size_t offset)
{
    return (uint64_t *)(void *)((char *)d + offset);
}

/* A rate that a row names is what the device could do: how much of it is reached was measured.
 * One that it does not name is what was measured. */
static void tell_rate(const struct precision *p, double rate, mr_device *out)
{
    uint64_t *peak = field(out, p->rate);
    const bool known = *peak != 0;
    if (!known) *peak = whole(rate);
    if (p->reached && *peak) *field(out, p->reached) = whole(1000 * rate / (double)*peak);
}

/* Not every device has every precision: what cannot be done stays as it was, and so does TF32
 * where it is no faster than what it stands for. */
static mr_status measure_products(const bench *b, mr_device *out)
{
    mr_cuda *c = b->c;
    double fp32 = 0;
    if (b->bytes < 2 * sizeof(float) * ROWS * ROWS) return MR_OK;
    MR_TRY(mr_cuda_cublas_open(c, b->ctx));
    if (!c->cublas.library) return MR_OK;
    for (uint32_t i = 0; i < MR_COUNT(precisions); i++) {
        double ns = 0;
        if (mr_cublas_refuses(multiply(b, &precisions[i]))) continue;
        MR_TRY(time_on_device(b, run_product, i, &ns));
        const double rate = ns > 0 ? 2.0 * ROWS * ROWS * ROWS * 1e9 / ns : 0;
        if (i == 0) fp32 = rate;
        if (precisions[i].sums != MR_CUBLAS_IN_TF32 || rate > 1.2 * fp32)
            tell_rate(&precisions[i], rate, out);
    }
    return MR_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

static mr_status prepare(bench *b)
{
    enum { PART = 16 }; /* of what is free, so that a full device can be measured as well */
    const mr_cuda_driver *d = &b->c->driver;
    const uint64_t most = b->c->free_at_start / PART / MR_MIB * MR_MIB;
    b->bytes = most < 256 * MR_MIB ? most : 256 * MR_MIB;
    MR_TRY(check(b, d->function(&b->copy, b->c->module, "mr_kernel_copy"), "find a kernel"));
    MR_TRY(check(b, d->event(&b->from, 0), "make an event"));
    MR_TRY(check(b, d->event(&b->to, 0), "make an event"));
    MR_TRY(check(b, d->take(&b->a, b->bytes), "give memory"));
    MR_TRY(check(b, d->take(&b->b, b->bytes), "give memory"));
    return check(b, d->take_host(&b->host, b->bytes, 0), "pin host memory for a copy");
}

static mr_status put_away(bench *b, mr_status status)
{
    const mr_cuda_driver *d = &b->c->driver;
    if (b->a) status = mr_cuda_first(b->ctx, status, b->c, d->give(b->a), "take memory back");
    if (b->b) status = mr_cuda_first(b->ctx, status, b->c, d->give(b->b), "take memory back");
    if (b->host)
        status = mr_cuda_first(b->ctx, status, b->c, d->give_host(b->host), "free host memory");
    if (b->from)
        status = mr_cuda_first(b->ctx, status, b->c, d->end_event(b->from), "end an event");
    if (b->to)
        status = mr_cuda_first(b->ctx, status, b->c, d->end_event(b->to), "end an event");
    return status;
}

/* The context is what is taken before this program has taken more than a page for reports:
 * other processes count in it, so there should be none. */
static mr_status describe(const bench *b, mr_device *out)
{
    size_t free = 0, total = 0;
    MR_TRY(check(b, b->c->driver.info(&free, &total), "say how full it is"));
    out->description = mr_strdup(b->ctx, b->c->name);
    out->memory = total;
    out->context = total - free - b->c->granularity;
    out->granularity = b->c->granularity;
    out->processors = (uint64_t)b->c->processors;
    return MR_OK;
}

static mr_status measure(bench *b, mr_device *out)
{
    MR_TRY(describe(b, out));
    MR_TRY(measure_calls(b, out));
    MR_TRY(measure_pages(b, out));
    MR_TRY(measure_pools(b, out));
    mr_status status = prepare(b);
    if (!status) status = measure_speeds(b, out);
    if (!status) status = measure_products(b, out);
    return put_away(b, status);
}

mr_status mr_cuda_calibrate(mr_ctx *ctx, const mr_manner *manner, mr_device *out)
{
    mr_trace nothing;
    void *self;
    const mr_device known = *out;
    mr_trace_init(ctx, &nothing, "calibration");
    const mr_assignment assignment = {&known, &nothing, *manner, NULL};
    MR_TRY(mr_backend_cuda.open(ctx, &assignment, &self));
    bench b = {.c = self, .ctx = ctx};
    return mr_backend_cuda.close(self, ctx, measure(&b, out));
}
