/* kineto_trace.h -- a profiler trace while it is read (kineto.c).
 *
 *     kineto_event     one element of traceEvents to a record
 *     kineto_spans     what ran when on which thread: stacks and marks
 *     kineto_lives     memory events to storages
 */
#ifndef KINETO_TRACE_H
#define KINETO_TRACE_H

#include "format.h"
#include "json_items.h"
#include "names.h"
#include "table.h"

/* Memory was taken (bytes > 0), given back (bytes < 0) or refused. */
typedef struct kineto_memory {
    uint64_t ns; /* since the epoch, or whatever the file counts from */
    int64_t bytes;
    uint64_t address, total, held; /* total and held: of the device, after the event */
    uint32_t device, thread, stack;
    bool host, placed, counted, refused; /* placed: has an address; counted: has the totals */
} kineto_memory;

typedef enum kineto_kind { KINETO_OP, KINETO_PYTHON, KINETO_ANNOTATION } kineto_kind;

typedef struct kineto_span {
    uint64_t from, to; /* ns */
    uint32_t name, thread;
    uint32_t calls; /* names: "file(line): function;...", innermost first; MR_NONE */
    uint8_t kind;   /* kineto_kind */
    bool backward;  /* autograd runs it for an op of the forward pass */
} kineto_span;

typedef struct kineto_trace {
    mr_ctx *ctx;
    json_items items;
    mr_trace *trace;
    mr_names names;
    mr_numbers threads;
    MR_VEC(kineto_memory) memory;
    MR_VEC(kineto_span) spans;
} kineto_trace;

/* Reads the element at hand; most say nothing about memory and leave no record. */
mr_status kineto_event(kineto_trace *k);

/* Finds for each memory event, which are in order of time, the ops it happened in. */
void kineto_stacks(kineto_trace *k);

/* A mark that happened at a time; marks of one time are in order. */
typedef struct kineto_mark {
    uint64_t ns;
    mr_mark mark;
} kineto_mark;

typedef struct kineto_marks {
    MR_VEC(kineto_mark) all;
} kineto_marks;

/* Steps of the profiler, updates of an optimizer, backward passes. */
void kineto_find_marks(kineto_trace *k, kineto_marks *marks);

/* Orders the memory events, and what they and the marks say into the trace. */
mr_status kineto_lives(kineto_trace *k);

#endif
