/* rewrite_check_pieces.h -- do pieces lie one after another and make up the whole? */
#ifndef MR_REWRITE_CHECK_PIECES_H
#define MR_REWRITE_CHECK_PIECES_H

#include "trace.h"

/* Of an op that cuts: its results tile what it reads along one dimension, in their order. */
mr_status mr_rewrite_check_cut(mr_ctx *ctx, const mr_trace *trace, uint32_t op);

/* Of an op that joins: what it reads adds up to its result along one dimension. */
mr_status mr_rewrite_check_join(mr_ctx *ctx, const mr_trace *trace, uint32_t op);

/* The input of an op that lies in the memory of what the op changes, all that it reads being
 * pieces of that along one dimension, and this one where it belongs.  MR_NONE for other ops. */
uint32_t mr_rewrite_check_filled(const mr_trace *trace, const mr_op *op);

#endif
