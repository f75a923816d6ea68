/* plan_write -- a layout as minimalloc writes it: the table again, with an offset for each row.
 */
#include <inttypes.h>

#include "cmd_plan.h"
#include "report.h"

static void write_gaps(const plan_problem *problem, const plan_buffer *b, mr_sink *sink)
{
    for (uint32_t g = b->gap; g < b->gap + b->gaps; g++) {
        const plan_gap *gap = &problem->gaps.at[g];
        mr_sink_print(sink, "%s%" PRIu64 "-%" PRIu64, g > b->gap ? " " : "", gap->lower,
                      gap->upper);
        if (gap->high) mr_sink_print(sink, "@%" PRIu64 ":%" PRIu64, gap->low, gap->high);
    }
}

static void write_row(const plan_problem *problem, const plan_layout *layout, uint32_t i,
                      bool aligned, mr_sink *sink)
{
    const plan_buffer *b = &problem->buffers.at[i];
    mr_write_csv_field(sink, b->name);
    mr_sink_print(sink, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", b->lower, b->upper, b->bytes);
    if (aligned) mr_sink_print(sink, "%" PRIu64 ",", b->align);
    if (problem->gaps.n) {
        write_gaps(problem, b, sink);
        mr_sink_print(sink, ",");
    }
    mr_sink_print(sink, "%" PRIu64 "\n", layout->offset[i]);
}

mr_status mr_plan_write(mr_ctx *ctx, const char *path, const plan_problem *problem,
                        const plan_layout *layout)
{
    mr_sink *sink;
    const bool aligned = problem->align != 1;
    MR_TRY(mr_sink_open(ctx, path, &sink));
    mr_sink_print(sink, "id,lower,upper,size,%s%soffset\n", aligned ? "alignment," : "",
                  problem->gaps.n ? "gaps," : "");
    for (uint32_t i = 0; i < problem->buffers.n; i++)
        write_row(problem, layout, i, aligned, sink);
    return mr_sink_commit(sink);
}
