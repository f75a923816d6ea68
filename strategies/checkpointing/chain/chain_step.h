/* chain_step.h -- a recorded training step seen as a chain of stages, and rewritten by a plan.
 *
 * A stage ends where one storage alone leads from what ran to what is to come, and the next
 * stage begins with it as x(i).  Three kinds of storages do not count as leading on, since a
 * plan never lets go of them: what lives before the step (parameters), what the program
 * holds into the backward pass by itself, and small things that are read all over the
 * forward pass (attention masks).
 *
 * Sizes are those of storages that the recorded lifetimes give, largest moments included, so
 * that the peak of a plan is that of the rewritten step or a little above it:
 *
 *     xbar(i+1)     made by stage i and still there when the backward pass begins; and x(i+1)
 *     y(i)          made by the backward pass and still there when stage i-1 begins its own
 *     temporaries   the largest sum while a stage runs, less what is held anyway; in the first
 *                   pass also what the program has not yet dropped of stages before
 */
#ifndef CHAIN_STEP_H
#define CHAIN_STEP_H

#include "chain.h"
#include "trace.h"

typedef struct chain_step {
    const mr_trace *trace;
    chain_problem problem;
    uint32_t begin, turn, end; /* events: first op forward, first backward, behind the last */
    uint32_t *stage;           /* by op: stage it runs forward or backward; MR_NONE outside */
    uint32_t *born;            /* by storage: stage that makes it; MR_NONE for none */
    bool *constant;            /* by storage: no plan lets go of it */
    uint32_t *input;           /* by stage: storage that is x(i); MR_NONE for x(0) */
    uint32_t *maker;           /* by storage: op that writes it first; MR_NONE for none */
    uint32_t *without;         /* by storage: bit o: option o of its stage does not save it */
    bool measured;             /* times are those of the trace: see chain_time.h */
    uint64_t around;           /* bytes that are held beside the chain, such as parameters */
    uint64_t outside;          /* peak before the first op forward or after the last backward */
    uint64_t peak;             /* of the step as it was */
} chain_step;

/* MR_EUNSUPPORTED when the step has no backward pass, or a forward pass behind it.  Stages are
 * joined until there are at most `most`; each has one option. */
mr_status chain_step_of(mr_ctx *ctx, const mr_trace *trace, uint32_t most, chain_step *out);

/* Up to so many more options per stage, 31 at most: each saves a part of what the stage saves
 * and makes the rest again from that and x(i) when the stage begins to run backward. */
void chain_step_add_options(mr_ctx *ctx, chain_step *step, uint32_t options);

/* Bytes of the chain within a peak of the whole step; 0 when not even the rest fits. */
uint64_t chain_step_room(const chain_step *step, uint64_t peak);
/* Peak of the whole step when the chain takes so many bytes. */
uint64_t chain_step_peak(const chain_step *step, uint64_t chain);

/* Writes the step anew as the plan has it. */
mr_status chain_step_rewrite(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                             mr_trace *out);

/* Says in a remark of `out` what runs again, in which calls. */
void chain_step_tell(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                     mr_trace *out);

/* Says what the least peak is that the plan reaches: MR_EUNSUPPORTED. */
mr_status chain_step_too_small(mr_ctx *ctx, const chain_step *step, const char *who,
                               uint64_t budget, const chain_actions *plan);

#endif
