/* slices_writer.h -- where the slice at hand has its things. */
#ifndef SLICES_WRITER_H
#define SLICES_WRITER_H

#include "slices.h"

typedef struct slice_things {        /* of a region, once it is written; slice after slice */
    uint32_t *tensor, *storage, *op; /* of `out`, MR_NONE as long as there is none */
    uint32_t join, cut, mean;        /* ops of `out` around the forward pass */
} slice_things;

typedef struct slice_writer {
    slices *s;
    uint32_t region, part; /* at hand, part from 0 */
    slice_region *at;      /* that region */
    slice_things *things;  /* by region */
    uint32_t *copied;      /* by tensor: part in which it is a view of copied rows, MR_NONE */
    bool *gone;            /* by tensor: only slices have it */
    bool *done;            /* by event: of others, and written with the last slice */
} slice_writer;

void slices_writer_begin(slice_writer *w, slices *s);

/* Makes what w->region has the things at hand. */
void slices_writer_take_up(slice_writer *w);

/* Where the slice has the tensor; made when it is asked for first. */
uint32_t slices_place(slice_writer *w, uint32_t tensor);

/* Puts the slice's tensor at the beginning of a storage of `out`. */
void slices_put(slice_writer *w, uint32_t tensor, uint32_t storage);

/* The ops around its forward pass are noted here. */
slice_things *slices_around(slice_writer *w);

/* Where it has a storage that the region writes first. */
uint32_t *slices_home_of(slice_writer *w, uint32_t storage);

/* Its op for one of the region. */
uint32_t *slices_op_of(slice_writer *w, uint32_t op);

/* The op as the slice does it, not yet run. */
mr_op slices_op(slice_writer *w, uint32_t op);

/* The slice's share of something that all rows have together. */
uint64_t slices_share(const slice_writer *w, uint64_t whole);

uint64_t slices_number_bytes(const mr_tensor *tensor);

/* Do rows of the tensor, which is from outside, lie apart in memory? */
bool slices_is_apart(const slice_writer *w, uint32_t tensor);

#endif
