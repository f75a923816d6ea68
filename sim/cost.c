/* cost -- ops as work, work as time.
 *
 * What cannot be read off the tensors is told by the op's name: whether FLOPs belong to a
 * convolution or to fused attention, which ops read their input twice, which read only what
 * they give.
 */
#include "cost.h"

#include <math.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

enum {
    CONVOLVES = 1,
    ATTENDS = 2,
    TWICE = 4,    /* a first kernel reads all for sums that the second one needs */
    PICKS = 8,    /* reads no more of a table than it gives */
    ONLY_ASKS = 16, /* allocates or describes: no kernel although its output is new */
    WAITS = 32,   /* its result, or the size of it, comes to the host */
};

typedef struct trait {
    const char *name; /* without aten:: */
    bool begins;      /* longer names that begin so, too */
    unsigned traits;
} trait;

static const trait traits[] = {
    {"_scaled_dot_product_", true, ATTENDS},
    {"_flash_attention_", true, ATTENDS},
    {"_efficient_attention_", true, ATTENDS},
    {"convolution", true, CONVOLVES},
    {"cudnn_convolution", true, CONVOLVES},
    {"miopen_convolution", true, CONVOLVES},
    {"_slow_conv", true, CONVOLVES},
    {"cudnn_batch_norm", true, TWICE},
    {"native_batch_norm", true, TWICE},
    {"_native_batch_norm", true, TWICE},
    {"native_group_norm", true, TWICE},
    {"native_layer_norm_backward", false, TWICE},
    {"_log_softmax", false, TWICE},
    {"embedding", false, PICKS},
    {"index_select", false, PICKS},
    {"index", false, PICKS},
    {"gather", false, PICKS},
    {"nll_loss_forward", false, PICKS},
    {"nll_loss2d_forward", false, PICKS},
    {"empty", true, ONLY_ASKS},
    {"new_empty", true, ONLY_ASKS},
    {"_local_scalar_dense", false, WAITS},
    {"item", false, WAITS},
    {"is_nonzero", false, WAITS},
    {"equal", false, WAITS},
    {"nonzero", false, WAITS},
    {"masked_select", false, WAITS},
    {"_unique2", false, WAITS},
};

static unsigned traits_of(const char *name)
{
    if (strncmp(name, "aten::", 6) == 0) name += 6;
    for (size_t i = 0; i < MR_COUNT(traits); i++) {
        const trait *t = &traits[i];
        if (t->begins ? strncmp(name, t->name, strlen(t->name)) == 0 : !strcmp(name, t->name))
            return t->traits;
    }
    return 0;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool lives_in(const mr_trace *trace, mr_ids tensors, uint32_t n, uint32_t storage)
{
    for (uint32_t i = 0; i < n; i++)
        if (trace->tensors.at[tensors.at[i]].storage == storage) return true;
    return false;
}

/* Lists of parameters are long and hold each of them once: looking for repetitions would only
 * cost time there. */
enum { LONG = 64 };

static uint64_t bytes_of(const mr_trace *trace, mr_ids tensors)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors.n; i++) {
        const mr_tensor *t = &trace->tensors.at[tensors.at[i]];
        if (tensors.n <= LONG && lives_in(trace, tensors, i, t->storage)) continue;
        bytes = plus(bytes, t->bytes);
    }
    return bytes;
}

/* An output in the memory of an input is a view of it: nothing was written. */
static uint64_t bytes_made(const mr_trace *trace, const mr_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const mr_tensor *t = &trace->tensors.at[op->out.at[i]];
        if (op->in.n > LONG || !lives_in(trace, op->in, op->in.n, t->storage))
            bytes = plus(bytes, t->bytes);
    }
    return bytes;
}

static bool first_precision(const mr_trace *trace, mr_ids tensors, mr_precision *out)
{
    static const struct {
        const char *name;
        mr_precision precision;
    } dtypes[] = {{"float32", MR_FP32}, {"float16", MR_FP16}, {"bfloat16", MR_BF16},
                  {"float8", MR_FP8},   {"float64", MR_FP32}, {"complex", MR_FP32}};
    for (uint32_t i = 0; i < tensors.n; i++) {
        const char *dtype = trace->tensors.at[tensors.at[i]].dtype;
        for (size_t d = 0; d < MR_COUNT(dtypes); d++) {
            if (strncmp(dtype, dtypes[d].name, strlen(dtypes[d].name)) != 0) continue;
            *out = dtypes[d].precision;
            return true;
        }
    }
    return false;
}

