/* recompute_look.h -- what must be known of regions before a step is written anew. */
#ifndef RECOMPUTE_LOOK_H
#define RECOMPUTE_LOOK_H

#include "recompute.h"

typedef MR_VEC(uint32_t) numbers;

/* A cast of a parameter that was autocast's when the region ran, and is gone when it runs again:
 * it casts anew, before an event. */
typedef struct looked_cast {
    uint32_t event, op;
} looked_cast;

/* A tensor inside that an op which does not run again has saved: its second run lasts until the
 * last event of that op's gradient. */
typedef struct looked_hold {
    uint32_t tensor, until;
} looked_hold;

typedef struct looked_region {
    uint32_t stop;      /* event before which running it again ends */
    uint32_t trigger;   /* event, in the backward pass, before which it runs again */
    uint32_t last;      /* event: the last gradient inside */
    uint32_t holder;    /* op of the region whose gradient that is */
    numbers inputs;     /* tensors that it reads and others made */
    numbers gradients;  /* tensors from outside that its gradients read */
    numbers late_drops; /* tensors inside whose drop is recorded after its end */
    MR_VEC(looked_cast) casts; /* by event */
    MR_VEC(looked_hold) holds;
} looked_region;

typedef struct looked {
    regions regions;      /* those that can be run again */
    looked_region *look;  /* one each */
    uint32_t *region_of;  /* by op of the forward pass; MR_NONE */
    uint32_t *born_in;    /* by storage: region whose op writes it first; MR_NONE */
    bool *kept;           /* by storage: a result that the second run takes from the first */
    bool *only_once;      /* by op of a region: it saves something but does not run again */
    bool *outlives;       /* by storage: born in a region, used outside of it */
    bool *moved_drop;     /* by event: a drop that is one of late_drops */
    uint32_t *ends;       /* by event: the region whose last gradient it computes; MR_NONE */
    uint32_t *apart;      /* by event: the region whose gradient a sum must not be added to;
                           * MR_NONE */
    uint32_t *inside_end; /* by op of a region: last event of its gradient, without the sums by
                           * the engine that follow it */
} looked;

/* Regions that cannot be run again get a remark; MR_EUNSUPPORTED when none is left. */
mr_status recompute_look(mr_rewrite *r, const regions *list, const recompute_how *how,
                         looked *out);

#endif
