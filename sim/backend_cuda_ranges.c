/* ranges -- a profiler is told what the host issues: phases, and ops inside of them. */
#include "backend_cuda.h"

static void end_phase(mr_cuda *c)
{
    if (c->phase != MR_NONE) c->manner.listener->end();
    c->phase = MR_NONE;
}

void mr_cuda_begin_op(mr_cuda *c, const mr_op *op)
{
    const mr_listener *listener = c->manner.listener;
    if (!listener) return;
    if (c->phase != (uint32_t)op->phase) {
        end_phase(c);
        listener->begin(mr_phase_name(op->phase));
        c->phase = (uint32_t)op->phase;
    }
    listener->begin(op->name);
}

void mr_cuda_end_op(mr_cuda *c)
{
    if (c->manner.listener) c->manner.listener->end();
}

void mr_cuda_end_iteration(mr_cuda *c)
{
    if (c->manner.listener) end_phase(c);
}
