/* cost -- ops as work.
 *
 * What cannot be read off the tensors is told by the op's name: whether FLOPs belong to a
 * convolution or to fused attention, which ops read their input twice, which read only what
 * they give.
 */
#include "cost.h"

#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

enum {
    CONVOLVES = 1,
    ATTENDS = 2,
    TWICE = 4,       /* a first kernel reads all for sums that the second one needs */
    PICKS = 8,       /* reads no more of a table than it gives */
    ONLY_ASKS = 16,  /* allocates or describes: no kernel although its output is new */
    WAITS = 32,      /* its result, or the size of it, comes to the host */
    REDUCES = 64,    /* sums over what does not lie side by side */
    SCATTERS = 128,  /* goes through many small tensors in chunks */
    SCANS = 256,     /* looks at all windows that a pixel is in */
    DESCRIBES = 512, /* cuDNN's: the host describes tensors and looks for a kernel */
};

/* What kernels take on top of the time of a stream of as many bytes, by trait (key E7). */
static const struct {
    unsigned trait;
    double extra;
} extras[] = {{REDUCES, 0.13}, {SCATTERS, 0.4}, {SCANS, 1.0}};

typedef struct trait {
    const char *name; /* without aten:: */
    bool begins;      /* longer names that begin so, too */
    unsigned traits;
} trait;

static const trait traits[] = {
    {"_scaled_dot_product_", true, ATTENDS},
    {"_flash_attention_", true, ATTENDS},
    {"_efficient_attention_", true, ATTENDS},
    {"convolution", true, CONVOLVES | DESCRIBES},
    {"cudnn_convolution", true, CONVOLVES | DESCRIBES},
    {"miopen_convolution", true, CONVOLVES},
    {"_slow_conv", true, CONVOLVES},
    {"cudnn_batch_norm", true, TWICE | REDUCES | DESCRIBES},
    {"native_batch_norm", true, TWICE | REDUCES | DESCRIBES},
    {"_native_batch_norm", true, TWICE | REDUCES | DESCRIBES},
    {"native_group_norm", true, TWICE | REDUCES},
    {"native_layer_norm_backward", false, TWICE | REDUCES},
    {"_log_softmax", false, TWICE},
    {"_foreach_", true, SCATTERS},
    {"_fused_adam", true, SCATTERS},
    {"_fused_sgd", true, SCATTERS},
    {"_amp_foreach_", true, SCATTERS},
    {"max_pool2d_with_indices_backward", false, SCANS},
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
    for (size_t i = 0; i < MR_COUNT(extras); i++)
        if (has & extras[i].trait) work->extra = extras[i].extra;
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
                    .waits = has & WAITS,
                    .describes = has & DESCRIBES};
    count_bytes(trace, op, has, &work);
    if (op->engine == MR_ENGINE_wait) work.idle = true;
    if (op->engine == MR_ENGINE_to_host || op->engine == MR_ENGINE_from_host)
        look_at_link(trace, op, &work);
    if (!first_precision(trace, op->in, &work.precision))
        first_precision(trace, op->out, &work.precision);
    if (has & ATTENDS) work.math = MR_ATTENTION;
    else if (has & CONVOLVES) mr_convolution_of(trace, op, &work);
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
