/* kv_cache.h -- caches of keys and values that grow by a token at a time, found in a trace.
 *
 *     first ─ cat(first, new) ─ cat(.., new) ─ cat(.., new)      one cache: each result is the
 *             in call 1         in call 2      in call 3         whole cache, a copy and longer
 */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include "rewrite.h"

typedef struct kv_cache {
    MR_VEC(uint32_t) cats; /* ops, in order; at least two */
    uint32_t first;        /* tensor that the first of them makes longer */
    uint32_t dimension;    /* of the tokens */
    uint64_t tokens;       /* at the end, of one sequence */
    uint64_t sequences;
    uint64_t token_bytes; /* of one sequence */
    /* of the rewritten trace */
    uint32_t pool, copy; /* storage; tensor: what was `first`, in it */
} kv_cache;

typedef struct kv_caches {
    MR_VEC(kv_cache) all;
    uint32_t *grows; /* by op: the cache that it makes longer, MR_NONE */
    uint32_t *maker; /* by tensor: the op that made it, MR_NONE */
} kv_caches;

void kv_find(mr_ctx *ctx, const mr_trace *in, kv_caches *out);

/* The rewrite: blocks of so many tokens, `blocks` of them for each cache, 0 for what is needed.
 * MR_EUNSUPPORTED when there is no cache, or too few blocks. */
mr_status kv_page(mr_ctx *ctx, const mr_trace *in, uint64_t block_size, uint64_t blocks,
                  mr_trace *out);

#endif
