/* library.h -- functions of a library that is opened at run time. */
#ifndef MR_LIBRARY_H
#define MR_LIBRARY_H

#include "base.h"

typedef struct mr_call {
    const char *symbol;
    size_t offset; /* of the pointer to the function, in what is filled */
} mr_call;

/* Fills the pointers in `out`.  The first symbol that the library lacks, NULL when none. */
const char *mr_library_find(void *library, const mr_call *calls, size_t n, void *out);

#endif
