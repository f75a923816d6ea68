/* autocast_lists.h -- in which precision torch.autocast has an op run, by its aten name. */
#ifndef AUTOCAST_LISTS_H
#define AUTOCAST_LISTS_H

#include "trace.h"

typedef enum autocast_class {
    AUTOCAST_WIDEST, /* as it is: the widest of what it reads */
    AUTOCAST_LOW,    /* what it reads is cast to 16 bits */
    AUTOCAST_FULL,   /* what it reads is cast to 32 bits */
    AUTOCAST_DIRECT, /* results have 32 bits whatever it reads; half is read without a cast */
    AUTOCAST_PROMOTE, /* all that it reads is cast to the widest of it */
    AUTOCAST_NORM,   /* results have the precision of the first input, statistics 32 bits */
    AUTOCAST_VIEW,   /* no memory of its own */
} autocast_class;

autocast_class autocast_class_of(const char *name);

/* Does the op, just before one that is cast, only bring an argument of it into shape? */
bool autocast_is_shaping(const char *name, const char *of);

#endif
