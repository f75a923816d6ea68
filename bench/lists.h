/* lists.h -- the lists of info, each with a function that makes it. */
#ifndef MR_LISTS_H
#define MR_LISTS_H

#include "info.h"

/* Of what is live, report_holders.c. */
void mr_list_roles(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);
void mr_list_makers(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);
void mr_list_tensors(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);

/* Of what costs work, report_costs.c. */
void mr_list_modules(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);
void mr_list_ops(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);
void mr_list_layers(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out);

#endif
