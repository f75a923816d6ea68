/* cost_time -- work as time on a device. */
#include <math.h>
#include <string.h>

#include "cost.h"

#define LONGEST 1e15 /* ns; what takes eleven days is not looked at more closely */

static uint64_t whole(double ns)
{
    return ns < LONGEST ? (uint64_t)(ns + 0.5) : (uint64_t)LONGEST;
}

static double part(uint64_t peak, uint64_t thousandths)
{
    return (double)peak * (double)(thousandths ? thousandths : 1000) / 1000;
}

static double ns_for(double amount, double per_second)
{
    return per_second > 0 ? amount / per_second * 1e9 : 0;
}

static double reachable_fp32(const mr_device *d, mr_math math)
{
    const bool conv = math == MR_CONV || math == MR_WINOGRAD;
    const bool tf32 = d->use_tf32 == MR_TF32_ALL || (d->use_tf32 == MR_TF32_CONV && conv);
    const uint64_t peak = tf32 && d->tf32 ? d->tf32 : d->fp32;
    if (math == MR_ATTENTION) return part(peak, d->eff_attention);
    if (tf32 && d->tf32) return part(peak, conv ? d->eff_conv_tf32 : d->eff_matmul_tf32);
    return part(d->fp32, conv ? d->eff_conv_fp32 : d->eff_matmul_fp32);
}

double mr_reachable(const mr_device *d, const mr_work *work)
{
    uint64_t peak = 0;
    if (work->precision == MR_FP8) peak = d->fp8 ? d->fp8 : d->fp16;
    if (work->precision == MR_FP16) peak = d->fp16;
    if (work->precision == MR_BF16) peak = d->bf16; /* without units of its own: as fp32 */
    if (!peak) return reachable_fp32(d, work->math);
    switch (work->math) {
    case MR_MATMUL: return part(peak, d->eff_matmul_half);
    case MR_ATTENTION: return part(peak, d->eff_attention);
    case MR_CONV:
    case MR_WINOGRAD: break;
    }
    return part(peak, d->eff_conv_half);
}

typedef struct tile {
    uint64_t rows, columns;
    double slower; /* than the largest: a small tile reads more for each FLOP */
} tile;

static uint64_t tiles_in(uint64_t length, uint64_t side)
{
    return length / side + (length % side != 0);
}

/* What processors compute in `count` tiles of n results, as a multiple of what was asked for.
 * They work on different tiles at once, and the last wave of tiles takes as long as a full
 * one.  Where there are fewer tiles than processors, several share one and add up, if its
 * sums are long enough; of products that come in batches, they do not. */
static double fill_with(const tile *t, const mr_products *p, double terms, double processors)
{
    enum { LEAST = 256 }; /* terms of a part of a sum */
    const double n = (double)p->n, all = n * (double)p->rows * (double)p->columns;
    const double count =
        n * (double)tiles_in(p->rows, t->rows) * (double)tiles_in(p->columns, t->columns);
    double parts = floor(fmin(terms / LEAST, processors / count)), slower = t->slower;
    if (parts < 2 || p->n > 1) parts = 1;
    else slower *= 1.15;
    const double full = ceil(count * parts / processors) * processors / parts;
    return full * (double)(t->rows * t->columns) / all * slower;
}

/* Matrix products have the first four, convolutions all: those with few channels are no slower
 * for it. */
static const tile tiles[] = {{128, 128, 1}, {128, 64, 1.2}, {64, 128, 1.2},
                             {64, 64, 1.6}, {128, 32, 1.1}, {32, 128, 1.1}};
enum { TILES = 4, NARROW = 2 };

static double waves(const mr_device *d, const mr_products *p, double flops, uint32_t n_tiles)
{
    double best = 0;
    if (!p->rows || !p->columns || !p->n || !d->processors) return 1;
    const double terms = flops / 2 / ((double)p->n * (double)p->rows * (double)p->columns);
    for (uint32_t i = 0; i < n_tiles; i++) {
        const double fill = fill_with(&tiles[i], p, terms, (double)d->processors);
        if (!i || fill < best) best = fill;
    }
    return best;
}

static double memory_ns(const mr_device *d, double bytes)
{
    return ns_for(bytes, part(d->bandwidth, d->eff_bandwidth));
}

/* Gradients of pictures that a stride has made smaller: kernels skip between what was read. */
#define STRIDED 1.6

static double direct_ns(const mr_device *d, const mr_pass *pass)
{
    const double slower = pass->strided ? STRIDED : 1;
    const double flops =
        pass->flops * slower * waves(d, &pass->product, pass->flops, TILES + NARROW);
    return fmax(ns_for(flops, part(d->fp32, d->eff_conv_fp32)),
                memory_ns(d, pass->pictures + pass->filter));
}

