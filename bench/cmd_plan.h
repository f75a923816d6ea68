/* cmd_plan.h -- what the parts of `memreuse plan` share. */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include "commands.h"
#include "plan.h"

typedef struct mr_plan_task {
    plan_problem problem;
    plan_layout given; /* what the file says was done; no offsets where it does not */
} mr_plan_task;

/* FILE as a problem: a table of lifetimes or a recording. */
mr_status mr_plan_read(mr_ctx *ctx, const mr_args *args, mr_plan_task *out);

/* The problem as a table with an offset for each buffer. */
mr_status mr_plan_write(mr_ctx *ctx, const char *path, const plan_problem *problem,
                        const plan_layout *layout);

#endif
