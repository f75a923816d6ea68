/* release_look.h -- when gradients are ready, so that each can be used and let go of. */
#ifndef RELEASE_LOOK_H
#define RELEASE_LOOK_H

#include "update_look.h"

typedef struct ready {
    updated update;
    uint64_t name; /* of the optimizer, as an index into UPDATE_NAMES */
    update_form form;
    uint32_t *first; /* by op: the first pair whose gradient it finishes, MR_NONE */
    uint32_t *next;  /* by pair: the next one */
    bool *gradient;  /* by storage: of a pair */
    bool *old;       /* by storage: a gradient of the step before, which is only let go of */
} ready;

/* MR_EUNSUPPORTED when a gradient cannot be used as soon as it is there, with the reason. */
mr_status release_look(mr_ctx *ctx, const mr_trace *in, ready *out);

#endif
