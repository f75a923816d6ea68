/* paths.h -- paths of modules against patterns such as "encoder.layer.*". */
#ifndef MR_PATHS_H
#define MR_PATHS_H

#include "base.h"

/* Length of the shortest beginning of `path`, cut at a dot, that matches the pattern or one of
 * those in its brackets, "[down.*,up.*]"; 0 for none.  A star stands for any letters
 * but a dot. */
size_t mr_path_match(const char *pattern, const char *path);

#endif
