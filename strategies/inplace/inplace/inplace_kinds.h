/* inplace_kinds.h -- which ops exist in place, and what their gradients need then. */
#ifndef INPLACE_KINDS_H
#define INPLACE_KINDS_H

#include "base.h"

typedef enum inplace_needs {
    INPLACE_RESULT,   /* the gradient needs the result, in either form */
    INPLACE_SWITCHES, /* ... what is read; in place the result instead */
    INPLACE_NOTHING,  /* ... neither */
    INPLACE_COPY,     /* ... what is read; in place it is copied first: nothing is gained */
    INPLACE_NOISE,    /* ... a mask; in place a factor for each number instead, as large */
} inplace_needs;

typedef enum inplace_sort {
    INPLACE_ACTIVATION,
    INPLACE_SUM,
    INPLACE_DROPOUT,
    INPLACE_ELEMENTWISE, /* number by number, or row by row: a planner may do it in place */
} inplace_sort;

typedef struct inplace_kind {
    const char *name;     /* of the op that makes a new tensor */
    const char *in_place; /* of the one that does not */
    inplace_needs needs;
    inplace_sort sort;
} inplace_kind;

/* NULL for an op that is none of these. */
const inplace_kind *inplace_kind_of(const char *name);

#endif
