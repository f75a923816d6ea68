/* shards.h -- a step of which each device holds a part of every parameter.
 *
 * Parameters belong to *units*: modules that are wrapped, and the rest of the model, the root.
 * A *visit* is one call of a unit: a stretch of the forward pass and the stretch of the
 * backward pass that computes its gradients.  Before either the parameters of the unit are
 * gathered from all devices, after it they are let go.
 */
#ifndef SHARDS_H
#define SHARDS_H

#include "names.h"
#include "replica.h"
#include "rewrite.h"

typedef enum shards_reshard { SHARDS_BUT_ROOT, SHARDS_ALL, SHARDS_NONE } shards_reshard;

typedef enum shards_dtype { SHARDS_FLOAT32, SHARDS_BFLOAT16, SHARDS_FLOAT16 } shards_dtype;

typedef struct shards_choice {
    uint64_t ranks, reshard, prefetch, forward_prefetch;
    uint64_t param_dtype, reduce_dtype;
    const char *module;
    bool limit_all_gathers;
} shards_choice;

enum { SHARDS_ROOT = 0 }; /* the root's unit */

typedef MR_VEC(uint32_t) shards_ids;

typedef struct shards_unit {
    const char *name;
    shards_ids parameters; /* tensors of the input, one of each storage */
    shards_ids gradients;  /* as replica_fill numbers them */
    uint32_t reduced;      /* event after which its gradients are sent; MR_NONE for never */
} shards_unit;

typedef struct shards_visit {
    uint32_t unit;
    uint32_t begin, end;             /* events of its first and last op in the forward pass */
    uint32_t back_begin, back_end;   /* and in the backward pass; MR_NONE for none */
} shards_visit;

typedef struct shards {
    mr_ctx *ctx;
    const mr_trace *in;
    const shards_choice *choice;
    MR_VEC(shards_unit) units;
    MR_VEC(shards_visit) visits; /* in the order of the forward pass */
    uint32_t *unit_of;           /* by op of the passes */
    uint32_t *visit_of;          /* by op of the passes */
    uint32_t *owner;             /* by storage of a parameter: its unit; MR_NONE for others */
    shards_ids backward;         /* visits in the order of the backward pass */
    replica_buckets gradients;
} shards;

/* MR_EUSAGE when no module is called so. */
mr_status shards_find_units(shards *s);
mr_status shards_find_visits(shards *s);

/* Who owns what: parameters that several units read are the root's. */
void shards_find_owners(shards *s);

mr_status shards_rewrite(mr_ctx *ctx, const mr_trace *in, const shards_choice *choice,
                         mr_trace *out);

#endif
