/* dtr_swap_search -- how readily to swap, found out by trying.
 *
 * What a copy makes computing wait is known for sure only when the run is over: there may be no
 * room for what could come back early.  A run takes a moment, so several are tried that doubt
 * the prices of copies more or less, and those that only swap or only compute again among them.
 */
#include "dtr.h"

typedef struct trial {
    dtr_options options;
    dtr_report report;
    bool tried;
} trial;

static bool is_better(const dtr_report *a, const dtr_report *b)
{
    if (!a->result != !b->result) return !a->result;
    if (a->result && a->steps != b->steps) return a->steps > b->steps;
    return a->remat + a->stall < b->remat + b->stall;
}

/* In an arena of its own, which is gone afterwards. */
static void attempt(const dtr_program *program, dtr_options options, dtr_way way, double doubt,
                    trial *best)
{
    mr_ctx ctx = {0};
    dtr_report report;
    options.way = way;
    options.doubt = doubt;
    dtr_run_program(&ctx, program, &options, false, &report);
    if (!best->tried || is_better(&report, &best->report))
        *best = (trial){options, report, true};
    mr_ctx_clear(&ctx);
}

void dtr_swap_search(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                     dtr_report *out)
{
    static const double doubts[] = {0.5, 1, 2, 4, 8, 16, 64};
    trial best = {.tried = false};
    const bool both = options->way == DTR_BOTH;
    if (both) attempt(program, *options, DTR_RECOMPUTE, 1, &best);
    for (int ahead = 0; ahead < 2; ahead++) {
        dtr_options o = *options;
        o.heuristic.ahead |= ahead;
        attempt(program, o, DTR_SWAP, 1, &best);
        for (size_t i = 0; both && i < MR_COUNT(doubts); i++)
            attempt(program, o, DTR_BOTH, doubts[i], &best);
    }
    dtr_run_program(ctx, program, &best.options, true, out);
}
