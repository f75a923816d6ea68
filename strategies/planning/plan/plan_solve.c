/* plan_solve -- the best layout that can be had with so much effort.
 *
 * There is a layout from the first moment on.  In rounds, each of which does twice as much as
 * the one before, chains squeeze it, and searches ask whether there is one of a smaller height:
 * first of the bound, then halfway between what is known to be too little and what is known to
 * be enough.  All is decided by amounts of work; only a time limit looks at the clock.
 */
#include "plan_internal.h"

#include <stdlib.h>

#define CHAINS 12
#define ROUNDS 2         /* when nothing else says how long */
#define ROUNDS_TO_FIT 12 /* when a capacity does */
#define WORK                                                                                   \
    ((uint64_t)5e5)     /* of each chain and each way in the first round: boxes and sections */
#define TURN 128        /* work of a turn of a chain, for each box */
#define WAYS_AT_LEAST 2 /* boxes that a way must be able to place, as a multiple of all */

typedef struct solver {
    mr_ctx *ctx;
    const plan_problem *problem;
    const plan_effort *effort;
    plan_answer *answer;
    plan_field field; /* of a plain problem */
    bool plain;
    uint64_t unit, low, high; /* in units: no layout is lower than low; there is one of high */
    uint64_t work;            /* in this round */
    double until;
    plan_squeezer *chains[CHAINS];
    plan_probe *main; /* at the bound, or the capacity asked for; kept over the rounds */
    uint64_t target;  /* its capacity */
    uint64_t turns;   /* of a chain in this round */
} solver;

/* ---- when to stop -------------------------------------------------------------------- */

static bool out_of_time(const solver *s)
{
    return s->until > 0 && plan_now() > s->until;
}

static bool is_enough(const solver *s)
{
    if (s->high <= s->low) return true;
    if (!s->effort->capacity) return false;
    return s->answer->layout.height <= s->effort->capacity
           || s->low * s->unit > s->effort->capacity;
}

/* ---- keeping the best ---------------------------------------------------------------- */

static void keep(solver *s, uint64_t height, const uint64_t *base, const char *found_by)
{
    if (height >= s->high) return;
    plan_layout *out = &s->answer->layout;
    s->high = height;
    s->answer->found_by = found_by;
    if (s->plain) {
        plan_field_layout(s->ctx, s->problem, &s->field, base, out);
        return;
    }
    for (uint32_t i = 0; i < s->problem->buffers.n; i++) out->offset[i] = base[i];
    out->height = height;
}

static void raise(solver *s, uint64_t low)
{
    if (low <= s->low) return;
    s->low = low;
    s->answer->bound_by = "search";
}

/* ---- squeezing ----------------------------------------------------------------------- */

static void squeeze_chain(void *self, uint32_t chain)
{
    solver *s = self;
    for (uint64_t i = 0; i < s->turns && !out_of_time(s); i++) {
        plan_squeeze(s->chains[chain]);
        if (plan_squeezer_height(s->chains[chain]) <= s->low) return;
    }
}

static void squeeze(solver *s, uint64_t turns)
{
    s->turns = turns;
    plan_team(s->effort->threads, CHAINS, squeeze_chain, s);
    for (uint32_t i = 0; i < CHAINS; i++) {
        const uint64_t height = plan_squeezer_height(s->chains[i]);
        if (height == UINT64_MAX) continue;
        keep(s, height, plan_squeezer_bases(s->chains[i]), s->plain ? "squeeze" : "first fit");
    }
}

/* Every chain once, whatever time it takes: there must be a layout. */
static void begin(solver *s)
{
    const double until = s->until;
    for (uint32_t i = 0; i < CHAINS; i++)
        s->chains[i] = plan_squeezer_new(s->ctx, s->problem, s->plain ? &s->field : NULL, i);
    s->until = 0;
    squeeze(s, 1);
    s->until = until;
    if (s->plain) s->answer->found_by = "dive";
}

/* ---- searching ----------------------------------------------------------------------- */

static uint64_t steps_of(const solver *s)
{
    return s->work / ((uint64_t)s->field.n + s->field.sections);
}

static void learn(solver *s, plan_probe *probe, uint64_t target, plan_verdict verdict)
{
    if (verdict == PLAN_NONE) raise(s, target + 1);
    if (verdict != PLAN_FOUND) return;
    const uint64_t *base = plan_probe_bases(probe);
    uint64_t height = 0;
    for (uint32_t i = 0; i < s->field.n; i++)
        if (base[i] + s->field.boxes[i].size > height)
            height = base[i] + s->field.boxes[i].size;
    keep(s, height, base, "search");
}

