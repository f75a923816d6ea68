/* plan_probe -- one capacity, searched for in many ways side by side.
 *
 * How long a search takes depends by orders of magnitude on the order in which it tries things,
 * and nobody knows beforehand which is good.  So a few ways go on for ever, one of which will
 * at last prove what cannot be done; beside them every call tries some with ranks newly
 * disturbed. When several find a layout in the same call, that of the lowest number counts.
 */
#include "plan_internal.h"

#include <stdatomic.h>

#define STEPS 256 /* between two looks at the clock */

static const struct {
    uint32_t key;
    unsigned ways;
    bool disturbed;
} kinds[] = {
    {0, 0, false},
    {0, PLAN_LOOK_AHEAD, false},
    {1, 0, false},
    {1, PLAN_LOOK_AHEAD, false},
    {3, 0, false},
    {2, PLAN_LOOK_AHEAD, false},
    {1, PLAN_SNUG, true},
    {1, PLAN_SNUG | PLAN_LOOK_AHEAD, true},
    {1, 0, true},
    {1, PLAN_LOOK_AHEAD, true},
    {0, PLAN_LOOK_AHEAD, true},
    {7, 0, true},
    {1, PLAN_SNUG, true},
    {1, PLAN_LOWEST, true},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct way {
    mr_ctx ctx; /* of its seeker */
    plan_seeker *seeker;
    plan_verdict verdict;
} way;

struct plan_probe {
    mr_ctx *ctx;
    const plan_field *field;
    uint64_t capacity, steps, done;
    const plan_clock *clock;
    uint32_t round;
    uint32_t *rank[KINDS];
    way ways[KINDS];
    _Atomic uint32_t winner;
};

plan_probe *plan_probe_new(mr_ctx *ctx, const plan_field *field, uint64_t capacity)
{
    plan_probe *p = MR_NEW(ctx, plan_probe);
    p->ctx = ctx;
    p->field = field;
    p->capacity = capacity;
    atomic_init(&p->winner, MR_NONE);
    for (uint32_t i = 0; i < KINDS; i++) {
        p->rank[i] = MR_NEW_N(ctx, uint32_t, field->n);
        plan_dive_key(ctx, field, kinds[i].key, p->rank[i]);
    }
    return p;
}

/* ---- one way ------------------------------------------------------------------------- */

static void begin(plan_probe *p, uint32_t number)
{
    way *w = &p->ways[number];
    const uint32_t n = p->field->n;
    uint32_t *rank = p->rank[number];
    if (kinds[number].disturbed) {
        rank = MR_NEW_N(&w->ctx, uint32_t, n);
        for (uint32_t i = 0; i < n; i++) rank[i] = p->rank[number][i];
        plan_disturb(&w->ctx, rank, n, (uint64_t)p->round * KINDS + number + 1);
    }
    w->seeker = plan_seeker_new(&w->ctx, p->field, rank, p->capacity, kinds[number].ways);
}

/* The lowest number that knows wins, so nobody needs to go on who has a higher one. */
static void win(plan_probe *p, uint32_t number)
{
    uint32_t now = atomic_load(&p->winner);
    while (number < now && !atomic_compare_exchange_weak(&p->winner, &now, number)) continue;
}

static void go(void *self, uint32_t number)
{
    plan_probe *p = self;
    way *w = &p->ways[number];
    if (!w->seeker) begin(p, number);
    for (uint64_t left = p->steps; left && w->verdict == PLAN_OPEN;) {
        if (atomic_load(&p->winner) < number || plan_is_over(p->clock)) return;
        const uint64_t steps = left < STEPS ? left : STEPS;
        w->verdict = plan_seek(w->seeker, steps);
        left -= steps;
    }
    if (w->verdict != PLAN_OPEN) win(p, number);
}

/* ---- all of them --------------------------------------------------------------------- */

static void give_up(plan_probe *p, uint32_t number)
{
    way *w = &p->ways[number];
    if (w->seeker) p->done += plan_seeker_steps(w->seeker);
    mr_ctx_clear(&w->ctx);
    *w = (way){0};
}

plan_verdict plan_probe_go(plan_probe *p, const plan_clock *clock, uint64_t steps)
{
    p->steps = steps;
    p->clock = clock;
    plan_team(clock->threads, KINDS, go, p);
    const uint32_t winner = atomic_load(&p->winner);
    if (winner != MR_NONE) return p->ways[winner].verdict;
    for (uint32_t i = 0; i < KINDS; i++)
        if (kinds[i].disturbed) give_up(p, i);
    p->round++;
    return PLAN_OPEN;
}

const uint64_t *plan_probe_bases(const plan_probe *p)
{
    return plan_seeker_bases(p->ways[atomic_load(&p->winner)].seeker);
}

uint64_t plan_probe_steps(const plan_probe *p)
{
    uint64_t steps = p->done;
    for (uint32_t i = 0; i < KINDS; i++)
        if (p->ways[i].seeker) steps += plan_seeker_steps(p->ways[i].seeker);
    return steps;
}

void plan_probe_end(plan_probe *p)
{
    for (uint32_t i = 0; i < KINDS; i++) give_up(p, i);
}
