/* source.h -- the bytes of a file, decompressed on the way (gzip and zstd, told by content).
 *
 * Streams: holds a window of the file, never all of it.  Readers of foreign formats
 * see only this. */
#ifndef MR_SOURCE_H
#define MR_SOURCE_H

#include "base.h"

typedef struct mr_source mr_source;

/* "-" is standard input.  MR_EIO when it cannot be opened, is a folder, or is empty. */
mr_status mr_source_open(mr_ctx *ctx, const char *path, mr_source **out);
/* Bytes in memory, for tests; `data` must outlive the source. */
mr_status mr_source_memory(mr_ctx *ctx, const char *name, const void *data, size_t n,
                           mr_source **out);
void mr_source_close(mr_source *source); /* the file; its memory is the context's */

/* After a failure: its place begins with the path as it was given, not with the file's name alone,
 * which files of two folders may share.  Returns `status`. */
mr_status mr_source_blame(mr_ctx *ctx, const char *path, mr_status status);

const char *mr_source_name(const mr_source *source); /* file name without folder */

/* The next bytes without taking them.  *have >= want unless the file ends before; `want` is at
 * most MR_SOURCE_WINDOW.  Valid until the next call. */
#define MR_SOURCE_WINDOW ((size_t)1 << 20)
const unsigned char *mr_source_peek(mr_source *source, size_t want, size_t *have);
void mr_source_take(mr_source *source, size_t n); /* n <= have of the last peek */

uint64_t mr_source_offset(const mr_source *source); /* decompressed bytes taken so far */
/* 0 to 1, from the compressed position: for progress. */
double mr_source_part(const mr_source *source);

/* MR_OK, or what went wrong below (read error, broken or truncated compression, a bomb: more
 * than MR_SOURCE_RATIO_MAX times the compressed size after the first 64 MiB).  A reader asks
 * when a peek comes short. */
#define MR_SOURCE_RATIO_MAX 1200
mr_status mr_source_status(mr_source *source);

#endif
