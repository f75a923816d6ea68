/* replica_dealt -- whole parameters dealt out to devices, as ZeroRedundancyOptimizer has it: the
 * largest first, each to the device that has the least so far.
 */
#include "replica.h"

#include <stdlib.h>

static int larger(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

static uint64_t *sizes_of(mr_ctx *ctx, const mr_trace *in, const replica_buckets *buckets)
{
    uint64_t *sizes = MR_NEW_N(ctx, uint64_t, buckets->gradients.n);
    for (uint32_t g = 0; g < buckets->gradients.n; g++)
        sizes[g] = in->tensors.at[buckets->gradients.at[g].tensor].bytes;
    qsort(sizes, buckets->gradients.n, sizeof *sizes, larger);
    return sizes;
}

double replica_dealt(mr_ctx *ctx, const mr_trace *in, const replica_buckets *buckets,
                     uint64_t ranks)
{
    const uint64_t *sizes = sizes_of(ctx, in, buckets);
    const uint32_t n = buckets->gradients.n, some = ranks < n ? (uint32_t)ranks : n;
    uint64_t *loads = MR_NEW_N(ctx, uint64_t, some), all = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t least = 0;
        for (uint32_t r = 1; r < some; r++)
            if (loads[r] < loads[least]) least = r;
        loads[least] += sizes[i];
        all += sizes[i];
    }
    return all ? (double)loads[0] / (double)all : 0;
}
