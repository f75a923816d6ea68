/* rewrite.h -- writing a trace anew: the ground on which every rewrite stands.
 *
 * A rewrite walks the events of its input in order and says for each what becomes of it:
 *
 *     mr_rewrite r;
 *     MR_TRY(mr_rewrite_begin(ctx, in, out, &r));
 *     for (uint32_t e = 0; e < in->events.n; e++) {
 *         if (... before an op whose values are gone ...)
 *             mr_rewrite_replay(&r, &again, o);
 *         mr_rewrite_keep(&r, NULL, e);
 *     }
 *
 * `out` begins as a copy of `in` without events: op, tensor and storage i of one are those of
 * the other, and new ones get numbers behind them.  So an op that is not copied is its own
 * counterpart, and an edit of it is an edit of out->ops.at[i] (give it new lists, the old ones
 * are shared with `in`).  ALLOC, FREE and DONE are gone, so that lifetimes follow from what is
 * left (schedule.h): a storage ends with its last reader, the last DROP of a tensor in it, or
 * the last op `of` an op that saved it.  To let something go earlier, take away its readers and
 * savers; to hold it longer, save it or move its DROP.
 *
 * A mr_where says where values of `in` are found in `out`, storage by storage, so that whatever
 * shares memory goes on sharing it.  NULL is the one by which everything is where it was.
 *
 * What a referee must be told, because it could not know (rewrite_check.h): `again` of an op
 * that recomputes, `part` and `origin` of one that does a share of another's work, `moves` of a
 * copy or cast, `sums`, `cuts` and `joins` of what adds up, cuts or joins parts of values, and
 * a mr_stand_in for ops that others replace or that are left out on purpose.
 * All calls take time proportional to what they write.
 */
#ifndef MR_REWRITE_H
#define MR_REWRITE_H

#include "trace.h"

typedef struct mr_rewrite {
    mr_ctx *ctx;
    const mr_trace *in;
    mr_trace *out;
    const uint32_t *birth; /* by storage of `in`: op that writes it first, MR_NONE for no op */
    MR_VEC(bool) dropped;  /* by tensor of `out` */
} mr_rewrite;

typedef struct mr_where {
    uint32_t *storage; /* by storage of `in`: the one of `out` that has its value now */
    uint32_t *tensor;  /* by tensor of `in`: the one of `out` made for it last; see below */
    uint32_t *op;      /* by op of `in`: the one of `out` that did its work last */
} mr_where;

/* MR_EUNSUPPORTED when an op runs more than once. */
mr_status mr_rewrite_begin(mr_ctx *ctx, const mr_trace *in, mr_trace *out, mr_rewrite *r);

/* MR_EUNSUPPORTED when something of the step is on the host for a while: for rewrites that look
 * at what is saved, or who reads it, and therefore come before that.  `who` is their name. */
mr_status mr_rewrite_before_host(mr_ctx *ctx, const mr_trace *in, const char *who);

/* MR_EUNSUPPORTED when tensors of the step are evicted, so that what ops have saved says no longer
 * what the backward pass needs of them: for rewrites that change who saves it. */
mr_status mr_rewrite_before_evictions(mr_ctx *ctx, const mr_trace *in, const char *who);

/* MR_EUNSUPPORTED when an op fills up a storage of which it reads a piece, as skip_reuse has
 * it: for rewrites that take what a storage holds for one thing.  `expected` ends the sentence.
 */
mr_status mr_rewrite_whole(mr_ctx *ctx, const mr_trace *in, const char *expected);

/* MR_EUNSUPPORTED when the forward pass writes a piece of a storage of which another piece is
 * saved, as a program does that places skips itself: for rewrites that take what a storage holds
 * for one value.  `who` is their name. */
mr_status mr_rewrite_not_beside(mr_ctx *ctx, const mr_trace *in, const char *who);

/* Does the backward pass copy from the host what was saved there, in a recording that shows no
 * tensors of the host? */
bool mr_rewrite_unpacks(const mr_trace *in);

/* Everything is where it was. */
void mr_where_init(mr_rewrite *r, mr_where *where);

/* ---- things of `in`, as a mr_where has them ---------------------------------------------- */

/* The event as it was; of an op or a dropped tensor, what stands for it. */
void mr_rewrite_keep(mr_rewrite *r, mr_where *where, uint32_t event);

/* Runs the op itself; what it reads and writes is where that says. */
void mr_rewrite_run(mr_rewrite *r, mr_where *where, uint32_t op);

/* Runs a copy of the op as `in` has it, whatever has become of its own run: say of the copy,
 * which is returned, what is to be otherwise, and in what sense it is one (part, origin).  What
 * it writes first gets new storages, and `where` then says so; views stay views.  Entry i of
 * the copy's lists stands for entry i of those in `in`, with which they may be shared. */
uint32_t mr_rewrite_copy(mr_rewrite *r, mr_where *where, uint32_t op);

/* Runs it again to have its values back: a copy of the backward pass whose `again` it is. */
uint32_t mr_rewrite_replay(mr_rewrite *r, mr_where *where, uint32_t op);

/* The tensor's last reference by the program ends; nothing happens if it ended before. */
void mr_rewrite_drop(mr_rewrite *r, mr_where *where, uint32_t tensor);

/* Where the tensor is now.  Made when it is asked for first, as a view of the storage that
 * `where` has for its storage; offset, shape and bytes stay. */
uint32_t mr_rewrite_tensor(mr_rewrite *r, mr_where *where, uint32_t tensor);

/* ---- new things of `out` ----------------------------------------------------------------- */

/* A storage like another one of `out`, live neither before nor after; returns its index. */
uint32_t mr_rewrite_new_storage(mr_rewrite *r, uint32_t like, uint64_t bytes);

/* A tensor like another one of `out`, at the beginning of a storage that it fills. */
uint32_t mr_rewrite_new_tensor(mr_rewrite *r, uint32_t like, uint32_t storage);

/* A tensor without dimensions, such as a scale, with its storage: of the state, live before and
 * after the step, or temporary.  Like another tensor of `out` in what else it has. */
uint32_t mr_rewrite_new_number(mr_rewrite *r, uint32_t like, const char *dtype, bool lasting);

/* Runs an op that no recording had; returns its index.  Where there is no other op in them, its
 * `again` and `of` must be MR_NONE. */
uint32_t mr_rewrite_new_op(mr_rewrite *r, const mr_op *op);

/* Runs an op that copies (or casts) tensor `from` to tensor `to`, both of `out`.  Name, module,
 * phase, stream and `of` are those of `as`. */
uint32_t mr_rewrite_move(mr_rewrite *r, uint32_t from, uint32_t to, const mr_op *as);

/* Ids kept in the arena. */
mr_ids mr_ids_of(mr_ctx *ctx, uint32_t n, const uint32_t *at);

/* After the referee: numbers ops, tensors and storages in the order of their first use and
 * leaves out what is not used, so that the trace can be written, and the next rewrite sees no
 * difference to a recording. */
void mr_rewrite_settle(mr_ctx *ctx, mr_trace *trace);

/* Notes for a person what was refused or done and why, as one sentence. */
void mr_rewrite_remark(mr_rewrite *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
