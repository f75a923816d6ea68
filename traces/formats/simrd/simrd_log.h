/* simrd_log.h -- an operator log of simrd while it is read (simrd.c).
 *
 * A line is one instruction; CONSTANT and CALL wait for lines with what they made.
 */
#ifndef SIMRD_LOG_H
#define SIMRD_LOG_H

#include "format.h"
#include "lines.h"
#include "names.h"

#include <jansson.h>

typedef enum simrd_expected {
    SIMRD_ANYTHING,
    SIMRD_MEMORY_OF_CONSTANT,
    SIMRD_MEMORY_OF_RESULT,
    SIMRD_ALIAS_OF_RESULT
} simrd_expected;

typedef struct simrd_log {
    mr_ctx *ctx;
    mr_lines lines;
    mr_trace *trace;
    const json_t *line;
    mr_names names, op_names;
    MR_VEC(uint32_t) tensor_of; /* by name; MR_NONE: the name stands for nothing now */
    MR_VEC(uint32_t) stood_for; /* by name: the same, or what it stood for when released */
    MR_VEC(uint32_t) change;    /* by name: how often that tensor had been changed */
    MR_VEC(uint32_t) changes;   /* by tensor: how often it has been changed */
    MR_VEC(uint32_t) named;     /* by tensor: how many names stand for it */
    mr_phase phase;
    bool started;
    simrd_expected next;
    uint32_t name; /* of the constant that waits for its MEMORY */
    mr_ids results; /* names of the results of the call that waits for MEMORY and ALIAS */
    uint32_t result;
    uint64_t bytes; /* of that result */
} simrd_log;

/* simrd_fields: what stands in the line at hand, with a sentence where it does not */
mr_status simrd_fail(const simrd_log *r, const char *sentence);
mr_status simrd_text(const simrd_log *r, const char *key, const char **out);
mr_status simrd_number(const simrd_log *r, const char *key, uint64_t *out);
mr_status simrd_list(const simrd_log *r, const char *key, const json_t **out);

/* simrd_steps: each does what an instruction says */
mr_status simrd_constant(simrd_log *r);
mr_status simrd_constant_end(simrd_log *r);
mr_status simrd_call(simrd_log *r);
mr_status simrd_result_end(simrd_log *r);
mr_status simrd_mutate(simrd_log *r);
mr_status simrd_copy(simrd_log *r, bool from);
mr_status simrd_release(simrd_log *r);
mr_status simrd_annotation(simrd_log *r);

#endif
