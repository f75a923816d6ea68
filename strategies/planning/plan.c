/* plan -- addresses for the whole step at once, in one segment.
 *
 * It sees every allocation and every free before it places the first: what a compiler could do
 * that knows the step, and a measure for allocators that do not.  Streams and private pools are
 * not kept apart.  The rules that choose the addresses are in plan/.
 */
#include "plan.h"
#include "strategy.h"

#include <string.h>

#define RULES "search"

typedef struct settings {
    uint64_t rule, align, threads;
    double seconds;
    bool minimize;
} settings;

#define RULE_NAME(name, summary, source, plain_only, most) "|" #name

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, rule, RULES PLAN_RULE_LIST(RULE_NAME), RULES,
                    "our search, or what another planner does (memreuse plan --help)"),
    MR_PARAM_REAL(settings, seconds, "0", 0, 1e6,
                  "time limit of the search; 0 for a fixed amount of work"),
    MR_PARAM_BOOL(settings, minimize, "False", "search on until the height is proven least"),
    MR_PARAM_SIZE(settings, align, "1", 1, (double)MR_GIB, "addresses are multiples of it"),
    MR_PARAM_INT(settings, threads, "1", 1, 1024, "of the search"),
    {0},
};

/* ---- from a schedule to a problem ---------------------------------------------------- */

/* The driver of online allocators says which requests come in which order, whatever a schedule
 * is made of; the clock ticks with every one. */
typedef struct listener {
    mr_ctx *ctx;
    plan_problem problem;
    uint64_t clock, align;
} listener;

static bool hear_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    listener *l = self;
    (void)placer;
    *out =
        (mr_block){.segment = MR_NONE, .handle = l->problem.buffers.n, .bytes = request->bytes};
    if (!request->bytes) return true;
    const plan_buffer buffer = {.name = "",
                                .lower = l->clock++,
                                .upper = UINT64_MAX,
                                .bytes = request->bytes,
                                .align = l->align,
                                .fixed = PLAN_ANYWHERE};
    plan_add(l->ctx, &l->problem, &buffer);
    return true;
}

static void hear_free(void *self, mr_placer *placer, const mr_block *block)
{
    listener *l = self;
    (void)placer;
    if (block->bytes) l->problem.buffers.at[block->handle].upper = l->clock++;
}

static mr_status listen(mr_ctx *ctx, const mr_schedule *in, const mr_placer *like, listener *l)
{
    const mr_online policy = {.self = l, .alloc = hear_alloc, .free = hear_free};
    mr_placement heard = {.schedule = in, .oom_at = MR_NONE};
    mr_placer placer = {.ctx = ctx,
                        .capacity = UINT64_MAX,
                        .total = like->total,
                        .granularity = 1,
                        .out = &heard};
    MR_TRY(mr_place_online(&placer, in, &policy));
    for (uint32_t i = 0; i < l->problem.buffers.n; i++)
        if (l->problem.buffers.at[i].upper == UINT64_MAX)
            l->problem.buffers.at[i].upper = l->clock;
    return l->problem.buffers.n ? plan_prepare(ctx, &l->problem) : MR_OK;
}

/* ---- from a layout to a placement ---------------------------------------------------- */

typedef struct speaker {
    const plan_layout *layout;
    uint32_t next; /* request */
    uint32_t segment;
    bool asked, held;
} speaker;

static bool speak_alloc(void *self, mr_placer *placer, const mr_request *request, mr_block *out)
{
    speaker *s = self;
    *out = (mr_block){.segment = MR_NONE, .bytes = request->bytes};
    if (!request->bytes) return true;
    if (!s->asked)
        s->held = mr_reserve(placer, &(mr_segment){.bytes = s->layout->height}, &s->segment);
    s->asked = true;
    out->segment = s->segment;
    out->offset = s->layout->offset[s->next++];
    return s->held;
}

static void speak_free(void *self, mr_placer *placer, const mr_block *block)
{
    (void)self, (void)placer, (void)block;
}

/* ---- the strategy -------------------------------------------------------------------- */

static mr_status choose(mr_ctx *ctx, const settings *s, const plan_problem *problem,
                        plan_layout *out)
{
    if (!s->rule) {
        const plan_effort effort = {
            .seconds = s->seconds, .threads = (uint32_t)s->threads, .minimize = s->minimize};
        plan_answer answer;
        plan_solve(ctx, problem, &effort, &answer);
        *out = answer.layout;
        return MR_OK;
    }
    const plan_rule *rule = &plan_rules[s->rule - 1];
    if (!plan_rule_knows(rule, problem))
        return mr_fail(ctx, MR_EUNSUPPORTED, "rule %s places up to %u buffers, here are %u",
                       rule->name, rule->most, problem->buffers.n);
    rule->run(ctx, problem, out);
    return MR_OK;
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    listener l = {.ctx = ctx, .align = s->align};
    plan_layout layout = {0};
    MR_TRY(listen(ctx, in, out, &l));
    if (l.problem.buffers.n) {
        MR_TRY(choose(ctx, s, &l.problem, &layout));
        MR_TRY(plan_check(ctx, &l.problem, &layout));
    }
    speaker says = {.layout = &layout};
    return mr_place_online(
        out, in, &(mr_online){.self = &says, .alloc = speak_alloc, .free = speak_free});
}

const mr_strategy mr_strategy_plan = {
    .name = "plan",
    .summary = "addresses for the whole step at once, in one segment",
    .source = "each rule's own (memreuse plan --help); the search is ours",
    .params = params_table,
    .params_size = sizeof(settings),
    .clairvoyant = true,
    .place = place,
};