/* Winograd's way, F(4x4, 3x3), in kernels of their own: tiles of 6x6 numbers for 4x4 results,
 * which are 36 products of matrices, and back.  A tile has 2.25 times the numbers of its part
 * of the picture, a filter 4 times; a product multiplies a quarter as often. */
static double tiled_ns(const mr_device *d, const mr_pass *pass)
{
    const double wide = 2.25 * pass->padding, flops = pass->flops / 4 * pass->padding;
    const double there_and_back = pass->pictures * (1 + wide) + pass->filter * (1 + 4);
    const double math =
        ns_for(flops * waves(d, &pass->tiles, flops, TILES), part(d->fp32, d->eff_matmul_fp32));
    return memory_ns(d, there_and_back)
           + fmax(math, memory_ns(d, pass->pictures * wide + pass->filter * 4));
}

/* cuDNN takes the faster of both. */
static double convolution_ns(const mr_device *d, const mr_work *work)
{
    double ns = 0;
    for (uint32_t i = 0; i < work->passes.n; i++) {
        const mr_pass *pass = &work->passes.at[i];
        const double direct = direct_ns(d, pass);
        ns += pass->tiles.n ? fmin(direct, tiled_ns(d, pass)) : direct;
    }
    return ns;
}

static bool is_plain(const mr_device *d, const mr_work *work)
{
    const bool tf32 = d->use_tf32 != MR_TF32_OFF && d->tf32;
    return work->precision == MR_FP32 && !tf32 && work->passes.n;
}

static double kernel_ns(const mr_device *d, const mr_work *work)
{
    if (is_plain(d, work)) return (double)d->kernel_ns + convolution_ns(d, work);
    const double fill = work->fill * waves(d, &work->products, (double)work->flops, TILES);
    const double math = ns_for((double)work->flops * fill, mr_reachable(d, work));
    const double memory = memory_ns(d, (double)work->bytes) * (1 + work->extra);
    return (double)d->kernel_ns + fmax(math, memory);
}

/* Every byte goes once around a ring of n devices, less the last step.  Devices without links
 * of their own talk over the host's. */
static double round_ns(const mr_device *d, const mr_work *work)
{
    if (work->ranks < 2) return 0;
    const double n = work->ranks;
    const double speed = d->interconnect ? part(d->interconnect, d->eff_interconnect)
                                         : part(d->link, d->eff_link);
    return (n - 1) * (ns_for((double)work->bytes / n, speed) + (double)d->interconnect_ns);
}

/* What is not pinned passes through a buffer that is: at 0.3 to 0.5 of the speed. */
#define PAGEABLE 0.4

uint64_t mr_device_ns(const mr_device *d, const mr_work *work)
{
    switch (work->engine) {
    case MR_ENGINE_compute: return work->idle ? 0 : whole(kernel_ns(d, work));
    case MR_ENGINE_to_host:
    case MR_ENGINE_from_host:
        return whole((double)d->link_ns
                     + ns_for((double)work->bytes,
                              part(d->link, d->eff_link) * (work->pageable ? PAGEABLE : 1)));
    case MR_ENGINE_all_reduce: return whole(2 * round_ns(d, work));
    case MR_ENGINE_reduce_scatter:
    case MR_ENGINE_all_gather:
    case MR_ENGINE_broadcast: return whole(round_ns(d, work));
    case MR_ENGINE_wait:
    case MR_ENGINE_N: break;
    }
    return 0;
}

/* A call of cuDNN instead of a kernel of PyTorch's own: key H2 of devices.md. */
#define DESCRIPTIONS 4

uint64_t mr_host_ns(const mr_device *d, const mr_work *work)
{
    if (work->idle) return d->view_ns;
    return d->host_ns * (work->describes ? DESCRIPTIONS : 1) + d->launch_ns;
}

/* A module that goes on after one of its own has returned is not called again. */
static bool is_within(const char *module, const char *outer)
{
    const size_t n = strlen(outer);
    return strncmp(module, outer, n) == 0 && (!module[n] || module[n] == '.');
}

/* The backward pass is not Python's, save for what is computed again there. */
uint64_t mr_call_ns(const mr_device *d, const mr_op *before, const mr_op *op)
{
    if (!*op->module || (op->phase == MR_BACKWARD && op->again == MR_NONE)) return 0;
    if (before && before->call == op->call && is_within(before->module, op->module)) return 0;
    return d->module_ns;
}

const mr_device mr_nominal_device = {
    .name = "nominal",
    .bandwidth = 1555000000000,
    .fp32 = 19500000000000,
    .tf32 = 156000000000000,
    .fp16 = 312000000000000,
    .bf16 = 312000000000000,
    .kernel_ns = 2000,
    .eff_bandwidth = 850,
    .eff_matmul_fp32 = 850,
    .eff_matmul_half = 700,
    .eff_conv_tf32 = 500,
    .eff_conv_half = 500,
    .eff_attention = 500,
};
