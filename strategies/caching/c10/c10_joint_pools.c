/* c10_joint_pools -- who holds the private pools.
 *
 * A trace does not say when the program let go of a pool: when it destroyed a CUDA graph or a
 * MemPool.  What the real allocator did shows it, because memory of a private pool goes back to
 * the device only when nobody holds it any more.  So where a placement follows a recording, a
 * pool is let go of directly after the request that came last before its memory was seen to go
 * back, provided that no later request was for it.  Otherwise pools are held to the end.
 */
#include "c10_joint.h"

#include <stdlib.h>

/* For each pool how many requests came before memory of it went back for good, MR_NONE for
 * never.  The pool of a segment is that of what is bound in it: the recording itself may
 * not know it. */
static uint32_t *find_last_days(const c10_joint *j, const mr_history *history)
{
    mr_ctx *ctx = j->placer->ctx;
    uint32_t *leaves = MR_NEW_N(ctx, uint32_t, j->trace->pools.n);
    uint32_t *pool_of = MR_NEW_N(ctx, uint32_t, history->segments.n), requests = 0;
    for (uint32_t p = 0; p < j->trace->pools.n; p++) leaves[p] = MR_NONE;
    for (uint32_t s = 0; s < history->segments.n; s++)
        pool_of[s] = history->segments.at[s].pool;
    for (uint32_t i = 0; i < history->cmds.n; i++) {
        const mr_cmd *cmd = &history->cmds.at[i];
        const bool request = cmd->kind == MR_BIND || cmd->kind == MR_REFUSE;
        const uint32_t pool = request ? j->trace->storages.at[cmd->id].pool
                              : cmd->kind == MR_RELEASE || cmd->kind == MR_UNMAP
                                  ? pool_of[cmd->block.segment]
                                  : 0;
        requests += request;
        if (cmd->kind == MR_BIND && cmd->block.segment != MR_NONE)
            pool_of[cmd->block.segment] = pool;
        if (request) leaves[pool] = MR_NONE;
        else if (pool && leaves[pool] == MR_NONE) leaves[pool] = requests;
    }
    return leaves;
}

static int by_time(const void *a, const void *b)
{
    const c10_farewell *x = a, *y = b;
    if (x->requests != y->requests) return x->requests < y->requests ? -1 : 1;
    return x->pool < y->pool ? -1 : x->pool > y->pool;
}

void c10_joint_expect_farewells(c10_joint *j, const mr_history *history)
{
    mr_ctx *ctx = j->placer->ctx;
    const uint32_t n = j->trace->pools.n;
    j->holds = MR_NEW_N(ctx, bool, n);
    if (!history || n < 2) return;
    const uint32_t *leaves = find_last_days(j, history);
    for (uint32_t p = 1; p < n; p++)
        if (leaves[p] != MR_NONE) MR_PUSH(ctx, &j->farewells, (c10_farewell){leaves[p], p});
    if (j->farewells.n)
        qsort(j->farewells.at, j->farewells.n, sizeof *j->farewells.at, by_time);
}

void c10_joint_let_go(c10_joint *j)
{
    while (j->gone < j->farewells.n && j->farewells.at[j->gone].requests <= j->requests) {
        const uint32_t pool = j->farewells.at[j->gone++].pool;
        if (j->holds[pool]) c10_pool_release(j->allocator, j->trace->pools.at[pool]);
        j->holds[pool] = false;
    }
}
