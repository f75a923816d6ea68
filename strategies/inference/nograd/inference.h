/* inference.h -- what is left of a training step when only its forward pass runs. */
#ifndef INFERENCE_H
#define INFERENCE_H

#include "rewrite.h"

/* MR_EUNSUPPORTED when there is no forward pass, or one that reads what an update wrote. */
mr_status inference(mr_ctx *ctx, const mr_trace *in, mr_trace *out);

#endif
