/* sharing.h -- who shares whose parameters, and what belongs to a parameter.
 *
 * A parameter owns its gradient and its optimizer state.  That is told by names ("weight.grad",
 * "weight.exp_avg") and by the columns of the update's lists: the third tensor of one list goes
 * with the third of the others.
 */
#ifndef SHARING_H
#define SHARING_H

#include "names.h"
#include "rewrite.h"

typedef struct sharing_choice {
    const char *groups, *tie;
    uint64_t span;
} sharing_choice;

typedef struct sharing {
    mr_ctx *ctx;
    const mr_trace *in;
    mr_names names;         /* of parameters and buffers */
    MR_VEC(uint32_t) named; /* by name: storage */
    uint32_t *lender; /* by storage of a parameter: the one it is replaced by, or itself */
    uint32_t *shared; /* by storage of a parameter that stays: by how many others it is used */
    uint32_t *owner;  /* by storage: the parameter it belongs to, MR_NONE */
} sharing;

/* Sets lender and shared.  MR_EUNSUPPORTED when there is nothing to share, or it does not fit.
 */
mr_status sharing_find(sharing *s, const sharing_choice *choice);

/* Sets owner. */
void sharing_own(sharing *s);

/* Does the storage belong to a parameter that is gone? */
bool sharing_is_gone(const sharing *s, uint32_t storage);

mr_status sharing_rewrite(mr_ctx *ctx, const mr_trace *in, const sharing_choice *choice,
                          mr_trace *out);

#endif
