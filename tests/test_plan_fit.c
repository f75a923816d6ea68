/* Where a buffer fits is found quickly: is it what a look at all there is would find? */
#include "plan_internal.h"
#include "test.h"

#include <stdlib.h>

/* ---- the plain form of the rules ------------------------------------------------------- */

typedef struct span { /* offsets that are taken: low < offset + bytes and offset < high */
    uint64_t low, high;
} span;

static int by_low(const void *left, const void *right)
{
    const span *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

/* All that is in the way of a buffer among those that have their place, in the order of `low`.
 */
static uint32_t spans_of(mr_ctx *ctx, const plan_problem *problem, const uint64_t *offset,
                         const bool *placed, uint32_t buffer, span **out)
{
    const plan_buffer *b = &problem->buffers.at[buffer];
    MR_VEC(span) all = {0};
    for (uint32_t p = b->piece; p < b->piece + b->pieces; p++)
        for (uint32_t q = 0; q < problem->pieces.n; q++) {
            const plan_piece *mine = &problem->pieces.at[p], *other = &problem->pieces.at[q];
            if (!placed[other->buffer] || other->from >= mine->to || mine->from >= other->to)
                continue;
            const uint64_t low = offset[other->buffer] + other->low + b->bytes - mine->high;
            const uint64_t high = offset[other->buffer] + other->high;
            if (high > mine->low) MR_PUSH(ctx, &all, (span){low, high - mine->low});
        }
    *out = all.at;
    if (all.n) qsort(all.at, all.n, sizeof *all.at, by_low);
    return all.n;
}

static uint64_t place_of(const span *taken, uint32_t n, const plan_buffer *b, plan_fit fit)
{
    uint64_t best = PLAN_ANYWHERE, best_size = UINT64_MAX, from = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t at = plan_round(from, b->align), to = taken[i].low, before = from;
        if (taken[i].high > from) from = taken[i].high;
        if (fit == PLAN_ABOVE || at + b->bytes > to || to - at >= best_size) continue;
        if (fit == PLAN_FIRST) return at;
        best = at;
        best_size = to - (fit == PLAN_BEST_TFLITE ? before : at);
        if (!best_size && fit == PLAN_BEST_TFLITE) break;
    }
    return best == PLAN_ANYWHERE ? plan_round(from, b->align) : best;
}

static uint64_t *place_plainly(mr_ctx *ctx, const plan_problem *problem, const uint32_t *order,
                               plan_fit fit)
{
    const uint32_t n = problem->buffers.n;
    uint64_t *offset = MR_NEW_N(ctx, uint64_t, n);
    bool *placed = MR_NEW_N(ctx, bool, n);
    for (uint32_t i = 0; i < n; i++) {
        placed[i] = problem->buffers.at[i].fixed != PLAN_ANYWHERE;
        if (placed[i]) offset[i] = problem->buffers.at[i].fixed;
    }
    for (uint32_t i = 0; i < n; i++) {
        span *taken;
        if (placed[order[i]]) continue;
        const uint32_t spans = spans_of(ctx, problem, offset, placed, order[i], &taken);
        offset[order[i]] = place_of(taken, spans, &problem->buffers.at[order[i]], fit);
        placed[order[i]] = true;
    }
    return offset;
}

/* ---- random problems ------------------------------------------------------------------- */

static uint64_t below(uint64_t *state, uint64_t n)
{
    return plan_draw(state) % n;
}

/* With gaps, fixed offsets and alignments where `mixed`; of short lives few meet. */
static plan_problem random_problem(mr_ctx *ctx, uint64_t *state, uint32_t n, uint64_t life,
                                   bool mixed)
{
    plan_problem problem = {0};
    const uint64_t most = 1 + below(state, 200);
    for (uint32_t i = 0; i < n; i++) {
        plan_buffer b = {.name = "b", .align = 1, .fixed = PLAN_ANYWHERE};
        b.lower = below(state, 2 * n);
        b.upper = b.lower + 1 + below(state, below(state, 20) ? life : 2 * n);
        b.bytes = 1 + below(state, most);
        if (mixed) b.align = (uint64_t)1 << below(state, 5);
        if (mixed && i % 9 == 0) b.fixed = 256 * i;
        plan_add(ctx, &problem, &b);
        if (!mixed || b.upper - b.lower < 4 || below(state, 3)) continue;
        const uint64_t from = b.lower + 1 + below(state, b.upper - b.lower - 2);
        const uint64_t high = below(state, b.bytes + 1);
        plan_add_gap(ctx, &problem, &(plan_gap){from, b.upper - 1, high / 2, high});
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

static bool agree(uint64_t seed, plan_fit fit, bool mixed)
{
    mr_ctx ctx = {0};
    uint64_t state = seed;
    const uint32_t n = 20 + (uint32_t)below(&state, 900);
    const plan_problem problem = random_problem(
        &ctx, &state, n, 2 + below(&state, below(&state, 2) ? n / 2 : 40), mixed);
    plan_key *keys = plan_keys(&ctx, &problem);
    for (uint32_t i = 0; i < n; i++) keys[i].first = below(&state, 50);
    const uint32_t *order = plan_sort(&ctx, keys, n);
    const uint64_t *plain = place_plainly(&ctx, &problem, order, fit);
    plan_layout quick;
    plan_place_in_order(&ctx, &problem, order, fit, &quick);
    bool same = true;
    for (uint32_t i = 0; i < n; i++) same &= plain[i] == quick.offset[i];
    mr_ctx_clear(&ctx);
    return same;
}

TEST(whatever_is_placed_lies_where_a_look_at_everything_would_put_it)
{
    for (uint64_t seed = 1; seed <= 40; seed++)
        for (int fit = PLAN_BEST; fit <= PLAN_ABOVE; fit++)
            for (int mixed = 0; mixed < 2; mixed++)
                if (!agree(seed, (plan_fit)fit, mixed))
                    TEST_FAIL("seed %d, fit %d, mixed %d", (int)seed, fit, mixed);
}

/* ---- lives that meet ------------------------------------------------------------------- */

TEST(lives_that_meet_are_found_and_counted)
{
    mr_ctx ctx = {0};
    enum { N = 300, SECTIONS = 500 };
    plan_life lives[N];
    uint64_t state = 5;
    uint32_t found[N];
    for (uint32_t i = 0; i < N; i++) {
        lives[i].from = (uint32_t)below(&state, SECTIONS);
        lives[i].to = lives[i].from + 1 + (uint32_t)below(&state, SECTIONS - lives[i].from);
    }
    plan_lives *entered = plan_lives_new(&ctx, lives, N, SECTIONS);
    for (uint32_t i = 0; i < N; i++) {
        const plan_life *life = &lives[N - 1 - i];
        bool met[N] = {false};
        uint32_t expected = 0;
        for (uint32_t j = 0; j < i; j++)
            expected += lives[j].from < life->to && life->from < lives[j].to;
        CHECK_EQ(plan_lives_count(entered, life->from, life->to), expected);
        CHECK_EQ(plan_lives_meet(entered, life->from, life->to, found), expected);
        for (uint32_t j = 0; j < expected; j++) {
            CHECK(found[j] < i && !met[found[j]]);
            met[found[j]] = true;
            CHECK(lives[found[j]].from < life->to && life->from < lives[found[j]].to);
        }
        plan_lives_enter(entered, i);
    }
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
