/* update_steps.h -- what optimizers of PyTorch do with a parameter, as a table of small steps.
 *
 * Letters stand for tensors:
 *
 *     p parameter   g gradient   M V B states as large   R C states of its rows and columns
 *     K counter of steps   E F states of a byte per number, X Y what scales blocks of them
 *     n o numbers, r c sums over columns and rows, others: temporaries as large as it
 */
#ifndef UPDATE_STEPS_H
#define UPDATE_STEPS_H

#include "param.h"

#define UPDATE_NAMES "sgd|sgd-momentum|adam|adamw|rmsprop|adafactor|adam8bit"
#define UPDATE_FORMS "default|foreach|for-loop|fused"

typedef enum update_form {
    UPDATE_DEFAULT,
    UPDATE_FOREACH,
    UPDATE_LOOP,
    UPDATE_FUSED,
} update_form;

typedef struct update_step {
    const char *name;
    const char *reads;
    char makes;          /* a new temporary; 0 for none */
    const char *mutates; /* "" for nothing */
    /* Variables that have the new value from here on, so that what an earlier parameter left in
     * them ends. */
    const char *binds;
    const char *ends; /* temporaries without a variable, that end here */
} update_step;

typedef struct update_steps {
    const char *states;
    const update_step *at;
    uint32_t n;
    bool together; /* one op works on all parameters */
} update_steps;

/* The steps for a parameter that is a matrix or more, or only a vector; the name and the form
 * as indexes into the lists above.  NULL when there is no such form. */
const update_steps *update_steps_of(uint64_t name, update_form form, bool matrix);

#endif
