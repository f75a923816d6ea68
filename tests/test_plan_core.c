/* What is left of a problem once the easy is set aside, and how it is put together again. */
#include "plan_internal.h"
#include "test.h"

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(plan_draw(state) % n);
}

/* Some live long, most for a moment; sizes are alike, or differ by orders of magnitude. */
static plan_problem steps(mr_ctx *ctx, uint64_t seed, uint32_t n)
{
    uint64_t state = seed + 1;
    plan_problem problem = {0};
    for (uint32_t i = 0; i < n; i++) {
        plan_buffer b = {.name = mr_printf(ctx, "%u", i), .align = 1, .fixed = PLAN_ANYWHERE};
        b.lower = below(&state, 2 * n);
        b.upper = b.lower + 1 + below(&state, below(&state, 8) ? 9 : seed % 2 ? n : 20);
        b.bytes = seed % 3 ? 8 + below(&state, 3) : 1 + below(&state, 1u << below(&state, 12));
        plan_add(ctx, &problem, &b);
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

/* Dives in any order of the boxes; returns the highest end. */
static uint64_t lay_parts(mr_ctx *ctx, plan_core *core, uint64_t seed)
{
    uint64_t top = 0;
    for (uint32_t i = 0; i < core->parts.n; i++) {
        const plan_part *p = &core->parts.at[i];
        uint32_t *rank = MR_NEW_N(ctx, uint32_t, p->field.n);
        uint64_t *base = MR_NEW_N(ctx, uint64_t, p->field.n);
        plan_dive_key(ctx, &p->field, (uint32_t)(seed % PLAN_KEYS), rank);
        plan_disturb(ctx, rank, p->field.n, seed);
        plan_diver *diver = plan_diver_new(ctx, &p->field, seed % 2);
        const uint64_t height = p->floor + plan_dive(diver, rank, UINT64_MAX - 1, base);
        if (height > top) top = height;
        for (uint32_t b = 0; b < p->field.n; b++)
            core->base[p->field.boxes[b].buffer] = p->floor + base[b];
    }
    return top;
}

TEST(what_was_set_aside_finds_a_place_below_the_height)
{
    uint32_t aside = 0, apart = 0, floors = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = steps(&ctx, seed, 5 + (uint32_t)seed);
        plan_field field;
        plan_core core;
        plan_layout layout;
        plan_field_make(&ctx, &problem, &field);
        const uint64_t height = field.load + seed / 3 % 3 * field.load / 10;
        plan_core_make(&ctx, &field, height, &core);
        const uint64_t top = lay_parts(&ctx, &core, seed);
        plan_core_finish(&ctx, &field, &core);
        plan_field_layout(&ctx, &problem, &field, core.base, &layout);
        if (plan_check(&ctx, &problem, &layout)) TEST_FAIL("%s", ctx.failure.text);
        CHECK(layout.height <= (top > height ? top : height) * field.unit);
        aside += core.aside.n > 0;
        apart += core.parts.n > 1;
        for (uint32_t i = 0; i < core.parts.n; i++) floors += core.parts.at[i].floor > 0;
        mr_ctx_clear(&ctx);
    }
    printf("%u with boxes set aside, %u in parts, %u floors\n", aside, apart, floors);
    CHECK(aside > 100 && apart > 20 && floors > 20); /* else nothing was tried */
}

static plan_buffer buffer(uint64_t lower, uint64_t upper, uint64_t bytes)
{
    return (plan_buffer){.name = "b",
                         .lower = lower,
                         .upper = upper,
                         .bytes = bytes,
                         .align = 1,
                         .fixed = PLAN_ANYWHERE};
}

/* Each half is a chain of lives of which three meet at a time; something lasts below both, and
 * there is a byte that fits anywhere. */
TEST(a_problem_falls_into_parts_above_what_lasts)
{
    static const uint64_t chain[][2] = {{0, 3}, {1, 5}, {2, 7}, {4, 9}, {6, 10}, {8, 9}};
    mr_ctx ctx = {0};
    plan_problem problem = {0};
    plan_field field;
    plan_core core;
    const plan_buffer lasting = buffer(0, 20, 7), byte = buffer(9, 11, 1);
    plan_add(&ctx, &problem, &lasting);
    plan_add(&ctx, &problem, &byte);
    for (size_t i = 0; i < 2 * MR_COUNT(chain); i++) {
        const uint64_t *life = chain[i / 2], half = i % 2 * 10;
        const plan_buffer b = buffer(half + life[0], half + life[1], 10);
        plan_add(&ctx, &problem, &b);
    }
    CHECK_EQ(plan_prepare(&ctx, &problem), MR_OK);
    plan_field_make(&ctx, &problem, &field);
    CHECK_EQ(field.load, 37);
    plan_core_make(&ctx, &field, 37, &core);
    CHECK_EQ(core.parts.n, 2);
    for (uint32_t i = 0; i < core.parts.n; i++) {
        CHECK_EQ(core.parts.at[i].floor, 7);
        CHECK_EQ(core.parts.at[i].field.n, MR_COUNT(chain));
    }
    CHECK_EQ(core.aside.n, 1);
    mr_ctx_clear(&ctx);
}

TEST(large_boxes_first_and_then_the_rest_is_a_layout)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = steps(&ctx, seed, 1 + 5 * (uint32_t)seed);
        plan_field field;
        plan_layout layout;
        plan_field_make(&ctx, &problem, &field);
        plan_squeezer *q =
            plan_squeezer_new(&ctx, &problem, &field, PLAN_DIVES + (uint32_t)seed % PLAN_MIXED);
        for (uint32_t i = 0; i < 5; i++) plan_squeeze(q);
        plan_field_layout(&ctx, &problem, &field, plan_squeezer_bases(q), &layout);
        if (plan_check(&ctx, &problem, &layout)) TEST_FAIL("%s", ctx.failure.text);
        CHECK_EQ(layout.height, plan_squeezer_height(q) * field.unit);
        mr_ctx_clear(&ctx);
    }
}

