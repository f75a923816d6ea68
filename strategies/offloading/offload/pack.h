/* pack.h -- torch.autograd.graph.save_on_cpu around the forward pass. */
#ifndef PACK_H
#define PACK_H

#include "rewrite.h"

typedef struct pack_choice {
    bool pinned;
    uint64_t least; /* smaller tensors stay where they are, bytes */
} pack_choice;

mr_status pack_rewrite(mr_ctx *ctx, const mr_trace *in, const pack_choice *choice,
                       mr_trace *out);

#endif
