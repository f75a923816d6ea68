/* region_pattern.h -- paths of modules against patterns such as "encoder.layer.*". */
#ifndef REGION_PATTERN_H
#define REGION_PATTERN_H

#include "base.h"

/* Length of the shortest beginning of `path`, cut at a dot, that matches the pattern or one of
 * those in its brackets; 0 for none. */
size_t region_pattern_match(const char *pattern, const char *path);

#endif
