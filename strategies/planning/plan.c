/* plan -- addresses for the whole step at once, in one segment.
 *
 * It sees every allocation and every free before it places the first: what a compiler could do
 * that knows the step, and a measure for allocators that do not.  Iterations that are alike are
 * planned once.  Streams and private pools are not kept apart.  The rules that choose the
 * addresses are in plan/.
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
    const plan_rule *rule = s->rule ? &plan_rules[s->rule - 1] : NULL;
    const plan_effort effort = {
        .seconds = s->seconds, .threads = (uint32_t)s->threads, .minimize = s->minimize};
    plan_turns turns;
    plan_answer answer;
    MR_TRY(plan_turns_make(ctx, problem, &turns));
    if (!plan_turns_knows(&turns, rule))
        return mr_fail(ctx, MR_EUNSUPPORTED, "rule %s places up to %u buffers, here are %u",
                       rule->name, rule->most, problem->buffers.n);
    plan_turns_solve(ctx, &turns, rule, &effort, &answer);
    *out = answer.layout;
    return MR_OK;
}

static mr_status place(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out)
{
    const settings *s = params;
    plan_problem problem;
    plan_layout layout = {0};
    MR_TRY(plan_listen(ctx, in, s->align, &problem));
    if (problem.buffers.n) {
        MR_TRY(choose(ctx, s, &problem, &layout));
        MR_TRY(plan_check(ctx, &problem, &layout));
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
    .fixed_inputs = true,
    .place = place,
};
