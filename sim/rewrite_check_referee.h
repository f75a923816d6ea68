/* rewrite_check_referee.h -- what the parts of the referee of rewrites have in common.
 *
 * Numbers of values:  0 none · 1 + s what storage s held before the first event · then, op by
 * op, one for each tensor in its `out` and `mutates` · then those of new ops.  A value of part
 * p has p in its upper half, and so has the sum of the parts up to p, or from p, marked as
 * such.
 */
#ifndef MR_REWRITE_CHECK_REFEREE_H
#define MR_REWRITE_CHECK_REFEREE_H

#include "trace.h"

typedef uint64_t mr_value;

#define MR_VALUE_SHIFT 32
#define MR_VALUE_PART ((mr_value)0x3fffffff)
#define MR_VALUE_SUM ((mr_value)1 << 63)  /* of all parts up to the number */
#define MR_VALUE_FROM ((mr_value)1 << 62) /* with SUM: of all parts from the number on */

typedef struct mr_numbering { /* of the trace before */
    const mr_trace *trace;
    bool *runs;      /* by op */
    uint32_t *made;  /* by op: number of its first result's value */
    uint32_t *maker; /* by value: the op that makes it */
    uint32_t *first; /* by op: where in `read` its inputs begin */
    mr_value *read;  /* what ops read, input by input */
    uint32_t values; /* how many numbers are given */
    uint32_t reads;  /* how many inputs there are */
} mr_numbering;

typedef struct mr_referee {
    mr_ctx *ctx;
    mr_numbering before;
    const mr_trace *trace; /* after */
    mr_value *holds;       /* by storage of `trace` */
    uint64_t *base;    /* by storage of `trace`: where in the place of its value it begins */
    bool *packed;      /* by storage of `trace`: without the gaps that a view had */
    uint32_t *viewed;  /* by storage: event at which an op read it last */
    uint32_t *wrote;   /* by storage of `trace`: tensor by which it was written last, MR_NONE */
    mr_value *beside;  /* by tensor of `trace`: what it goes on showing, 0 for nothing, ... */
    mr_value *under;   /* ... as long as its storage holds this, of which it is a piece */
    uint32_t *done;    /* by op of before: how often it was carried out, or its parts */
    bool *divided;     /* by op of before: in parts */
    uint64_t *flops;   /* by op of before: what carrying it out took */
    uint32_t *excused; /* by op of before: the stand-in that speaks for it, MR_NONE */
    bool *used;        /* by value of before: a new op has read it */
    bool *given;       /* by value of before: a stand-in has brought it */
    uint32_t *stands;  /* by op of `trace`: its stand-in, MR_NONE */
    bool *stood;       /* by stand-in: its op has run */
    mr_value *last;    /* by storage of before: what a stand-in's ops wrote to it last */
    mr_value *moved;   /* by result of the op at hand */
    uint64_t had, has; /* samples in a batch before and after, where these differ; else 0 */
    uint32_t *parts;   /* by op of before: in how many it is done, 0 if in one run */
    uint32_t *piece;   /* by tensor: which part of a whole that was cut, 0 if none */
    uint32_t *pieces;  /* by tensor: of how many */
    uint8_t *ways;     /* by read of before: WHOLE or ONE where parts read all, a part */
    mr_value fresh;    /* next number for something new */
    uint32_t event;
} mr_referee;

/* ---- values (rewrite_check_values.c) ----------------------------------------------------- */

uint32_t mr_referee_storage(const mr_trace *trace, uint32_t tensor);

/* What an op puts out and what it changes in place, in one row. */
uint32_t mr_referee_results(const mr_op *op);
uint32_t mr_referee_result(const mr_op *op, uint32_t k);

/* Is result k new content, not a view of what the op reads? */
bool mr_referee_writes(const mr_trace *trace, const mr_op *op, uint32_t k,
                       const uint32_t *viewed, uint32_t event);

/* Running statistics are brought up to date once more by whoever recomputes. */
bool mr_referee_is_statistic(const mr_trace *trace, uint32_t storage);

/* MR_EINVARIANT when the trace after shares what cannot be shared. */
mr_status mr_referee_number(mr_ctx *ctx, const mr_trace *trace, const mr_trace *after,
                            mr_numbering *out);

/* An op, and what wrote a value, for a person. */
const char *mr_referee_named(mr_ctx *ctx, const mr_trace *trace, uint32_t op);
const char *mr_referee_told(const mr_referee *r, mr_value v);

/* ---- whose work an op does (rewrite_check_work.c) ---------------------------------------- */

/* The op of before whose work it does, MR_NONE for nobody's; and the part of it that it does, 0
 * for all, also where that is a part itself. */
uint32_t mr_referee_counterpart(const mr_referee *r, uint32_t op);
mr_value mr_referee_part(const mr_referee *r, uint32_t op, uint32_t counterpart);

/* What an op of before takes, in the batch of after. */
uint64_t mr_referee_operations(const mr_referee *r, const mr_op *old);

/* What the tensor shows of the value that its storage holds. */
mr_value mr_referee_seen(const mr_referee *r, uint32_t tensor);

mr_status mr_referee_same_work(const mr_referee *r, uint32_t op, uint32_t counterpart);
mr_status mr_referee_reads(mr_referee *r, uint32_t op, uint32_t counterpart, uint32_t input);
void mr_referee_write(mr_referee *r, uint32_t op, uint32_t counterpart);

/* ---- ops that hand on what there is (rewrite_check_parts.c) ------------------------------ */

mr_status mr_referee_move(mr_referee *r, uint32_t op);
mr_status mr_referee_sum(mr_referee *r, uint32_t op);
mr_status mr_referee_cut(mr_referee *r, uint32_t op);
mr_status mr_referee_join(mr_referee *r, uint32_t op);

/* After an op that has filled up the memory around a tensor: that shows what it has shown, and
 * so does every other one at its place. */
void mr_referee_fill(mr_referee *r, uint32_t tensor, mr_value shown);

/* After any op: results in the memory of a piece show that piece. */
void mr_referee_note_pieces(mr_referee *r, const mr_op *op);

/* ---- stand-ins (rewrite_check_stand_ins.c) ----------------------------------------------- */

/* Of an op that is new, or stands in for others: it has read what it reads. */
void mr_referee_note_use(mr_referee *r, const mr_op *op);

/* Has all been read that the ops read for which it stands, and gives it what they make? */
mr_status mr_referee_stand_in(mr_referee *r, uint32_t op, uint32_t stand_in);

/* Is an op of before left out on purpose, or done by an op that stands in for it? */
bool mr_referee_is_left_out(const mr_referee *r, uint32_t op);

#endif
