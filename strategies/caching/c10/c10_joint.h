/* c10_joint.h -- between the model of the allocator and the placer.
 *
 * The placer answers what the allocator asks of CUDA, the allocator answers what the driver of
 * online allocators asks, and a recording's beginning becomes the allocator's.
 *
 * A trace says when a deferred free took effect, not which stream it waited for.  So each such
 * block waits for a stream of its own, numbered from the end of the trace's, which
 * does nothing else.
 */
#ifndef C10_JOINT_H
#define C10_JOINT_H

#include "c10.h"
#include "placement.h"

typedef struct c10_wait { /* a stream that one deferred block waits for */
    uint64_t submitted, completed;
    bool busy;
} c10_wait;

typedef struct c10_held { /* a segment that the device has given out */
    uint64_t address;
    uint32_t segment;
} c10_held;

typedef struct c10_farewell { /* the program lets go of a pool */
    uint32_t requests, pool; /* after so many */
} c10_farewell;

typedef struct c10_joint {
    mr_placer *placer;
    c10_allocator *allocator;
    const mr_trace *trace;
    uint32_t streams;          /* of the trace; waits are numbered from here */
    uint32_t pool;             /* of the request at hand */
    uint32_t requests;         /* so far */
    bool *holds;               /* by pool: the program holds it */
    MR_VEC(c10_farewell) farewells; /* in order; those before `gone` are over */
    uint32_t gone;
    MR_VEC(c10_held) helds;    /* ascending */
    MR_VEC(c10_held) by_order; /* by c10_lease.order, counted from 1; gone ones as well */
    MR_VEC(c10_wait) waits;
    MR_VEC(uint32_t) idle;    /* waits that nobody uses */
    MR_VEC(uint32_t) wait_of; /* by block */
} c10_joint;

/* Places the schedule with an allocator of these options; a fraction of 0 sets no limit
 * (torch.cuda.set_per_process_memory_fraction). */
mr_status c10_joint_place(mr_placer *placer, const mr_schedule *schedule, c10_version version,
                          const c10_options *options, double fraction);

/* The same for an allocator that stands before this one: what it hands on, by the policy. */
void c10_joint_open(c10_joint *j, mr_placer *placer, const mr_schedule *schedule,
                    c10_version version, const c10_options *options);
mr_online c10_joint_policy(c10_joint *j);

/* c10_joint_start: mr_online.adopt */
mr_status c10_joint_adopt(void *self, mr_placer *placer, const mr_history *history,
                          uint32_t *handles);

/* c10_joint_pools: farewells from a recording, NULL for none; the ones that are due. */
void c10_joint_expect_farewells(c10_joint *j, const mr_history *history);
void c10_joint_let_go(c10_joint *j);

void c10_joint_hold(c10_joint *j, c10_held held); /* keeps helds ascending */
uint32_t c10_joint_wait(c10_joint *j);            /* a wait that nobody uses */
void c10_joint_await(c10_joint *j, uint32_t block, uint32_t wait);

#endif
