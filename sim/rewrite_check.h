/* rewrite_check.h -- the referee of rewrites: is it still the same computation?
 *
 * Shares no code with rewrites and what they stand on.  It numbers the values of the trace
 * before: each storage holds the value that an op wrote to it last.  Then it lives through the
 * trace after the rewrite and holds every op against its counterpart:
 *
 *     op i itself       is op i of the trace before
 *     again             computes the values of that op again, random ones from their old state
 *     part, origin      does a share of that op: parts read parts of their own number
 *     moves             hands on the values that it reads, each to the result of its place
 *     cuts              shows what it reads in parts that make it up (rewrite_check_pieces.h)
 *     joins             makes a value of all its parts, in their order
 *     fills             joins what it reads around a piece that lies there already, which stays
 *     sums              adds a part of a value to those before, or behind; all are the value
 *     a stand-in        gives what it declares, if all that its ops read has been read
 *     none of these     computes something new, which no old op may read
 *
 * Every op reads what its counterpart read: the same values, of the same shape, or of that with
 * another number of samples where the trace after says that its batch has so many.  Values are
 * overwritten only after their last reader.  Nothing is read that neither the program nor
 * autograd holds any more, and what autograd has saved is not written to before its gradient.
 * Every op of before still runs, once (or all its parts do), as the same work; or a stand-in
 * says why not.  What begins as a copy of something ends as one.  Buffers are the exception: a
 * statistic is updated whenever an op runs.  Where several devices share a step, a gradient is
 * added up over all of them before the update reads it.
 */
#ifndef MR_REWRITE_CHECK_H
#define MR_REWRITE_CHECK_H

#include "trace.h"

/* MR_EINVARIANT names the op and what it should have read.  Both traces have passed
 * mr_trace_check. */
mr_status mr_rewrite_check(mr_ctx *ctx, const mr_trace *before, const mr_trace *after);

#endif
