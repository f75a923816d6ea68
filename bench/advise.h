/* advise.h -- settings worth trying, in all combinations, and what is best of them.
 *
 * A setting is one part of a spec, such as amp:bfloat16; settings that exclude one another, such
 * as accumulate:2 and accumulate:4, are one way.  All is predicted, nothing is guessed from how
 * settings do alone: only what does nothing alone is not combined.
 */
#ifndef MR_ADVISE_H
#define MR_ADVISE_H

#include "compare.h"

/* Samples; larger batches are not looked for, and are no step that anybody asks for. */
#define MR_LARGEST_BATCH 65536

typedef struct mr_growth { /* of a row, with as many samples as the memory takes */
    uint64_t batch;        /* 0: none fits, or that is not known */
    mr_cell cell;
} mr_growth;

typedef struct mr_advice {
    const mr_scene *scene;
    const mr_args *args;   /* --with, --without, --jobs */
    uint32_t cuda_device;
    mr_cell recorded;      /* as recorded, on memory without limit */
    bool fits;             /* so it does on the memory there is */
    bool with_batches;     /* rows have their growth */
    mr_words settings;     /* that change something of this recording */
    uint32_t tried, passed; /* combinations, with options of the allocator */
    mr_cell *rows;         /* none is beaten by another in both memory and time; fastest first */
    mr_growth *growth;     /* one for each */
    uint32_t n;
    mr_cell least;         /* of those that do not fit either, on memory without limit */
    mr_cell simplest;      /* of those that fit: fewest settings, of these the fastest */
} mr_advice;

/* Fills what comes behind cuda_device.  Fails where the recording cannot be replayed at all. */
mr_status mr_advise(mr_ctx *ctx, mr_advice *advice);

/* Looks for the largest batch of each row, where that is known. */
void mr_largest_batches(mr_ctx *ctx, mr_advice *advice);

/* Is a cell that passed not 1 % better than another, in memory or time? */
bool mr_is_beaten(const mr_cell *cell, const mr_cell *by);

/* Keeps in front what none of the others beats in both memory and time, fastest first; returns
 * how many.  What is not 1 % better than one with fewer settings is left out. */
uint32_t mr_front(mr_ctx *ctx, mr_cell *cells, uint32_t n);

/* `format` is table, csv or json: the columns of compare, and rows with the largest batches. */
void mr_report_advice(mr_ctx *ctx, const mr_advice *advice, const char *format, mr_sink *sink);

#endif
