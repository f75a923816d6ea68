/* update_look.h -- which ops of a recording are its optimizer's, and what they
 * update with what. */
#ifndef UPDATE_LOOK_H
#define UPDATE_LOOK_H

#include "update_writer.h"

typedef struct updated {
    bool *replaced;  /* by op: the optimizer's own */
    bool *temporary; /* by storage: made by such an op */
    bool *foreign;   /* by storage: another's, of what is no parameter and no gradient */
    MR_VEC(uint32_t) begins; /* events of the first op of each update */
    MR_VEC(update_pair) pairs;
} updated;

/* MR_EUNSUPPORTED when the recording has no update, or one that cannot be told. */
mr_status update_look(mr_ctx *ctx, const mr_trace *in, updated *out);

#endif
