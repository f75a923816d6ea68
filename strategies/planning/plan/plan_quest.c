/* plan_quest -- ever lower layouts of one field, in rounds.
 *
 * There is a layout from the first moment on.  In a round chains squeeze it, and searches ask
 * whether there is one of a smaller height: first of the height that is enough, then halfway
 * between what is known to be too little and what is known to do.
 */
#include "plan_internal.h"

#include <stdatomic.h>

#define CHAINS (PLAN_DIVES + PLAN_MIXED)
#define TURN 128             /* work of a dive, for each box */
#define SPARING 8            /* times the work, for a sparing dive */
#define SPARING_MOST 200000  /* boxes: its first turn is not for more */
#define PAIRS 10             /* that first fit compares for the same work */
#define HEAD ((uint64_t)2e8) /* what takes no more work has its first turn at once */
#define WAYS_AT_LEAST 2      /* boxes that a way must be able to place, as a multiple of all */

struct plan_quest {
    mr_ctx *ctx;
    const plan_problem *problem;
    const plan_field *field; /* NULL: the problem is not plain */
    const plan_clock *clock;
    uint32_t n;
    uint64_t low, high; /* no layout is lower than low; there is one of high */
    uint64_t enough;    /* what is lower counts for nothing */
    uint64_t work;      /* in this round */
    uint64_t *base;
    const char *found_by;
    mr_ctx room[CHAINS]; /* of each chain */
    plan_squeezer *chains[CHAINS];
    uint32_t chains_n;
    _Atomic uint32_t first, begun; /* chain of the lowest number that needs no other; dives */
    uint64_t spare[CHAINS];        /* work that was not done yet */
    plan_probe *main;              /* at what is enough; kept over the rounds */
    uint64_t target;               /* its capacity */
    uint64_t nodes;
};

static bool is_done(const plan_quest *q)
{
    return q->high <= q->low || q->high <= q->enough || plan_is_over(q->clock);
}

static void keep(plan_quest *q, uint64_t height, const uint64_t *base, const char *found_by)
{
    if (height >= q->high) return;
    q->high = height;
    q->found_by = found_by;
    for (uint32_t i = 0; i < q->n; i++) q->base[i] = base[i];
}

static uint64_t steps_of(const plan_quest *q)
{
    return q->work / ((uint64_t)q->field->n + q->field->sections);
}

static bool can_search(const plan_quest *q)
{
    return q->field && steps_of(q) >= (uint64_t)WAYS_AT_LEAST * q->n;
}

/* ---- squeezing ----------------------------------------------------------------------- */

static uint64_t work_of_turn(const plan_quest *q, uint32_t chain)
{
    const uint64_t n = q->n;
    if (q->field && chain < PLAN_DIVES) return TURN * n * (chain < PLAN_KEYS ? 1 : SPARING);
    return TURN * n + n * n / PAIRS;
}

static bool squeeze_once(plan_quest *q, uint32_t chain)
{
    if (!q->chains[chain])
        q->chains[chain] = plan_squeezer_new(&q->room[chain], q->problem, q->field, chain);
    plan_squeeze(q->chains[chain]);
    const uint64_t height = plan_squeezer_height(q->chains[chain]);
    return height > q->low && height > q->enough;
}

/* Nobody with a higher number needs to begin once a layout is as low as can be; nor anybody but
 * the first when time is up. */
static void begin_chain(void *self, uint32_t chain)
{
    plan_quest *q = self;
    uint32_t first = atomic_load(&q->first);
    if (first < chain || (chain && plan_is_over(q->clock))) return;
    if (chain == PLAN_KEYS && q->n > SPARING_MOST) return;
    q->spare[chain] = 0;
    if (squeeze_once(q, chain)) {
        const uint32_t begun = atomic_fetch_add(&q->begun, 1) + 1;
        if (!q->clock->quiet) mr_progress(q->ctx, "dives", (double)begun / q->chains_n);
        return;
    }
    while (chain < first && !atomic_compare_exchange_weak(&q->first, &first, chain)) continue;
}

static void squeeze_chain(void *self, uint32_t chain)
{
    plan_quest *q = self;
    const uint64_t work = work_of_turn(q, chain);
    while (q->spare[chain] >= work && !plan_is_over(q->clock)) {
        q->spare[chain] -= work;
        if (!squeeze_once(q, chain)) return;
    }
}

static void collect(plan_quest *q, const char *found_by)
{
    for (uint32_t i = 0; i < q->chains_n; i++) {
        const uint64_t height = q->chains[i] ? plan_squeezer_height(q->chains[i]) : UINT64_MAX;
        if (height < UINT64_MAX) keep(q, height, plan_squeezer_bases(q->chains[i]), found_by);
    }
}

