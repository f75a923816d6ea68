/* runs.h -- stretches of bytes that were read before, found again by comparing them.
 *
 * Lists of frames are most of a snapshot and nearly always repeat one that was there before,
 * byte for byte.  The kept runs form a tree: whoever differs from a run hangs on the place and
 * the byte where it does so first, and is compared from there on:
 *
 *     h1 h2 h3 h4 e
 *           └─ at 2, h7 ─►  h1 h2 h7 h4 e
 *                                 └─ at 3, e ─►  h1 h2 h7 e
 *
 * Programs do the same over and over, so most often the one that came next the last time comes
 * next again, and the tree is not needed.  No run may be the beginning of another one.
 */
#ifndef MR_RUNS_H
#define MR_RUNS_H

#include "table.h"

typedef struct mr_run {
    uint32_t first, n; /* of runs->bytes */
    uint32_t next;     /* that was found after this one when it last was */
    uint64_t meaning;  /* the caller's, 0 at first */
} mr_run;

typedef struct mr_branch {
    uint32_t run, at, to;
    unsigned char byte;
} mr_branch;

typedef struct mr_runs {
    MR_VEC(mr_run) all;
    MR_VEC(mr_branch) branches;
    MR_VEC(unsigned char) bytes;
    mr_table table; /* of branches */
    uint32_t last; /* found or added */
    mr_branch missed; /* where the last search ended; run is MR_NONE if the bytes ended there */
    bool forgot;
} mr_runs;

/* The run that `at` begins with, of `n` bytes, NULL when it is none of those that are kept. */
const mr_run *mr_runs_find(mr_runs *runs, const unsigned char *at, size_t n);

/* Keeps the run that was not found; its index, MR_NONE when there are too many already. */
uint32_t mr_runs_add(mr_ctx *ctx, mr_runs *runs, const unsigned char *at, uint32_t n);
void mr_runs_mean(mr_runs *runs, uint32_t run, uint64_t meaning);

/* Forgets all of them, and keeps no others: what bytes mean has changed. */
void mr_runs_forget(mr_runs *runs);

#endif
