/* chain_step_tell -- a plan in words, so that a person can carry it out.
 *
 *     [[0-3]4-9]10-16*    0 to 9 are one call of torch.utils.checkpoint, in which 0 to 3 are
 *                         another; 10 to 16 save a part
 */
#include "chain_step_internal.h"

enum { NAMED = 12 }; /* stages that are named */

typedef struct brackets {
    uint32_t *open, *close; /* by stage: calls that begin with it, and that end before it */
    bool *part;             /* by stage: saves only a part */
} brackets;

static brackets brackets_of(mr_ctx *ctx, uint32_t n, const chain_actions *plan)
{
    brackets b = {MR_NEW_N(ctx, uint32_t, (size_t)n + 1), MR_NEW_N(ctx, uint32_t, (size_t)n + 1),
                  MR_NEW_N(ctx, bool, n)};
    uint32_t next = n;
    for (uint32_t i = plan->n; i-- > 0;) {
        const chain_action *a = &plan->at[i];
        if (a->option) b.part[a->stage] = true;
        if (a->kind == CHAIN_KEEP) {
            b.open[a->stage]++;
            b.close[next]++;
        }
        if (a->kind != CHAIN_FORWARD) next = a->stage;
    }
    return b;
}

static bool begins(const brackets *b, uint32_t i)
{
    return !i || b->open[i] || b->close[i] || b->part[i] != b->part[i - 1];
}

static const char *repeat(mr_ctx *ctx, const char *text, const char *mark, uint32_t n)
{
    while (n-- > 0) text = mr_printf(ctx, "%s%s", text, mark);
    return text;
}

static const char *brackets_text(mr_ctx *ctx, const brackets *b, uint32_t n)
{
    const char *text = "";
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !begins(b, end);) end++;
        const bool apart = i && !b->open[i] && !b->close[i];
        text = repeat(ctx, text, "]", b->close[i]);
        text = repeat(ctx, apart ? mr_printf(ctx, "%s,", text) : text, "[", b->open[i]);
        text = mr_printf(ctx, "%s%u", text, i);
        if (end > i + 1) text = mr_printf(ctx, "%s-%u", text, end - 1);
        if (b->part[i]) text = mr_printf(ctx, "%s*", text);
    }
    return text;
}

static uint32_t last_op(const chain_step *step, uint32_t stage)
{
    uint32_t last = MR_NONE;
    for (uint32_t e = step->begin; e < step->turn; e++) {
        const mr_event event = step->trace->events.at[e];
        if (event.kind == MR_RUN && step->stage[event.id] == stage) last = event.id;
    }
    return last;
}

/* Where stages end that stand at a bracket. */
static const char *ends_text(mr_ctx *ctx, const chain_step *step, const brackets *b)
{
    const char *text = "";
    uint32_t named = 0;
    for (uint32_t i = 0; i + 1 < step->problem.n; i++) {
        const uint32_t o = begins(b, i + 1) ? last_op(step, i) : MR_NONE;
        if (o == MR_NONE) continue;
        if (named++ == NAMED) return mr_printf(ctx, "%s and so on", text);
        const mr_op *op = &step->trace->ops.at[o];
        text = mr_printf(ctx, "%s%s %u by %s%s%s", text, named > 1 ? "," : "", i, op->name,
                         *op->module ? " of " : "", op->module);
    }
    return text;
}

void chain_step_tell(mr_ctx *ctx, const chain_step *step, const chain_actions *plan,
                     mr_trace *out)
{
    const brackets b = brackets_of(ctx, step->problem.n, plan);
    bool part = false, call = false;
    for (uint32_t i = 0; i < step->problem.n; i++) {
        part |= b.part[i];
        call |= b.open[i] > 0;
    }
    if (!call && !part) return;
    const char *text = mr_printf(
        ctx, "stages are run as %s%s%s; they end%s", brackets_text(ctx, &b, step->problem.n),
        call ? ", where each bracket is a call of torch.utils.checkpoint" : "",
        part ? ", and of those with a * only a part is saved" : "", ends_text(ctx, step, &b));
    MR_PUSH(ctx, &out->remarks, text);
}