static void add_chains(plan_quest *q, uint32_t n)
{
    for (uint32_t i = q->chains_n; i < n; i++) {
        const uint64_t work = work_of_turn(q, i);
        q->spare[i] = work < HEAD ? work : HEAD;
    }
    q->chains_n = n;
}

/* Where nothing is searched, chains do that work too, and more of them. */
static void squeeze(plan_quest *q)
{
    const bool alone = q->field && !can_search(q);
    if (alone) add_chains(q, CHAINS);
    for (uint32_t i = 0; i < q->chains_n; i++) q->spare[i] += q->work;
    plan_team(q->clock->threads, q->chains_n, squeeze_chain, q);
    collect(q, q->field ? "squeeze" : "first fit");
}

/* ---- searching ----------------------------------------------------------------------- */

static void learn(plan_quest *q, plan_probe *probe, uint64_t target, plan_verdict verdict)
{
    if (verdict == PLAN_NONE && target >= q->low) q->low = target + 1;
    if (verdict != PLAN_FOUND) return;
    const uint64_t *base = plan_probe_bases(probe);
    uint64_t height = 0;
    for (uint32_t i = 0; i < q->n; i++)
        if (base[i] + q->field->boxes[i].size > height)
            height = base[i] + q->field->boxes[i].size;
    keep(q, height, base, "search");
}

static void end_main(plan_quest *q)
{
    if (!q->main) return;
    q->nodes += plan_probe_steps(q->main);
    plan_probe_end(q->main);
    q->main = NULL;
}

static void search_main(plan_quest *q)
{
    const uint64_t target = q->enough > q->low ? q->enough : q->low;
    if (q->main && q->target != target) end_main(q);
    if (!q->main) q->main = plan_probe_new(q->ctx, q->field, target);
    q->target = target;
    learn(q, q->main, target, plan_probe_go(q->main, q->clock, steps_of(q)));
}

static void search_at(plan_quest *q, uint64_t target)
{
    mr_ctx scratch = {0};
    plan_probe *probe = plan_probe_new(&scratch, q->field, target);
    learn(q, probe, target, plan_probe_go(probe, q->clock, steps_of(q)));
    q->nodes += plan_probe_steps(probe);
    plan_probe_end(probe);
    mr_ctx_clear(&scratch);
}

/* Halves what is open between the bound and the best height, as far as this round's work
 * decides anything; each later round looks closer. */
static void search_between(plan_quest *q, uint32_t round)
{
    uint64_t low = q->enough > q->low ? q->enough : q->low;
    const uint64_t close = (q->high - low) >> (round + 2);
    while (q->high - low > close + 1 && !is_done(q)) {
        const uint64_t middle = low + (q->high - low) / 2, high = q->high;
        search_at(q, middle);
        if (q->high == high) low = middle;
        if (low < q->low) low = q->low;
        if (low > q->high) return;
    }
}

static void search(plan_quest *q, uint32_t round, bool to_fit)
{
    search_main(q);
    if (!to_fit && !is_done(q)) search_between(q, round);
}

/* ---- a quest ------------------------------------------------------------------------- */

plan_quest *plan_quest_new(mr_ctx *ctx, const plan_problem *problem, const plan_field *field,
                           const plan_clock *clock, bool sparing)
{
    plan_quest *q = MR_NEW(ctx, plan_quest);
    *q = (plan_quest){.ctx = ctx,
                      .problem = problem,
                      .field = field,
                      .clock = clock,
                      .n = field ? field->n : problem->buffers.n,
                      .low = field ? field->load : problem->load,
                      .high = UINT64_MAX};
    q->base = MR_NEW_N(ctx, uint64_t, q->n);
    atomic_init(&q->first, MR_NONE);
    atomic_init(&q->begun, 0);
    add_chains(q, field && sparing ? PLAN_DIVES : PLAN_KEYS);
    plan_team(clock->threads, q->chains_n, begin_chain, q);
    collect(q, field ? "dive" : "first fit");
    return q;
}

void plan_quest_go(plan_quest *q, uint64_t enough, uint64_t work, uint32_t round, bool to_fit)
{
    q->enough = enough;
    q->work = work;
    if (is_done(q)) return;
    squeeze(q);
    if (can_search(q) && !is_done(q)) search(q, round, to_fit);
}

void plan_quest_end(plan_quest *q)
{
    end_main(q);
    for (uint32_t i = 0; i < q->chains_n; i++) mr_ctx_clear(&q->room[i]);
}

uint64_t plan_quest_low(const plan_quest *q)
{
    return q->low;
}

uint64_t plan_quest_high(const plan_quest *q)
{
    return q->high;
}

const uint64_t *plan_quest_bases(const plan_quest *q)
{
    return q->base;
}

const char *plan_quest_found_by(const plan_quest *q)
{
    return q->found_by;
}

uint64_t plan_quest_nodes(const plan_quest *q)
{
    return q->nodes;
}
