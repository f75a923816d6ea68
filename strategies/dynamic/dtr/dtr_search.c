/* dtr_search -- the best of many runs, because the recording is known and a run takes a moment.
 *
 * First all heuristics run, those that look ahead to the next reader among them.  The best few
 * are then varied: the scores of a few storages, mostly of those that were computed again, get
 * other weights, and what is not worse is kept.  A run is given up as soon as it has computed
 * more again than the best one.
 */
#include "dtr.h"

#include <string.h>

enum { STARTS = 4, FEW = 4 };

typedef struct plan {
    dtr_heuristic heuristic;
    float *weights;
    dtr_result result;
    uint64_t remat;
    uint32_t steps;
} plan;

typedef struct searcher {
    const dtr_program *program;
    dtr_options options;
    uint64_t random;
    MR_VEC(plan) plans;
    uint32_t *suspects, suspects_n; /* storages that the best run computed again or evicted */
    mr_ctx *ctx;
} searcher;

static uint32_t draw(searcher *s, uint32_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((s->random >> 33) % n);
}

static bool is_better(const plan *a, const plan *b)
{
    if (!a->result != !b->result) return !a->result;
    if (a->result && a->steps != b->steps) return a->steps > b->steps;
    return a->remat < b->remat;
}

/* In an arena of its own, which is gone afterwards. */
static void attempt(searcher *s, plan *p, uint64_t limit)
{
    mr_ctx ctx = {0};
    dtr_report report;
    dtr_options o = s->options;
    o.heuristic = p->heuristic;
    o.weights = p->weights;
    if (limit < o.limit) o.limit = limit;
    dtr_run_program(&ctx, s->program, &o, false, &report);
    p->result = report.result;
    p->remat = report.remat + report.stall;
    p->steps = report.steps;
    mr_ctx_clear(&ctx);
}

static int compare(const plan *a, const plan *b)
{
    return is_better(b, a) - is_better(a, b);
}

static void insert(searcher *s, const plan *p)
{
    MR_PUSH(s->ctx, &s->plans, *p);
    for (uint32_t i = s->plans.n - 1; i && compare(&s->plans.at[i - 1], p) > 0; i--) {
        s->plans.at[i] = s->plans.at[i - 1];
        s->plans.at[i - 1] = *p;
    }
}

static void try_all(searcher *s)
{
    for (uint32_t i = 0; i < dtr_names_n; i++) {
        if (dtr_names[i].heuristic.rule == DTR_DRAWN) continue;
        plan p = {.heuristic = dtr_names[i].heuristic};
        attempt(s, &p, UINT64_MAX);
        insert(s, &p);
    }
    for (uint32_t i = 0; i < dtr_names_n; i++) {
        plan p = {.heuristic = dtr_names[i].heuristic};
        if (p.heuristic.rule != DTR_SCORED || p.heuristic.stale) continue;
        p.heuristic.ahead = true;
        attempt(s, &p, UINT64_MAX);
        insert(s, &p);
    }
}

/* What the bound on time does without is evicted first. */
static plan try_away(searcher *s, const bool *away, bool all)
{
    static const dtr_cost costs[] = {DTR_COST_LOCAL, DTR_COST_CLASS, DTR_COST_ANCESTORS};
    const uint32_t n = s->program->storages.n;
    plan best = {.result = DTR_OOM};
    for (size_t c = 0; c < MR_COUNT(costs); c++)
        for (int ahead = 0; ahead < 2; ahead++) {
            plan p = {.heuristic = {DTR_SCORED, costs[c], true, false, ahead},
                      .weights = MR_NEW_N(s->ctx, float, n)};
            for (uint32_t i = 0; i < n; i++) p.weights[i] = away[i] ? 0.01F : 1;
            attempt(s, &p, UINT64_MAX);
            if (all) insert(s, &p);
            if (!best.weights || is_better(&p, &best)) best = p;
        }
    return best;
}

/* Of those that the flow does without one plan is enough: the others are much like it. */
static plan try_bound(searcher *s)
{
    dtr_bound bound;
    dtr_find_bound(s->ctx, s->program, s->options.budget, &bound);
    try_away(s, bound.away, true);
    return try_away(s, bound.flooded, false);
}