static bool is_square(const mr_tensor *t, uint64_t side)
{
    return t->rank == 4 && t->shape[2] == side && t->shape[3] == side;
}

/* A 3x3 convolution whose images keep their size, so has a stride of 1: all of its pictures
 * are equally large, whether this is the forward or the backward op. */
static bool suits_winograd(const mr_trace *trace, const mr_op *op)
{
    const mr_tensor *picture = NULL;
    bool filter = false;
    const mr_ids lists[] = {op->in, op->out};
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const mr_tensor *t = &trace->tensors.at[lists[l].at[i]];
            if (is_square(t, 3)) filter = true;
            else if (t->rank == 4 && !picture) picture = t;
            else if (t->rank == 4 && t->shape[2] != picture->shape[2]) return false;
        }
    return filter && picture;
}

static uint64_t tiles_in(uint64_t length, uint64_t tile)
{
    return length / tile + (length % tile != 0);
}

/* Kernels compute tiles of this many channels, whether there are so many or not. */
enum { CHANNELS = 64 };

static double filled(uint64_t channels)
{
    return channels ? (double)tiles_in(channels, CHANNELS) * CHANNELS / (double)channels : 1;
}

const mr_tensor *mr_filter_of(const mr_trace *trace, const mr_op *op)
{
    const mr_ids lists[] = {op->in, op->out};
    const mr_tensor *filter = NULL;
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const mr_tensor *t = &trace->tensors.at[lists[l].at[i]];
            if (t->rank == 4 && (!filter || t->shape[2] < filter->shape[2])) filter = t;
        }
    return filter;
}

/* Of a filter OUT x IN x ..., forward ops and gradients of the filter fill tiles of OUT,
 * gradients of the picture tiles of IN.  Filters of one channel belong to depthwise
 * convolutions, whose kernels have no such tiles. */
static double share_of_tiles(const mr_trace *trace, const mr_op *op)
{
    const mr_tensor *filter = mr_filter_of(trace, op);
    if (!filter || filter->shape[1] < 2) return 1;
    const double out = filled(filter->shape[0]), in = filled(filter->shape[1]);
    if (strstr(op->name, "backward_input")) return in;
    const bool both = strstr(op->name, "convolution_backward") && op->out.n > 1;
    return both ? (in + out) / 2 : out;
}

static void find_products(const mr_trace *trace, const mr_op *op, mr_work *work)
{
    if (!op->out.n) return;
    const mr_tensor *t = &trace->tensors.at[op->out.at[0]];
    if (t->rank < 2) return;
    work->products.n = 1;
    work->products.rows = t->shape[t->rank - 2];
    work->products.columns = t->shape[t->rank - 1];
    for (uint32_t i = 0; i + 2 < t->rank; i++) work->products.n *= t->shape[i];
}

/* ---- work -------------------------------------------------------------------------------- */

static void count_bytes(const mr_trace *trace, const mr_op *op, unsigned has, mr_work *work)
{
    uint64_t read = op->read, written = op->written;
    if (!read && !written) {
        written = plus(bytes_made(trace, op), bytes_of(trace, op->mutates));
        if (written || op->flops) read = bytes_of(trace, op->in);
    }
    if (work->engine != MR_ENGINE_compute) {
        work->bytes = read > written ? read : written;
        return;
    }
    if (has & PICKS && read > written) read = written;
    if (has & TWICE) read = plus(read, read);
    work->bytes = plus(read, written);
    if (!work->bytes || has & ONLY_ASKS) work->idle = !op->flops;
}

/* Where a copy over the host link has its other end; 0 where the trace does not say. */
static uint32_t end_on_host(const mr_trace *trace, const mr_op *op)
{
    const mr_ids to = op->out.n ? op->out : op->mutates;
    const mr_ids ids = op->engine == MR_ENGINE_to_host ? to : op->in;
    if (!ids.n) return 0;
    const uint32_t device = trace->storages.at[trace->tensors.at[ids.at[0]].storage].device;
    return mr_is_host(device) ? device : 0;
}

/* The host waits for copies from and to memory that is not pinned, and for what it is sent
 * where no other stream than the tensor's own carries it: who asks in line wants to read. */
