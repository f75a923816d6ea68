/* schedule.h -- lifetimes decided: what is allocated, run and freed on one device, in order. */
#ifndef MR_SCHEDULE_H
#define MR_SCHEDULE_H

#include "trace.h"

typedef struct mr_carry {
    uint32_t from, to; /* storages of the same size and stream */
} mr_carry;

typedef struct mr_schedule {
    const mr_trace *trace;
    uint32_t device;
    const mr_history *history; /* of this device; NULL unless recorded (and not rewritten) */
    MR_VEC(mr_event) events;   /* ALLOC, FREE, DONE, RUN, FLUSH, MARK, CARRY */
    MR_VEC(mr_carry) carries;
    MR_VEC(uint32_t) ends;     /* number of events up to the end of each iteration */
} mr_schedule;

/* Events of `device` in order.  Storages that are live before the first event are allocated by
 * nobody here: an allocator adopts them or places them first (placement.h).
 *
 * Where the trace knows lifetimes (mr_trace_knows_lives) they are taken as recorded; else they
 * are derived: a storage is born with the op that first puts out a tensor on it, and ends after
 * the last of: an op that reads, makes or mutates a tensor on it; a drop of such a tensor; an
 * op of the backward pass that is `of` an op that saved such a tensor, or of one that
 * recomputes it.  A storage that is `after` has no end. */
mr_status mr_schedule_make(mr_ctx *ctx, const mr_trace *trace, uint32_t device,
                           mr_schedule *out);

/* Results stand in the order in which an op returns them: does it ask for their memory in the
 * other one, the last first? */
bool mr_schedule_asks_backwards(const mr_op *op);

/* What ops take and give back inside becomes storages, added to the schedule's own trace, each
 * allocated when all results of its op are there and freed before anything else is.  Where an
 * allocator's history was recorded, nothing is done: it has them among its own. */
void mr_schedule_workspaces(mr_ctx *ctx, mr_trace *trace, mr_schedule *schedule);

/* The same schedule `n` times in a row, as steps follow each other in training: a storage that
 * ends one iteration alive becomes the equally large one that the next expects to be alive
 * (CARRY); what has no partner is freed, or allocated, at the seam. */
mr_status mr_schedule_repeat(mr_ctx *ctx, const mr_schedule *in, uint32_t n, mr_schedule *out);

/* What becomes of a batch when steps follow each other. */
typedef enum mr_batches {
    MR_BATCHES_EARLY, /* the next one is there before this one goes, as when names are bound
                       * anew to what was made for them */
    MR_BATCHES_LATE,  /* this one goes first: its names are bound to what is on the host, and
                       * then to a copy of that */
    MR_BATCHES_SAME,  /* one for all steps, or the next is copied to where this one lies */
} mr_batches;

/* The same as a program trains: between two steps batches change, inputs of which a part is for
 * each sample.  Changes the schedule's own trace: the next batch, while this one is still
 * there, is of storages of its own. */
mr_status mr_schedule_train(mr_ctx *ctx, mr_trace *trace, const mr_schedule *in, uint32_t n,
                            mr_batches batches, mr_schedule *out);

/* The first of several steps, as it is when a program begins: the optimizer makes its states
 * before its first update, and there are no gradients of a step before.  So all of these lie
 * where they lie in a program, not side by side with the parameters.  Changes the schedule's
 * own trace. */
void mr_schedule_first_step(mr_ctx *ctx, mr_trace *trace, mr_schedule *schedule);

/* Largest sum of bytes live at once, and the index of the event that reaches it. */
uint64_t mr_schedule_peak(const mr_schedule *schedule, uint32_t *at);

#endif
