/* suite_reader.h -- the state in which the lines of a suite are read, shared by its parts. */
#ifndef MR_SUITE_READER_H
#define MR_SUITE_READER_H

#include "sweep.h"

typedef MR_VEC(uint32_t) mr_numbers;

typedef struct mr_wanted { /* a line of cells */
    mr_ids traces, specs;
} mr_wanted;

typedef struct mr_expected { /* a line that waits until all cells are known */
    uint32_t claim;
    const char *text;
    mr_place place;
} mr_expected;

typedef struct mr_suite_reader {
    mr_ctx *ctx;
    mr_lines lines;
    const char *text, *at; /* the line, what is left of it */
    mr_suite suite;
    MR_VEC(mr_wanted) wanted;
    MR_VEC(mr_expected) expected;
    bool limited;      /* a line says what capacity there is */
    uint64_t capacity; /* then; UINT64_MAX: no limit */
} mr_suite_reader;

#define mr_suite_fail(r, place, ...)                                                           \
    mr_lines_fail(&(r)->lines, (place).line, (place).column, __VA_ARGS__)

/* The next word of the line, "" at its end; all that is left of it. */
mr_place mr_suite_here(const mr_suite_reader *r);
const char *mr_suite_word(mr_suite_reader *r, mr_place *place);
const char *mr_suite_rest(mr_suite_reader *r, mr_place *place);

/* A file without a byte is a suite that says nothing. */
mr_status mr_suite_open(mr_suite_reader *r);

/* Lines that set how cells are computed. */
mr_status mr_suite_device_line(mr_suite_reader *r);
mr_status mr_suite_capacity_line(mr_suite_reader *r);
mr_status mr_suite_iterations_line(mr_suite_reader *r);
mr_status mr_suite_seed_line(mr_suite_reader *r);
mr_status mr_suite_tf32_line(mr_suite_reader *r);

/* What follows from all lines: recordings, devices, cells, expectations. */
mr_status mr_suite_settle(mr_suite_reader *r);

#endif
