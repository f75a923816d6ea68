/* update_writer.h -- writes an optimizer's ops for parameters and their gradients, and gives
 * each parameter its state.
 */
#ifndef UPDATE_WRITER_H
#define UPDATE_WRITER_H

#include "rewrite.h"
#include "update_steps.h"

typedef struct update_pair { /* tensors */
    uint32_t parameter, gradient;
} update_pair;

typedef struct update_writer {
    mr_rewrite *r;
    uint64_t name;
    update_form form;
    MR_VEC(update_pair) pairs;
    uint32_t *states[26]; /* by letter, by pair: tensor; NULL for letters that are none */
    /* Of temporaries, by letter: what is being made, what a variable holds. */
    mr_ids fresh[26], bound[26];
    uint32_t last; /* op that was written last */
} update_writer;

/* States that there are from the first step on; `pairs`, name and form are known. */
void update_begin(update_writer *w);

/* The update of pairs i to i + n - 1. */
void update_write(update_writer *w, uint32_t i, uint32_t n);

/* Variables end with the function that has them. */
void update_end(update_writer *w);

#endif