/* Lives and sizes drawn evenly: nothing to hold on to. */
static plan_problem even(mr_ctx *ctx, uint64_t seed, uint32_t n)
{
    uint64_t state = seed + 1;
    plan_problem problem = {0};
    for (uint32_t i = 0; i < n; i++) {
        plan_buffer b = {.name = mr_printf(ctx, "%u", i), .align = 1, .fixed = PLAN_ANYWHERE};
        b.lower = below(&state, n);
        b.upper = b.lower + 1 + below(&state, n / 10);
        b.bytes = 1 + below(&state, 1000);
        plan_add(ctx, &problem, &b);
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

static uint64_t dive_height(mr_ctx *ctx, const plan_field *field, uint32_t key, bool sparing)
{
    uint32_t *rank = MR_NEW_N(ctx, uint32_t, field->n);
    plan_dive_key(ctx, field, key, rank);
    return plan_dive(plan_diver_new(ctx, field, sparing), rank, UINT64_MAX - 1,
                     MR_NEW_N(ctx, uint64_t, field->n));
}

/* What it is for: on such problems it comes nearer to the load than any other dive, by a fifth. */
TEST(a_sparing_dive_loses_less_than_the_others)
{
    enum { LONGEST_FIRST = 4 };
    uint64_t spared = 0, lost = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = even(&ctx, seed, 1500);
        plan_field field;
        uint64_t least = UINT64_MAX;
        plan_field_make(&ctx, &problem, &field);
        for (uint32_t key = 0; key < PLAN_KEYS; key++) {
            const uint64_t height = dive_height(&ctx, &field, key, false);
            if (height < least) least = height;
        }
        lost += least - field.load;
        spared += dive_height(&ctx, &field, LONGEST_FIRST, true) - field.load;
        mr_ctx_clear(&ctx);
    }
    CHECK(spared < lost * 9 / 10);
}

TEST(needs_are_those_that_a_walk_over_all_sections_finds)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        mr_ctx ctx = {0};
        uint64_t state = seed + 9;
        const plan_problem problem = even(&ctx, seed, 20 + (uint32_t)seed);
        plan_field field;
        plan_field_make(&ctx, &problem, &field);
        plan_need *need = plan_need_new(&ctx, &field);
        uint64_t *plain = MR_NEW_N(&ctx, uint64_t, field.sections);
        for (uint32_t i = 0; i < field.n; i++)
            for (uint32_t s = field.boxes[i].from; s < field.boxes[i].to; s++)
                plain[s] += field.boxes[i].size;
        plan_need_begin(need);
        for (uint32_t turn = 0; turn < 60; turn++) {
            const uint32_t from = below(&state, field.sections);
            const uint32_t to = from + 1 + below(&state, field.sections - from);
            uint64_t most = turn % 4 ? 0 : plain[from], wanted = most;
            uint32_t found = MR_NONE;
            for (uint32_t s = from; s < to; s++)
                if (plain[s] > wanted) wanted = plain[found = s];
            CHECK_EQ(plan_need_most(need, from, to, &most), found);
            CHECK_EQ(most, wanted);
            plan_need_lose(need, from, to, turn);
            for (uint32_t s = from; s < to; s++) plain[s] += turn;
        }
        mr_ctx_clear(&ctx);
    }
}

/* Blocks of a few large buffers among many small ones, again and again: no dive of all comes
 * closer than half a percent. */
TEST(a_large_problem_is_packed_closely)
{
    mr_ctx ctx = {0};
    uint64_t state = 5;
    plan_problem problem = {0};
    const uint32_t n = 8000;
    for (uint32_t i = 0; i < n; i++) {
        const bool large = !below(&state, 3);
        const uint64_t lower = i, life = 1 + below(&state, below(&state, 10) ? 24 : 400);
        const uint64_t bytes = large ? 1000 + 1000 * (uint64_t)below(&state, 64) : 4;
        const plan_buffer b = buffer(lower, lower + life, bytes);
        plan_add(&ctx, &problem, &b);
    }
    CHECK_EQ(plan_prepare(&ctx, &problem), MR_OK);
    const plan_effort effort = {.threads = 2};
    plan_answer answer;
    plan_solve(&ctx, &problem, &effort, &answer);
    CHECK_EQ(plan_check(&ctx, &problem, &answer.layout), MR_OK);
    printf("%.3f %% above the load\n",
           100.0 * ((double)answer.layout.height / (double)problem.load - 1));
    CHECK((double)answer.layout.height <= 1.001 * (double)problem.load);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
