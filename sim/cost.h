/* cost.h -- what an op asks of a device, and how long that takes.
 *
 * An op is first seen as work, which is the same on every device: floating point operations
 * and what does them, bytes, or a transfer.  The numbers of a device turn work into time, by
 * a roofline:
 *
 *     kernel        kernel_ns + max(flops / reachable peak, bytes / reachable bandwidth)
 *     convolution   in fp32, the faster of a product of matrices and Winograd's way
 *     copy          link_ns + bytes / reachable link
 *     all-reduce    2 (n - 1) / n bytes / reachable interconnect + 2 (n - 1) interconnect_ns
 *
 * where n devices form a ring; a reduce-scatter or all-gather is half of an all-reduce.
 * Reachable is a peak times its efficiency in devices.csv.  What a device does not know
 * counts as nothing: no bandwidth, no time.
 */
#ifndef MR_COST_H
#define MR_COST_H

#include "device.h"
#include "trace.h"

typedef enum mr_math { MR_MATMUL, MR_CONV, MR_WINOGRAD, MR_ATTENTION } mr_math;

typedef enum mr_precision { MR_FP32, MR_FP16, MR_BF16, MR_FP8 } mr_precision;

/* Products of matrices of one size, n of them; size of each result. */
typedef struct mr_products {
    uint64_t n, rows, columns;
} mr_products;

/* A convolution's result, the gradient of its pictures or that of its filter, each of which is
 * as much work as a product of matrices. */
typedef struct mr_pass {
    mr_products product;
    mr_products tiles;       /* 3x3, stride 1: as many as a tile has numbers; else n is 0 */
    double flops;
    double pictures, filter; /* bytes: both pictures together */
    double padding;          /* what whole tiles cover, as a multiple of the picture */
    bool strided;            /* the gradient of a picture that a stride has made smaller */
} mr_pass;

typedef struct mr_work {
    mr_engine engine;
    mr_math math; /* what the FLOPs are for */
    mr_precision precision;
    uint64_t flops;
    double fill; /* convolutions: what full tiles compute, as a multiple of that; at least 1 */
    mr_products products; /* of matrices; 0 where unknown */
    struct {
        mr_pass at[2];
        uint32_t n; /* 0 where this is no convolution, or its shapes do not tell */
    } passes;
    uint64_t bytes; /* through device memory, as often as they pass; or moved by a transfer */
    double extra;   /* what kernels of this kind take on top of a stream of bytes, as a part */
    uint32_t ranks;
    bool idle;  /* leaves nothing for the device to do: a view, an allocation */
    bool describes; /* the host describes tensors to cuDNN first */
    bool waits; /* the host cannot go on before the result is there */
    bool pageable; /* a copy from or to memory of the host that is not pinned */
} mr_work;

/* Bytes are those recorded, else each tensor that is read or written counts once. */
mr_work mr_work_of(const mr_trace *trace, const mr_op *op);

/* Of a convolution, the 4-dimensional tensor with the smallest pictures; NULL for none. */
const mr_tensor *mr_filter_of(const mr_trace *trace, const mr_op *op);

/* Fills in what `op`, a convolution, asks for. */
void mr_convolution_of(const mr_trace *trace, const mr_op *op, mr_work *work);

/* What op `o` takes inside when numbers have another width: cuDNN brings what it reads and
 * writes into an order of its own, in their width; what others take is as wide as it was. */
uint64_t mr_workspace_for(const mr_trace *was, const mr_trace *is, uint32_t o);

uint64_t mr_device_ns(const mr_device *device, const mr_work *work);
uint64_t mr_host_ns(const mr_device *device, const mr_work *work);

/* What Python takes for calling the module that `op` is the first of; `before` is the op that ran
 * before it, or NULL. */
uint64_t mr_call_ns(const mr_device *device, const mr_op *before, const mr_op *op);

/* For rewrites that weigh times, and do not know where the step will run: an A100. */
extern const mr_device mr_nominal_device;

/* FLOP per second that work of this kind reaches. */
double mr_reachable(const mr_device *device, const mr_work *work);

#endif
