/* explain.h -- one moment of a placement, and what is said about it. */
#ifndef MR_EXPLAIN_H
#define MR_EXPLAIN_H

#include "commands.h"
#include "report.h"

typedef struct mr_moment {
    const mr_scene *scene;
    const mr_answer *answer;
    bool oom;           /* a request was not served; else the peak of reserved memory */
    bool at_once;       /* the first request took all of it: the moment is that of most use */
    bool planned;       /* the strategy laid the step out before its first request */
    uint32_t storage;   /* whose request it is, MR_NONE where there is none */
    uint32_t event;     /* of the recording */
    uint32_t iteration; /* counted from 0 */
    bool at_start;      /* before the first event */
    mr_pieces met;      /* pieces of the memory that the request met */
    mr_pieces left;     /* and after it: the peak; the same when it was not served */
    mr_makers *makers;
} mr_moment;

/* The first request not served, or the one that raised reserved memory to its peak.  Where that
 * is the first of all, as with pools that are filled at the start and with plans, it is the one
 * that raised what is handed out to its peak. */
void mr_moment_find(mr_ctx *ctx, const mr_scene *scene, const mr_spec *spec,
                    const mr_answer *answer, mr_moment *out);

/* Which request, who made it, what was held, what was free and why it could not serve. */
void mr_report_moment(mr_ctx *ctx, const mr_moment *moment, const mr_args *args, mr_sink *sink);

#endif
