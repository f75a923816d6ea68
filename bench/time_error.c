/* time_error -- how far modelled op times are from measured ones: memreuse_time_error DEVICE
 * TRACE...
 *
 * Prints for each sort of op its number, the sum of both in ms, the error of the sum and the
 * median error of an op in percent.  bench/time.sh makes the traces and calls it.  --each
 * prints the ops themselves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "cost.h"
#include "format.h"

enum {
    WINOGRAD,
    CONV,
    MATMUL,
    ATTENTION,
    NORM,
    SOFTMAX,
    UPDATE,
    ELEMENTWISE,
    COPY,
    REST,
    SORTS
};

#define LONG_NS 50000 /* what takes longer by the model is not mostly its launch */

static const char *const names[SORTS] = {
    "convolution 3x3", "convolution", "matrix product",   "attention", "norm",
    "softmax",         "update",      "number by number", "copy",      "rest"};

/* By a part of the name, the first that is in it. */
static const struct {
    const char *part;
    int sort;
} parts[] = {
    {"_foreach_", UPDATE},
    {"_fused_adam", UPDATE},
    {"_fused_sgd", UPDATE},
    {"vector_norm", REST},
    {"norm", NORM},
    {"softmax", SOFTMAX},
    {"pool", REST},
    {"pad", REST},
    {"upsample", REST},
    {"bilinear", REST},
    {"aten::add", ELEMENTWISE},
    {"mul", ELEMENTWISE},
    {"div", ELEMENTWISE},
    {"relu", ELEMENTWISE},
    {"threshold", ELEMENTWISE},
    {"clamp", ELEMENTWISE},
    {"gelu", ELEMENTWISE},
    {"tanh", ELEMENTWISE},
    {"sigmoid", ELEMENTWISE},
    {"drop", ELEMENTWISE},
    {"droupout", ELEMENTWISE},
    {"scale", ELEMENTWISE},
    {"zero", ELEMENTWISE},
    {"ones", ELEMENTWISE},
    {"fill", ELEMENTWISE},
    {"neg", ELEMENTWISE},
};

static int sort_of(const mr_op *op, const mr_work *work)
{
    if (work->engine != MR_ENGINE_compute) return COPY;
    if (work->flops) switch (work->math) {
        case MR_MATMUL: return MATMUL;
        case MR_CONV: return CONV;
        case MR_WINOGRAD: return WINOGRAD;
        case MR_ATTENTION: return ATTENTION;
        }
    for (size_t i = 0; i < MR_COUNT(parts); i++)
        if (strstr(op->name, parts[i].part)) return parts[i].sort;
    return REST;
}

typedef MR_VEC(double) doubles;

typedef struct sums {
    double measured, predicted;
    doubles errors;
} sums;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(doubles *values)
{
    qsort(values->at, values->n, sizeof *values->at, by_value);
    return values->at[values->n / 2];
}

static void add(mr_ctx *ctx, sums *s, double measured, double predicted)
{
    const double error = predicted / measured - 1;
    s->measured += measured;
    s->predicted += predicted;
    MR_PUSH(ctx, &s->errors, error < 0 ? -error : error);
}

static void row(const char *trace, const char *device, const char *name, sums *s)
{
    if (!s->errors.n) return;
    printf("%s,%s,%s,%" PRIu32 ",%.3f,%.3f,%+.1f,%.1f\n", trace, device, name, s->errors.n,
           s->measured / 1e6, s->predicted / 1e6, 100 * (s->predicted / s->measured - 1),
           100 * median(&s->errors));
}

static mr_status compare(mr_ctx *ctx, const mr_device *device, const char *path, bool each)
{
    mr_trace trace;
    sums by_sort[SORTS] = {0}, all = {0}, lasting = {0};
    MR_TRY(mr_recording_read(ctx, path, &(mr_read_options){0}, &trace));
    for (uint32_t o = 0; o < trace.ops.n; o++) {
        const mr_op *op = &trace.ops.at[o];
        const mr_work work = mr_work_of(&trace, op);
        if (!op->ns || work.idle) continue;
        const double measured = (double)op->ns, predicted = (double)mr_device_ns(device, &work);
        if (each)
            printf("%s,%s,%.0f,%.0f,%" PRIu64 ",%" PRIu64 "\n", op->name,
                   names[sort_of(op, &work)], measured, predicted, work.flops, work.bytes);
        add(ctx, &by_sort[sort_of(op, &work)], measured, predicted);
        add(ctx, &all, measured, predicted);
        if (predicted > LONG_NS) add(ctx, &lasting, measured, predicted);
    }
    for (int s = 0; s < SORTS; s++) row(trace.name, device->name, names[s], &by_sort[s]);
    row(trace.name, device->name, "all", &all);
    row(trace.name, device->name, "all over 50 us", &lasting);
    return MR_OK;
}

int main(int argc, char **argv)
{
    mr_ctx ctx = {0};
    mr_device device;
    const bool each = argc > 1 && strcmp(argv[1], "--each") == 0;
    argv += each;
    argc -= each;
    if (argc < 3) {
        fprintf(stderr, "usage: memreuse_time_error [--each] DEVICE TRACE...\n");
        return 2;
    }
    mr_status status = mr_device_find(&ctx, argv[1], &device);
    device.use_tf32 = MR_TF32_ALL; /* what was measured used it wherever there is any */
    for (int i = 2; i < argc && !status; i++) status = compare(&ctx, &device, argv[i], each);
    if (status) fprintf(stderr, "memreuse_time_error: %s\n", ctx.failure.text);
    mr_ctx_clear(&ctx);
    return status ? 1 : 0;
}
