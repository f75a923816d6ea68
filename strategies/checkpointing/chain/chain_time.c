/* chain_time -- how long an op takes: see chain_time.h. */
#include "chain_time.h"

/* 19.5 Tflop/s stand against 1.56 TB/s: a byte is worth that many flops. */
enum { FLOPS_PER_BYTE = 12, FLOPS_PER_NS = 19500 };

bool chain_measured(const mr_trace *trace)
{
    if (!(trace->has & MR_HAS_TIMES)) return false;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        if (!op->ns && (op->flops || op->read || op->written)) return false;
    }
    return true;
}

uint64_t chain_time(const mr_op *op, bool measured)
{
    if (measured) return op->ns;
    const uint64_t moved = (op->read + op->written) * FLOPS_PER_BYTE;
    return (op->flops > moved ? op->flops : moved) / FLOPS_PER_NS;
}
