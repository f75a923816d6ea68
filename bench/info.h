/* info.h -- moments of a recording, and lists of what holds memory there or costs work. */
#ifndef MR_INFO_H
#define MR_INFO_H

#include "account.h"
#include "commands.h"
#include "report.h"

/* ---- moments ----------------------------------------------------------------------------- */

typedef struct mr_when {
    uint32_t events;       /* of the schedule that are over then */
    const char *title;     /* "at the peak" */
    mr_stretch step;       /* the step that it lies in; all where there are not several */
    const char *step_name; /* NULL where there are not several */
} mr_when;

/* What --at says: peak, start, end, 2 (the peak of step 2), op:123, event:456, forward-end, or
 * 2:forward-end.  MR_EUSAGE with a sentence that says what there is. */
mr_status mr_when_find(mr_ctx *ctx, const mr_schedule *schedule, const char *text,
                       mr_when *out);

/* ---- lists ------------------------------------------------------------------------------- */

typedef enum mr_list_kind {
    MR_LIST_TEXT,
    MR_LIST_COUNT,
    MR_LIST_BYTES,
    MR_LIST_SHARE, /* bytes, shown as a part of list->whole */
    MR_LIST_WORK,  /* floating point operations */
    MR_LIST_NS,
} mr_list_kind;

typedef struct mr_list_column {
    const char *key;     /* name in CSV and JSON, NULL: not there */
    const char *heading; /* NULL: only in CSV and JSON */
    mr_list_kind kind;
} mr_list_column;

typedef struct mr_list_cell {
    const char *shown, *plain; /* for people and for programs; plain NULL: not known */
} mr_list_cell;

typedef struct mr_list {
    const mr_list_column *columns;
    uint32_t n;
    MR_VEC(mr_list_cell) cells; /* row by row */
    uint64_t whole;    /* what shares are parts of */
    uint32_t left_out; /* rows that --top cut off */
    const char *title; /* for people, above the first column; NULL: its heading */
} mr_list;

void mr_list_add_text(mr_ctx *ctx, mr_list *list, const char *shown, const char *plain);
void mr_list_add(mr_ctx *ctx, mr_list *list, uint64_t number); /* as its column says */

/* What a row of CSV or JSON begins with. */
typedef struct mr_list_origin {
    const char *trace;
    uint32_t cuda_device, event;
    bool first, last; /* of several lists that make one file */
} mr_list_origin;

void mr_list_write(mr_ctx *ctx, const mr_list *list, const char *format,
                   const mr_list_origin *origin, mr_sink *sink);

/* ---- what they are of -------------------------------------------------------------------- */

typedef struct mr_state { /* one device of a recording at one moment */
    const mr_scene *scene;
    const mr_makers *makers;
    mr_schedule schedule;
    mr_when when;
    mr_ledger ledger;
} mr_state;

/* At most `top` rows; 0: as many as suit.  Modules are shown down to `depth`; 0: what fits in
 * about `page` rows. */
typedef struct mr_extent {
    uint32_t top, depth, page;
} mr_extent;

#define MR_LIST_NAMES "role|module|op|layer|maker|tensor"

/* The list of that name.  MR_EUNSUPPORTED when the recording does not know. */
mr_status mr_list_make(mr_ctx *ctx, const mr_state *state, const char *name, mr_extent extent,
                       mr_list *out);

bool mr_knows_roles(const mr_trace *trace);
bool mr_knows_modules(const mr_trace *trace);

/* ---- texts ------------------------------------------------------------------------------- */

const char *mr_show_work(mr_ctx *ctx, uint64_t flops); /* "2.74 T" */
const char *mr_show_op(mr_ctx *ctx, const mr_trace *trace, uint32_t op); /* "aten::mm (op 7)" */
void mr_report_contents(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink);
void mr_report_lacks(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink);

#endif
