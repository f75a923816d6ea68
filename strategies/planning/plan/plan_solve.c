/* plan_solve -- the best layout that can be had with so much effort.
 *
 * Some dives make a layout of all.  Where it is higher than the bound, the core of the problem
 * is sought for a lower one, in rounds, each of which does twice as much as the one before; of
 * several parts only those count that stand out.  All is decided by amounts of work; only a
 * time limit looks at the clock.
 */
#include "plan_internal.h"

#include <string.h>

#define ROUNDS 3         /* when nothing else says how long */
#define ROUNDS_TO_FIT 12 /* when a capacity does */
#define WORK                                                                                   \
    ((uint64_t)5e5) /* of each chain and each way in the first round: boxes and sections */

typedef struct solver {
    mr_ctx *ctx;
    const plan_problem *problem;
    const plan_effort *effort;
    plan_answer *answer;
    plan_field field; /* of a plain problem */
    plan_clock clock;
    uint64_t unit, low, high; /* in units: no layout is lower than low; there is one of high */
    plan_core core;
    MR_VEC(plan_quest *) quests; /* one for each part */
} solver;

/* ---- when to stop -------------------------------------------------------------------- */

bool plan_is_over(const plan_clock *clock)
{
    return clock->until > 0 && plan_now() > clock->until;
}

static bool is_enough(const solver *s)
{
    if (s->high <= s->low) return true;
    if (!s->effort->capacity) return false;
    return s->high * s->unit <= s->effort->capacity || s->low * s->unit > s->effort->capacity;
}

/* What is lower counts for nothing: the bound, or the capacity asked for. */
static uint64_t enough_of(const solver *s)
{
    const uint64_t capacity = s->effort->capacity / s->unit;
    return capacity > s->low ? capacity : s->low;
}

static uint32_t rounds_of(const plan_effort *effort)
{
    if (effort->minimize || effort->seconds > 0) return UINT32_MAX;
    return effort->capacity ? ROUNDS_TO_FIT : ROUNDS;
}

/* How much of the rounds, or of the time, is over. */
static void say(const solver *s, uint32_t round, double part)
{
    const uint32_t rounds = rounds_of(s->effort);
    double done = (round + part) / rounds;
    if (s->clock.until > 0) done = 1 - (s->clock.until - plan_now()) / s->effort->seconds;
    mr_progress(s->ctx, "squeezing and searching", done);
}

/* ---- all at once --------------------------------------------------------------------- */

static void tell(solver *s, const uint64_t *base, const char *found_by)
{
    plan_layout *out = &s->answer->layout;
    s->answer->found_by = found_by;
    if (s->problem->plain) {
        plan_field_layout(s->ctx, s->problem, &s->field, base, out);
        return;
    }
    out->offset = MR_NEW_N(s->ctx, uint64_t, s->problem->buffers.n);
    memcpy(out->offset, base, s->problem->buffers.n * sizeof *base);
    out->height = plan_height(s->problem, base);
}

/* What the first dives of all find, and for problems that are not plain all there is. */
static plan_quest *begin(solver *s)
{
    plan_quest *q = plan_quest_new(s->ctx, s->problem, s->problem->plain ? &s->field : NULL,
                                   &s->clock, false);
    s->high = plan_quest_high(q);
    tell(s, plan_quest_bases(q), plan_quest_found_by(q));
    return q;
}

/* ---- the core, in parts -------------------------------------------------------------- */

static void cut_out_core(solver *s)
{
    plan_core_make(s->ctx, &s->field, s->low, &s->core);
    s->clock.quiet = s->core.parts.n > 1;
    for (uint32_t i = 0; i < s->core.parts.n; i++)
        MR_PUSH(
            s->ctx, &s->quests,
            plan_quest_new(s->ctx, s->problem, &s->core.parts.at[i].field, &s->clock, true));
}

static uint64_t top_of(const solver *s, uint32_t part)
{
    return s->core.parts.at[part].floor + plan_quest_high(s->quests.at[part]);
}

static void look_at_parts(solver *s)
{
    uint64_t high = s->low;
    for (uint32_t i = 0; i < s->quests.n; i++) {
        const uint64_t low = s->core.parts.at[i].floor + plan_quest_low(s->quests.at[i]);
        if (low > s->low) {
            s->low = low;
            s->answer->bound_by = "search";
        }
        if (top_of(s, i) > high) high = top_of(s, i);
    }
    s->high = high;
}

