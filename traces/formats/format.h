/* format.h -- what a reader of recordings is.  One file and one line in formats.def add one. */
#ifndef MR_FORMAT_H
#define MR_FORMAT_H

#include "source.h"
#include "trace.h"

typedef struct mr_read_options {
    bool ends_inclusive; /* lifetime tables: `upper` is the last moment in use */
    bool ends;           /* that was asked for, one way or the other */
    const char *times;   /* execution traces: file with a profiler trace of the same program */
    const char *format;  /* name of the format, NULL to tell by content */
} mr_read_options;

typedef struct mr_format {
    const char *name;    /* as given to --format-of, and file name of the reader */
    const char *summary; /* one line */
    bool has_times;      /* durations can come from another file */
    bool has_ends;       /* of lifetimes, which may be inclusive */
    /* Is it this format?  Sees up to MR_FORMAT_HEAD decompressed bytes from the start. */
    bool (*detect)(const unsigned char *head, size_t n);
    mr_status (*read)(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                      mr_trace *out);
} mr_format;

#define MR_FORMAT_HEAD 4096

/* What readers ask of texts. */
bool mr_head_holds(const unsigned char *head, size_t n, const char *word);
bool mr_begins(const char *text, const char *with);

/* PyTorch annotates updates "Optimizer.step#AdamW.step": "adamw"; NULL for another text. */
const char *mr_optimizer_of(mr_ctx *ctx, const char *annotation);

extern const mr_format *const mr_formats[]; /* ends with NULL; in the order they are tried */

/* Opens `path`, tells its format, reads it and lets the referee of traces look.
 * A file of no known format is MR_EINPUT with what it looks like (a zip archive, a pickle
 * without a snapshot, text, ...) and what is expected. */
mr_status mr_recording_read(mr_ctx *ctx, const char *path, const mr_read_options *options,
                            mr_trace *out);

#endif
