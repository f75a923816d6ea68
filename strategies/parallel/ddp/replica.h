/* replica.h -- the step of one device among several, and the buckets of its gradients. */
#ifndef REPLICA_H
#define REPLICA_H

#include "rewrite.h"

typedef struct replica_choice {
    uint64_t ranks, zero, bucket_cap_mb; /* 0 for the usual ones */
    bool gradient_as_bucket_view;
} replica_choice;

typedef struct replica_gradient {
    uint32_t tensor; /* of the input: the last one on its storage */
    uint32_t bucket;
    uint64_t offset; /* in the bucket */
} replica_gradient;

typedef struct replica_bucket {
    uint64_t bytes;
    uint32_t first, n; /* gradients, one after the other */
    uint32_t ready;    /* op after which all of them are there */
} replica_bucket;

typedef struct replica_buckets {
    MR_VEC(replica_gradient) gradients; /* in the order in which they get ready */
    MR_VEC(replica_bucket) all;
    uint32_t *of; /* by storage: its gradient, MR_NONE */
    uint32_t *first,
        *next; /* gradients that an op finishes: the first, and for each the next */
} replica_buckets;

/* Gradients of the backward pass that the update reads, and who shares a bucket with whom.
 * MR_EUNSUPPORTED when there are none, or the update does not wait for all of them. */
mr_status replica_fill(mr_ctx *ctx, const mr_trace *in, const replica_choice *choice,
                       replica_buckets *out);

/* What the first device would have of all parameters, if each were given to one device. */
double replica_dealt(mr_ctx *ctx, const mr_trace *in, const replica_buckets *buckets,
                     uint64_t ranks);

mr_status replica_rewrite(mr_ctx *ctx, const mr_trace *in, const replica_choice *choice,
                          mr_trace *out);

#endif