/* ---- variations -------------------------------------------------------------------------- */

/* What the plan computes again, and what it evicts: a change of these changes the run. */
static void find_suspects(searcher *s, const plan *p)
{
    mr_ctx ctx = {0};
    dtr_report report;
    dtr_options o = s->options;
    o.heuristic = p->heuristic;
    o.weights = p->weights;
    dtr_run_program(&ctx, s->program, &o, true, &report);
    bool *seen = MR_NEW_N(&ctx, bool, s->program->storages.n);
    s->suspects_n = 0;
    for (uint32_t i = 0; i < report.deeds.n; i++) {
        const dtr_deed *deed = &report.deeds.at[i];
        if (deed->kind != DTR_EVICTED || seen[deed->id]) continue;
        seen[deed->id] = true;
        s->suspects[s->suspects_n++] = deed->id;
    }
    mr_ctx_clear(&ctx);
}

/* Does another storage come from the same kind of op, in another layer? */
static bool are_alike(const dtr_program *p, uint32_t a, uint32_t b)
{
    const dtr_storage *x = &p->storages.at[a], *y = &p->storages.at[b];
    return x->bytes == y->bytes && p->ops.at[x->op].kind == p->ops.at[y->op].kind;
}

static void vary(searcher *s, float *weights)
{
    static const float factors[] = {0.03F, 0.25F, 0.6F, 1.7F, 4, 32, 1000};
    const uint32_t all = s->program->storages.n, n = 1 + draw(s, FEW);
    const bool alike = !draw(s, 4);
    for (uint32_t i = 0; i < n; i++) {
        const bool known = s->suspects_n && draw(s, 4);
        const uint32_t at = known ? s->suspects[draw(s, s->suspects_n)] : draw(s, all);
        const float factor = factors[draw(s, MR_COUNT(factors))];
        for (uint32_t j = 0; alike && j < all; j++)
            if (j != at && are_alike(s->program, at, j)) weights[j] *= factor;
        weights[at] *= factor;
    }
}

/* Climbs from the plan, which becomes the best one found. */
static void climb(searcher *s, plan *best, uint32_t tries)
{
    const uint32_t n = s->program->storages.n;
    float *old = best->weights, *weights = MR_NEW_N(s->ctx, float, n);
    best->weights = MR_NEW_N(s->ctx, float, n);
    for (uint32_t i = 0; i < n; i++) best->weights[i] = old ? old[i] : 1;
    attempt(s, best, UINT64_MAX);
    find_suspects(s, best);
    for (uint32_t i = 0; i < tries; i++) {
        plan p = {.heuristic = best->heuristic, .weights = weights};
        memcpy(weights, best->weights, n * sizeof *weights);
        vary(s, weights);
        attempt(s, &p, best->result ? UINT64_MAX : best->remat);
        if (is_better(best, &p)) continue;
        const bool better = is_better(&p, best);
        weights = best->weights;
        *best = p;
        if (better) find_suspects(s, best);
    }
}

bool dtr_search(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                uint32_t tries, dtr_report *out)
{
    searcher *s = MR_NEW(ctx, searcher);
    *s = (searcher){.ctx = ctx, .program = program, .options = *options};
    s->random = options->seed * 2 + 1;
    s->suspects = MR_NEW_N(ctx, uint32_t, program->storages.n);
    try_all(s);
    plan flooded = try_bound(s);
    plan best = s->plans.at[0];
    for (uint32_t i = 0; tries && i < STARTS && i < s->plans.n; i++) {
        plan p = s->plans.at[i];
        climb(s, &p, tries / (2 * STARTS));
        if (is_better(&p, &best)) best = p;
    }
    if (tries) climb(s, &best, tries / 2);
    if (tries) climb(s, &flooded, tries / 2);
    if (is_better(&flooded, &best)) best = flooded;
    dtr_options o = *options;
    o.heuristic = best.heuristic;
    o.weights = best.weights;
    dtr_run_program(ctx, program, &o, true, out);
    return !out->result;
}
