/* how.h -- what is written in a program, or said to it, to have what a spec predicts. */
#ifndef MR_HOW_H
#define MR_HOW_H

#include "commands.h"
#include "sink.h"

/* Of one part of a spec; NULL where nothing is known that does it. */
const char *mr_how(mr_ctx *ctx, const mr_stage *stage);

typedef struct mr_hows {
    mr_words names, texts; /* of strategies, and what is written for each */
} mr_hows;

/* Adds what the parts of a spec take and the list does not have yet. */
void mr_hows_add(mr_ctx *ctx, const mr_spec *spec, mr_hows *list);
void mr_hows_put(mr_ctx *ctx, const mr_hows *list, mr_sink *sink);

#endif