static void end_main(solver *s)
{
    if (!s->main) return;
    s->answer->nodes += plan_probe_steps(s->main);
    plan_probe_end(s->main);
    s->main = NULL;
}

static uint64_t main_target(const solver *s)
{
    const uint64_t capacity = s->effort->capacity / s->unit;
    return capacity > s->low ? capacity : s->low;
}

static void search_main(solver *s)
{
    if (s->main && s->target != main_target(s)) end_main(s);
    if (!s->main) {
        s->target = main_target(s);
        s->main = plan_probe_new(s->ctx, &s->field, s->target);
    }
    learn(s, s->main, s->target,
          plan_probe_go(s->main, s->effort->threads, steps_of(s), s->until));
}

static void search_at(solver *s, uint64_t target)
{
    mr_ctx scratch = {0};
    plan_probe *probe = plan_probe_new(&scratch, &s->field, target);
    learn(s, probe, target, plan_probe_go(probe, s->effort->threads, steps_of(s), s->until));
    s->answer->nodes += plan_probe_steps(probe);
    plan_probe_end(probe);
    mr_ctx_clear(&scratch);
}

/* Halves what is open between the bound and the best height, as far as this round's work
 * decides anything; each later round looks closer. */
static void search_between(solver *s, uint32_t round)
{
    uint64_t low = s->low;
    const uint64_t close = (s->high - s->low) >> (round + 2);
    while (s->high - low > close + 1 && !is_enough(s) && !out_of_time(s)) {
        const uint64_t middle = low + (s->high - low) / 2, high = s->high;
        search_at(s, middle);
        if (s->high == high) low = middle;
        if (low < s->low) low = s->low;
    }
}

static void search(solver *s, uint32_t round)
{
    if (steps_of(s) < (uint64_t)WAYS_AT_LEAST * s->field.n) return;
    search_main(s);
    if (!s->effort->capacity && !is_enough(s)) search_between(s, round);
}

/* What is proven for padded boxes holds for buffers but for the padding of the highest. */
static void set_bound(const solver *s)
{
    const uint64_t padding = s->plain ? s->problem->align - 1 : 0;
    const uint64_t bound = s->low * s->unit - padding;
    plan_answer *out = s->answer;
    if (bound <= s->problem->load) out->bound_by = "load";
    else if (s->plain && s->low == s->field.load) out->bound_by = "padding";
    else if (!s->plain) out->bound_by = "fixed offset";
    out->bound = bound > s->problem->load ? bound : s->problem->load;
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

/* ---- rounds -------------------------------------------------------------------------- */

static void run_round(solver *s, uint32_t round)
{
    squeeze(s, 1 + s->work / (TURN * (uint64_t)s->problem->buffers.n));
    if (s->plain && !is_enough(s) && !out_of_time(s)) search(s, round);
}

static uint32_t rounds_of(const plan_effort *effort)
{
    if (effort->minimize || effort->seconds > 0) return UINT32_MAX;
    if (effort->capacity) return ROUNDS_TO_FIT;
    return effort->rounds ? effort->rounds : ROUNDS;
}

void plan_solve(mr_ctx *ctx, const plan_problem *problem, const plan_effort *effort,
                plan_answer *out)
{
    *out = (plan_answer){.bound = problem->load, .bound_by = "load", .in_time = true};
    out->layout.offset = MR_NEW_N(ctx, uint64_t, problem->buffers.n);
    solver s = {.ctx = ctx,
                .problem = problem,
                .effort = effort,
                .answer = out,
                .plain = problem->plain,
                .unit = 1,
                .low = problem->load,
                .high = UINT64_MAX,
                .work = WORK,
                .until = effort->seconds > 0 ? plan_now() + effort->seconds : 0};
    if (s.plain) {
        plan_field_make(ctx, problem, &s.field);
        s.unit = s.field.unit;
        s.low = s.field.load;
    }
    const uint64_t fixed = highest_fixed_end(problem);
    if (fixed > s.low) s.low = fixed;
    begin(&s);
    const uint32_t rounds = rounds_of(effort);
    for (uint32_t r = 0; r < rounds && !is_enough(&s); r++, s.work *= 2) {
        if (out_of_time(&s)) {
            out->in_time = false;
            break;
        }
        run_round(&s, r);
    }
    end_main(&s);
    set_bound(&s);
}