static void run_round(solver *s, uint32_t round)
{
    const uint64_t work = WORK << (round < 32 ? round : 32), enough = enough_of(s);
    uint32_t open = 0, gone = 0;
    for (uint32_t i = 0; i < s->quests.n; i++) open += top_of(s, i) > enough;
    for (uint32_t i = 0; i < s->quests.n && !plan_is_over(&s->clock); i++)
        if (top_of(s, i) > enough) {
            plan_quest_go(s->quests.at[i], enough - s->core.parts.at[i].floor, work / open,
                          round, s->effort->capacity > 0);
            say(s, round, (double)++gone / open);
        }
    look_at_parts(s);
}

static void put_together(solver *s)
{
    const char *found_by = "dive";
    for (uint32_t i = 0; i < s->quests.n; i++) {
        const plan_part *p = &s->core.parts.at[i];
        const uint64_t *base = plan_quest_bases(s->quests.at[i]);
        for (uint32_t b = 0; b < p->field.n; b++)
            s->core.base[p->field.boxes[b].buffer] = p->floor + base[b];
        if (top_of(s, i) == s->high) found_by = plan_quest_found_by(s->quests.at[i]);
    }
    plan_core_finish(s->ctx, &s->field, &s->core);
    tell(s, s->core.base, found_by);
}

static void solve_core(solver *s)
{
    const uint64_t first = s->high;
    const uint32_t rounds = rounds_of(s->effort);
    cut_out_core(s);
    look_at_parts(s);
    for (uint32_t r = 0; r < rounds && !is_enough(s); r++) {
        if (plan_is_over(&s->clock)) {
            s->answer->in_time = false;
            break;
        }
        run_round(s, r);
    }
    if (s->high < first) put_together(s);
    else s->high = first;
    for (uint32_t i = 0; i < s->quests.n; i++) {
        plan_quest_end(s->quests.at[i]);
        s->answer->nodes += plan_quest_nodes(s->quests.at[i]);
    }
}

/* ---- not plain ----------------------------------------------------------------------- */

static void solve_in_order(solver *s, plan_quest *q)
{
    const uint32_t rounds = rounds_of(s->effort);
    for (uint32_t r = 0; r < rounds && !is_enough(s); r++) {
        if (plan_is_over(&s->clock)) {
            s->answer->in_time = false;
            break;
        }
        plan_quest_go(q, enough_of(s), WORK << (r < 32 ? r : 32), r, s->effort->capacity > 0);
        s->high = plan_quest_high(q);
        say(s, r, 1);
    }
    tell(s, plan_quest_bases(q), plan_quest_found_by(q));
}

static uint64_t highest_fixed_end(const plan_problem *problem)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        if (b->fixed != PLAN_ANYWHERE && b->fixed + b->bytes > end) end = b->fixed + b->bytes;
    }
    return end;
}

/* What is proven for padded boxes holds for buffers but for the padding of the highest. */
static void set_bound(const solver *s)
{
    const bool plain = s->problem->plain;
    const uint64_t padding = plain ? s->problem->align - 1 : 0;
    const uint64_t bound = s->low * s->unit - padding;
    plan_answer *out = s->answer;
    if (bound <= s->problem->load) out->bound_by = "load";
    else if (plain && s->low == s->field.load) out->bound_by = "padding";
    else if (!plain) out->bound_by = "fixed offset";
    out->bound = bound > s->problem->load ? bound : s->problem->load;
}

void plan_solve(mr_ctx *ctx, const plan_problem *problem, const plan_effort *effort,
                plan_answer *out)
{
    *out = (plan_answer){.bound = problem->load, .bound_by = "load", .in_time = true};
    solver s = {.ctx = ctx,
                .problem = problem,
                .effort = effort,
                .answer = out,
                .clock = {.threads = effort->threads},
                .unit = 1,
                .low = problem->load};
    if (effort->seconds > 0) s.clock.until = plan_now() + effort->seconds;
    if (problem->plain) {
        plan_field_make(ctx, problem, &s.field);
        s.unit = s.field.unit;
        s.low = s.field.load;
    }
    const uint64_t fixed = highest_fixed_end(problem);
    if (fixed > s.low) s.low = fixed;
    plan_quest *all = begin(&s);
    if (!problem->plain) solve_in_order(&s, all);
    plan_quest_end(all);
    if (problem->plain && !is_enough(&s)) solve_core(&s);
    set_bound(&s);
}