static void look_at_link(const mr_trace *trace, const mr_op *op, mr_work *work)
{
    const uint32_t device = end_on_host(trace, op);
    const mr_storage *from =
        op->in.n ? &trace->storages.at[trace->tensors.at[op->in.at[0]].storage] : NULL;
    work->pageable = device == MR_PAGEABLE;
    work->waits |= work->pageable
                   || (device && op->engine == MR_ENGINE_to_host && from->stream == op->stream);
}

mr_work mr_work_of(const mr_trace *trace, const mr_op *op)
{
    const unsigned has = traits_of(op->name);
    mr_work work = {.engine = (mr_engine)op->engine,
                    .flops = op->flops,
                    .fill = 1,
                    .ranks = op->ranks,
                    .waits = has & WAITS};
    count_bytes(trace, op, has, &work);
    if (op->engine == MR_ENGINE_wait) work.idle = true;
    if (op->engine == MR_ENGINE_to_host || op->engine == MR_ENGINE_from_host)
        look_at_link(trace, op, &work);
    if (!first_precision(trace, op->in, &work.precision))
        first_precision(trace, op->out, &work.precision);
    if (has & ATTENDS) work.math = MR_ATTENTION;
    else if (has & CONVOLVES) {
        work.math = suits_winograd(trace, op) ? MR_WINOGRAD : MR_CONV;
        work.fill = share_of_tiles(trace, op);
    }
    else if (work.flops) find_products(trace, op, &work);
    if (work.idle) work.bytes = 0;
    return work;
}

static uint64_t width_of(mr_precision precision)
{
    return precision == MR_FP32 ? 4 : precision == MR_FP8 ? 1 : 2;
}

uint64_t mr_workspace_for(const mr_trace *was, const mr_trace *is, uint32_t o)
{
    const mr_work before = mr_work_of(was, &was->ops.at[o]);
    const mr_work now = mr_work_of(is, &is->ops.at[o]);
    const uint64_t workspace = was->ops.at[o].workspace;
    if (before.math != MR_CONV && before.math != MR_WINOGRAD) return workspace;
    return workspace / width_of(before.precision) * width_of(now.precision);
}

/* ---- time -------------------------------------------------------------------------------- */

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
    if (math == MR_WINOGRAD) return part(d->fp32, d->eff_winograd);
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

/* What processors compute in `count` tiles of n results, as a multiple of what was asked for.
 * They work on different tiles at once, and the last wave of tiles takes as long as a full
 * one.  Where there are fewer tiles than processors, several share one and add up, if its
 * sums are long enough. */
static double fill_with(const tile *t, const mr_work *work, double processors)
{
    enum { LEAST = 256 }; /* terms of a part of a sum */
    const double each = (double)work->products.rows * (double)work->products.columns;
    const double n = (double)work->products.n, all = n * each;
    const double terms = (double)work->flops / 2 / all;
    const double count = n * (double)tiles_in(work->products.rows, t->rows)
                   * (double)tiles_in(work->products.columns, t->columns);
    double parts = floor(fmin(terms / LEAST, processors / count)), slower = t->slower;
    if (parts < 2) parts = 1;
    else slower *= 1.15;
    const double full = ceil(count * parts / processors) * processors / parts;
    return full * (double)(t->rows * t->columns) / all * slower;
}

static double waves(const mr_device *d, const mr_work *work)
{
    static const tile tiles[] = {{128, 128, 1}, {128, 64, 1.2}, {64, 128, 1.2}, {64, 64, 1.6}};
    double best = 0;
    if (!work->products.rows || !work->products.columns || !work->products.n || !d->processors)
        return 1;
    for (size_t i = 0; i < MR_COUNT(tiles); i++) {
        const double fill = fill_with(&tiles[i], work, (double)d->processors);
        if (!i || fill < best) best = fill;
    }
    return best;
}

static double kernel_ns(const mr_device *d, const mr_work *work)
{
    const double fill = work->fill * waves(d, work);
    const double math = ns_for((double)work->flops * fill, mr_reachable(d, work));
    const double memory = ns_for((double)work->bytes, part(d->bandwidth, d->eff_bandwidth));
    return (double)d->kernel_ns + (math > memory ? math : memory);
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

uint64_t mr_host_ns(const mr_device *d, const mr_work *work)
{
    return work->idle ? d->view_ns : d->host_ns + d->launch_ns;
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
